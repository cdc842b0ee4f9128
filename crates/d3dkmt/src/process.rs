//! Processes of the system: the current one, and those that pidfds name.

use std::os::fd::{AsRawFd, OwnedFd};

/// Returns the number of this process.
pub(crate) fn current() -> u32 {
    std::process::id()
}

/// Returns the number of the process of a pidfd, or 0 if it has ended; `None` for any other
/// descriptor.
pub(crate) fn of_descriptor(descriptor: &OwnedFd) -> Option<u32> {
    let path = format!("/proc/self/fdinfo/{}", descriptor.as_raw_fd());
    let info = std::fs::read_to_string(path).ok()?;
    let number = info.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    Some(number.trim().parse().unwrap_or(0))
}
