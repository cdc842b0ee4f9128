//! Creates the objects of a workload before its time is measured.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use foldhash::HashMap;
use tidegate_d3d12::{
    Buffer, BufferDesc, CommandListType, Device, Fence, Queue, QueueDesc, SwapChain, SwapChainDesc,
};
use tidegate_platform::{Event, Mutex, Platform, Word, once};
use tidegate_trace::{LaneId, LaneKind};

use crate::error::RunError;
use crate::lists::{self, Contents, RecordedList};
use crate::options::{HangAt, RunOptions};
use crate::probe::{MachineProbe, submission_of};
use crate::queue_log::QueueLog;
use crate::run_state::{Counted, RunState};
use crate::scene::Scenes;
use tidegate_workload::content::initial_bytes;
use tidegate_workload::expression::Constants;
use tidegate_workload::model::{self, OpKind, Workload};

/// Lists by content.
pub(crate) type Lists = HashMap<Contents, Arc<RecordedList>>;

/// A workload whose objects exist, before, during and after its run.
pub struct Prepared {
    pub(crate) workload: Arc<Workload>,
    pub(crate) device: Device,
    pub(crate) probe: Arc<dyn MachineProbe>,
    pub(crate) options: RunOptions,
    pub(crate) queues: Vec<Queue>,
    /// Engine of each queue, as the adapter numbers them.
    pub(crate) nodes: Vec<u32>,
    pub(crate) fences: Vec<Fence>,
    pub(crate) buffers: Vec<Buffer>,
    /// What is shown, if anything is.
    pub(crate) screen: Option<SwapChain>,
    /// Lists of a recorded workload. Its recorded host time includes their recording.
    pub(crate) lists: Lists,
    pub(crate) marks: Vec<Event>,
    pub(crate) lanes: Vec<LaneId>,
    pub(crate) logs: Vec<Mutex<QueueLog>>,
    pub(crate) state: Mutex<RunState>,
    pub(crate) platform: Platform,
    /// Names of the queues of another workload, by lane.
    pub(crate) other_queues: OnceLock<BTreeMap<LaneId, String>>,
    /// Completed operations, and the total that is known before the run.
    pub(crate) done: Word,
    pub(crate) total: u64,
}

/// Makes queues, fences and buffers, and fills the buffers.
///
/// `device` should be made with [`crate::fence_choice`] and the workload's name as process name; a
/// machine for it needs the engines of [`crate::required_engines`].
///
/// # Errors
/// [`RunError`]. Nothing has run.
pub fn prepare(
    platform: &Platform,
    workload: Arc<Workload>,
    device: Device,
    probe: Arc<dyn MachineProbe>,
    options: RunOptions,
) -> Result<Arc<Prepared>, RunError> {
    let logs = empty_logs(&workload, &options)?;
    let (queues, nodes) = make_queues(&workload, &device, &options)?;
    let object = |span| {
        let workload = &workload;
        move |source| RunError::Object { place: workload.place(span), source }
    };
    let fence = |fence: &model::Fence| {
        device.create_fence(&fence.name, fence.initial).map_err(object(fence.span))
    };
    let fences = workload.fences.iter().map(fence).collect::<Result<Vec<_>, _>>()?;
    let buffers = make_buffers(&workload, &device)?;
    let screen = make_screen(&workload, &device, &queues, &buffers)?;
    let lists = match workload.recorded {
        Some(_) => {
            connect_queues(&workload, &queues)?;
            close_lists(&workload, &device, &buffers)?
        }
        None => Lists::default(),
    };
    let lane = |name: &str| platform.lane(LaneKind::CpuThread, &workload.name, name);
    Ok(Arc::new(Prepared {
        nodes,
        fences,
        buffers,
        screen,
        lists,
        marks: (0..workload.marks).map(|_| platform.event(true)).collect(),
        lanes: workload.threads.iter().map(|thread| lane(&thread.name)).collect(),
        platform: platform.clone(),
        logs: logs.into_iter().map(|log| platform.mutex("what a queue was given", log)).collect(),
        state: platform.mutex("the state of a run", RunState::default()),
        other_queues: OnceLock::new(),
        done: platform.page(1).word(0),
        total: workload
            .threads
            .iter()
            .map(|thread| count(&thread.body))
            .fold(0, u64::saturating_add),
        queues,
        workload,
        device,
        probe,
        options,
    }))
}

