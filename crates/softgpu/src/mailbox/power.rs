//! Power of engines and of the device, and the reports of idle engines.
//!
//! Without power an engine takes no queue. Doorbells, run lists and waits keep their state, and the
//! engine reloads all of it when powered again. Power is removed between two turns.

use crate::cmp::Cmp;
use crate::hardware::Hardware;
use tidegate_gpu_abi::AdminError;
use tidegate_gpu_abi::admin::{AdminAnswer, DONE};
use tidegate_platform::MutexGuard;

pub(super) fn set_engine(
    gpu: &Hardware,
    mut cmp: MutexGuard<'_, Cmp>,
    engine: u32,
    on: bool,
    if_idle: bool,
) -> AdminAnswer {
    let refused = !on && if_idle && !cmp.is_idle(engine as usize);
    if !refused {
        cmp.nodes[engine as usize].unpowered = !on;
    }
    gpu.recall(cmp, engine);
    if refused { Err(AdminError::Busy) } else { DONE }
}

pub(super) fn set_device(
    gpu: &Hardware,
    mut cmp: MutexGuard<'_, Cmp>,
    on: bool,
    if_idle: bool,
) -> AdminAnswer {
    let refused = !on && if_idle && cmp.has_work(0..gpu.nodes.len());
    if !refused {
        cmp.asleep = !on;
    }
    gpu.recall_all(cmp);
    // CPUs may have changed values while no engine read them.
    if on {
        gpu.rescan_waits();
    }
    if refused { Err(AdminError::Busy) } else { DONE }
}

pub(super) fn report_idle(gpu: &Hardware, engine: u32, after_ns: u64) -> AdminAnswer {
    let (mut cmp, index) = gpu.awake_engine(engine)?;
    cmp.nodes[index].report_idle_ns = after_ns;
    gpu.recall(cmp, engine);
    DONE
}
