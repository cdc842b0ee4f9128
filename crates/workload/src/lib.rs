//! Multi-engine GPU work as data: buffers, queues, fences, the program of each queue and CPU
//! thread, and the expected results.
//!
//! - Sources: a TOML file ([`toml_file`], documented in `SCHEMA.md`), or a recorded run of a real
//!   program (`kineto`, `nsys`, `rocprof`, `perfetto`, `presentmon`, `xla`, `own_timeline` read
//!   formats, [`recording`] makes the workload). Both yield a [`model::Workload`]. [`what_if`]
//!   changes recordings.
//! - Pure: no machine, no platform, no clock. `tidegate-runner` runs workloads.
//! - Entry points: [`load()`], [`load_fitted`], [`load_bytes`].

pub mod content;
mod database;
mod error;
mod format;
mod kineto;
mod load;
pub mod model;
mod nsys;
mod own_timeline;
mod perfetto;
mod presentmon;
pub mod recording;
mod rocprof;
mod suggestion;
pub mod toml_file;
mod unpack;
pub mod what_if;
mod xla;

pub use error::{Error, Problem};
pub use load::{
    LoadOptions, Loaded, files_read_for, load, load_bytes, load_bytes_fitted, load_fitted,
};
pub use model::{expect, expression};
pub use suggestion::nearest_name;
pub use unpack::LARGEST_TRACE_BYTES;