/// A log for each queue, with the hangs to inject.
fn empty_logs(workload: &Workload, options: &RunOptions) -> Result<Vec<QueueLog>, RunError> {
    let mut hangs: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); workload.queues.len()];
    for hang in &options.hangs {
        let queue = workload.queues.iter().position(|queue| queue.name == hang.queue);
        let queue = queue.ok_or_else(|| RunError::NoQueueToHang {
            hang: hang.clone(),
            have: workload.queues.iter().map(|queue| queue.name.clone()).collect(),
        })?;
        hangs[queue].insert(hang.submission);
    }
    Ok(hangs.into_iter().map(QueueLog::hanging_at).collect())
}

fn make_queues(
    workload: &Workload,
    device: &Device,
    options: &RunOptions,
) -> Result<(Vec<Queue>, Vec<u32>), RunError> {
    let mut nodes = Vec::with_capacity(workload.queues.len());
    let mut queues = Vec::with_capacity(workload.queues.len());
    for queue in &workload.queues {
        let list_type = CommandListType::made_for(queue.engine);
        let of_type = device.nodes_for(list_type);
        let place = workload.place(queue.span);
        let Some(&node) = of_type.get(queue.node as usize) else {
            return Err(RunError::NoNode {
                place,
                queue: queue.name.clone(),
                engine: queue.engine.name(),
                node: queue.node,
                have: of_type.len(),
            });
        };
        let desc = QueueDesc {
            name: queue.name.clone(),
            priority: queue.priority,
            node: Some(node),
            ..QueueDesc::new(list_type).submission(submission_of(queue, options.submission))
        };
        queues
            .push(device.create_queue(desc).map_err(|source| RunError::Object { place, source })?);
        nodes.push(node);
    }
    Ok((queues, nodes))
}

/// Connects the queues of a recorded workload, which were connected before its recording began.
/// With fewer doorbells than queues, the last ones stay connected.
fn connect_queues(workload: &Workload, queues: &[Queue]) -> Result<(), RunError> {
    for (queue, made) in workload.queues.iter().zip(queues) {
        let place = || workload.place(queue.span);
        let connected = made.connect_doorbells();
        connected.map_err(|source| RunError::Object { place: place(), source })?;
    }
    Ok(())
}

fn make_buffers(workload: &Workload, device: &Device) -> Result<Vec<Buffer>, RunError> {
    let scenes = Scenes::new();
    let mut buffers = Vec::with_capacity(workload.buffers.len());
    for buffer in &workload.buffers {
        let place = || workload.place(buffer.span);
        let desc = BufferDesc::gpu_upload(buffer.name.clone(), buffer.bytes);
        let made = device
            .create_buffer(desc)
            .map_err(|source| RunError::Object { place: place(), source })?;
        let content = initial_bytes(buffer, &scenes).map_err(|source| RunError::Content {
            place: place(),
            buffer: buffer.name.clone(),
            source,
        })?;
        if let Some(bytes) = content {
            made.write(0, &bytes).map_err(|source| RunError::Object { place: place(), source })?;
        }
        buffers.push(made);
    }
    Ok(buffers)
}

fn make_screen(
    workload: &Workload,
    device: &Device,
    queues: &[Queue],
    buffers: &[Buffer],
) -> Result<Option<SwapChain>, RunError> {
    let Some(display) = &workload.display else { return Ok(None) };
    let desc = SwapChainDesc::new("display", display.width, display.height)
        .buffers(display.count)
        .frame_latency(display.latency);
    let first = display.first.0 as usize;
    let shown = buffers[first..first + display.count as usize].to_vec();
    let made = device.create_swap_chain_of(&queues[display.queue.0 as usize], shown, desc);
    made.map(Some)
        .map_err(|source| RunError::Object { place: workload.place(display.span), source })
}

