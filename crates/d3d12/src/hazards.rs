//! Reports the calls of the application to the platform's hazard check.
//!
//! Each function has no effect while the check is off. A signal is reported before it is made, a
//! wait of the CPU after it. Waits and signals that the user-mode driver makes for itself are not
//! reported.

use crate::error::{Error, Result};
use crate::event::Event;
use crate::list::ClosedList;
use crate::umd::buffer::BufferMemory;
use crate::umd::checked_memory::space;
use crate::umd::device::UmdDevice;
use crate::umd::fence::FenceObject;
use std::ops::Range;
use tidegate_calls::WaitMode;
use tidegate_platform::Platform;
use tidegate_platform::hazard::{Checker, FenceKey, ListInfo, QueueKey, TimelineId};
use tidegate_trace::LinkId;

/// Returns a fence of the check. The first call adds it with an initial value.
fn fence_from(checker: &mut Checker, fence: &FenceObject, initial: u64) -> FenceKey {
    let key = checker.fence(fence.instance.number, initial, || fence.name.clone());
    checker.use_fence(key, space(fence.device()));
    key
}

fn key(checker: &mut Checker, fence: &FenceObject) -> FenceKey {
    fence_from(checker, fence, 0)
}

#[inline]
fn queue_call(
    platform: &Platform,
    queue: Option<QueueKey>,
    fence: &FenceObject,
    value: u64,
    call: fn(&mut Checker, TimelineId, QueueKey, FenceKey, u64),
) {
    if let Some(queue) = queue {
        report_queue_call(platform, queue, fence, value, call);
    }
}

#[inline(never)]
fn report_queue_call(
    platform: &Platform,
    queue: QueueKey,
    fence: &FenceObject,
    value: u64,
    call: fn(&mut Checker, TimelineId, QueueKey, FenceKey, u64),
) {
    platform.check_hazards(|checker, thread| {
        let fence = key(checker, fence);
        call(checker, thread, queue, fence, value);
    });
}

#[inline]
fn thread_call(
    platform: &Platform,
    fence: &FenceObject,
    value: u64,
    call: fn(&mut Checker, TimelineId, FenceKey, u64),
) {
    if platform.checks_hazards() {
        report_thread_call(platform, fence, value, call);
    }
}

#[inline(never)]
fn report_thread_call(
    platform: &Platform,
    fence: &FenceObject,
    value: u64,
    call: fn(&mut Checker, TimelineId, FenceKey, u64),
) {
    platform.check_hazards(|checker, thread| {
        let fence = key(checker, fence);
        call(checker, thread, fence, value);
    });
}

/// Registers a queue.
pub(crate) fn add_queue(device: &UmdDevice, name: &str) -> Option<QueueKey> {
    let add = |checker: &mut Checker| checker.add_queue(name.to_owned(), space(&device.kernel));
    device.platform.hazard_checker(add)
}

/// Registers a fence whose value is `initial`.
pub(crate) fn add_fence(platform: &Platform, fence: &FenceObject, initial: u64) {
    platform.hazard_checker(|checker| fence_from(checker, fence, initial));
}

/// Reports a call of ExecuteCommandLists.
#[inline]
pub(crate) fn execute(
    platform: &Platform,
    queue: Option<QueueKey>,
    link: LinkId,
    lists: &[&ClosedList],
) {
    if let Some(queue) = queue {
        report_execute(platform, queue, link, lists);
    }
}

#[inline(never)]
fn report_execute(platform: &Platform, queue: QueueKey, link: LinkId, lists: &[&ClosedList]) {
    platform.check_hazards(|checker, thread| {
        let lists = lists.iter().map(|list| ListInfo {
            gpu_va: list.gpu_va(),
            label: list.label().map(str::to_owned),
            commands: list.commands(),
        });
        checker.execute(thread, queue, link.0, lists.collect());
    });
}

/// Reports a wait of a queue.
#[inline]
pub(crate) fn queue_wait(
    platform: &Platform,
    queue: Option<QueueKey>,
    fence: &FenceObject,
    value: u64,
) {
    queue_call(platform, queue, fence, value, Checker::queue_wait);
}

/// Reports a signal of a queue.
#[inline]
pub(crate) fn queue_signal(
    platform: &Platform,
    queue: Option<QueueKey>,
    fence: &FenceObject,
    value: u64,
) {
    queue_call(platform, queue, fence, value, Checker::queue_signal);
}

