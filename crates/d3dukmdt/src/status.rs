//! Status codes (NTSTATUS) of calls and DDIs.

use serde::{Deserialize, Serialize};
use std::fmt;

/// An NTSTATUS. Negative values are failures.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Status(pub i32);

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $value:literal, $text:literal;)+) => {
        impl Status {
            $($(#[$doc])* pub const $name: Status = Status($value as u32 as i32);)+

            /// The code's name and meaning.
            pub fn text(self) -> &'static str {
                match self {
                    $(Status::$name => concat!("STATUS_", stringify!($name), ": ", $text),)+
                    _ => "an unknown status",
                }
            }
        }
    };
}

statuses! {
    /// Done.
    SUCCESS = 0, "done";
    /// An owner has ended without a release.
    ABANDONED = 0x0000_0080, "its owner has ended without releasing it";
    /// The time-out passed.
    TIMEOUT = 0x0000_0102, "the time-out passed";
    /// Not finished yet.
    PENDING = 0x0000_0103, "not finished yet";
    /// It failed, and no other status says why.
    UNSUCCESSFUL = 0xC000_0001, "it failed";
    /// There is no such operation.
    NOT_IMPLEMENTED = 0xC000_0002, "there is no such operation";
    /// Not a handle of an object of this process.
    INVALID_HANDLE = 0xC000_0008, "no object of this process has this handle";
    /// An invalid argument.
    INVALID_PARAMETER = 0xC000_000D, "an argument is out of its range or does not fit the others";
    /// No memory.
    NO_MEMORY = 0xC000_0017, "out of memory";
    /// The instance has no right to the operation.
    ACCESS_DENIED = 0xC000_0022, "this instance of the object does not allow it";
    /// The table is too small.
    BUFFER_TOO_SMALL = 0xC000_0023, "the table handed in is too small";
    /// The handle is of another kind of object.
    OBJECT_TYPE_MISMATCH = 0xC000_0024, "the handle is of another kind of object";
    /// The name of an object is not one.
    OBJECT_NAME_INVALID = 0xC000_0033, "the name is empty or has a backslash";
    /// No object has the name.
    OBJECT_NAME_NOT_FOUND = 0xC000_0034, "no object has this name";
    /// Another object has the name.
    OBJECT_NAME_COLLISION = 0xC000_0035, "another object has this name";
    /// A privilege is missing.
    PRIVILEGE_NOT_HELD = 0xC000_0061, "a privilege is needed";
    /// A limit was reached.
    INSUFFICIENT_RESOURCES = 0xC000_009A, "a limit was reached";
    /// The adapter, node or configuration does not support it.
    NOT_SUPPORTED = 0xC000_00BB, "the adapter or node does not support it";
    /// A mistake in the implementation.
    INTERNAL_ERROR = 0xC000_00E5, "the implementation has failed";
    /// The device or adapter was lost.
    DEVICE_REMOVED = 0xC000_02B6, "the device was lost";
    /// The machine is being stopped.
    CANCELLED = 0xC000_0120, "the machine stopped before it could happen";
    /// The device caused a hang.
    DEVICE_HUNG = 0xC000_0507, "the device's work hung the engine";
    /// The DMA buffer cannot hold the command.
    GRAPHICS_INSUFFICIENT_DMA_BUFFER = 0xC01E_0001, "the DMA buffer is too small for the command";
    /// The adapter was reset while the call was under way.
    GRAPHICS_ADAPTER_WAS_RESET = 0xC01E_0003, "the adapter was reset";
    /// The queue cannot present.
    GRAPHICS_PRESENT_DENIED = 0xC01E_0007, "user-mode queues cannot present: use a kernel-mode queue";
    /// The user-mode driver does not fit the kernel-mode driver.
    GRAPHICS_DRIVER_MISMATCH = 0xC01E_0009, "user-mode and kernel-mode driver do not fit";
    /// An allocation is in use.
    GRAPHICS_ALLOCATION_BUSY = 0xC01E_0102, "the allocation is in use";
    /// An object has too many users.
    GRAPHICS_TOO_MANY_REFERENCES = 0xC01E_0103, "the object has too many references";
    /// Another device presents there.
    GRAPHICS_VIDPN_SOURCE_IN_USE = 0xC01E_0342, "another device presents on this display";
    /// A retry may succeed.
    GRAPHICS_TRY_AGAIN_LATER = 0xC01E_0104, "busy: try again later";
}

impl Status {
    /// NT_SUCCESS: PENDING and TIMEOUT count as success too.
    pub fn is_success(self) -> bool {
        self.0 >= 0
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x} ({})", self.0, self.text())
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Status {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_headers_numbers() {
        let codes = [
            (Status::SUCCESS, 0),
            (Status::ABANDONED, 0x80),
            (Status::TIMEOUT, 0x102),
            (Status::PENDING, 0x103),
            (Status::UNSUCCESSFUL, 0xC000_0001),
            (Status::NOT_IMPLEMENTED, 0xC000_0002),
            (Status::INVALID_HANDLE, 0xC000_0008),
            (Status::INVALID_PARAMETER, 0xC000_000D),
            (Status::NO_MEMORY, 0xC000_0017),
            (Status::ACCESS_DENIED, 0xC000_0022),
            (Status::BUFFER_TOO_SMALL, 0xC000_0023),
            (Status::OBJECT_TYPE_MISMATCH, 0xC000_0024),
            (Status::PRIVILEGE_NOT_HELD, 0xC000_0061),
            (Status::INSUFFICIENT_RESOURCES, 0xC000_009A),
            (Status::NOT_SUPPORTED, 0xC000_00BB),
            (Status::INTERNAL_ERROR, 0xC000_00E5),
            (Status::DEVICE_REMOVED, 0xC000_02B6),
            (Status::DEVICE_HUNG, 0xC000_0507),
            (Status::GRAPHICS_INSUFFICIENT_DMA_BUFFER, 0xC01E_0001),
            (Status::GRAPHICS_ADAPTER_WAS_RESET, 0xC01E_0003),
            (Status::GRAPHICS_PRESENT_DENIED, 0xC01E_0007),
            (Status::GRAPHICS_DRIVER_MISMATCH, 0xC01E_0009),
            (Status::GRAPHICS_VIDPN_SOURCE_IN_USE, 0xC01E_0342),
            (Status::GRAPHICS_ALLOCATION_BUSY, 0xC01E_0102),
            (Status::GRAPHICS_TOO_MANY_REFERENCES, 0xC01E_0103),
            (Status::GRAPHICS_TRY_AGAIN_LATER, 0xC01E_0104),
        ];
        for (status, number) in codes {
            assert_eq!(status.0 as u32, number, "{status:?}");
            assert_eq!(status.is_success(), number < 0x8000_0000);
        }
    }
}
