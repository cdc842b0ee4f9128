//! The end of a process or a device: normal ([`Process::close`], `end_device`), after its queued
//! work, or abnormal ([`Process::terminate`]). See decision 27.
//!
//! Invariants: the end of a process first closes the handle table. Later calls fail, new objects
//! are refused, and blocked threads return with an error. A call in progress keeps the objects that
//! it uses until it returns. While a device's work is awaited its process works on. An abnormal end
//! of the process, or of its adapter, ends that wait (`awaited_work`).
//!
//! An end causes no engine timeout. A fence with other holders keeps its value. Queued signals of
//! an abnormal end are dropped. Packets already with the driver are waited for.

use super::calls::entered;
use super::{FinalStates, Process};
use crate::fence::{EventSet, Fence, FenceTarget, Instance, WaitOwner, Waiter, instance, monitor};
use crate::object::FenceObject;
use crate::object::context::Context;
use crate::object::device::Device;
use crate::object::hw_queue::HwQueue;
use crate::object::object_table::Object;
use crate::object::objects::Objects;
use crate::object::port::OpenProcess;
use crate::stats::Count;
use crate::suspension::{self, Suspendable};
use crate::wait_classes::WORK_OF_PROCESS;
use crate::wait_limit::WaitLimit;
use std::sync::Arc;
use tidegate_calls::{DeviceState, Handle};
use tidegate_ddi::doorbell::DisconnectReason;
use tidegate_ddi::{Irql, OsHandle, Passive};
use tidegate_platform::planted;
use tidegate_platform::{Event, Platform, Step};

/// How the end treats work in flight on the GPU.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GpuWork {
    /// Waited for, up to the TDR delay.
    Awaited,
    /// Not waited for: a process is dropped or an adapter removed.
    Abandoned,
}

/// Why work is dropped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    Process,
    Device,
}

/// The objects of an ending process or device, by kind.
#[derive(Default)]
struct EndingObjects {
    devices: Vec<Arc<Device>>,
    queues: Vec<Arc<HwQueue>>,
    hw_contexts: Vec<Arc<Context>>,
    contexts: Vec<Arc<Context>>,
    fences: Vec<Arc<FenceObject>>,
}

impl Process {
    /// Ends the process normally, after its queued work. Blocks for at most the TDR delay. If the
    /// work is not complete by then (a process may announce work that it never submits), the
    /// process is terminated.
    ///
    /// A ring's packets count as complete when progress reaches the value announced last, so
    /// signals behind the last command buffer need one more command buffer behind them. A second
    /// call returns immediately.
    pub fn close(&self) {
        let level = &entered();
        let Some(start_ns) = self.leave_kernel(level.into(), DeviceState::ProcessEnded) else {
            return;
        };
        let mut of_process = self.objects_by_kind(None);
        if !self.end_in_order(level, &mut of_process, || ()) {
            return self.terminate_now(level, of_process, GpuWork::Awaited, start_ns);
        }
        drop(of_process);
        self.destroy_rest(level);
        let objects = &self.objects;
        objects.port.count(Count::processes_closed);
        objects.port.lanes.record_process(&format!("process '{}' closed", self.name()), start_ns);
    }

    /// The published list of a normal termination, over all hardware queues of a process or device.
    /// Returns whether their work was complete within the TDR delay, and their queues have ended.
    /// `refuse_new` comes between: no object is made for the device from then on.
    fn end_in_order(
        &self,
        level: &Passive,
        ending: &mut EndingObjects,
        refuse_new: impl FnOnce(),
    ) -> bool {
        let objects = &self.objects;
        let port = &objects.port;
        let limit = WaitLimit::new(&port.platform, port.config.tdr.delay_ns);
        // 1. The doorbells of all hardware queues are disconnected before any queue is waited for:
        //    a queue may wait for work whose ring on another queue was lost.
        // spec: UMS-087
        for queue in &ending.queues {
            objects.doorbells.of_queue(queue.os_handle).iter().for_each(|d| d.close(level));
        }
        // 2. Progress reaches the value queued last. Rings and all other objects stay in place.
        // spec: UMS-088
        // spec: UMS-090
        if !self.awaited_work.wait(&queued_work(level, objects, ending), limit) {
            return false;
        }
        refuse_new();
        // 3. Ring, control area, doorbell and queue of each are destroyed.
        // spec: UMS-089
        for queue in std::mem::take(&mut ending.queues) {
            self.destroy_queue(level, queue);
        }
        true
    }

