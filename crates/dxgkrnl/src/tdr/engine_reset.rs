//! Owns the reset of an engine that has packets: the published list.

use super::{Failure, Noticed, Reset, engine_timed_out, naming};
use crate::adapter::Adapter;
use crate::error::BugCheck;
use crate::supervisor::Watch;
use crate::{interrupt, sched, suspend};
use std::sync::Arc;
use tidegate_ddi::{EngineId, Passive};

/// Whether `id` lies on the wrapping line from `first` to `last`, both among them.
fn lies_between(first: u32, id: u32, last: u32) -> bool {
    id.wrapping_sub(first) <= last.wrapping_sub(first)
}

/// Resets an engine, and those that depend on it. A preemption was asked for, and was not answered
/// in time.
pub(super) fn reset(adapter: &Arc<Adapter>, engine: EngineId) -> Result<Reset, Failure> {
    reset_one(adapter, engine, &mut 0)
}

/// One engine, and those that depend on it but for the nodes in `seen`, which are in hand already.
// monster: the published list of an engine reset.
fn reset_one(adapter: &Arc<Adapter>, engine: EngineId, seen: &mut u64) -> Result<Reset, Failure> {
    let promoted = |ddi: &str, status| Failure::Promoted(format!("{ddi} failed with {status}"));
    if !adapter.caps.per_engine_tdr {
        return Err(Failure::Promoted("the driver resets no single engine".to_owned()));
    }
    // 1, 2. Nobody is in the middle of a submission to it, and none follows.
    sched::stop_engine(adapter, engine);
    // 3. In one step at interrupt level: what was submitted last, what was completed last; no
    //    interrupt of it counts from now on.
    // spec: PRE-047
    let (completed, submitted) = sched::snapshot(adapter, engine);
    // 4. With nothing left the engine is as it should be.
    // spec: PRE-048
    if completed == submitted {
        resume(adapter, engine);
        return Ok(Reset::NothingLeft);
    }
    // 5. What was reported before is taken.
    interrupt::flush(adapter);
    // 6. Which engines does the reset touch? They give back what they have, or are reset as well.
    // spec: PRE-046
    let group = adapter.driver().query_dependent_engine_group(&Passive::enter(), engine);
    let group = group.map_err(|status| promoted("DxgkDdiQueryDependentEngineGroup", status))?;
    if group >> engine.node_ordinal & 1 == 0 {
        return Err(Failure::Broken(BugCheck::DependentEngines {
            node: engine.node_ordinal,
            group,
        }));
    }
    *seen |= 1 << engine.node_ordinal;
    let dependents = sched::preempt_dependents(adapter, engine, group & !*seen);
    *seen |= group;
    // 7. The engine is reset.
    let (aborted, mut blame) =
        naming(adapter, || adapter.driver().reset_engine(&Passive::enter(), engine));
    let aborted = aborted.map_err(|status| promoted("DxgkDdiResetEngine", status))?;
    // 8. What it says that was cut off was there.
    // spec: PRE-049
    if !lies_between(completed, aborted, submitted) {
        return Err(Failure::Broken(BugCheck::AbortedFence {
            engine,
            aborted,
            completed,
            submitted,
        }));
    }
    suspend::settle_all(adapter, |context| context.engine == engine);
    // 9. Whose packet was cut off is to blame. Whatever stands behind it is submitted again when
    //    the engine goes on.
    let cut_off = sched::aftermath(adapter, engine, aborted, aborted != completed);
    if let Some((context, pages)) = cut_off {
        let context = adapter.contexts.lock().get(context);
        let device =
            context.map(|context| context.device.clone()).filter(|device| !device.is_of_kernel());
        blame.culprits.extend(device);
        if pages {
            return Err(Failure::Promoted("a paging packet was cut off".to_owned()));
        }
    }
    // Then, in order, those that did not give back what they had.
    for dependent in &dependents.silent {
        if let Reset::Done(more) = reset_one(adapter, *dependent, seen)? {
            blame.culprits.extend(more.culprits);
            blame.bystanders.extend(more.bystanders);
        }
    }
    dependents
        .empty
        .iter()
        .chain(&dependents.silent)
        .for_each(|dependent| resume(adapter, *dependent));
    Ok(Reset::Done(blame))
}

/// The engine takes packets again, and its interrupts count.
pub(super) fn resume(adapter: &Arc<Adapter>, engine: EngineId) {
    sched::resume_engine(adapter, engine);
}

/// Packets whose engine counts as hung.
pub(crate) const WATCH: Watch =
    Watch { name: "timeouts of packets", next: sched::next_timeout, look };

fn look(adapter: &Arc<Adapter>) -> bool {
    let timed_out = sched::take_timed_out(adapter);
    let changed = !timed_out.is_empty();
    for engine in timed_out {
        let what = match adapter.sched.lock().preempts() {
            true => format!("{engine} did not give back the packets that it was asked for"),
            false => format!("{engine} ran a packet for longer than TdrDelay"),
        };
        let work = adapter.outstanding_work().into_iter().filter(|work| work.engine == engine);
        let calls: Vec<String> = work.map(|work| work.to_string()).collect();
        let what = format!("{what}: {}", calls.join("; "));
        let first = sched::running_on(adapter, engine);
        let suspects = first.map(|context| context.device.clone()).filter(|d| !d.is_of_kernel());
        engine_timed_out(
            adapter,
            engine,
            &Noticed {
                what,
                suspects: suspects.into_iter().collect(),
                packets: true,
                unserved: false,
            },
        );
    }
    changed
}
