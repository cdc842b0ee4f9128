//! Addresses of memory that a driver reads or writes. Making one is safe; the driver uses it.

use std::ptr;

/// Returns the address of a value that the driver reads or writes during a call.
pub(crate) fn address_of<T>(value: &mut T) -> u64 {
    ptr::from_mut(value).expose_provenance() as u64
}

/// The same for the first of several values; 0 for none.
pub(crate) fn address_of_first<T>(values: &mut [T]) -> u64 {
    match values.is_empty() {
        true => 0,
        false => values.as_mut_ptr().expose_provenance() as u64,
    }
}

/// The same for values that the driver only reads, and that it may read as long as they live.
pub(crate) fn address_of_shared<T>(values: &[T]) -> u64 {
    values.as_ptr().expose_provenance() as u64
}
