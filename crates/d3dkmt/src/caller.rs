//! The memory and the file descriptors of the caller, by the numbers in its arguments. One of the
//! rooms that may use `unsafe`.
//!
//! Invariants: an address is read or written after it was checked for NULL and alignment. A count
//! is checked against its limit before an array is read.

#![allow(unsafe_code)]

use std::os::fd::{BorrowedFd, OwnedFd};
use tidegate_calls::{Handle, Status};
use tidegate_wddm_abi::Published;

/// The memory and descriptors that the arguments of one call name.
pub(crate) struct Caller(());

impl Caller {
    /// Returns access for the duration of a call.
    ///
    /// # Safety
    /// The arguments of the call follow the header: an address in them that is not NULL is valid
    /// for the number of elements that the arguments state, and an output may be written. Only
    /// addresses of these arguments are passed to the functions here.
    pub(crate) unsafe fn of_call() -> Caller {
        Caller(())
    }

    /// Copies the structure of an argument in.
    ///
    /// # Errors
    /// INVALID_PARAMETER for a NULL or misaligned address.
    pub(crate) fn read<T: Published>(&self, address: u64) -> Result<T, Status> {
        let from = checked::<T>(address)?;
        // SAFETY: `checked` has excluded NULL and misalignment. The maker of `self` vouches that
        // the address is valid for a `T`, of which every bit pattern is a valid value.
        Ok(unsafe { from.read() })
    }

    /// Copies a structure out.
    ///
    /// # Errors
    /// As [`Caller::read`].
    pub(crate) fn write<T: Published>(&self, address: u64, value: T) -> Result<(), Status> {
        let to = checked::<T>(address)?;
        // SAFETY: as in `read`; the argument is an output, which may be written.
        unsafe { to.write(value) };
        Ok(())
    }

    /// Copies an array of handles in: at most `most`.
    ///
    /// # Errors
    /// INVALID_PARAMETER for more, and for a NULL or misaligned address of some.
    pub(crate) fn handles(
        &self,
        address: u64,
        count: u32,
        most: usize,
    ) -> Result<Vec<Handle>, Status> {
        Ok(self.numbers::<u32>(address, count, most)?.into_iter().map(Handle).collect())
    }

    /// Copies an array of numbers in: at most `most`.
    ///
    /// # Errors
    /// As [`Caller::handles`].
    pub(crate) fn numbers<T: Number>(
        &self,
        address: u64,
        count: u32,
        most: usize,
    ) -> Result<Vec<T>, Status> {
        let count = count as usize;
        if count > most {
            return Err(Status::INVALID_PARAMETER);
        }
        if count == 0 {
            return Ok(Vec::new());
        }
        let from = checked::<T>(address)?;
        // SAFETY: `checked` has excluded NULL and misalignment. The maker of `self` vouches that
        // the address is valid for as many elements as the arguments state. They are integers.
        Ok((0..count).map(|index| unsafe { from.add(index).read() }).collect())
    }

    /// Copies an array of numbers out.
    ///
    /// # Errors
    /// INVALID_PARAMETER for a NULL or misaligned address of some.
    pub(crate) fn write_numbers<T: Number>(
        &self,
        address: u64,
        numbers: &[T],
    ) -> Result<(), Status> {
        if numbers.is_empty() {
            return Ok(());
        }
        let to = checked::<T>(address)?;
        for (index, number) in numbers.iter().enumerate() {
            // SAFETY: as in `numbers`; the argument is an output, which may be written.
            unsafe { to.add(index).write(*number) };
        }
        Ok(())
    }

    /// Puts the memory of an allocation in place of pages of the caller, and takes over their
    /// contents. What another thread stores there meanwhile may be lost. The pages stay the
    /// caller's, and may be unmapped at any time.
    ///
    /// # Errors
    /// INVALID_PARAMETER for NULL and for parts of pages; NOT_SUPPORTED for memory that cannot be
    /// mapped again.
    pub(crate) fn replace_pages(
        &self,
        address: u64,
        memory: u64,
        bytes: u64,
    ) -> Result<(), Status> {
        let page = rustix::param::page_size() as u64;
        if address == 0 || !address.is_multiple_of(page) || !bytes.is_multiple_of(page) {
            return Err(Status::INVALID_PARAMETER);
        }
        if !memory.is_multiple_of(page) {
            return Err(Status::NOT_SUPPORTED);
        }
        let pages = std::ptr::with_exposed_provenance_mut::<u8>(address as usize);
        let memory = std::ptr::with_exposed_provenance_mut::<u8>(memory as usize);
        // SAFETY: the maker of `self` vouches for the pages. `memory` is the mapping of a new
        // allocation of so many bytes, which nothing else uses yet, so the two do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(pages, memory, bytes as usize) };
        let (from, to) = (memory.cast(), pages.cast());
        let flags = rustix::mm::MremapFlags::MAYMOVE;
        // SAFETY: an old size of 0 maps shared memory again and leaves its first mapping. The
        // pages that it replaces hold no object of Rust, and have the same contents afterwards.
        let mapped = unsafe { rustix::mm::mremap_fixed(from, 0, bytes as usize, flags, to) };
        mapped.map(|_| ()).map_err(|_| Status::NOT_SUPPORTED)
    }

    /// Duplicates a descriptor that stands for a HANDLE. It is closed on exec.
    ///
    /// # Errors
    /// INVALID_HANDLE for a number that is not an open descriptor.
    pub(crate) fn descriptor(&self, handle: u64) -> Result<OwnedFd, Status> {
        let number = i32::try_from(handle).map_err(|_| Status::INVALID_HANDLE)?;
        // SAFETY: the number is not negative. If it is not an open descriptor, or is closed
        // meanwhile, the one use of the borrow fails with EBADF and touches no other object.
        let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
        borrowed.try_clone_to_owned().map_err(|_| Status::INVALID_HANDLE)
    }
}

/// An integer of an array.
pub(crate) trait Number: Copy {}

impl Number for u8 {}
impl Number for u32 {}
impl Number for u64 {}

// spec: MF-015
/// Returns the pointer of an address that is neither NULL nor misaligned.
fn checked<T>(address: u64) -> Result<*mut T, Status> {
    let pointer = std::ptr::with_exposed_provenance_mut::<T>(address as usize);
    if pointer.is_null() || !pointer.is_aligned() {
        return Err(Status::INVALID_PARAMETER);
    }
    Ok(pointer)
}
