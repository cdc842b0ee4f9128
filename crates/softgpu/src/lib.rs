//! The software GPU: hardware that a driver reaches by registers, memory and an interrupt line, and
//! by nothing else.
//!
//! Rooms: [`config`] (the hardware's variants) · `gpu` ([`SoftGpu`] and its services) · `registers`
//! (the device's face) · `memory` (the bus) · `mmu` (page tables, cached translations) · `doorbell`
//! (who was rung) · `runlist` (who runs next) · `queue` (what the hardware knows of one queue) ·
//! `cmp` (the context management processor: waits, signalled fences, the mailbox) · `engine` (one
//! agent per node: fence, copy, compute, graphics) · `interrupt` (the line) · `clock` (GPU time) ·
//! [`display`] (what is scanned out) · `log` (fence logs) · `posted` (stores on their way) ·
//! [`stats`] (what was counted).
//!
//! Locks, in the order in which they may be taken; none is held when the interrupt line goes up:
//! 1. `gpu services` (start and stop);
//! 2. `cmp` (run lists, waits, queues that no engine runs at the moment, page table roots,
//!    counters);
//! 3. `display`, for a few registers, never with another;
//! 4. `interrupt sink`, for as long as it takes to copy the sink, never with another.
//!
//! A queue's own state stands in the CMP while the queue is not run and travels to the engine for
//! one turn, so that ring slots and commands are executed without a lock. Mailbox commands that
//! change a queue wait for the end of its turn: they must not be given from inside
//! [`tidegate_gpu_abi::InterruptSink::raise`].
//!
//! Who calls in: a kernel-mode driver through `Device`. Who is called: the interrupt sink, and the
//! built-in programs that a dispatch or a draw runs. It knows no kernel, no driver and no API;
//! packets, commands and pages are whatever software wrote, and nothing in them can panic or hang
//! it.

pub mod config;
pub mod display;
pub mod stats;

mod boundary;
mod clock;
mod cmp;
mod doorbell;
mod engine;
mod gpu;
mod interrupt;
mod log;
mod memory;
mod mmu;
mod posted;
mod queue;
mod registers;
mod runlist;
mod save;
mod spread;

pub use config::{Config, EngineClass, MAX_ENGINES, MAX_PHYSICAL_GPUS, NodeConfig, WorkRates};
pub use display::{DisplayConfig, DisplayStats, Frame, FrameSink};
pub use gpu::SoftGpu;
pub use memory::LOCAL_WINDOW_BYTES;
pub use spread::Spread;
pub use stats::{Census, NodeStats, ParkedWait, Stats, WorkStats};
