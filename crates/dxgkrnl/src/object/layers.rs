//! The layers below the objects of one adapter.

use crate::driver::DriverPort;
use crate::fence::Fences;
use crate::fence::log::LogReader;
use crate::memory::Memory;
use crate::scheduling::Scheduling;
use std::sync::Arc;

/// The lower layers that every object calls.
pub(crate) struct Layers {
    pub(crate) port: Arc<DriverPort>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) fences: Arc<Fences>,
    pub(crate) sched: Arc<Scheduling>,
    pub(crate) log_reader: LogReader,
}
