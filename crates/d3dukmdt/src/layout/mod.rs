//! Owns the C structures that user mode and kernel mode share, and the means by which `calls` and
//! `ddi` state theirs.
//!
//! A structure here is what stands in memory on x86-64: fields in the order, at the offsets and
//! with the size of the public headers, each checked when the crate is compiled. Handles,
//! addresses, enumerations and flags are raw numbers in it, so that any pattern of bits is a value
//! and nothing is believed before it was looked at. Pointers are 64-bit addresses on every client
//! and nobody here follows one.
//!
//! The order that matters: a structure is copied in whole, then checked and turned into the types
//! that the rest of the house speaks, and only then acted on. What a caller got wrong is
//! INVALID_PARAMETER; what it may ask and nobody here can do is NOT_SUPPORTED. Called by the rooms
//! of layouts above, by the C ABI and by whatever carries calls over a socket.

mod adapter;
mod hw_queue;
mod limit;
pub mod log;
mod native_fence;
mod sync_object;

pub use adapter::{
    FeatureResultFlags, IsFeatureEnabledResult, NodeMetadata, NodeMetadataFlags, PreemptionCaps,
};
pub use hw_queue::{CreateContextFlags, CreateHwQueueFlags};
pub use limit::{
    DOORBELL_PRIVATE_DATA_BYTES, MAX_BROADCAST_CONTEXTS, MAX_OBJECTS_PER_HANDLE,
    MAX_OBJECTS_SIGNALED, MAX_OBJECTS_WAITED_ON, MAX_WRITTEN_PRIMARIES,
    NATIVE_FENCE_PRIVATE_DATA_BYTES,
};
pub use native_fence::{NativeFenceInfo, NativeFenceMapping};
pub use sync_object::{
    CpuNotificationArm, FenceArm, MonitoredFenceArm, PeriodicMonitoredFenceArm, SemaphoreArm,
    SyncObjectAccess, SyncObjectDescription, SynchronizationMutexArm, SynchronizationObjectInfo2,
};

use crate::Status;

/// A plain C value: every pattern of bits is one, and all bits zero is its empty state. Bytes are
/// little-endian, as on the processor that the layouts are stated for.
pub trait Raw: Copy + PartialEq {
    /// All bits zero.
    const ZERO: Self;

    /// Writes the value to the front of `bytes`, which must be long enough. Padding is left as it
    /// is.
    fn write(&self, bytes: &mut [u8]);

    /// Reads the value from the front of `bytes`, which must be long enough.
    fn read(bytes: &[u8]) -> Self;

    /// The value as it stands in memory, padding zero.
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; size_of::<Self>()];
        self.write(&mut bytes);
        bytes
    }

    /// The value that stands at the front of `bytes`; BUFFER_TOO_SMALL when they are too few.
    fn from_bytes(bytes: &[u8]) -> Result<Self, Status> {
        if bytes.len() < size_of::<Self>() {
            Err(Status::BUFFER_TOO_SMALL)
        } else {
            Ok(Self::read(bytes))
        }
    }
}

macro_rules! raw_numbers {
    ($($number:ty),+) => {$(
        impl Raw for $number {
            const ZERO: Self = 0;

            fn write(&self, bytes: &mut [u8]) {
                bytes[..size_of::<$number>()].copy_from_slice(&self.to_le_bytes());
            }

            fn read(bytes: &[u8]) -> Self {
                let mut raw = [0; size_of::<$number>()];
                raw.copy_from_slice(&bytes[..size_of::<$number>()]);
                <$number>::from_le_bytes(raw)
            }
        }
    )+};
}

raw_numbers!(u8, u16, u32, u64, i32);

impl<T: Raw, const N: usize> Raw for [T; N] {
    const ZERO: Self = [T::ZERO; N];

    fn write(&self, bytes: &mut [u8]) {
        for (index, element) in self.iter().enumerate() {
            element.write(&mut bytes[index * size_of::<T>()..]);
        }
    }

    fn read(bytes: &[u8]) -> Self {
        std::array::from_fn(|index| T::read(&bytes[index * size_of::<T>()..]))
    }
}

