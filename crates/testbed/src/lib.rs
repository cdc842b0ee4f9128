//! Machines for tests, scenarios, fuzzing and benchmarks, and driver layers that record, change or
//! fail calls.
//!
//! Entry points: [`world`] and [`setup`] build a machine with one process, [`Adapters`] one with
//! several adapters, [`App`] one for the queue API. [`Client`] is a process at the call surface;
//! [`Client::on`] and [`Client::on_queue`] queue its work in order. [`RecordedKernel`] records and
//! refuses its calls. [`Hooked`] records and fails driver calls; [`Setup::overriding`] replaces
//! driver entries with closures. [`bare_gpu`] is the GPU without the rest, [`bare_driver`] the
//! driver. [`Service`] serves a machine to other processes, [`ServiceProcess`] does so in another
//! process. [`Container`] has namespaces for a client, [`Guest`] is a virtual machine for one.
//! [`compile_driver`] compiles a driver in C. [`prelude`] has the names that most tests need. No
//! product crate names this one.

mod adapters;
mod app;
pub mod bare_driver;
pub mod bare_gpu;
mod client;
mod container;
mod driver_in_c;
mod guest;
mod hooked;
mod page_tables;
pub mod prelude;
mod queue_calls;
mod recorded_kernel;
mod reports;
mod save_areas;
mod service;
mod user_queue;
mod world;

pub use adapters::{Adapters, Kind};
pub use app::{App, QueueApi, SignalAndWait, first_word};
pub use client::{Client, SHARED, at};
pub use container::Container;
pub use driver_in_c::{compile_driver, compile_model};
pub use guest::{BootedGuest, Guest};
pub use hooked::{ChangeCaps, DriverCalls, Hooked, KeptCurrent, KeptMonitored, Planted};
pub use page_tables::{leads_to, own_space};
pub use queue_calls::{ContextCalls, HwQueueCalls};
pub use recorded_kernel::{Call, DisconnectOrder, RecordedKernel, ScriptedDoorbell};
pub use reports::filter_reports;
pub use save_areas::SaveAreas;
pub use service::{Held, Service, ServiceProcess, VirtualMachine};
pub use user_queue::{
    NoStore, UserQueue, copy_word, doorbell_args, fill, signal_packet, store, wait_packet,
};
pub use world::{
    Setup, World, engine_state_change, host_world, hw_queue_signalled, inline, inline_world,
    native_signalled, setup, signalled, world, world_with,
};
