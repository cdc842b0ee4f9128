//! NT handles of a service: files that this process hands on as it likes.

use crate::transport::Attachment;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use tidegate_calls::NtHandle;

/// The file of an NT handle of a service, or what takes its place.
struct HandleFile(Attachment);

/// Returns the NT handle of what came with an answer.
pub(super) fn of_attachment(attached: Attachment) -> NtHandle {
    NtHandle::new(HandleFile(attached))
}

/// Returns what an NT handle of a service is handed over by.
pub(super) fn attachment(handle: &NtHandle) -> Option<&Attachment> {
    handle.object::<HandleFile>().map(|file| &file.0)
}

/// Returns another copy of an NT handle of a service, as another process gets it. The shared object
/// lives while any copy is open.
///
/// # Errors
/// InvalidInput for a handle of a kernel in this process; what the system refuses.
pub fn copy_nt_handle(handle: &NtHandle) -> io::Result<NtHandle> {
    let attached = attachment(handle).ok_or(io::ErrorKind::InvalidInput)?;
    attached.copy().map(of_attachment)
}

/// Returns the NT handle that `file` stands for: a copy of the file of [`nt_handle_file`], which
/// may have come from another process.
pub fn nt_handle(file: OwnedFd) -> NtHandle {
    of_attachment(file.into())
}

/// Returns the file of an NT handle of a service, to hand to another process. The shared object
/// lives while any copy of it is open. `None` for a handle of a kernel in this process, and for one
/// of a cooperative platform.
pub fn nt_handle_file(handle: &NtHandle) -> Option<BorrowedFd<'_>> {
    attachment(handle)?.file()
}
