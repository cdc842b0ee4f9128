//! Report texts of a fence: unsatisfied waits, and satisfied waiters that were not released.
//!
//! Reads made for a report are not part of any protocol.

use super::object::Fence;
use tidegate_calls::PendingWait;
use tidegate_platform::QueueNumber;

impl Fence {
    /// Returns the text of a wait for `value`.
    pub(crate) fn wait_text(&self, value: u64) -> String {
        let lost = self.lost_text(value).map_or_else(String::new, |lost| format!("; {lost}"));
        format!("fence '{}' to reach {value} (it is at {}{lost})", self.name, self.value())
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
