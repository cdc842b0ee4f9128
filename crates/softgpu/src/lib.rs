//! The software GPU: hardware that a driver accesses only through registers, memory and an
//! interrupt line. It does not depend on kernel, driver or API. Nothing that software writes into
//! packets, commands or pages can panic or hang it.
//!
//! From the bottom up: [`config`] (variants) · `clock`, `interrupt`, `bus` · `posted_stores`, `log`
//! · `mmu` (page tables) · `doorbell` · `running_command`, `queue` · `granularity`, `runlist`
//! (policy) · `save_area` · [`stats`] · `display` · `cmp` (the context management processor's
//! state) · `hardware` (shared state) · `mailbox` (the driver's commands) · `engine` (one agent per
//! node) · `registers`, `gpu`. Locks and how to add an engine: decision 0068.

pub mod config;
pub mod display;
pub mod stats;

mod bus;
mod clock;
mod cmp;
mod doorbell;
mod engine;
mod gpu;
mod granularity;
mod hardware;
mod interrupt;
mod log;
mod looks;
mod mailbox;
mod mmu;
mod posted_stores;
mod queue;
mod registers;
mod runlist;
mod running_command;
mod save_area;

pub use bus::LOCAL_WINDOW_BYTES;
pub use config::{
    Config, DisplayConfig, MAX_ENGINES, MAX_PHYSICAL_GPUS, MIN_REFRESH_PERIOD_NS, NodeConfig,
    WorkRates,
};
pub use display::{DisplayStats, Frame, FrameSink};
pub use gpu::SoftGpu;
pub use stats::{Census, NodeStats, ParkedWait, Stats};
pub use tidegate_gpu_abi::EngineKind;
