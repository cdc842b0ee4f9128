//! Errors of a whole adapter: it does not start, or its driver broke the contract.

use tidegate_ddi::{DdiVersion, EngineId, EntryGroup, FeatureId, Status};

/// Why an adapter did not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The driver refused.
    #[error("the driver refused to start: {0}")]
    Driver(Status),
    /// A version of the contract that this kernel does not drive.
    #[error(
        "the driver is written for {states}: this kernel drives {oldest} to {newest}; use a driver of one of those"
    )]
    UnknownDdiVersion {
        /// What the driver states.
        states: DdiVersion,
        /// The first version that the kernel drives.
        oldest: DdiVersion,
        /// The last.
        newest: DdiVersion,
    },
    /// A feature whose entries the driver's version does not have.
    #[error(
        "the driver declares {feature}, whose entries came with {needs}, and is written for {states}: state the later version, or do not declare it"
    )]
    DdiVersionTooLow {
        /// What is declared.
        feature: FeatureId,
        /// The first version that has all of its entries.
        needs: DdiVersion,
        /// What the driver states.
        states: DdiVersion,
    },
    /// The driver has no table of a feature that it negotiated.
    #[error(
        "the driver refuses its table of {feature}, version {version}, with {status}: a negotiated version has one; report a lower highest version in QueryFeatureSupport"
    )]
    FeatureTable {
        /// Which feature.
        feature: FeatureId,
        /// The negotiated version.
        version: u16,
        /// What the driver returned.
        status: Status,
    },
    /// The driver declares native fences although the feature is off.
    #[error(
        "the driver declares native GPU fences, but the feature is not enabled for this adapter: enable it, or have the driver ask IsFeatureEnabled before it declares them"
    )]
    NativeFenceNotEnabled,
    /// A node declares hardware scheduling although the feature is off.
    #[error(
        "node {0} declares hardware scheduling, but the feature is not enabled for this adapter: enable it, or have the driver ask IsFeatureEnabled before it declares it"
    )]
    HardwareSchedulingNotEnabled(u32),
    /// A node declares user-mode submission although the feature is off.
    #[error(
        "node {0} declares user-mode submission, but the feature is not enabled for this adapter: enable it, or have the driver ask IsFeatureEnabled before it declares it"
    )]
    UserModeSubmissionNotEnabled(u32),
    /// Two declarations that exclude each other.
    #[error(
        "the driver declares native GPU fences together with No64BitAtomics, which cannot store 64 bits at once: declare one of the two"
    )]
    NativeFenceWithout64BitAtomics,
    /// Native fences that no hardware queue could use.
    #[error(
        "the driver declares native GPU fences, which rest on hardware scheduling, and no node declares that: set ContextSchedulingSupported on a node, or do not declare them"
    )]
    NativeFenceWithoutHardwareScheduling,
    /// A stride that no page can be divided by.
    #[error(
        "the driver declares a fence stride of {0} bytes: it must be a power of two from 8 to 4096"
    )]
    FenceStride(u32),
    /// Addresses that no fence could be mapped at.
    #[error(
        "the driver wants fences mapped from {minimum:#x} to {maximum:#x}, in an address space that ends before {end:#x}: the first must not exceed the last, and both must lie inside"
    )]
    FenceAddresses {
        /// MinimumAddress, or 0.
        minimum: u64,
        /// MaximumAddress, or the last address.
        maximum: u64,
        /// The first address beyond the address space.
        end: u64,
    },
    /// No whole page lies between the bounds of fence addresses.
    #[error(
        "the driver's bounds leave fence values the addresses from {0:#x} on and below {1:#x}, in whole pages: there is none, so widen them"
    )]
    FenceWindow(u64, u64),
    /// A node takes user-mode submission without native fences.
    #[error(
        "node {0} supports user-mode submission, which needs native fences, and the driver declares none: declare both or neither"
    )]
    UserModeSubmissionWithoutNativeFence(u32),
    /// A node takes user-mode submission and cannot write fences.
    #[error(
        "node {0} supports user-mode submission, whose rings signal fences, and cannot write a fence"
    )]
    UserModeSubmissionWithoutFenceWrites(u32),
    /// A node takes user-mode submission without hardware queues.
    #[error(
        "node {0} supports user-mode submission, which feeds hardware queues, and does not declare hardware scheduling: set ContextSchedulingSupported on it"
    )]
    UserModeSubmissionWithoutHardwareScheduling(u32),
    /// A capability without the one it rests on.
    #[error("the driver declares {0} without {1}, on which it rests: declare both or neither")]
    CapDependency(&'static str, &'static str),
    /// A capability without the entries that it needs.
    #[error(
        "the driver declares {capability} and lacks {group}: implement the group, or do not declare the capability"
    )]
    MissingEntries {
        /// What is declared.
        capability: &'static str,
        /// The entries.
        group: EntryGroup,
    },
    /// A display without time.
    #[error(
        "the driver reports a display whose refresh takes no time: report its period in nanoseconds, or no display"
    )]
    RefreshPeriod,
    /// No nodes, or too many.
    #[error("the driver reports {0} nodes: there must be 1 to 64")]
    Nodes(usize),
    /// TdrLevel 2.
    #[error(
        "TdrLevel is 2 (recover to VGA): there is no VGA here; use 0 (off), 1 (bug check) or 3 (recover)"
    )]
    RecoverToVga,
    /// A delay in which nothing can happen.
    #[error(
        "TdrDelay is 0: a GPU needs some time to answer; give it one, or switch detection off with TdrLevel 0"
    )]
    TdrDelay,
    /// No physical adapter, or too many.
    #[error("the driver reports {0} physical adapters: there must be 1 to 4")]
    PhysicalAdapters(u32),
}

