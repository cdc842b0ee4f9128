//! Report texts of a fence: unsatisfied waits, and satisfied waiters that were not released.
//!
//! Reads made for a report are not part of any protocol.

use super::object::Fence;
use tidegate_calls::PendingWait;
use tidegate_platform::QueueNumber;

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
            lost: self.lost_text(value),
        })
    }

    /// Names the ended process that could have signalled the fence.
    fn lost_text(&self, value: u64) -> Option<String> {
        let lost = self.port().stats.lost_signal_of(self.os_handle)?;
        (self.value() < value).then(|| lost.to_string())
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