    /// Ends the waits of normal ends for queued work. Those that are under way or begin later
    /// continue as abnormal ends at once. Blocks for nothing.
    pub fn end_waits_for_work(&self) {
        self.awaited_work.end();
    }

    /// Ends the process abnormally: its queued work is dropped, and running work is preempted.
    /// Blocks until the driver has acknowledged that, for at most the TDR delay, and again for at
    /// most the TDR delay for packets that cannot be preempted. A second call returns immediately.
    /// A normal end that is under way on another thread continues as an abnormal one.
    pub fn terminate(&self) {
        let level = &entered();
        self.end_waits_for_work();
        if let Some(start_ns) = self.leave_kernel(level.into(), DeviceState::ProcessEnded) {
            self.terminate_now(level, self.objects_by_kind(None), GpuWork::Awaited, start_ns);
        }
    }

    /// Returns the state of a device after the process has ended.
    pub(crate) fn state_after_end(&self, device: Handle) -> DeviceState {
        let states = self.final_states.get();
        states.map_or(DeviceState::ProcessEnded, |states| states.of(device))
    }

    fn terminate_now(
        &self,
        level: &Passive,
        of_process: EndingObjects,
        gpu_work: GpuWork,
        start_ns: u64,
    ) {
        self.end_by_force(level, of_process, gpu_work, Ended::Process);
        self.destroy_rest(level);
        let port = &self.objects.port;
        port.count(Count::processes_terminated);
        port.lanes.record_process(&format!("process '{}' terminated", self.name()), start_ns);
    }

    /// The published list of an abnormal termination, for a process or device.
    fn end_by_force(
        &self,
        level: &Passive,
        ending: EndingObjects,
        gpu_work: GpuWork,
        ended: Ended,
    ) {
        let objects = &self.objects;
        // 1. The devices are lost. An already lost device keeps its reason.
        for device in &ending.devices {
            device.lose(DeviceState::ProcessEnded);
        }
        // Work that the kernel holds back is dropped, so no further work starts.
        let queues = ending.queues.iter().map(|queue| queue.os_handle);
        let contexts = ending.contexts.iter().map(|context| context.os_handle);
        let lost = objects.sched.give_up(level.into(), &queues.chain(contexts).collect::<Vec<_>>());
        if ended == Ended::Process {
            self.note_lost_signals(&ending.fences, &lost);
        }
        drop(lost);
        // 2. Every context is suspended, preempted and off the run list, while its rings exist.
        // spec: UMS-092
        match gpu_work {
            GpuWork::Awaited => {
                let contexts = ending.hw_contexts.into_iter().map(|c| c as Arc<dyn Suspendable>);
                suspension::hold(&objects.port, level, contexts.collect()).keep_off();
            }
            // Consumed here: contexts end before fences.
            GpuWork::Abandoned => {
                ending.hw_contexts.into_iter().for_each(|c| c.suspension.begin(level))
            }
        }
        // Packets with the driver complete, or their engine is detected as hung.
        if gpu_work == GpuWork::Awaited {
            let port = &objects.port;
            let mut limit = WaitLimit::new(&port.platform, port.config.tdr.delay_ns);
            let contexts: Vec<_> = ending.contexts.iter().map(|c| c.scheduled()).collect();
            limit.wait(&objects.sched.drained(level, &contexts), &WORK_OF_PROCESS);
        }
        // 3. Each queue's doorbell is disconnected; ring, control area, doorbell and queue are
        //    destroyed.
        // spec: UMS-093
        for queue in ending.queues {
            let doorbells = objects.doorbells.of_queue(queue.os_handle);
            let abort = DisconnectReason::Abort;
            doorbells.iter().for_each(|doorbell| doorbell.disconnect(level, abort));
            drop(doorbells);
            self.destroy_queue(level, queue);
        }
        drop((ending.contexts, ending.fences, ending.devices));
    }

