//! Clients of a service, as its kernel has to know them.

use serde::{Deserialize, Serialize};

/// How a process uses user-mode submission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientKind {
    /// It stores write pointers to its doorbells without a base, as the published contract says. A
    /// doorbell whose location does not name the queue reads CONNECTED_NOTIFY.
    pub only_stores: bool,
    /// It uses kernel queues only, as a process that is older than user-mode submission. The
    /// adapter shows it no node that offers user-mode submission.
    pub kernel_queues_only: bool,
}

/// What a service grants a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The work that it may have queued with the kernel.
    pub queued: u32,
    /// It has the privilege to raise priorities.
    pub may_raise_priority: bool,
}
