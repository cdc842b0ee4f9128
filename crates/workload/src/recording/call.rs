//! Effects of host calls on streams, by name.
//!
//! A call has several names: `cudaStreamWaitEvent`, `cuStreamWaitEvent`, `hipStreamWaitEvent`, with
//! suffixes for versions and default streams. Names decide only for calls that wait or signal; a
//! call that has GPU work is a launch.

/// The part of a host call that concerns ordering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Call {
    /// A stream will wait for an event.
    StreamWaitEvent,
    /// An event is recorded on a stream.
    EventRecord,
    /// The host waits for an event.
    EventSynchronize,
    /// The host queries an event or a stream.
    Query,
    /// The host waits for a stream.
    StreamSynchronize,
    /// The host waits for a device.
    DeviceSynchronize,
    /// A whole graph is launched.
    GraphLaunch,
    /// A copy or fill that returns when it is complete.
    BlockingCopy,
    /// Memory is freed, which waits for the work that may use it.
    Free,
    /// A swap chain shows its next buffer.
    Present,
    /// Any other call.
    Other,
}

/// Returns the call of a name.
pub fn call(name: &str) -> Call {
    match stem(name) {
        "StreamWaitEvent" => Call::StreamWaitEvent,
        "EventRecord" | "EventRecordWithFlags" => Call::EventRecord,
        "EventSynchronize" => Call::EventSynchronize,
        "EventQuery" | "StreamQuery" => Call::Query,
        "StreamSynchronize" => Call::StreamSynchronize,
        "DeviceSynchronize" | "CtxSynchronize" => Call::DeviceSynchronize,
        "GraphLaunch" => Call::GraphLaunch,
        "Memcpy" | "Memcpy2D" | "Memcpy3D" | "MemcpyDtoH" | "MemcpyHtoD" | "MemcpyWithStream"
        | "MemcpyToSymbol" | "MemcpyFromSymbol" | "MemcpyPeer" => Call::BlockingCopy,
        "Free" | "FreeHost" | "HostFree" | "MemFree" | "MemFreeHost" => Call::Free,
        _ => Call::Other,
    }
}

/// The name without vendor, variant and version: `cudaStreamWaitEvent_ptsz_v7000` →
/// `StreamWaitEvent`.
fn stem(name: &str) -> &str {
    let mut name = ["cuda", "hip", "cu"].iter().find_map(|p| name.strip_prefix(p)).unwrap_or(name);
    loop {
        let variant =
            ["_ptsz", "_ptds", "_spt"].iter().find_map(|suffix| name.strip_suffix(suffix));
        let Some(shorter) = variant.or_else(|| without_version(name)) else { return name };
        name = shorter;
    }
}

/// The name before `_v` and digits; `None` for a name without them.
fn without_version(name: &str) -> Option<&str> {
    let (stem, version) = name.rsplit_once("_v")?;
    (!version.is_empty() && version.bytes().all(|b| b.is_ascii_digit())).then_some(stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_vendors_name_is_known() {
        for name in [
            "cudaStreamWaitEvent",
            "hipStreamWaitEvent",
            "cuStreamWaitEvent",
            "cudaStreamWaitEvent_ptsz_v7000",
        ] {
            assert_eq!(call(name), Call::StreamWaitEvent, "{name}");
        }
        assert_eq!(call("cudaGraphLaunch_v10000"), Call::GraphLaunch);
        assert_eq!(call("hipDeviceSynchronize"), Call::DeviceSynchronize);
        assert_eq!(call("cuCtxSynchronize"), Call::DeviceSynchronize);
        assert_eq!(call("cudaMemcpy"), Call::BlockingCopy);
        assert_eq!(call("cuMemcpyDtoH_v2"), Call::BlockingCopy);
        assert_eq!(call("hipMemcpyWithStream"), Call::BlockingCopy);
        assert_eq!(call("cudaMemcpyAsync"), Call::Other);
        assert_eq!(call("cudaLaunchKernel"), Call::Other);
        assert_eq!(call("hipEventQuery"), Call::Query);
        assert_eq!(["cudaFree", "hipHostFree", "cuMemFree_v2"].map(call), [Call::Free; 3]);
        assert_eq!(call("cudaFreeAsync"), Call::Other);
    }
}
