//! Fences of one adapter: one object for both kinds, their values, waiters and logs.
//!
//! A native fence has two cells, CurrentValue and MonitoredValue. A monitored fence has one. Files,
//! each using those before it: `waiter_queue`, `waiter_set`, `event_set`, `free_slots`, `value`
//! (pure) · `waiters` (lock) · `storage`, `residency`, `log_place` (memory) · `object` (the fences
//! and what they share) · `report` · `monitor` (MonitoredValue) · `relay` (to members on other
//! adapters) ·
//! `signal` · `cpu_wait` · `link`, `cross_adapter` (members of one fence) · `instance` (create,
//! open, close, destroy) · `names`, `sharing` (NT handles) · `log_timeline`, `log` · `signaled`
//! (what an interrupt releases) · `log_change`.
//!
//! Invariants: waiters are released in one place, `monitor::release`. Ports to the rooms above:
//! [`RelayPort`], [`HardwareWaits`], [`LoggedQueue`], [`Waiter`].

pub(crate) mod cpu_wait;
pub(crate) mod cross_adapter;
mod event_set;
mod free_slots;
pub(crate) mod instance;
mod link;
pub(crate) mod log;
pub(crate) mod log_change;
mod log_place;
mod log_timeline;
pub(crate) mod monitor;
pub(crate) mod names;
mod object;
mod relay;
mod report;
pub(crate) mod residency;
pub(crate) mod sharing;
pub(crate) mod signal;
pub(crate) mod signaled;
pub(crate) mod storage;
mod value;
mod waiter_queue;
mod waiter_set;
mod waiters;

pub(crate) use event_set::EventSet;
pub(crate) use instance::{CreateFence, Instance, InstanceOwner};
pub(crate) use log::LoggedQueue;
pub(crate) use object::{
    Fence, FenceTarget, Fences, HardwareWaits, NamedFences, RelayPort, Waiter,
};
pub(crate) use waiter_set::WaitOwner;
