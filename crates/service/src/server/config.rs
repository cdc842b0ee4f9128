//! Which clients a service takes, and what each may hold.

/// What one client may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Objects of all kinds.
    pub objects: u32,
    /// Memory of allocations, in bytes, each rounded up to 4 KiB.
    pub memory_bytes: u64,
    /// Contexts and hardware queues.
    pub queues: u32,
    /// CPU waits at a time.
    pub waits: u32,
    /// Fences of CPU waits at a time. A wait counts 1 for each fence that it names.
    pub wait_fences: u32,
    /// NT handles.
    pub nt_handles: u32,
    /// Work queued with the kernel at a time: see `ProcessKind::queued` of `dxgkrnl`.
    pub queued: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            objects: 16_384,
            memory_bytes: 4 << 30,
            queues: 512,
            waits: 1_024,
            wait_fences: 65_536,
            nt_handles: 256,
            queued: 65_536,
        }
    }
}

/// Which clients a service takes, and what each may hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// Clients at a time.
    pub clients: u32,
    /// Of each client.
    pub limits: Limits,
    /// Whether clients may run as another user than the service. Root always may.
    pub any_user: bool,
    /// User IDs of clients that have the privilege to raise priorities. They are user IDs as the
    /// service sees them. The clients of a guest are of the user that runs the virtual machine.
    pub may_raise_priority: Vec<u32>,
}

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        ServerConfig {
            clients: 1_024,
            limits: Limits::default(),
            any_user: false,
            may_raise_priority: Vec::new(),
        }
    }
}
