//! tidegate: the GPU synchronisation and submission stack of WDDM 3.2 in user space.
//!
//! This crate is what a Cargo.toml names: the parts under their own names, and the assembly of a
//! whole [`Machine`] from them.
//!
//! ```
//! use tidegate::d3d12::{DeviceOptions, QueueDesc};
//! use tidegate::{Machine, MachineConfig, Platform};
//!
//! let platform = Platform::host();
//! let machine = Machine::new(&platform, MachineConfig::standard(&platform)).unwrap();
//! let device = machine.device(DeviceOptions::default()).unwrap();
//! let done = device.create_fence("done", 0).unwrap();
//! let value = machine.run(|| {
//!     let queue = device.create_queue(QueueDesc::compute("physics"))?;
//!     queue.signal(&done, 42)?;
//!     done.wait(42)?;
//!     Ok::<_, tidegate::d3d12::Error>(done.completed_value())
//! });
//! assert_eq!(value.unwrap(), Ok(42));
//! ```
//!
//! [`Machine::run`] returns the value of its closure, which may borrow. The machine can be run
//! again.
//!
//! # Threads
//!
//! On [`Platform::host`] any thread may use the machine at any time: agents started with
//! [`Platform::spawn`], threads of `std::thread`, and the calling thread before, between and after
//! runs. A wait never ends because the known agents cannot move. When a run ends, the waits of all
//! threads end. [`Platform::closed_host`] is for programs that start every thread with
//! [`Platform::spawn`]: it ends a run that makes no progress and names what each agent waits for. A
//! machine in virtual time, or under exploration, belongs to the thread that made it: a call from
//! another thread panics there.
//!
//! # Examples
//!
//! Each is one file below `crates/tidegate/examples` and checks its own result. `cargo run -p
//! tidegate --example ring_buffer` runs one.
//!
//! | example | shows |
//! |---|---|
//! | `two_queues_and_readback` | upload, compute and readback, on two queues |
//! | `frame_graph` | one frame on three engines, where each queue waits for what it needs |
//! | `ring_buffer` | memory for three uploads that serves any number of frames |
//! | `pipelined_compute_graphics` | compute two frames ahead of graphics, with a throttled CPU |
//! | `async_compute_graphics` | graphics that uses the newest result and never waits for the next |
//! | `tokio_producer_consumer` | tasks that await fences, without a thread for each wait |
//! | `own_driver` | a driver of your own in front of the reference driver |
//! | `own_protocol_explored` | a ring between two threads, right in every schedule and then wrong |
//!
//! # Features
//!
//! All are on by default. `default-features = false` leaves machines, queues and TOML workloads,
//! and builds no SQLite.
//!
//! | feature | has |
//! |---|---|
//! | `explore` | [`check()`], which explores a program, and [`explorer`] |
//! | `import` | workloads made of recordings (`docs/traces.md`) |
//! | `service` | [`Machine::service`], [`run_connected`] and [`service`](mod@service) |
//!
//! # Speed of debug builds
//!
//! A debug build compiles this crate and the crates below it without optimisation, unless the
//! Cargo.toml of the program says otherwise:
//!
//! ```toml
//! [profile.dev.package."*"]
//! opt-level = 1
//! ```
//!
//! The ring buffer of the examples with 4,800 frames takes 0.05 s of CPU so, and 0.37 s without.
//! A clean build takes three times as long.
//!
//! Rooms: [`mod@check`] (the user's program explored) · `machine` (one adapter: platform, memory,
//! GPU, driver, kernel) · `run` (a workload on a fresh machine) · `served` (a machine for
//! other processes) · `variants` (named machines, and what contradicts itself).

#[cfg(feature = "explore")]
pub mod check;
#[cfg(doctest)]
mod guide;
mod machine;
mod run;
#[cfg(feature = "service")]
mod served;
pub mod variants;

#[cfg(feature = "explore")]
pub use check::check;
pub use machine::{
    AdapterParts, BadConfig, Bus, Hardware, IncompleteRun, Machine, MachineBuilder, MachineConfig,
    MachineError, ThreadShape,
};
pub use run::{
    MakeDriver, MakeLayer, PreemptionChoice, RunError, RunRequest, RunResult, run_workload,
};
#[cfg(feature = "service")]
pub use served::{ConnectedRun, run_connected};
#[doc(inline)]
pub use tidegate_calls as calls;
#[doc(inline)]
pub use tidegate_d3d12 as d3d12;
pub use tidegate_d3d12::Submission;
#[doc(inline)]
pub use tidegate_d3dukmdt as d3dukmdt;
#[doc(inline)]
pub use tidegate_ddi as ddi;
#[doc(inline)]
pub use tidegate_dxgkrnl as dxgkrnl;
#[cfg(feature = "explore")]
#[doc(inline)]
pub use tidegate_explorer as explorer;
#[doc(inline)]
pub use tidegate_gpu_abi as gpu_abi;
#[doc(inline)]
pub use tidegate_kmd as kmd;
#[doc(inline)]
pub use tidegate_platform as platform;
pub use tidegate_platform::Platform;
#[doc(inline)]
pub use tidegate_programs as programs;
#[doc(inline)]
pub use tidegate_runner as runner;
#[cfg(feature = "service")]
#[doc(inline)]
pub use tidegate_service as service;
#[doc(inline)]
pub use tidegate_softgpu as softgpu;
#[doc(inline)]
pub use tidegate_trace as trace;
#[doc(inline)]
pub use tidegate_workload as workload;
