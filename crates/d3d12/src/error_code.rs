//! The published result codes of errors, as an enum.

use tidegate_calls::Status;

/// The kind of an error, as the published result codes divide them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorCode {
    /// DXGI_ERROR_DEVICE_REMOVED: the adapter, its process or a component ended the device.
    DeviceRemoved,
    /// DXGI_ERROR_DEVICE_HUNG: work of the device faulted or did not end.
    DeviceHung,
    /// DXGI_ERROR_DEVICE_RESET: the GPU was reset for the work of another device.
    DeviceReset,
    /// DXGI_ERROR_INVALID_CALL: the application broke a rule.
    InvalidCall,
    /// DXGI_ERROR_NOT_FOUND: no object has the name.
    NotFound,
    /// E_OUTOFMEMORY: memory, or the budget of local memory, is used up.
    OutOfMemory,
    /// E_INVALIDARG: an argument is out of range or does not fit the others.
    InvalidArgument,
    /// DXGI_ERROR_UNSUPPORTED: the adapter or a node does not support it.
    Unsupported,
    /// E_ACCESSDENIED: a privilege or a right of access is missing.
    AccessDenied,
    /// E_ABORT: the machine stopped, or a queue was ended, before the call could end.
    Aborted,
    /// E_FAIL: anything else.
    Failed,
}

impl ErrorCode {
    /// Returns the published number (HRESULT).
    #[doc(alias = "HRESULT")]
    pub fn hresult(self) -> u32 {
        match self {
            ErrorCode::DeviceRemoved => 0x887A_0005,
            ErrorCode::DeviceHung => 0x887A_0006,
            ErrorCode::DeviceReset => 0x887A_0007,
            ErrorCode::InvalidCall => 0x887A_0001,
            ErrorCode::NotFound => 0x887A_0002,
            ErrorCode::OutOfMemory => 0x8007_000E,
            ErrorCode::InvalidArgument => 0x8007_0057,
            ErrorCode::Unsupported => 0x887A_0004,
            ErrorCode::AccessDenied => 0x8007_0005,
            ErrorCode::Aborted => 0x8000_4004,
            ErrorCode::Failed => 0x8000_4005,
        }
    }

    pub(crate) fn of_status(status: Status) -> ErrorCode {
        match status {
            Status::DEVICE_REMOVED => ErrorCode::DeviceRemoved,
            Status::DEVICE_HUNG => ErrorCode::DeviceHung,
            Status::GRAPHICS_ADAPTER_WAS_RESET => ErrorCode::DeviceReset,
            Status::NO_MEMORY | Status::INSUFFICIENT_RESOURCES => ErrorCode::OutOfMemory,
            Status::NOT_SUPPORTED | Status::GRAPHICS_PRESENT_DENIED => ErrorCode::Unsupported,
            Status::ACCESS_DENIED | Status::PRIVILEGE_NOT_HELD => ErrorCode::AccessDenied,
            Status::CANCELLED => ErrorCode::Aborted,
            Status::INVALID_HANDLE
            | Status::INVALID_PARAMETER
            | Status::OBJECT_TYPE_MISMATCH
            | Status::BUFFER_TOO_SMALL => ErrorCode::InvalidArgument,
            _ => ErrorCode::Failed,
        }
    }
}