    /// Closes the handle table and releases blocked threads. Returns the timeline time, or `None`
    /// if the process has ended or is ending.
    fn leave_kernel(&self, level: Irql<'_>, reason: DeviceState) -> Option<u64> {
        let start_ns = self.objects.port.platform.stamp_ns();
        let devices: Vec<_> = {
            let mut objects = self.handles.lock();
            // From here on its devices read as lost.
            // spec: UMS-091
            let is_first = if self.closes_late() { !objects.is_closed() } else { objects.close() };
            if !is_first {
                return None;
            }
            let device = |(handle, object)| match object {
                Object::Device(device) => Some((handle, device)),
                _ => None,
            };
            objects
                .iter()
                .map(|(handle, object)| (handle, object.clone()))
                .filter_map(device)
                .collect()
        };
        let states = devices.into_iter().map(|(handle, device)| (handle, device.state()));
        let lost_before = states.filter(|(_, state)| *state != DeviceState::Active).collect();
        // Waits that end after this were not satisfied.
        let _first = self.final_states.set(FinalStates { reason, lost_before });
        // spec: UMS-094
        // Includes waits that may outlive their instance, because their caller has ended.
        self.objects_by_kind(None)
            .fences
            .iter()
            .for_each(|instance| instance.release_cpu_waiters(level));
        Some(start_ns)
    }

    /// The mistake that the scenarios create-against-process-end and create-against-removal must
    /// find.
    fn closes_late(&self) -> bool {
        planted!(self.objects.port.platform, ProcessIsClosedAfterItsObjectsHaveEnded)
    }

    /// Returns the objects of the process, or of one of its devices.
    fn objects_by_kind(&self, of: Option<OsHandle>) -> EndingObjects {
        let mut found = EndingObjects::default();
        for (_, object) in self.handles.lock().iter() {
            if of.is_some_and(|device| object.device() != Some(device)) {
                continue;
            }
            match object {
                Object::Device(device) => found.devices.push(device.clone()),
                Object::HwQueue(queue) => found.queues.push(queue.clone()),
                Object::HwContext(context) => found.hw_contexts.push(context.clone()),
                Object::Context(context) => found.contexts.push(context.clone()),
                Object::Fence(instance) => found.fences.push(instance.clone()),
                Object::Allocation(_)
                | Object::Older(_)
                | Object::Doorbell(_)
                | Object::PagingQueue(_)
                | Object::Reserved(_)
                | Object::Resource(_)
                | Object::KeyedMutex(_) => {}
            }
        }
        found
    }

    /// Records the fences with other holders that this process could signal, since its queued
    /// signals are dropped.
    fn note_lost_signals(&self, instances: &[Arc<FenceObject>], lost: &[FenceTarget]) {
        let instances: Vec<&Instance> = instances.iter().map(|object| &***object).collect();
        instance::note_lost_signals(self.name(), &instances, lost);
    }

    /// Destroys a hardware queue with its doorbell, ring, control area and progress fence. The
    /// doorbell keeps the ring until the driver has released it.
    fn destroy_queue(&self, level: &Passive, queue: Arc<HwQueue>) {
        let mut rings = Vec::new();
        for (_, object) in self.handles.lock().iter() {
            if let Object::Doorbell(doorbell) = object
                && doorbell.queue.os_handle == queue.os_handle
            {
                rings.extend(doorbell.ring_allocations());
            }
        }
        let of_queue = |object: &Object| match object {
            Object::Allocation(allocation) => {
                rings.iter().any(|ring| Arc::ptr_eq(ring, allocation))
            }
            Object::Doorbell(doorbell) => doorbell.queue.os_handle == queue.os_handle,
            Object::HwQueue(other) => Arc::ptr_eq(other, &queue),
            Object::Fence(instance) => Arc::ptr_eq(instance, &queue.progress),
            _ => false,
        };
        self.destroy_objects(level, of_queue);
        drop(rings);
        drop(queue);
    }

    /// Destroys the remaining objects, then the memory that all of them used.
    fn destroy_rest(&self, level: &Passive) {
        self.destroy_objects(level, |_| true);
        if self.closes_late() {
            self.handles.lock().close();
        }
        let memory = self.memory.lock().take();
        drop(memory);
    }

