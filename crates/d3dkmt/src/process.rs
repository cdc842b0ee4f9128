//! Which process a pidfd names.

use std::os::fd::{AsRawFd, OwnedFd};

/// Returns whether a pidfd is of this process; `None` for any other descriptor. Both numbers are as
/// of the PID namespace of the mounted `/proc`, which may be an outer one.
pub(crate) fn is_own(descriptor: &OwnedFd) -> Option<bool> {
    let path = format!("/proc/self/fdinfo/{}", descriptor.as_raw_fd());
    let info = std::fs::read_to_string(path).ok()?;
    let number = info.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    let own = std::fs::read_link("/proc/self").ok()?;
    Some(own.as_os_str() == number.trim())
}
