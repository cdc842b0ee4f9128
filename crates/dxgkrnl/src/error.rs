//! Owns what can go wrong with an adapter as a whole: it does not start, or its driver broke the contract.

use tidegate_ddi::Status;

/// Why an adapter did not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The driver refused.
    #[error("the driver refused to start: {0}")]
    Driver(Status),
    /// The driver declares native fences although the feature is off.
    #[error("the driver declares native GPU fences, but the feature is not enabled for this adapter")]
    NativeFenceNotEnabled,
    /// Two declarations that exclude each other.
    #[error(
        "the driver declares native GPU fences together with No64BitAtomics, which cannot store 64 bits at once"
    )]
    NativeFenceWithout64BitAtomics,
    /// A stride that no page can be divided by.
    #[error("the driver declares a fence stride of {0} bytes: it must be a power of two from 8 to 4096")]
    FenceStride(u32),
    /// A mapping that this kernel does not make.
    #[error(
        "the driver asks for fences in the system process's address space, which this kernel does not map"
    )]
    SystemProcessMapping,
    /// A node takes user-mode submission without native fences.
    #[error(
        "node {0} supports user-mode submission, which needs native fences, and the driver declares none"
    )]
    UserModeSubmissionWithoutNativeFence(u32),
    /// A node takes user-mode submission and cannot write fences.
    #[error("node {0} supports user-mode submission, whose rings signal fences, and cannot write a fence")]
    UserModeSubmissionWithoutFenceWrites(u32),
    /// A capability without the one it rests on.
    #[error("the driver declares {0} without {1}")]
    CapDependency(&'static str, &'static str),
    /// No nodes, or too many.
    #[error("the driver reports {0} nodes: there must be 1 to 64")]
    Nodes(usize),
}

/// A broken driver contract. It stops the adapter; it never aborts the process.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BugCheck {
    /// The signalled interrupt names a fence that is destroyed or of another adapter.
    #[error("the signalled interrupt names fence {0:#x}, which this adapter does not have")]
    UnknownFence(u64),
    /// An interrupt reports a packet that was not submitted.
    #[error("node {node} reports packet {fence_id}, which is not in flight")]
    UnknownPacket {
        /// The node.
        node: u32,
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
    /// A fault on a queue, or a signal by one, that is destroyed or of another adapter.
    #[error("an interrupt names hardware queue {0:#x}, which this adapter does not have")]
    UnknownQueue(u64),
    /// A signalled interrupt of an engine that does not exist.
    #[error("the signalled interrupt names node {0}, which this adapter does not have")]
    UnknownNode(u32),
    /// A form of the signalled interrupt that the driver did not declare.
    #[error("the signalled interrupt names an array of hardware queues, which the driver did not declare")]
    QueueArrayNotDeclared,
    /// The status that a driver gave a connected doorbell is not a connected one.
    #[error("DxgkDdiConnectDoorbell returned a status that is not a connected one")]
    DoorbellStatus,
}