    /// Ends a device and its objects: normally, after its queued work, or abnormally if the work is
    /// not complete within the TDR delay. The work of a lost device has ended.
    // spec: UMS-036
    pub(super) fn end_device(&self, level: &Passive, device: &Device) {
        let retire = || {
            // An object being created for the device either is already in the table or is refused.
            let objects = self.handles.lock();
            device.retire();
            drop(objects);
            device.end_allocations();
        };
        // The fault is the mistake that the scenario create-against-destroy must find.
        let is_late = planted!(self.objects.port.platform, DeviceRetiredAfterItsObjects);
        // Before any of its objects ends: a create call that follows a refused one is refused.
        let retire_first = || {
            if !is_late {
                retire();
            }
        };
        let mut ending = self.objects_by_kind(Some(device.os_handle));
        let has_work = device.check().is_ok() && ending.has_queues();
        let is_done = has_work && self.end_in_order(level, &mut ending, retire_first);
        match has_work && !is_done {
            true => self.end_by_force(level, ending, GpuWork::Awaited, Ended::Device),
            false => drop(ending),
        }
        if !is_done {
            retire_first();
        }
        self.destroy_objects(level, |object| object.device() == Some(device.os_handle));
        if is_late {
            retire();
        }
    }

    /// Destroys objects, each before the objects it holds, doorbells first. A call in progress may
    /// briefly keep an object alive, with everything that the object needs.
    pub(crate) fn destroy_objects(&self, level: &Passive, is_doomed: impl Fn(&Object) -> bool) {
        let mut doomed: Vec<_> = {
            let objects = self.handles.lock();
            objects
                .iter()
                .filter(|(_, o)| is_doomed(o))
                .map(|(handle, o)| (o.rank(), handle))
                .collect()
        };
        doomed.sort();
        for (_, handle) in doomed {
            let object = self.handles.lock().remove(handle);
            // A displayed picture would keep the device alive.
            if let Some(Object::Device(device)) = &object
                && let Some(display) = self.objects.display.get()
            {
                display.device_ends(level, device.os_handle);
            }
            if let Some(object) = object {
                object.end(level, &self.objects.hw_queues);
            }
        }
    }
}

impl EndingObjects {
    fn has_queues(&self) -> bool {
        !self.queues.is_empty() || !self.contexts.is_empty()
    }
}

/// Returns events that are set when the present work of the queues and contexts is complete.
fn queued_work(level: &Passive, objects: &Objects, ending: &EndingObjects) -> Vec<Event> {
    let mut done = Vec::new();
    if !ending.contexts.is_empty() {
        let contexts: Vec<_> = ending.contexts.iter().map(|c| c.scheduled()).collect();
        done.push(objects.sched.drained(level, &contexts));
    }
    for queue in &ending.queues {
        if queue.user_mode_submission {
            let doorbells = objects.doorbells.of_queue(queue.os_handle);
            done.extend(doorbells.iter().map(|d| {
                progress_event(
                    level.into(),
                    &objects.port.platform,
                    &queue.progress.fence,
                    d.announced(),
                )
            }));
        } else {
            done.push(objects.sched.drained(level, &[queue.scheduled()]));
        }
    }
    done
}

/// A kernel waiter that sets an event.
struct EventWaiter(Event);

impl Waiter for EventWaiter {
    fn wake(&self, _level: Irql<'_>, _ticket: u64, events: &mut EventSet) {
        events.set(&self.0);
    }
}

/// Returns an event that is set when a progress fence reaches the value announced last, which
/// is untrusted.
fn progress_event(level: Irql<'_>, platform: &Platform, fence: &Arc<Fence>, value: u64) -> Event {
    let event = platform.event(true);
    let waiter = Arc::new(EventWaiter(event.clone()));
    if monitor::wait(level, fence, value, waiter, 0, WaitOwner::Kernel).is_none() {
        event.set(Step::ThreadWake);
    }
    event
}

impl Drop for Process {
    fn drop(&mut self) {
        let level = &entered();
        let Some(start_ns) = self.leave_kernel(level.into(), DeviceState::ProcessEnded) else {
            return;
        };
        let of_process = self.objects_by_kind(None);
        // A process without devices has no work to abandon.
        match of_process.devices.is_empty() {
            true => self.destroy_rest(level),
            false => self.terminate_now(level, of_process, GpuWork::Abandoned, start_ns),
        }
    }
}

impl OpenProcess for Process {
    fn end_with_adapter(&self, level: &Passive) {
        self.end_waits_for_work();
        if let Some(start_ns) = self.leave_kernel(level.into(), DeviceState::Removed) {
            self.terminate_now(level, self.objects_by_kind(None), GpuWork::Abandoned, start_ns);
        }
    }
}
