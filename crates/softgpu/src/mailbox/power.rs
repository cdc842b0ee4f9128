//! Power of engines and of the device, and the reports of idle engines.
//!
//! Without power an engine takes no queue. Doorbells, run lists and waits keep their state, and the
//! engine reloads all of it when powered again. Power is removed between two turns.

use crate::hardware::Hardware;
use tidegate_gpu_abi::AdminError;
use tidegate_gpu_abi::admin::{AdminAnswer, DONE};

pub(super) fn set_engine(gpu: &Hardware, engine: u32, on: bool, if_idle: bool) -> AdminAnswer {
    let (cmp, index) = gpu.awake_engine(engine)?;
    let mut cmp = gpu.await_turns(cmp, |cmp| !cmp.nodes[index].is_in_turn());
    if !on && if_idle && !cmp.is_idle(index) {
        return Err(AdminError::Busy);
    }
    cmp.nodes[index].unpowered = !on;
    gpu.recall(cmp, engine);
    DONE
}

pub(super) fn set_device(gpu: &Hardware, on: bool, if_idle: bool) -> AdminAnswer {
    let cmp = gpu.cmp.lock();
    let mut cmp = gpu.await_turns(cmp, |cmp| cmp.nodes.iter().all(|node| !node.is_in_turn()));
    if !on && if_idle && cmp.has_work(0..gpu.nodes.len(), true) {
        return Err(AdminError::Busy);
    }
    cmp.asleep = !on;
    gpu.recall_all(cmp);
    // CPUs may have changed values while no engine read them.
    if on {
        gpu.rescan_waits();
    }
    DONE
}

pub(super) fn report_idle(gpu: &Hardware, engine: u32, after_ns: u64) -> AdminAnswer {
    let (mut cmp, index) = gpu.awake_engine(engine)?;
    cmp.nodes[index].report_idle_ns = after_ns;
    gpu.recall(cmp, engine);
    DONE
}