/// A broken driver contract. It stops the adapter; it never aborts the process.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BugCheck {
    /// The signalled interrupt names a fence that is destroyed or of another adapter.
    #[error("the signalled interrupt names fence {0:#x}, which this adapter does not have")]
    UnknownFence(u64),
    /// An interrupt reports a packet that was not submitted.
    #[error(
        "node {node} of physical adapter {adapter} reports packet {fence_id}, which is not in flight"
    )]
    UnknownPacket {
        /// The node.
        node: u32,
        /// The physical adapter.
        adapter: u32,
        /// The packet's id.
        fence_id: u32,
    },
    /// A DDI that must not fail failed.
    #[error("{ddi} failed with {status}")]
    DdiFailed {
        /// Which.
        ddi: &'static str,
        /// With what.
        status: Status,
    },
    /// DxgkDdiPreemptCommand, which must succeed, failed.
    #[error("DxgkDdiPreemptCommand failed with {0}: it must succeed")]
    PreemptCommandFailed(Status),
    /// DxgkDdiCancelCommand, which must succeed, failed.
    #[error("DxgkDdiCancelCommand failed with {0}: it must succeed")]
    CancelCommandFailed(Status),
    /// A timeout, where TdrLevel says that the first one is fatal.
    #[error("{0}, and TdrLevel is 1: no timeout is recovered from")]
    Timeout(String),
    /// One timeout more than are recovered from in the window.
    #[error("{0}, and there were as many recoveries as TdrLimitCount allows in TdrLimitTime")]
    TooManyTimeouts(String),
    /// A deadline of the kernel is due a second time, after a run that changed nothing.
    #[error(
        "the timer of {watch} is due at {deadline_ns} ns for the second time: no run of it changed anything"
    )]
    TimerStuck {
        /// The watch.
        watch: &'static str,
        /// The deadline, in nanoseconds on the adapter's clock; 0 for at once.
        deadline_ns: u64,
    },
    /// Threads did not leave the driver in TdrDdiDelay, so that the adapter could not be reset.
    #[error("threads did not leave the driver within TdrDdiDelay, so the adapter cannot be reset")]
    StuckInDriver,
    /// The adapter's reset, which must succeed, failed.
    #[error("{ddi} failed with {status}: the adapter cannot be recovered")]
    RecoveryFailed {
        /// Which of its calls.
        ddi: &'static str,
        /// With what.
        status: Status,
    },
    /// The engines that depend on one are without it.
    #[error(
        "DxgkDdiQueryDependentEngineGroup says {group:#x} of node {node}, which is not among them"
    )]
    DependentEngines {
        /// The node.
        node: u32,
        /// What the driver says.
        group: u64,
    },
    /// DxgkDdiResetEngine says that a packet was cut off which was not there.
    #[error(
        "DxgkDdiResetEngine of {engine} says that packet {aborted} was cut off: {completed} was complete, and {submitted} submitted last"
    )]
    AbortedFence {
        /// The engine.
        engine: EngineId,
        /// What the driver says.
        aborted: u32,
        /// The last packet that was complete.
        completed: u32,
        /// The last one that was submitted.
        submitted: u32,
    },
    /// The commands that a driver wrote for a paging operation faulted.
    #[error(
        "the commands that DxgkDdiBuildPagingBuffer wrote faulted: memory is not where it should be"
    )]
    PagingAborted,
    /// The segments that a driver named for fence storage make no sense.
    #[error("DxgkDdiGetStandardAllocationDriverData {0}")]
    FenceStorageSegments(&'static str),
    /// A fault on a queue, or a signal by one, that is destroyed or of another adapter.
    #[error("an interrupt names hardware queue {0:#x}, which this adapter does not have")]
    UnknownQueue(u64),
    /// A suspension is acknowledged for a context that is destroyed or of another adapter.
    #[error("an interrupt names hardware context {0:#x}, which this adapter does not have")]
    UnknownContext(u64),
    /// A suspension is acknowledged that was never asked for.
    #[error(
        "an interrupt acknowledges suspend fence {acknowledged} of context {context:#x}, whose last request was {requested}"
    )]
    UnknownSuspendFence {
        /// The kernel's handle of the context.
        context: u64,
        /// What the interrupt says.
        acknowledged: u64,
        /// The fence of the last request, 0 for none.
        requested: u64,
    },
    /// A page fault whose flags contradict each other, or are none.
    #[error(
        "an interrupt reports a page fault with flags {0:#x}: a fault names a queue, a context, a process or nothing, by one of them"
    )]
    PageFaultFlags(u32),
    /// A page fault of a queue or a context that runs elsewhere.
    #[error(
        "an interrupt reports a page fault of {faulted:#x} on {engine}, and it runs on {runs_on}"
    )]
    FaultOnAnotherEngine {
        /// The engine that the interrupt names.
        engine: EngineId,
        /// The kernel's handle of the queue or the context.
        faulted: u64,
        /// Its engine.
        runs_on: EngineId,
    },
    /// A page fault of a command buffer that was never submitted.
    #[error(
        "an interrupt reports a page fault of command buffer {fence_id} of hardware queue {hw_queue:#x}, whose last one is {submitted}"
    )]
    UnknownFaultedFence {
        /// The kernel's handle of the queue.
        hw_queue: u64,
        /// What the interrupt says.
        fence_id: u64,
        /// The progress value of the last command buffer that was given to the driver.
        submitted: u64,
    },
    /// A page fault of a process that has no device here.
    #[error(
        "an interrupt names the process of address space {0:#x}, which has no device on this adapter"
    )]
    UnknownProcess(u64),
    /// An interrupt of an engine that does not exist.
    #[error("an interrupt names node {0}, which this adapter does not have")]
    UnknownNode(u32),
    /// An interrupt of a physical adapter that does not exist.
    #[error("an interrupt names physical adapter {0}, which this adapter does not have")]
    UnknownPhysicalAdapter(u32),
    /// A vertical sync of a display that does not exist.
    #[error("an interrupt names video present target {0}, which this adapter does not have")]
    UnknownVidPnTarget(u32),
    /// A form of the signalled interrupt that the driver did not declare.
    #[error(
        "the signalled interrupt names an array of hardware queues, which the driver did not declare"
    )]
    QueueArrayNotDeclared,
    /// The status that a driver gave a connected doorbell is not a connected one.
    #[error("DxgkDdiConnectDoorbell returned a status that is not a connected one")]
    DoorbellStatus,
}

