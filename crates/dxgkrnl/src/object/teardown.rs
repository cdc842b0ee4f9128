//! Owns how processes end: in good order, when what they queued is done first, and otherwise.
//!
//! Either list begins with the process out of the kernel: its calls fail, what they are about to
//! make finds no place in its table, and its threads that block in a wait come back with an error.
//! A call that is under way keeps what it works on until it returns; everything else is gone when
//! the list is through, and with the last of those calls all of it.
//!
//! The end of a process is nobody's timeout. Its own fences go. A fence that others have open keeps
//! its value and works on, armed for those who still wait; what the process had queued is not
//! signalled, its waiters elsewhere wait on, and reports say why (`stats`).
//!
//! What of its work stands where: rings of user-mode queues are preempted with their contexts, and
//! commands of kernel-mode queues with theirs; packets have no preemption here, so those that the
//! driver has are waited for, and no other follows.
//!
//! The facade and whoever owns a process call in; it calls `doorbell`, `suspend`, `sched`,
//! `hwqueue`. It decides nothing about devices that fault or hang: that is `recovery`.

use crate::adapter::Adapter;
use crate::context::Context;
use crate::device::Device;
use crate::fence::{EventSet, Fence, FenceTarget, Instance, WaitOwner, Waiter, instance, monitor};
use crate::hwqueue::HwQueue;
use crate::object::FenceObject;
use crate::process::{Object, Process};
use crate::stats::Count;
use crate::{display, suspend};
use std::sync::Arc;
use tidegate_calls::{DeviceState, Handle};
use tidegate_ddi::OsHandle;
use tidegate_ddi::doorbell::DisconnectReason;
use tidegate_platform::{CpuTime, Event, Step, WaitEnd};

/// Whether an end may wait for the GPU.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// For the TDR delay.
    Waits,
    /// It may not: whoever drops a process last expects no waiting.
    WaitsForNobody,
}

/// The device states that a process reads once it has left the kernel.
pub(crate) struct Left {
    /// Why it has left.
    pub(crate) reason: DeviceState,
    /// Devices that were lost before, with their own reasons.
    pub(crate) lost_before: Vec<(Handle, DeviceState)>,
}

impl Left {
    /// How a device of the process stands.
    pub(crate) fn state_of(&self, device: Handle) -> DeviceState {
        let before = self.lost_before.iter().find(|(handle, _)| *handle == device);
        before.map_or(&self.reason, |(_, state)| state).clone()
    }
}

/// The objects of a process that ends, by what is done to them.
struct Belongings {
    devices: Vec<Arc<Device>>,
    queues: Vec<Arc<HwQueue>>,
    hw_contexts: Vec<Arc<Context>>,
    contexts: Vec<Arc<Context>>,
    fences: Vec<Arc<FenceObject>>,
}

impl Process {
    /// The process ends in good order: everything that it queued is done first. Blocks for that, at
    /// most for the TDR delay; when it is not done by then (a process may announce work that it
    /// never submits) the process is terminated.
    ///
    /// A ring's packets count as done when progress has reached the value that the process
    /// announced last: signals behind its last command buffer need one more command buffer behind
    /// them. A process ends once; whoever comes second returns at once.
    // monster: the published list of a normal termination.
    pub fn close(&self) {
        let Some(start_ns) = self.leave_kernel(DeviceState::ProcessEnded) else { return };
        let adapter = &self.adapter;
        let deadline = adapter.platform.now().after(adapter.config.tdr.delay_ns);
        let of_process = self.belongings();
        // 1. For each hardware queue its doorbell is disconnected. For all of them, before any is
        //    waited for: what one of them waits for may stand behind a ring of another that was
        //    lost.
        // spec: UMS-087
        for queue in &of_process.queues {
            adapter.doorbells_of_queue(queue.os_handle).iter().for_each(|d| d.close());
        }
        // 2. Progress reaches the value queued last. Rings stay where they are, and everything else
        //    does.
        // spec: UMS-088
        // spec: UMS-090
        if !is_done_by(adapter, &of_process, deadline) {
            return self.terminate_now(of_process, Patience::Waits, start_ns);
        }
        // 3. Ring, control area, doorbell and queue of each are destroyed; and then the rest.
        for queue in of_process.queues {
            self.destroy_queue(queue);
        }
        drop((of_process.hw_contexts, of_process.contexts, of_process.fences, of_process.devices));
        // spec: UMS-089
        self.destroy_rest();
        adapter.count(Count::processes_closed);
        adapter.record_process(&format!("process '{}' closed", self.name()), start_ns);
    }

    /// The process is ended as it stands, whatever it does: what it queued is dropped, and what
    /// runs is preempted. Blocks until the driver has acknowledged that, for the TDR delay at most,
    /// and as long again for packets that cannot be preempted.
    ///
    /// A process ends once; whoever comes second returns at once.
    pub fn terminate(&self) {
        if let Some(start_ns) = self.leave_kernel(DeviceState::ProcessEnded) {
            self.terminate_now(self.belongings(), Patience::Waits, start_ns);
        }
    }

