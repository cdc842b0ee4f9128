//! NT handles of a service: files that this process hands on as it likes.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use tidegate_calls::NtHandle;

/// The file of an NT handle of a service.
struct HandleFile(OwnedFd);

/// Returns the NT handle that `file` stands for: a copy of the file of [`nt_handle_file`], which may
/// have come from another process.
pub fn nt_handle(file: OwnedFd) -> NtHandle {
    NtHandle::new(HandleFile(file))
}

/// Returns the file of an NT handle of a service, to hand to another process. The shared object lives
/// while any copy of it is open. `None` for a handle of a kernel in this process.
pub fn nt_handle_file(handle: &NtHandle) -> Option<BorrowedFd<'_>> {
    handle.object::<HandleFile>().map(|file| file.0.as_fd())
}
