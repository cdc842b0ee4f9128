//! What a service knows of its clients, as rows beside the kernel's
//! ([`tidegate_calls::snapshot`]).

use serde::{Deserialize, Serialize};

/// A process of a client. What it holds is as of its last call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessRow {
    /// Number of the connection.
    pub session: u64,
    /// Number of the process on its adapter, as in the rows of its objects; `None` once it has
    /// ended.
    pub process: Option<u32>,
    /// The name that it gave.
    pub name: String,
    /// Process ID of the peer when it connected, in the service's PID namespace; 0 for a process
    /// outside of it.
    pub pid: u32,
    /// User ID of the peer, in the service's user namespace.
    pub uid: u32,
    /// Calls that were answered.
    pub calls: u64,
    /// Objects, each of which has a handle.
    pub handles: u64,
    /// Memory of allocations, in bytes.
    pub memory_bytes: u64,
    /// Contexts and hardware queues.
    pub queues: u64,
    /// NT handles that are open anywhere.
    pub nt_handles: u64,
}