    /// Its adapter is removed: the process is ended without an answer of the hardware. Its devices
    /// are lost already.
    pub(crate) fn end_with_adapter(&self) {
        if let Some(start_ns) = self.leave_kernel(DeviceState::Removed) {
            self.terminate_now(self.belongings(), Patience::WaitsForNobody, start_ns);
        }
    }

    /// How a device stands once the process has left the kernel.
    pub(crate) fn state_after_end(&self, device: Handle) -> DeviceState {
        self.left.get().map_or(DeviceState::ProcessEnded, |left| left.state_of(device))
    }

    /// Whether it has ended, or is about to.
    pub(crate) fn has_ended(&self) -> bool {
        self.objects.lock().is_closed()
    }

    // monster: the published list of an abnormal termination.
    fn terminate_now(&self, of_process: Belongings, patience: Patience, start_ns: u64) {
        let adapter = &self.adapter;
        // 1. Its devices are in error. The first reason stays: one that was lost before was lost to
        //    that.
        // spec: UMS-091
        for device in &of_process.devices {
            device.lose(DeviceState::ProcessEnded);
        }
        // What the kernel holds back for it is dropped, so that nothing of it begins any more.
        let queues = of_process.queues.iter().map(|queue| queue.os_handle);
        let contexts = of_process.contexts.iter().map(|context| context.os_handle);
        let lost = adapter.sched.give_up(&queues.chain(contexts).collect::<Vec<_>>());
        self.note_lost_signals(&of_process.fences, &lost);
        drop(lost);
        // 2. Every context is suspended, preempted and off the run list, while its rings are there.
        // spec: UMS-092
        match patience {
            Patience::Waits => suspend::hold(adapter, of_process.hw_contexts).keep_off(),
            // Each is let go of here: contexts end before fences.
            Patience::WaitsForNobody => {
                of_process.hw_contexts.into_iter().for_each(|c| suspend::begin(&c))
            }
        }
        // Packets that the driver has are finished, or their engine hangs and is found to.
        if patience == Patience::Waits {
            let deadline = adapter.platform.now().after(adapter.config.tdr.delay_ns);
            let contexts: Vec<_> = of_process.contexts.iter().map(|c| c.scheduled()).collect();
            is_set_by(&adapter.sched.drained(&contexts), deadline);
        }
        // 3. Each queue's doorbell is disconnected, and ring, control area, doorbell and queue are
        //    destroyed; then the rest.
        // spec: UMS-093
        for queue in of_process.queues {
            let doorbells = adapter.doorbells_of_queue(queue.os_handle);
            doorbells.iter().for_each(|doorbell| doorbell.disconnect(DisconnectReason::Abort));
            drop(doorbells);
            self.destroy_queue(queue);
        }
        drop((of_process.contexts, of_process.fences, of_process.devices));
        self.destroy_rest();
        adapter.count(Count::processes_terminated);
        adapter.record_process(&format!("process '{}' terminated", self.name()), start_ns);
    }