impl BugCheck {
    /// The published code and its first parameter, where there is one for it: 0x119 is
    /// VIDEO_SCHEDULER_INTERNAL_ERROR.
    pub fn code(&self) -> Option<(u32, u64)> {
        match self {
            BugCheck::PreemptCommandFailed(_) => Some((0x119, 0x2)),
            BugCheck::CancelCommandFailed(_) => Some((0x119, 0x9)),
            BugCheck::AbortedFence { .. } => Some((0x119, 0xA)),
            BugCheck::Timeout(_)
            | BugCheck::TooManyTimeouts(_)
            | BugCheck::StuckInDriver
            | BugCheck::RecoveryFailed { .. } => Some((0x116, 0)),
            _ => None,
        }
    }

    pub(crate) fn unknown_packet(engine: EngineId, fence_id: u32) -> BugCheck {
        BugCheck::UnknownPacket {
            node: engine.node_ordinal,
            adapter: engine.engine_ordinal,
            fence_id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The codes that Windows shows for the same mistakes.
    #[test]
    fn a_bug_check_has_its_published_code_and_first_parameter() {
        let what = || "a timeout".to_owned();
        let status = Status::INVALID_PARAMETER;
        let engine = EngineId::of_node(1);
        for (bug, code) in [
            (BugCheck::PreemptCommandFailed(status), Some((0x119, 0x2))),
            (BugCheck::CancelCommandFailed(status), Some((0x119, 0x9))),
            (
                BugCheck::AbortedFence { engine, aborted: 9, completed: 1, submitted: 2 },
                Some((0x119, 0xA)),
            ),
            (BugCheck::Timeout(what()), Some((0x116, 0))),
            (BugCheck::TooManyTimeouts(what()), Some((0x116, 0))),
            (BugCheck::StuckInDriver, Some((0x116, 0))),
            (BugCheck::DoorbellStatus, None),
            (BugCheck::UnknownNode(9), None),
        ] {
            assert_eq!(bug.code(), code, "{bug}");
        }
    }
}
