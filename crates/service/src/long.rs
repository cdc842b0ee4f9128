//! Bytes that are too long for a message: they travel in a sealed file beside it.

use rustix::fs::{MemfdFlags, SealFlags};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

/// The most bytes that travel in the message itself.
pub(crate) const MAX_INLINE_BYTES: usize = 64 << 10;

/// Returns a file of these bytes.
///
/// # Errors
/// The system has no file or no memory left.
pub(crate) fn into_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = File::from(rustix::fs::memfd_create(c"tidegate bytes", flags)?);
    file.write_all(bytes)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE)?;
    Ok(file.into())
}

/// Copies bytes out of a file of [`into_file`].
///
/// # Errors
/// InvalidData for a file that another process can change or that is not memory, and so could keep
/// its reader waiting; UnexpectedEof for a shorter one.
pub(crate) fn from_file(file: OwnedFd, bytes: usize) -> io::Result<Vec<u8>> {
    let fixed = SealFlags::SHRINK | SealFlags::WRITE;
    if !rustix::fs::fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(fixed)) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is not sealed"));
    }
    let mut copied = vec![0; bytes];
    File::from(file).read_exact_at(&mut copied, 0)?;
    Ok(copied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_and_no_others() {
        let file = || into_file(&[7; 100_000]).unwrap();
        assert_eq!(from_file(file(), 100_000).unwrap(), [7; 100_000]);
        assert_eq!(from_file(file(), 100_001).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_file_that_may_change_or_block_is_refused() {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let unsealed = rustix::fs::memfd_create(c"unsealed", flags).unwrap();
        let (pipe, _end) = io::pipe().unwrap();
        for file in [unsealed, pipe.into()] {
            assert_eq!(from_file(file, 0).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }
}