/// States C structures: official name and size, then of each field the offset, the official name,
/// our name and the type. Size and offsets are checked when this is compiled, and the official
/// names are found by a search of the documentation.
#[macro_export]
macro_rules! layout {
    ($($(#[$meta:meta])* $name:ident = $official:literal, $size:literal bytes {
        $($(#[$field_meta:meta])* $at:literal $official_field:literal $field:ident: $type:ty,)+
    })+) => {$(
        $(#[$meta])*
        #[doc(alias = $official)]
        #[repr(C)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_meta])* #[doc(alias = $official_field)] pub $field: $type,)+
        }

        const _: () = {
            assert!(size_of::<$name>() == $size);
            $(assert!(::core::mem::offset_of!($name, $field) == $at);)+
        };

        impl $crate::layout::Raw for $name {
            const ZERO: Self = Self { $($field: <$type as $crate::layout::Raw>::ZERO),+ };

            fn write(&self, bytes: &mut [u8]) {
                $({
                    let value: $type = self.$field;
                    $crate::layout::Raw::write(&value, &mut bytes[$at..]);
                })+
            }

            fn read(bytes: &[u8]) -> Self {
                Self { $($field: $crate::layout::Raw::read(&bytes[$at..])),+ }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                <Self as $crate::layout::Raw>::ZERO
            }
        }
    )+};
}

layout! {
    /// A union of 64 bytes, as several structures carry one: the arm that applies is read out of
    /// it, and written over it.
    Union64 = "Reserved[8]", 64 bytes {
        /// All of it.
        0 "Reserved" words: [u64; 8],
    }
}

impl Union64 {
    /// A union that holds `arm` and is zero behind it.
    pub fn of<A: Raw>(arm: A) -> Union64 {
        const { assert!(size_of::<A>() <= size_of::<Union64>()) }
        let mut bytes = [0; size_of::<Union64>()];
        arm.write(&mut bytes);
        Union64::read(&bytes)
    }

    /// Its bytes, taken as `A`.
    pub fn arm<A: Raw>(&self) -> A {
        const { assert!(size_of::<A>() <= size_of::<Union64>()) }
        let mut bytes = [0; size_of::<Union64>()];
        self.write(&mut bytes);
        A::read(&bytes)
    }
}

/// What a call was handed by pointer; NULL is INVALID_PARAMETER for every call.
// spec: MF-015
pub fn argument<T>(pointer: Option<&T>) -> Result<&T, Status> {
    pointer.ok_or(Status::INVALID_PARAMETER)
}

/// Refuses reserved bits and bytes that are not zero: a later version of the interface may give
/// them a meaning, which the caller then counts on.
pub fn reserved_is_zero<R: Raw>(reserved: R) -> Result<(), Status> {
    if reserved == R::ZERO { Ok(()) } else { Err(Status::INVALID_PARAMETER) }
}

/// Refuses a handle of 0, which is never an object.
pub fn is_a_handle(handle: u32) -> Result<u32, Status> {
    if handle == 0 { Err(Status::INVALID_PARAMETER) } else { Ok(handle) }
}

/// Refuses an array of none, of more than `most`, or at address 0. Returns the count.
pub fn is_an_array(address: u64, count: u32, most: usize) -> Result<usize, Status> {
    let count = count as usize;
    if address == 0 || count == 0 || count > most {
        Err(Status::INVALID_PARAMETER)
    } else {
        Ok(count)
    }
}

/// Refuses private driver data without an address, or of more than `most` bytes. Returns how many
/// bytes there are.
pub fn is_private_data(address: u64, bytes: u32, most: usize) -> Result<usize, Status> {
    let bytes = bytes as usize;
    if bytes > most || (bytes > 0 && address == 0) {
        Err(Status::INVALID_PARAMETER)
    } else {
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    layout! {
        /// With padding behind each field but the last.
        Padded = "PADDED", 24 bytes {
            /// A byte.
            0 "Byte" byte: u8,
            /// Two numbers.
            2 "Pair" pair: [u16; 2],
            /// A signed one.
            8 "Number" number: i32,
            /// A long one.
            16 "Long" long: [u64; 1],
        }
    }

    #[test]
    fn bytes_are_little_endian_and_padding_is_zero() {
        let value =
            Padded { byte: 1, pair: [0x0203, 0x0405], number: -1, long: [0x0102_0304_0506_0708] };
        let bytes = value.to_bytes();
        assert_eq!(bytes[..8], [1, 0, 3, 2, 5, 4, 0, 0]);
        assert_eq!(bytes[8..16], [0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0]);
        assert_eq!(bytes[16..], [8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(Padded::from_bytes(&bytes), Ok(value));
        assert_eq!(Padded::from_bytes(&bytes[1..]), Err(Status::BUFFER_TOO_SMALL));
        assert_eq!(Padded::default().to_bytes(), [0; 24]);
    }

    #[test]
    fn a_union_gives_back_its_arm() {
        let arm = Padded { byte: 9, long: [7], ..Padded::default() };
        let union = Union64::of(arm);
        assert_eq!(union.arm::<Padded>(), arm);
        assert_eq!(union.words, [9, 0, 7, 0, 0, 0, 0, 0]);
    }

    // spec: MF-015
    #[test]
    fn what_makes_no_sense_is_refused() {
        assert_eq!(argument::<u32>(None), Err(Status::INVALID_PARAMETER));
        assert_eq!(argument(Some(&3)), Ok(&3));
        assert_eq!(is_a_handle(0), Err(Status::INVALID_PARAMETER));
        assert_eq!(reserved_is_zero([0u8, 1]), Err(Status::INVALID_PARAMETER));
        assert_eq!(is_an_array(8, 32, 32), Ok(32));
        for (address, count) in [(0, 1), (8, 0), (8, 33)] {
            assert_eq!(is_an_array(address, count, 32), Err(Status::INVALID_PARAMETER));
        }
        assert_eq!(is_private_data(0, 0, 16), Ok(0));
        assert_eq!(is_private_data(8, 16, 16), Ok(16));
        assert_eq!(is_private_data(8, 17, 16), Err(Status::INVALID_PARAMETER));
        assert_eq!(is_private_data(0, 1, 16), Err(Status::INVALID_PARAMETER));
    }
}
