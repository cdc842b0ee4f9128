//! Names of planes, lines and events of XLA's profiler, in its files and in the JSON made of them.
//!
//! Entry points: [`device_of_plane`], [`stream_of_line`], [`is_call`], [`kind_of_copy`].

use crate::recording::WorkKind;

/// The GPU of a device plane, such as `/device:GPU:3`.
pub fn device_of_plane(name: &str) -> Option<i64> {
    let number = name.strip_prefix("/device:GPU:")?;
    let digits = number.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// The stream of a line of a device plane, such as `Stream #16(MemcpyH2D,Kernel)`.
pub fn stream_of_line(name: &str) -> Option<i64> {
    let number = name.strip_prefix("Stream #")?;
    number.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Whether an event of a host thread is a call of CUDA or HIP.
pub fn is_call(name: &str) -> bool {
    let function = ["cuda", "hip", "cu"].iter().find_map(|vendor| name.strip_prefix(vendor));
    function.is_some_and(|function| {
        function.starts_with(|first: char| first.is_ascii_uppercase())
            && function.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

/// The kind of a copy or fill that has its direction as its name.
pub fn kind_of_copy(name: &str) -> Option<WorkKind> {
    match name {
        _ if name.starts_with("Memcpy") => Some(WorkKind::Copy),
        _ if name.starts_with("Memset") => Some(WorkKind::Fill),
        _ => None,
    }
}
