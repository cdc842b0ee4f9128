//! The seam: every shared access, lock, wait, agent and clock reading of tidegate goes through a
//! [`Platform`] value.
//!
//! The platform is chosen when a machine is built, not when it is compiled, so the code that users
//! run is the code that the explorer explores:
//!
//! | platform | memory | agents | clock |
//! |---|---|---|---|
//! | [`Platform::host`], [`Platform::closed_host`] | real atomics | threads that park | wall |
//! | [`Platform::virtual_time`] | the same | fibers on one thread, in order of time | virtual, with step costs |
//! | [`Platform::explored`] | words behind store buffers | fibers, a [`Controller`] chooses the next | virtual |
//!
//! The machines themselves are in `tidegate-machines`, which knows no platform. The checker of
//! programs, `tidegate-check`, is on top of both (decisions/0170).
//!
//! Rooms, each layer over the next:
//!
//! - `runs`, `agents` (straight-line agents), [`agent`] (services, in turns), `window` (onto bytes
//!   that move), `foreign` (calls of wakers and callbacks of the application)
//! - [`event`] (Event and its descriptor), [`mapping`] (a window that can be rotated), [`sync`]
//!   (Mutex, WakeWord), `passage` (a gate in the lock order)
//! - [`memory`] (Word, Page, Bulk, physical addresses)
//! - `tracing`, `hazards`, `waits` (what may wait for what), `counters`
//! - `platform`: the value, its kinds, its clock, its state beside the machine
//! - [`wait_order`] (classes of waits, and circles among them), `findings`, [`level`]: plain types
//!
//! It knows nothing about graphics.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod agent;
mod agents;
mod counters;
pub mod event;
mod findings;
mod foreign;
mod hazards;
pub mod level;
pub mod mapping;
pub mod memory;
mod passage;
mod platform;
mod runs;
pub mod sync;
mod tracing;
pub mod wait_order;
mod waits;
mod window;

pub use agent::{Agent, ServiceHandle, Turn};
pub use agents::AgentHandle;
pub use counters::Counters;
pub use event::{DescriptorError, Event, EventFd, EventId};
pub use mapping::Mapping;
pub use memory::{
    Bulk, CacheType, DeviceMemory, FoundRegion, InRoom, OutOfBounds, Page, PageKind,
    PhysicalAddress, PhysicalMemory, Room, SharedFile, Target, Untrusted, Word,
};
pub use passage::Passage;
pub use platform::{Instruments, PlantedFault, Platform, PlatformKind};
pub use sync::{Mutex, MutexGuard, WakeWord};
pub use tidegate_hazard as hazard;
pub use tidegate_machines::cells::{LineWords, Lines};
pub use tidegate_machines::thread::note_panic_place;
pub use tidegate_machines::world::EnteredCall;
pub use tidegate_machines::{
    AgentIx, Agents, Choice, ClientAccess, Controller, CpuTime, Happened, MemoryModel, Object,
    OpKind, ParkingCounts, Point, RunReport, Site, Step, StepCosts, StepEvent, StepLog, WaitEnd,
    WaitsFor, once, stacks, time,
};
pub use tidegate_trace::{Part, QueueNumber, Queued, SubmissionKey, WorkStats};
pub use tracing::{Recording, TracedFence, TracedLane};
pub use wait_order::WaitClass;
pub use waits::Owed;
pub use window::BulkWindow;

/// The calling agent: its name, its locks, and work that its callees leave to it.
pub mod current {
    pub use tidegate_machines::thread::{
        Level, assert_no_guards, collect_for, collects_for, guards_held, identity, is_panicking,
        name,
    };
}

/// What the system says of this process, and does for it.
pub mod os {
    pub use tidegate_machines::os::{
        SocketPeer, heap_bytes, passed_socket, pin_to_cpu, process_cpu_ns, socket_peer,
        thread_cpu_ns,
    };
}
