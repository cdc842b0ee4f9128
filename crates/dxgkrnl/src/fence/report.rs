//! Report texts of a fence: unsatisfied waits, and satisfied waiters that were not released.
//!
//! Reads made for a report are not part of any protocol.

use super::object::{Fence, Fences};
use super::value::FenceValue;
use crate::stats::{Count, LostHistory};
use tidegate_calls::PendingWait;
use tidegate_platform::QueueNumber;

impl Fences {
    /// Counts the dropped peaks of all fences, and names those that have any.
    // spec: NF-341
    pub(crate) fn note_lost_histories(&self) {
        self.matching(|fence| fence.current.is_some()).iter().for_each(|f| f.note_history_lost());
    }
}

impl Fence {
    /// Returns the text of a wait for `value`. Each wait that blocks has one, so it is put together
    /// without the machinery of formatting.
    pub(crate) fn wait_text(&self, value: u64) -> String {
        const LONGEST_REST: usize = 80;
        // Read in this order, since each reading is a step of an explored machine.
        let lost = self.lost_text(value);
        let reached = self.value();
        let mut text = String::with_capacity(self.name.len() + LONGEST_REST);
        text.push_str("fence '");
        text.push_str(&self.name);
        text.push_str("' to reach ");
        push_decimal(&mut text, value);
        text.push_str(" (it is at ");
        push_decimal(&mut text, reached);
        if let Some(lost) = lost {
            text.push_str("; ");
            text.push_str(&lost);
        }
        text.push(')');
        text
    }

    /// Returns the report's row for a wait for `value`, or `None` once it is reached.
    pub(crate) fn pending(&self, queue: QueueNumber, value: u64) -> Option<PendingWait> {
        let current = self.value();
        (current < value).then(|| PendingWait {
            queue,
            fence: self.name.clone(),
            value,
            current,
            lost: self.lost_text(value).or_else(|| self.lost_history_text()),
        })
    }

    /// Counts the peaks that the history has dropped since the last call, and keeps the fence for
    /// reports. No agent is told by the cell when it drops them: an engine drops them by itself.
    pub(crate) fn note_history_lost(&self) {
        let total = self.current.as_ref().map_or(0, FenceValue::history_lost);
        if total == 0 {
            return;
        }
        let more = self.waiters.lock().count_history_lost(total);
        if more > 0 {
            let stats = &self.port().stats;
            stats.add(Count::fence_history_lost, more);
            let lost = LostHistory { fence: self.name.clone(), values: total };
            stats.note_lost_history(self.os_handle, lost);
        }
    }

    /// Names the ended process that could have signalled the fence.
    fn lost_text(&self, value: u64) -> Option<String> {
        let lost = self.port().stats.lost_signal_of(self.os_handle)?;
        (self.value() < value).then(|| lost.to_string())
    }

    /// Says that the wait may have missed a value.
    pub(crate) fn lost_history_text(&self) -> Option<String> {
        self.note_history_lost();
        self.port().stats.lost_history_of(self.os_handle).map(|lost| lost.to_string())
    }

    /// Returns why satisfied waiters were not released: the driver's entry point and
    /// the observation.
    pub(crate) fn missed_text(&self) -> (&'static str, String) {
        let published = self.waiters.lock().published();
        let armed = self.native.as_ref().filter(|_| self.is_armed());
        let stored = armed.and_then(|native| native.monitored.word()).map(|word| word.load());
        let (name, value) = (&self.name, self.value());
        match stored.filter(|stored| *stored != published) {
            Some(stored) => (
                "DxgkDdiUpdateMonitoredValues",
                format!(
                    "MonitoredValue of fence '{name}' is {stored} and was set to {published}: its waiters miss {value}"
                ),
            ),
            None => (
                "DxgkDdiInterruptRoutine",
                format!(
                    "fence '{name}' reached {value}, and no interrupt named it: its waiters were not released"
                ),
            ),
        }
    }
}

fn push_decimal(text: &mut String, number: u64) {
    let mut digits = [0; 20];
    let (mut rest, mut first) = (number, digits.len());
    loop {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    text.push_str(std::str::from_utf8(&digits[first..]).unwrap_or_default());
}