    /// Nobody calls in any more, and threads that block in a wait go; `None` when the process has
    /// ended, or is about to. Returns the time on the timeline.
    fn leave_kernel(&self, reason: DeviceState) -> Option<u64> {
        let start_ns = self.adapter.platform.stamp_ns();
        let devices: Vec<_> = {
            let mut objects = self.objects.lock();
            if !objects.close() {
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
        // Waits that end from here on were not satisfied.
        let _first = self.left.set(Left { reason, lost_before });
        // spec: UMS-094
        // Also those that would outlive their instance: nobody is left who could be told.
        self.belongings().fences.iter().for_each(|instance| instance.release_cpu_waiters());
        Some(start_ns)
    }

    fn belongings(&self) -> Belongings {
        let mut found = Belongings {
            devices: Vec::new(),
            queues: Vec::new(),
            hw_contexts: Vec::new(),
            contexts: Vec::new(),
            fences: Vec::new(),
        };
        for (_, object) in self.objects.lock().iter() {
            match object {
                Object::Device(device) => found.devices.push(device.clone()),
                Object::HwQueue(queue) => found.queues.push(queue.clone()),
                Object::HwContext(context) => found.hw_contexts.push(context.clone()),
                Object::Context(context) => found.contexts.push(context.clone()),
                Object::Fence(instance) => found.fences.push(instance.clone()),
                Object::Allocation(_) | Object::Doorbell(_) | Object::PagingQueue(_) => {}
            }
        }
        found
    }

    /// The fences that others have open and that this process could signal: what it queued never
    /// comes.
    fn note_lost_signals(&self, instances: &[Arc<FenceObject>], lost: &[FenceTarget]) {
        if self.adapter.stats.on() {
            let instances: Vec<&Instance> = instances.iter().map(|object| &***object).collect();
            instance::note_lost_signals(self.name(), &instances, lost);
        }
    }

    /// Takes a hardware queue out of the table, with its doorbell, ring, control area and progress
    /// fence. The doorbell keeps the ring until the driver has let go of it.
    fn destroy_queue(&self, queue: Arc<HwQueue>) {
        let mut rings = Vec::new();
        for (_, object) in self.objects.lock().iter() {
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
        self.destroy_objects(of_queue);
        drop(rings);
        drop(queue);
    }

    /// Takes what is left out of the table, and then what all of it stood on.
    fn destroy_rest(&self) {
        self.destroy_objects(|_| true);
        let ground = self.ground.lock().take();
        drop(ground);
    }

    /// Takes objects out of the table: what holds others goes before what is held, doorbells first.
    /// A call that is under way may keep one of them for a moment; what that one needs stays with
    /// it.
    // spec: UMS-036
    pub(crate) fn destroy_objects(&self, which: impl Fn(&Object) -> bool) {
        let mut doomed: Vec<_> = {
            let objects = self.objects.lock();
            objects.iter().filter(|(_, o)| which(o)).map(|(handle, o)| (o.rank(), handle)).collect()
        };
        doomed.sort();
        for (_, handle) in doomed {
            let object = self.objects.lock().remove(handle);
            // What it shows would keep it.
            if let Some(Object::Device(device)) = &object {
                display::leave(&self.adapter, device.os_handle);
            }
            if let Some(object) = object {
                object.end();
            }
        }
    }
}

impl Object {
    /// The call that destroys it goes through here, with the object out of the handle table: no
    /// list of the adapter has it from here on, and it ends with this call or with the last call
    /// that held it before.
    pub(crate) fn end(self) {
        match &self {
            Object::Doorbell(doorbell) => doorbell.end(),
            Object::HwQueue(queue) => queue.retire(),
            Object::Context(context) | Object::HwContext(context) => context.retire(),
            Object::Device(device) => device.retire(),
            // Fences count their holders; allocations and paging queues are in no list.
            Object::Fence(_) | Object::Allocation(_) | Object::PagingQueue(_) => {}
        }
    }

    /// The device that it belongs to.
    pub(crate) fn device(&self) -> OsHandle {
        match self {
            Object::Doorbell(doorbell) => doorbell.queue.device.os_handle,
            Object::HwQueue(queue) => queue.device.os_handle,
            Object::Context(context) | Object::HwContext(context) => context.device.os_handle,
            Object::Fence(instance) => instance.device.os_handle,
            Object::Allocation(allocation) => allocation.device.os_handle(),
            Object::PagingQueue(queue) => queue.device.os_handle,
            Object::Device(device) => device.os_handle,
        }
    }

    /// Its place in the order of destruction.
    fn rank(&self) -> u32 {
        match self {
            Object::Doorbell(_) => 0,
            Object::HwQueue(_) => 1,
            Object::Context(_) | Object::HwContext(_) | Object::PagingQueue(_) => 2,
            Object::Fence(_) => 3,
            Object::Allocation(_) => 4,
            Object::Device(_) => 5,
        }
    }
}

/// Whether everything that the process has queued is done before the deadline.
fn is_done_by(adapter: &Arc<Adapter>, of_process: &Belongings, deadline: CpuTime) -> bool {
    let contexts: Vec<_> = of_process.contexts.iter().map(|c| c.scheduled()).collect();
    let mut done = vec![adapter.sched.drained(&contexts)];
    for queue in &of_process.queues {
        if queue.user_mode_submission {
            let doorbells = adapter.doorbells_of_queue(queue.os_handle);
            done.extend(
                doorbells
                    .iter()
                    .map(|d| progress_event(adapter, &queue.progress.fence, d.announced())),
            );
        } else {
            done.push(adapter.sched.drained(&[queue.scheduled()]));
        }
    }
    done.iter().all(|event| is_set_by(event, deadline))
}

/// A wait of the kernel's own.
struct EventWaiter(Event);

impl Waiter for EventWaiter {
    fn wake(&self, _ticket: u64, events: &mut EventSet) {
        events.set(&self.0);
    }
}

/// An event that is set when a progress fence has reached what its process says it queued last: a
/// word that may say anything.
fn progress_event(adapter: &Arc<Adapter>, fence: &Arc<Fence>, value: u64) -> Event {
    let event = adapter.platform.event(true);
    let waiter = Arc::new(EventWaiter(event.clone()));
    if monitor::wait(fence, value, waiter, 0, WaitOwner::Kernel).is_none() {
        event.set(Step::ThreadWake);
    }
    event
}

fn is_set_by(event: &Event, deadline: CpuTime) -> bool {
    event.try_take()
        || event.wait_for(Some(deadline), "the work of a process that ends") == WaitEnd::Woken
}

impl Drop for Process {
    fn drop(&mut self) {
        let Some(start_ns) = self.leave_kernel(DeviceState::ProcessEnded) else { return };
        let of_process = self.belongings();
        // Whoever destroyed his devices himself has ended his process.
        match of_process.devices.is_empty() {
            true => self.destroy_rest(),
            false => self.terminate_now(of_process, Patience::WaitsForNobody, start_ns),
        }
    }
}
