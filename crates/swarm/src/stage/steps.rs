//! Carries out one step: an arm for each operation.

use super::objects::{
    BufferObject, CallError, Called, FenceObject, QueueObject, RawBuffer, RawQueue, Registered,
};
use super::process::RunProcess;
use super::{Around, EndOfWait, Injected, Stage, stories};
use crate::control::Answer;
use crate::failure::Failure;
use crate::model::PAGE_WORDS;
use crate::operation::{NewFence, NewQueue, Operation};
use crate::program::ProgramStep;
use crate::words::{
    Band, BufferId, Class, FenceId, FenceKind, Model, ProcessId, Question, QueueId, Sharing,
    Surface, WaitId,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate::calls::{
    AllocationKind, CreatePagingQueue, DeviceErrorReason, PagingPriority, Placement, Priority,
    ResidencyPriority, SegmentGroup, SyncObjectFlags, WaitMode,
};
use tidegate::d3d12::{BufferDesc, CommandListType, FenceDesc, FenceFlags, Heap, QueueDesc};

type Waits = BTreeMap<WaitId, (ProgramStep, Registered)>;

impl Stage {
    /// Carries out a step. The error of a call is returned; an object that could not be made is
    /// [`CallError::Missing`] to later steps.
    pub(super) fn carry_out(&self, step: &ProgramStep, waits: &mut Waits) -> Called {
        let (id, process) = self.process_of(step);
        match step.operation {
            Operation::CreateQueue { queue, surface, model, class, band } => {
                let new = NewQueue { surface, model, class, band };
                let made = self.create_queue(process, queue, new);
                put(&self.queues[&queue], made)
            }
            Operation::DropQueue { queue } => {
                let taken = self.queues[&queue].take().ok_or(CallError::Missing)?;
                taken.destroy()
            }
            Operation::CloseQueue { queue } => self.queue(queue)?.close(),
            Operation::Flood { queue, count, ns, signals } => {
                self.queue(queue)?.flood(count, ns, signals != 0)
            }
            Operation::Prompt { queue, ns } => self.prompt(process, queue, ns),
            Operation::Execute { queue, ns } => self.queue(queue)?.execute(&process.device()?, ns),
            Operation::Hang { queue } => self.hang(id, process, queue),
            Operation::Store { queue, buffer, word, value } => {
                let target = self.buffer(buffer)?;
                self.queue(queue)?.store(&process.device()?, &target, word, value as u32)
            }
            Operation::Broadcast { queue, other, fence, value } => {
                let target = self.fence(fence, id, Surface::Raw)?;
                self.queue(queue)?.broadcast(&self.queue(other)?, &target, value)
            }
            Operation::Drain { queue } => self.queue(queue)?.drain(),
            Operation::CreateFence { fence, surface, kind, sharing, initial } => {
                self.create_fence(id, process, fence, NewFence { surface, kind, sharing, initial })
            }
            Operation::OpenFence { fence, surface } => self.open_fence(id, process, fence, surface),
            Operation::DropFence { fence, surface } => {
                let slot = &self.fences[&(fence, id, surface)];
                slot.take().ok_or(CallError::Missing)?.destroy()
            }
            Operation::CloseFence { fence } => self.fence(fence, id, Surface::Raw)?.destroy(),
            Operation::QueueSignal { queue, fence, value } => {
                let target = self.fence(fence, id, self.surfaces[&queue])?;
                self.queue(queue)?.signal(&target, value)
            }
            Operation::QueueWait { queue, fence, value } => {
                let target = self.fence(fence, id, self.surfaces[&queue])?;
                self.queue(queue)?.wait(&target, value)
            }
            Operation::PulseQueue { queue, fence, value, low } => {
                let target = self.fence(fence, id, self.surfaces[&queue])?;
                self.pulse_queue(id, queue, &target, value, low)
            }
            Operation::Signal { fence, surface, value } => {
                self.fence(fence, id, surface)?.signal(value)
            }
            Operation::PulseWait { fence, surface, value, low } => {
                let target = self.fence(fence, id, surface)?;
                let wait = target.register(&self.platform, value)?;
                target.signal(value)?;
                target.signal(low)?;
                let waited = wait.wait();
                self.ended_waits.lock().push((*step, wait, EndOfWait::Awaited));
                waited
            }
            Operation::Wait { fence, surface, value } => {
                self.fence(fence, id, surface)?.wait(value)
            }
            Operation::WaitAll { fence, value, other, least } => {
                self.wait_for_two(id, [(fence, value), (other, least)], WaitMode::All)
            }
            Operation::WaitAny { fence, value, other, least } => {
                self.wait_for_two(id, [(fence, value), (other, least)], WaitMode::Any)
            }
            Operation::Register { wait, fence, surface, value } => {
                let registered = self.fence(fence, id, surface)?.register(&self.platform, value)?;
                waits.insert(wait, (*step, registered));
                Ok(())
            }
            Operation::Await { wait } => {
                let (step, registered) = waits.remove(&wait).ok_or(CallError::Missing)?;
                let waited = registered.wait();
                self.ended_waits.lock().push((step, registered, EndOfWait::Awaited));
                waited
            }
            Operation::Cancel { wait } => {
                let (step, mut registered) = waits.remove(&wait).ok_or(CallError::Missing)?;
                let end = EndOfWait::Cancelled { notices: registered.cancel() };
                self.ended_waits.lock().push((step, registered, end));
                Ok(())
            }
            Operation::CreateBuffer { .. }
            | Operation::DropBuffer { .. }
            | Operation::Scratch { .. }
            | Operation::Evict { .. }
            | Operation::PageOut { .. }
            | Operation::PageIn { .. } => self.carry_out_on_buffer(process, step.operation),
            Operation::Query { question } => self.query(process, question),
            Operation::SetPriority { queue, below } => self.queue(queue)?.set_priority(below),
            Operation::Tiles { tiles } => stories::tiles(&process.client, tiles),
            Operation::ShareResource { pages } => {
                stories::share_resource(&process.client, pages * PAGE_WORDS * 4)
            }
            Operation::Semaphore { rounds } => stories::semaphore(&process.client, rounds),
            Operation::KeyedMutex { rounds } => stories::keyed_mutex(&process.client, rounds),
            Operation::NameFence { value } => {
                stories::name_fence(&process.client, step.thread, value)
            }
            Operation::Vsync {} => stories::vsync(&process.client),
            Operation::Flip { interval } => stories::flip(&process.client, interval as u32),
            Operation::Rest { ns } => self.rest(ns),
            Operation::StopProcess { ns } => self.stop_process(ns),
            Operation::DestroyDevice {} | Operation::MarkDevice { .. } => {
                end_device(&process.client, step.operation)
            }
            Operation::Suspend { .. }
            | Operation::SleepResume { .. }
            | Operation::IdleEngines {}
            | Operation::ResetEngine { .. }
            | Operation::ResetAdapter {}
            | Operation::RemoveAdapter {}
            | Operation::Kill { .. } => self.operate(process, step),
        }
    }

    fn rest(&self, ns: u64) -> Called {
        self.platform.sleep_until(self.platform.now().after(ns));
        Ok(())
    }

    fn stop_process(&self, ns: u64) -> Called {
        self.platform.stop_process(ns);
        Ok(())
    }

    fn carry_out_on_buffer(&self, process: &RunProcess, operation: Operation) -> Called {
        match operation {
            Operation::CreateBuffer { buffer, surface, pages } => {
                put(&self.buffers[&buffer], self.create_buffer(process, surface, pages))
            }
            Operation::DropBuffer { buffer } => {
                self.buffers[&buffer].take().ok_or(CallError::Missing)?.destroy()
            }
            Operation::Scratch { surface, pages } => {
                self.create_buffer(process, surface, pages)?.destroy()
            }
            Operation::Evict { buffer } => self.buffer(buffer)?.evict(),
            Operation::PageOut { buffer } => self.buffer(buffer)?.page_out(),
            Operation::PageIn { buffer } => self.buffer(buffer)?.page_in(),
            _ => Err(CallError::Missing),
        }
    }

    /// Carries out a step of an operator: of the machine, or of its process for a client.
    fn operate(&self, process: &RunProcess, step: &ProgramStep) -> Called {
        debug_assert!(step.operation.kind().is_by_operator(), "{}", step.operation);
        match (&self.around, step.operation) {
            (Around::Parent(parent), _) => match parent.carry_out(step.thread) {
                Answer::Done => Ok(()),
                Answer::Refused(status) => Err(status.into()),
                Answer::Nothing => Err(CallError::Missing),
            },
            (Around::Machine(_), Operation::Kill { process }) => {
                self.run_process(process).kill();
                Ok(())
            }
            (Around::Machine(machine), operation) => machine.carry_out(process.adapter, operation),
        }
    }

    fn wait_for_two(
        &self,
        process: ProcessId,
        both: [(FenceId, u64); 2],
        mode: WaitMode,
    ) -> Called {
        let [one, other] = both;
        let one = (self.fence(one.0, process, Surface::Raw)?, one.1);
        let other = (self.fence(other.0, process, Surface::Raw)?, other.1);
        one.0.wait_beside(one.1, &other.0, other.1, mode)
    }

    fn prompt(&self, process: &RunProcess, queue: QueueId, ns: u64) -> Called {
        let object = self.queue(queue)?;
        let begun = self.platform.now().0;
        object.execute(&process.device()?, ns)?;
        object.drain()?;
        let took = self.platform.now().0 - begun;
        let bound = self.bounds.prompt_ns(self.end.queues[&queue].model);
        let bound = bound.filter(|bound| took > *bound);
        if let Some(bound) = bound {
            let text = format!("{ns} ns of {queue} took {took} ns, and {bound} ns are allowed");
            self.fail(Failure::Late(text));
        }
        Ok(())
    }

    fn queue(&self, queue: QueueId) -> Called<QueueObject> {
        self.queues[&queue].get().ok_or(CallError::Missing)
    }

    fn buffer(&self, buffer: BufferId) -> Called<BufferObject> {
        self.buffers[&buffer].get().ok_or(CallError::Missing)
    }

    fn fence(&self, fence: FenceId, process: ProcessId, surface: Surface) -> Called<FenceObject> {
        self.fences[&(fence, process, surface)].get().ok_or(CallError::Missing)
    }

    fn create_queue(
        &self,
        process: &RunProcess,
        id: QueueId,
        NewQueue { surface, model, class, band }: NewQueue,
    ) -> Called<QueueObject> {
        let priority = match band {
            Band::Normal => Priority::Normal,
            Band::High => Priority::High,
        };
        if surface == Surface::Api {
            let list_type = match class {
                Class::Direct => CommandListType::Direct,
                Class::Compute => CommandListType::Compute,
                Class::Copy => CommandListType::Copy,
            };
            let desc = QueueDesc::new(list_type)
                .name(id.to_string())
                .priority(priority)
                .submission(model.submission());
            return Ok(QueueObject::Api(process.device()?.create_queue(desc)?));
        }
        let client = &process.client;
        let adapter = &self.program.adapters[process.adapter];
        let node = adapter.node(class, &self.platform).ok_or(CallError::Missing)?;
        let queue = match model {
            Model::Packet => RawQueue::packet(client, client.try_context(node, priority)?)?,
            Model::Hardware => {
                let context = client.try_hw_context(node)?;
                RawQueue::hardware(client, context, client.hw_queue_in(context, false)?)?
            }
            Model::User => {
                let context = client.try_hw_context(node)?;
                let queue = client.try_with_ring(client.hw_queue_in(context, true)?)?;
                queue.connect()?;
                RawQueue::user(client, context, queue)?
            }
        };
        Ok(QueueObject::Raw(Arc::new(queue)))
    }

    fn create_fence(
        &self,
        id: ProcessId,
        process: &RunProcess,
        fence: FenceId,
        new: NewFence,
    ) -> Called {
        let NewFence { surface, sharing, .. } = new;
        let made = self.make_fence(process, fence, new);
        let handle = match (&made, sharing) {
            (_, Sharing::Private) | (Err(_), _) => Ok(None),
            (Ok(FenceObject::Api(fence)), _) => {
                process.device().and_then(|d| Ok(Some(d.create_shared_handle(fence)?)))
            }
            (Ok(FenceObject::Raw(client, fence)), _) => {
                let access = tidegate::calls::SyncObjectAccess::all();
                client.share(fence, access).map(Some).map_err(CallError::from)
            }
        };
        let shared = handle.as_ref().ok().cloned().flatten();
        if let Around::Parent(parent) = &self.around
            && sharing != Sharing::Private
        {
            parent.hand_over(fence, shared.as_ref());
        }
        self.handles[&fence].put(shared);
        put(&self.fences[&(fence, id, surface)], made)?;
        handle.map(|_| ())
    }

    fn make_fence(
        &self,
        process: &RunProcess,
        fence: FenceId,
        NewFence { surface, kind, sharing, initial }: NewFence,
    ) -> Called<FenceObject> {
        if surface == Surface::Api {
            let flags = match sharing {
                Sharing::Private => FenceFlags::empty(),
                Sharing::Shared => FenceFlags::SHARED,
                Sharing::Cross => FenceFlags::SHARED | FenceFlags::SHARED_CROSS_ADAPTER,
            };
            let desc = FenceDesc::new(fence.to_string()).initial_value(initial).flags(flags);
            return Ok(FenceObject::Api(process.device()?.create_fence_with(desc)?));
        }
        let shared = SyncObjectFlags::SHARED | SyncObjectFlags::NT_SECURITY_SHARING;
        let flags = match sharing {
            Sharing::Private => SyncObjectFlags::empty(),
            Sharing::Shared => shared,
            Sharing::Cross => shared | SyncObjectFlags::CROSS_ADAPTER,
        };
        let client = &process.client;
        let made = match kind {
            FenceKind::Native => client.try_native(initial, flags)?,
            FenceKind::Monitored => client.try_monitored(initial, flags)?,
        };
        Ok(FenceObject::Raw(client.clone(), made))
    }

    fn open_fence(
        &self,
        id: ProcessId,
        process: &RunProcess,
        fence: FenceId,
        surface: Surface,
    ) -> Called {
        let open = || {
            let handle = self.handles[&fence].get().ok_or(CallError::Missing)?;
            if surface == Surface::Api {
                let opened = process.device()?.open_shared_handle(&fence.to_string(), &handle)?;
                return Ok(FenceObject::Api(opened));
            }
            let opened = process.client.open_shared(&handle, SyncObjectFlags::empty())?;
            Ok(FenceObject::Raw(process.client.clone(), opened))
        };
        put(&self.fences[&(fence, id, surface)], open())
    }

    fn create_buffer(
        &self,
        process: &RunProcess,
        surface: Surface,
        pages: u64,
    ) -> Called<BufferObject> {
        let bytes = pages * PAGE_WORDS * 4;
        if surface == Surface::Api {
            let desc = BufferDesc::new("buffer", bytes).heap(Heap::Readback);
            return Ok(BufferObject::Api(process.device()?.create_buffer(desc)?));
        }
        let client = process.client.clone();
        let allocation = client.try_allocate(bytes, AllocationKind::Bulk, Placement::Local)?;
        let args = CreatePagingQueue { device: client.device, priority: PagingPriority::Normal };
        let paging = client.kernel.create_paging_queue(args)?;
        let priority = ResidencyPriority::NORMAL;
        client.kernel.set_allocation_priority(client.device, &[allocation.handle], priority)?;
        Ok(BufferObject::Raw(Arc::new(RawBuffer { client, allocation, paging })))
    }

    fn pulse_queue(
        &self,
        id: ProcessId,
        queue: QueueId,
        fence: &FenceObject,
        value: u64,
        low: u64,
    ) -> Called {
        let object = self.queue(queue)?;
        if self.end.may_fault.contains(&queue) {
            let ring = self.injected_in(id, queue, &object);
            self.may_fault.lock().push(ring);
        }
        object.wait(fence, value)?;
        fence.signal(value)?;
        fence.signal(low)
    }

    fn hang(&self, id: ProcessId, process: &RunProcess, queue: QueueId) -> Called {
        let object = self.queue(queue)?;
        let injected = self.injected_in(id, queue, &object);
        self.injected.lock().push(injected);
        object.hang(&process.device()?)
    }

    fn injected_in(&self, process: ProcessId, queue: QueueId, object: &QueueObject) -> Injected {
        Injected { process, surface: self.surfaces[&queue], queues: object.numbers() }
    }

    fn query(&self, process: &RunProcess, question: Question) -> Called {
        let Client { kernel, device, .. } = &process.client;
        match question {
            Question::Adapter => drop(kernel.query_adapter_info()),
            Question::Clock => drop(kernel.query_clock_calibration(0, 0)?),
            Question::Device => drop(kernel.device_state(*device)?),
            Question::Memory => drop(kernel.query_video_memory_info(SegmentGroup::Local)?),
        }
        Ok(())
    }
}

use tidegate_testbed::Client;

/// Ends the D3DKMT device of a process by a call.
fn end_device(client: &Client, operation: Operation) -> Called {
    match operation {
        Operation::MarkDevice { .. } => {
            let reason = DeviceErrorReason::Generic;
            Ok(client.kernel.mark_device_as_error(client.device, reason)?)
        }
        _ => Ok(client.kernel.destroy_device(client.device)?),
    }
}

/// Puts a made object into its slot.
fn put<T: Clone>(slot: &super::slot::Slot<T>, made: Called<T>) -> Called {
    match made {
        Ok(value) => {
            slot.put(Some(value));
            Ok(())
        }
        Err(error) => {
            slot.put(None);
            Err(error)
        }
    }
}