/// Reports an update of tile mappings: reserved addresses, and where their memory lies in its heap.
pub(crate) fn map_tiles(
    platform: &Platform,
    queue: Option<QueueKey>,
    parts: impl Iterator<Item = (Range<u64>, Option<u64>)>,
) {
    let Some(queue) = queue else { return };
    platform.check_hazards(|checker, thread| checker.map_tiles(thread, queue, parts.collect()));
}

/// Registers the display's reads of a swap chain.
pub(crate) fn add_display(device: &UmdDevice, name: &str) -> Option<TimelineId> {
    let add = |checker: &mut Checker| checker.add_display(name.to_owned(), space(&device.kernel));
    device.platform.hazard_checker(add)
}

/// Reports a present, whose fence reaches `value` when it is shown.
pub(crate) fn present(
    platform: &Platform,
    queue: Option<QueueKey>,
    display: Option<TimelineId>,
    fence: &FenceObject,
    value: u64,
    buffer: &BufferMemory,
) {
    let (Some(queue), Some(display)) = (queue, display) else { return };
    platform.check_hazards(|checker, thread| {
        let fence = key(checker, fence);
        let bytes = buffer.gpu_va..buffer.gpu_va + buffer.bytes;
        checker.present(thread, queue, display, fence, value, bytes);
    });
}

/// Reports that the CPU has seen that a queue is idle.
pub(crate) fn wait_idle(platform: &Platform, queue: Option<QueueKey>) {
    if let Some(queue) = queue {
        platform.check_hazards(|checker, thread| checker.cpu_wait_idle(thread, queue));
    }
}

/// Reports a signal of the CPU.
#[inline]
pub(crate) fn cpu_signal(platform: &Platform, fence: &FenceObject, value: u64) {
    thread_call(platform, fence, value, Checker::cpu_signal);
}

/// Reports that the CPU read the completed value of a fence.
#[inline]
pub(crate) fn cpu_read(platform: &Platform, fence: &FenceObject, value: u64) {
    thread_call(platform, fence, value, Checker::cpu_read);
}

/// Reports that a wait of the CPU for all or any of several fences ended well.
pub(crate) fn cpu_wait<'a>(
    platform: &Platform,
    mode: WaitMode,
    fences: impl Iterator<Item = (&'a FenceObject, u64)>,
) {
    platform.check_hazards(|checker, thread| {
        let of: Vec<_> = fences.map(|(fence, value)| (key(checker, fence), value)).collect();
        match mode {
            WaitMode::All => {
                of.iter().for_each(|(fence, value)| checker.cpu_wait(thread, *fence, *value));
            }
            WaitMode::Any => checker.cpu_wait_any(thread, &of),
        }
    });
}

/// Reports a wait of the CPU without a time limit while `block` makes it.
pub(crate) fn while_blocked<'a, R>(
    platform: &Platform,
    mode: WaitMode,
    fences: impl Iterator<Item = (&'a FenceObject, u64)>,
    block: impl FnOnce() -> Result<R>,
) -> Result<R> {
    let begin = |checker: &mut Checker, thread| {
        let of = fences.map(|(fence, value)| (key(checker, fence), value)).collect();
        checker.cpu_wait_begin(thread, mode == WaitMode::Any, of);
    };
    if platform.check_hazards(begin).is_none() {
        return block();
    }
    let result = block();
    let stopped = matches!(result, Err(Error::Stopped));
    platform.check_hazards(|checker, thread| checker.cpu_wait_end(thread, stopped));
    result
}

/// Reports that the calling thread waits until a queue is idle while `block` does it.
pub(crate) fn while_waiting_idle(
    platform: &Platform,
    queue: Option<QueueKey>,
    block: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let Some(queue) = queue else { return block() };
    platform.check_hazards(|checker, thread| checker.idle_wait_begin(thread, queue));
    let result = block();
    let stopped = matches!(result, Err(Error::Stopped));
    platform.check_hazards(|checker, thread| checker.cpu_wait_end(thread, stopped));
    result
}

/// Reports that `event` is set when all or any of several fences are reached.
pub(crate) fn arm_event<'a>(
    event: &Event,
    mode: WaitMode,
    fences: impl Iterator<Item = (&'a FenceObject, u64)>,
) {
    event.platform().hazard_checker(|checker| {
        let of: Vec<_> = fences.map(|(fence, value)| (key(checker, fence), value)).collect();
        checker.arm_event(event.signal().id().number(), mode == WaitMode::All, of);
    });
}