/// Closes the lists of a recorded workload, whose numbers are constants.
fn close_lists(
    workload: &Workload,
    device: &Device,
    buffers: &[Buffer],
) -> Result<Lists, RunError> {
    let mut made = Lists::default();
    for op in workload.threads.iter().flat_map(|thread| thread.body.iter()) {
        let OpKind::Submit { queue, commands } = &op.kind else { continue };
        let list_type = CommandListType::made_for(workload.queue(queue.first).engine);
        let list = lists::evaluate(commands, buffers, &Constants).and_then(|evaluated| {
            let contents =
                Contents { list_type, place: (op.span.line, op.span.column), commands: evaluated };
            if let Entry::Vacant(place) = made.entry(contents) {
                let spans = commands.iter().map(|command| command.span).collect();
                let list = lists::record(device, workload, buffers, place.key(), spans)?;
                place.insert(Arc::new(list));
            }
            Ok(())
        });
        list.map_err(|refused| RunError::List(lists::refusal(workload, &refused)))?;
    }
    Ok(made)
}

/// Operations of a body that can be counted before it runs.
pub(crate) fn count(ops: &[model::Op]) -> u64 {
    let one = |op: &model::Op| match &op.kind {
        OpKind::Loop { from, to, body, .. } => {
            let rounds = match (from.constant(), to.constant()) {
                (Some(from), Some(to)) => {
                    u64::try_from(to.saturating_sub(from).saturating_add(1)).unwrap_or(0)
                }
                _ => 1,
            };
            rounds.saturating_mul(count(body))
        }
        OpKind::When { body, otherwise, .. } => count(body).max(count(otherwise)),
        _ => 1,
    };
    ops.iter().map(one).fold(0, u64::saturating_add)
}

impl Prepared {
    /// The workload.
    pub fn workload(&self) -> &Arc<Workload> {
        &self.workload
    }

    /// Returns its queues by lane, for another workload on the same machine.
    pub fn queue_names(&self) -> BTreeMap<LaneId, String> {
        let name = |queue: &Queue| format!("{} of {}", queue.name(), self.workload.name);
        let named = |queue: &Queue| (queue.timeline_lane(), name(queue));
        self.queues.iter().map(named).collect()
    }

    /// Sets the queues of another workload on the machine. Only the first call has an effect.
    pub fn set_other_queues(&self, names: BTreeMap<LaneId, String>) {
        once::make_alone(&self.other_queues, || names);
    }

    /// Checks that every injected hang was reached.
    ///
    /// # Errors
    /// [`RunError::NoSubmissionToHang`]: the queue had fewer submissions. A run that ended early
    /// returns no error.
    pub fn check_hangs(&self) -> Result<(), RunError> {
        let state = self.state.lock();
        if !state.is_idle || state.removed.is_some() || !state.failures.is_empty() {
            return Ok(());
        }
        drop(state);
        for (queue, log) in self.workload.queues.iter().zip(&self.logs) {
            let log = log.lock();
            if let Some(&submission) = log.hangs.first() {
                let hang = HangAt { queue: queue.name.clone(), submission };
                return Err(RunError::NoSubmissionToHang { hang, had: log.begun });
            }
        }
        Ok(())
    }

    /// Start of the threads, on the clock of the timeline.
    pub fn started_ns(&self) -> u64 {
        self.state.lock().started_ns
    }

    pub(crate) fn count_now(&self) -> Counted {
        let queues: Vec<_> = self.queues.iter().map(Queue::numbers).collect();
        Counted {
            machine: self.probe.counters(),
            device: self.device.counters(),
            queues: self.probe.queues(&queues),
            connects: self.queues.iter().map(|queue| queue.stats().connects).collect(),
        }
    }
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Prepared({:?}, {} queues)", self.workload.name, self.queues.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_workload::{LoadOptions, load_bytes};

    #[test]
    fn operations_are_counted_through_loops() {
        let text = "[[fence]]\nname = \"f\"\n[[thread]]\nname = \"t\"\nvariables = { n = 3 }\nprogram = [\n\
                    { loop = \"i\", from = 1, to = 5, do = [{ cpu_signal = \"f\", value = \"i\" }, { sleep_ns = 1 }] },\n\
                    { loop = \"j\", from = 1, to = \"n\", do = [{ sleep_ns = 1 }] },\n\
                    { when = \"n > 3\", do = [{ sleep_ns = 1 }, { sleep_ns = 1 }] },\n]\n";
        let workload = load_bytes(text.as_bytes(), "w.toml", &LoadOptions::default()).unwrap().0;
        assert_eq!(count(&workload.threads[0].body), 10 + 1 + 2);
    }
}
