//! What a host call does to streams, by its name.
//!
//! This room owns the table of names. The same call exists under several: `cudaStreamWaitEvent`,
//! `cuStreamWaitEvent`, `hipStreamWaitEvent`, with suffixes for versions and default streams. Names matter only for
//! calls that wait or signal; whatever has GPU work of its own is a launch, whatever it is called.

/// The part of a host call that concerns ordering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Call {
    /// A stream will wait for an event.
    StreamWaitEvent,
    /// An event is recorded on a stream.
    EventRecord,
    /// The host waits for an event.
    EventSynchronize,
    /// The host looks whether an event or a stream is done.
    Query,
    /// The host waits for a stream.
    StreamSynchronize,
    /// The host waits for everything.
    DeviceSynchronize,
    /// A whole graph is launched.
    GraphLaunch,
    /// A copy or fill that returns when it is done.
    BlockingCopy,
    /// Anything else.
    Other,
}

/// Which call a name means.
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
        _ => Call::Other,
    }
}

/// The name without vendor and version: `cuStreamWaitEvent_ptsz` → `StreamWaitEvent`.
fn stem(name: &str) -> &str {
    let name = ["cuda", "hip", "cu"].iter().find_map(|p| name.strip_prefix(p)).unwrap_or(name);
    let name = name.strip_suffix("_ptsz").or_else(|| name.strip_suffix("_ptds")).unwrap_or(name);
    let name = name.strip_suffix("_spt").unwrap_or(name);
    match name.rfind("_v") {
        Some(at) if at + 2 < name.len() && name[at + 2..].bytes().all(|b| b.is_ascii_digit()) => &name[..at],
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_vendors_name_is_known() {
        for name in
            ["cudaStreamWaitEvent", "hipStreamWaitEvent", "cuStreamWaitEvent", "cudaStreamWaitEvent_ptsz"]
        {
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
    }
}
