//! Multi-engine GPU work as data: buffers, queues, fences, the program of each queue and CPU
//! thread, and the expected results.
//!
//! - Sources: a TOML file ([`toml_file`], documented in `SCHEMA.md`), or a recorded run of a real
//!   program (`kineto`, `nsys`, `rocprof`, `perfetto`, `presentmon`, `xla`, `own_timeline` read
//!   formats, [`recording`] makes the workload). Both yield a [`model::Workload`]. [`what_if`]
//!   changes recordings.
//! - The feature `import`, on by default, has the readers of recorded runs, and with them SQLite.
//! - Pure: no machine, no platform, no clock. `tidegate-runner` runs workloads.
//! - Entry points: [`load()`], [`load_fitted`], [`load_bytes`].

pub mod content;
mod contents;
#[cfg(feature = "import")]
mod database;
mod error;
#[cfg(feature = "import")]
mod every_kind;
#[cfg(feature = "import")]
mod format;
#[cfg(all(test, feature = "import"))]
mod imported;
#[cfg(feature = "import")]
mod kineto;
mod load;
pub mod model;
#[cfg(feature = "import")]
mod nsys;
#[cfg(feature = "import")]
mod own_timeline;
#[cfg(feature = "import")]
mod perfetto;
#[cfg(feature = "import")]
mod presentmon;
pub mod recording;
#[cfg(feature = "import")]
mod rocprof;
mod suggestion;
pub mod toml_file;
#[cfg(any(test, not(feature = "import")))]
mod toml_kind;
#[cfg(feature = "import")]
mod unpack;
pub mod what_if;
#[cfg(feature = "import")]
mod xla;

pub use error::{Error, Problem};
pub use load::{
    LoadOptions, Loaded, files_read_for, load, load_bytes, load_bytes_fitted, load_fitted,
};
pub use model::{expect, expression};
pub use suggestion::nearest_name;
#[cfg(feature = "import")]
pub use unpack::LARGEST_TRACE_BYTES;
