//! Turns the list of signalled fences into reports for each interrupt mode. No state, no locks.
//!
//! Invariant: a fence whose signal passed an armed MonitoredValue is named, or the report names no
//! fence, which makes the kernel scan. A signal whose fence is unknown (the list overflowed, its
//! queue is destroyed, no open fence has its address) becomes a report without names.

use crate::InterruptMode;
use crate::interrupt_view::{InterruptView, Owner};
use smallvec::SmallVec;
use tidegate_ddi::{DriverHandle, EngineId, InterruptData, OsHandle};
use tidegate_gpu_abi::{AddressSpaceId, GpuVa, QueueId};

/// The signals of one engine.
#[derive(Default)]
struct EngineSignals {
    fences: SmallVec<[OsHandle; 2]>,
    /// `None` is the node's own queue, for which the kernel has no handle.
    queues: SmallVec<[Option<DriverHandle>; 2]>,
    /// Whether a native fence was signalled.
    native: bool,
    /// Whether a monitored fence was signalled.
    monitored: bool,
    /// Whether a signalled fence is unknown.
    unknown: bool,
}

/// All signals of one pass over the list.
pub(super) struct Signals {
    /// In the order of the engines. Mostly one, which takes no memory.
    engines: SmallVec<[(EngineId, EngineSignals); 1]>,
    /// Whether any fence of any engine may be signalled.
    anything: bool,
    /// Whether a signal has no known queue. No log names its fence, and it may be any
    /// engine's.
    of_no_queue: bool,
}

impl Signals {
    pub(super) fn new(collapsed: bool) -> Signals {
        Signals { engines: SmallVec::new(), anything: collapsed, of_no_queue: false }
    }

    fn of(&mut self, engine: EngineId) -> &mut EngineSignals {
        let place = self.engines.binary_search_by_key(&engine, |(of, _)| *of);
        let place = place.unwrap_or_else(|free| {
            self.engines.insert(free, (engine, EngineSignals::default()));
            free
        });
        &mut self.engines[place].1
    }

    /// Adds a record of the CMP, which found the fence above a new MonitoredValue. It is reported
    /// for the first engine: a report needs an engine, and only the fence matters.
    pub(super) fn add_of_cmp(
        &mut self,
        view: &InterruptView,
        address_space: AddressSpaceId,
        current_value: GpuVa,
    ) {
        self.of_no_queue = true;
        let engine = self.of(EngineId::of_node(0));
        engine.native = true;
        match view.fences.get(&(address_space, current_value)) {
            Some(fence) => engine.fences.push(*fence),
            None => engine.unknown = true,
        }
    }

    /// Adds one record of the list.
    pub(super) fn add(&mut self, view: &InterruptView, id: QueueId, current_value: GpuVa) {
        let Some(queue) = view.queues.get(&id) else {
            self.anything = true;
            return;
        };
        let node = self.of(queue.engine);
        if !view.native_fences || queue.monitored_progress == Some(current_value) {
            node.monitored = true;
            return;
        }
        node.native = true;
        match view.fences.get(&(queue.address_space, current_value)) {
            Some(fence) => node.fences.push(*fence),
            None => node.unknown = true,
        }
        node.queues.push(match queue.owner {
            Owner::Node => None,
            Owner::Queue { driver, .. } => Some(driver),
        });
    }
}

/// Makes the reports to the kernel.
pub(super) fn report(
    signals: &Signals,
    mode: InterruptMode,
    view: &InterruptView,
    engines: impl Iterator<Item = EngineId>,
    mut notify: impl FnMut(InterruptData),
) {
    let logs_tell = matches!(mode, InterruptMode::HwQueue | InterruptMode::HwQueueArray);
    if signals.anything || (signals.of_no_queue && logs_tell) {
        return reports_of_anything(mode, view, engines).into_iter().for_each(notify);
    }
    for (engine, signals) in &signals.engines {
        if signals.monitored {
            notify(InterruptData::MonitoredFenceSignaled { engine: *engine });
        }
        if signals.native {
            notify(native(mode, *engine, signals));
        }
    }
}

fn native(mode: InterruptMode, engine: EngineId, signals: &EngineSignals) -> InterruptData {
    let evaluate_legacy_monitored_fences = false;
    let (fences, hw_queue) = match mode {
        // spec: NF-120, NF-121, NF-126
        InterruptMode::FenceArray => ((!signals.unknown).then(|| distinct(&signals.fences)), None),
        InterruptMode::NullArray => (None, None),
        // spec: NF-222, NF-228
        InterruptMode::HwQueue => match distinct(&signals.queues)[..] {
            [one] => (None, one),
            _ => (None, None),
        },
        // The node's own queue has no handle and no logs. If it is among them, no queue is named.
        InterruptMode::HwQueueArray => match distinct(&signals.queues).into_iter().collect() {
            Some(hw_queues) => {
                return InterruptData::HwQueuesSignaled {
                    engine,
                    hw_queues,
                    evaluate_legacy_monitored_fences,
                };
            }
            None => (None, None),
        },
    };
    InterruptData::NativeFenceSignaled {
        engine,
        fences,
        hw_queue,
        evaluate_legacy_monitored_fences,
    }
}

/// Returns reports that name no fence.
///
/// A report without an array makes the kernel scan all native fences of the adapter, so one report
/// is enough. A report without a hardware queue covers one engine, as does a report of monitored
/// fences, so each engine gets one. A device that cannot tell fence kinds apart reports only this
/// way, and includes monitored fences.
// spec: NF-124, NF-129
fn reports_of_anything(
    mode: InterruptMode,
    view: &InterruptView,
    engines: impl Iterator<Item = EngineId>,
) -> Vec<InterruptData> {
    if !view.native_fences {
        let monitored = |engine| InterruptData::MonitoredFenceSignaled { engine };
        return engines.map(monitored).collect();
    }
    let monitored =
        view.fence_kinds_alike || view.queues.values().any(|q| q.monitored_progress.is_some());
    let logs_tell = matches!(mode, InterruptMode::HwQueue | InterruptMode::HwQueueArray);
    engines
        .take(if logs_tell { usize::MAX } else { 1 })
        .map(|engine| InterruptData::NativeFenceSignaled {
            engine,
            fences: None,
            hw_queue: None,
            evaluate_legacy_monitored_fences: monitored,
        })
        .collect()
}

fn distinct<T: Copy + Ord>(all: &[T]) -> Vec<T> {
    let mut all = all.to_vec();
    all.sort_unstable();
    all.dedup();
    all
}
