//! Queues, fences and buffers of a run, of either surface, with the calls that steps make on them.

use std::sync::Arc;
use tidegate::calls::{
    Allocation, AllocationMemory, CpuWaitRegistration, DeviceState, FenceInstance, FenceValue,
    Handle, HwQueue, Kernel, MakeResident, PagingQueue, Residency, SignalFlags, SignalFromGpu2,
    Status, SubmitCommand, SubmitCommandToHwQueue, SubmitSignalToHwQueues, WaitCallback, WaitMode,
    WaitNotice,
};
use tidegate::d3d12::testing::TestCommands;
use tidegate::d3d12::{
    Buffer, Device, Error, Event as ApiEvent, EventDesc, EventRegistration, Fence, Queue,
};
use tidegate::d3dukmdt::DoorbellStatus;
use tidegate::gpu_abi::{Command, GpuVa, RingPacket};
use tidegate::platform::{Event, Mutex, Platform, QueueNumber, Step, Word};
use tidegate_testbed::{Client, UserQueue, at, fill, signal_packet, wait_packet};

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallError {
    Status(Status),
    Api(Error),
    /// The object could not be made before.
    Missing,
}

impl From<Status> for CallError {
    fn from(status: Status) -> CallError {
        CallError::Status(status)
    }
}

impl From<Error> for CallError {
    fn from(error: Error) -> CallError {
        CallError::Api(error)
    }
}

impl CallError {
    /// Returns whether a call on a lost device, or of a process that was ended, may fail so.
    pub(crate) fn is_loss(&self) -> bool {
        match self {
            CallError::Status(status) => *status == Status::DEVICE_REMOVED,
            CallError::Api(error) => {
                matches!(error, Error::DeviceRemoved(_) | Error::QueueAborted { .. })
            }
            CallError::Missing => true,
        }
    }

    /// Returns whether the call names an object that is destroyed.
    pub(crate) fn is_closed(&self) -> bool {
        *self == CallError::Status(Status::INVALID_PARAMETER)
    }

    /// Returns whether the adapter cannot do it.
    pub(crate) fn is_unsupported(&self) -> bool {
        match self {
            CallError::Status(status) => *status == Status::NOT_SUPPORTED,
            CallError::Api(Error::Call { status, .. }) => *status == Status::NOT_SUPPORTED,
            CallError::Api(_) | CallError::Missing => false,
        }
    }

    /// Returns whether the run has ended, so that the call says nothing.
    pub(crate) fn is_end_of_run(&self) -> bool {
        matches!(self, CallError::Status(Status::CANCELLED) | CallError::Api(Error::Stopped))
    }
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CallError::Status(status) => write!(f, "{status:?}"),
            CallError::Api(error) => write!(f, "{error}"),
            CallError::Missing => f.write_str("its object could not be made"),
        }
    }
}

pub(crate) type Called<T = ()> = Result<T, CallError>;

/// A queue of a run.
#[derive(Clone)]
pub(crate) enum QueueObject {
    Api(Queue),
    Raw(Arc<RawQueue>),
}

/// A queue at the call surface.
pub(crate) struct RawQueue {
    client: Client,
    object: RawObject,
    /// Reports that work is done; one value for each drain.
    done: FenceInstance,
    drains: Word,
    /// Progress values of command buffers.
    progress: Word,
    /// A ring has one submitter at a time, from the progress value to the status of its doorbell.
    /// Progress values reach a hardware queue in order.
    submitter: Mutex<()>,
}

enum RawObject {
    Context(Handle),
    HwQueue { hw_context: Handle, queue: HwQueue },
    User { hw_context: Handle, queue: Box<UserQueue> },
}

impl RawQueue {
    pub(crate) fn packet(client: &Client, context: Handle) -> Called<RawQueue> {
        RawQueue::around(client, RawObject::Context(context), false)
    }

    pub(crate) fn hardware(
        client: &Client,
        hw_context: Handle,
        queue: HwQueue,
    ) -> Called<RawQueue> {
        RawQueue::around(client, RawObject::HwQueue { hw_context, queue }, false)
    }

    pub(crate) fn user(client: &Client, hw_context: Handle, queue: UserQueue) -> Called<RawQueue> {
        RawQueue::around(client, RawObject::User { hw_context, queue: Box::new(queue) }, true)
    }

    fn around(client: &Client, object: RawObject, native: bool) -> Called<RawQueue> {
        let flags = tidegate::calls::SyncObjectFlags::empty();
        let done = match native {
            true => client.try_native(0, flags)?,
            false => client.try_monitored(0, flags)?,
        };
        let page = client.platform.page(2);
        let (drains, progress) = (page.word(0), page.word(1));
        let submitter = client.platform.mutex("submitter of a raw queue", ());
        Ok(RawQueue { client: client.clone(), object, done, drains, progress, submitter })
    }

    fn kernel(&self) -> &Arc<dyn Kernel> {
        &self.client.kernel
    }

    fn number(&self) -> Option<QueueNumber> {
        let handle = match &self.object {
            RawObject::Context(context) => *context,
            RawObject::HwQueue { queue, .. } => queue.handle,
            RawObject::User { queue, .. } => queue.queue.handle,
        };
        self.kernel().queue_number(handle)
    }

    fn execute(&self, commands: &[Command]) -> Called {
        let mut writer = tidegate::gpu_abi::CommandWriter::new();
        commands.iter().for_each(|command| writer.push(command));
        let bytes = writer.to_bytes();
        let memory = self.client.try_allocate(
            bytes.len() as u64,
            tidegate::calls::AllocationKind::Bulk,
            tidegate::calls::Placement::System,
        )?;
        if let AllocationMemory::Bulk(memory) = &memory.memory {
            memory.write(0, &bytes).map_err(|_| Status::INTERNAL_ERROR)?;
        }
        let (commands_gpu_va, command_bytes) = (memory.gpu_va, bytes.len() as u32);
        match &self.object {
            RawObject::Context(context) => {
                let args = SubmitCommand { context: *context, commands_gpu_va, command_bytes };
                Ok(self.kernel().submit_command(args)?)
            }
            RawObject::HwQueue { queue, .. } => {
                let _submitter = self.submitter.lock_device();
                let progress_fence_id = self.progress.fetch_add(1) + 1;
                Ok(self.kernel().submit_command_to_hw_queue(SubmitCommandToHwQueue {
                    hw_queue: queue.handle,
                    progress_fence_id,
                    commands_gpu_va,
                    command_bytes,
                })?)
            }
            RawObject::User { queue, .. } => {
                let _submitter = self.submitter.lock_device();
                let progress = self.progress.fetch_add(1) + 1;
                let packet = RingPacket::execute(GpuVa(commands_gpu_va), command_bytes, progress);
                self.push(queue, &packet)
            }
        }
    }

    /// Writes a packet and rings until the doorbell accepts it. The caller is the submitter.
    fn push(&self, queue: &UserQueue, packet: &RingPacket) -> Called {
        queue.put(packet);
        loop {
            queue.ring();
            self.client.platform.fence();
            match queue.status() {
                DoorbellStatus::Connected => return Ok(()),
                DoorbellStatus::ConnectedNotify => {
                    return Ok(self.kernel().notify_work_submission(queue.doorbell.handle)?);
                }
                DoorbellStatus::DisconnectedRetry => queue.connect()?,
                DoorbellStatus::DisconnectedAbort => return Err(Status::DEVICE_REMOVED.into()),
            }
        }
    }

    fn signal(&self, fence: &FenceInstance, value: u64) -> Called {
        match &self.object {
            RawObject::Context(context) => {
                Ok(self.kernel().signal_from_gpu(*context, &at(fence, value))?)
            }
            RawObject::HwQueue { queue, .. } => {
                Ok(self.kernel().submit_signal_to_hw_queue(queue.handle, &at(fence, value))?)
            }
            RawObject::User { queue, .. } => {
                let _submitter = self.submitter.lock_device();
                self.push(queue, &signal_packet(fence, value, NO_LOG_ENTRY))
            }
        }
    }

    fn wait(&self, fence: &FenceInstance, value: u64) -> Called {
        match &self.object {
            RawObject::Context(context) => {
                Ok(self.kernel().wait_from_gpu(*context, &at(fence, value))?)
            }
            RawObject::HwQueue { queue, .. } => {
                Ok(self.kernel().submit_wait_to_hw_queue(queue.handle, &at(fence, value))?)
            }
            RawObject::User { queue, .. } => {
                let _submitter = self.submitter.lock_device();
                self.push(queue, &wait_packet(fence, value, NO_LOG_ENTRY))
            }
        }
    }

    /// Queues one signal on this queue and on another one.
    fn broadcast(&self, other: &RawQueue, fence: &FenceInstance, value: u64) -> Called {
        let (fences, flags) = (&at(fence, value)[..], SignalFlags::empty());
        match (&self.object, &other.object) {
            (RawObject::Context(one), RawObject::Context(other)) => {
                let contexts = &[*one, *other];
                let args = SignalFromGpu2 { contexts, fences, flags, cpu_event: None };
                Ok(self.kernel().signal_from_gpu2(args)?)
            }
            (RawObject::HwQueue { queue, .. }, RawObject::HwQueue { queue: other, .. }) => {
                let hw_queues = &[queue.handle, other.handle];
                let args = SubmitSignalToHwQueues { hw_queues, fences, flags };
                Ok(self.kernel().submit_signal_to_hw_queues(args)?)
            }
            _ => Err(CallError::Missing),
        }
    }

    /// Queues packets, each followed by a signal if `signals`.
    fn flood(&self, count: u64, ns: u64, signals: bool) -> Called {
        for _ in 0..count {
            self.execute(&[Command::Timed { ns }])?;
            if signals {
                self.signal(&self.done, self.drains.fetch_add(1) + 1)?;
            }
        }
        Ok(())
    }

    fn set_priority(&self, below: u64) -> Called {
        let (RawObject::HwQueue { hw_context, .. } | RawObject::User { hw_context, .. }) =
            &self.object
        else {
            return Err(CallError::Missing);
        };
        let priority = -(below as i32);
        let kernel = self.kernel();
        kernel.set_context_scheduling_priority(*hw_context, priority)?;
        Ok(kernel.set_context_in_process_scheduling_priority(*hw_context, priority)?)
    }

    fn drain(&self) -> Called {
        let value = self.drains.fetch_add(1) + 1;
        self.signal(&self.done, value)?;
        Ok(self.client.wait(self.done.handle, value)?)
    }

    /// Destroys the queue, and leaves what other threads may name for [`RawQueue::destroy_rest`].
    fn close(&self) -> Called {
        let kernel = self.kernel();
        match &self.object {
            RawObject::Context(context) => kernel.destroy_context(*context)?,
            RawObject::HwQueue { hw_context, queue } => {
                kernel.destroy_hw_queue(queue.handle)?;
                kernel.destroy_hw_context(*hw_context)?;
            }
            RawObject::User { hw_context, queue } => {
                kernel.destroy_doorbell(queue.doorbell.handle)?;
                kernel.destroy_hw_queue(queue.queue.handle)?;
                kernel.destroy_hw_context(*hw_context)?;
                kernel.destroy_allocation(queue.ring.handle)?;
                kernel.destroy_allocation(queue.control.handle)?;
            }
        }
        Ok(())
    }

    fn destroy_rest(&self) -> Called {
        Ok(self.kernel().destroy_synchronization_object(self.done.handle)?)
    }
}

/// A ring packet without a log entry.
const NO_LOG_ENTRY: u32 = u32::MAX;

impl QueueObject {
    /// Returns the numbers of the queue in reports.
    pub(crate) fn numbers(&self) -> Vec<QueueNumber> {
        match self {
            QueueObject::Api(queue) => queue.numbers(),
            QueueObject::Raw(queue) => queue.number().into_iter().collect(),
        }
    }

    pub(crate) fn execute(&self, device: &Device, ns: u64) -> Called {
        match self {
            QueueObject::Api(queue) => {
                let mut list = device.create_command_list(queue.list_type());
                list.timed(ns)?;
                Ok(queue.execute(&[&list.close()?])?)
            }
            QueueObject::Raw(queue) => queue.execute(&[Command::Timed { ns }]),
        }
    }

    pub(crate) fn hang(&self, device: &Device) -> Called {
        match self {
            QueueObject::Api(queue) => {
                let mut list = device.create_command_list(queue.list_type());
                list.hang()?;
                Ok(queue.execute(&[&list.close()?])?)
            }
            QueueObject::Raw(queue) => queue.execute(&[Command::Hang]),
        }
    }

    pub(crate) fn store(
        &self,
        device: &Device,
        buffer: &BufferObject,
        word: u64,
        value: u32,
    ) -> Called {
        match (self, buffer) {
            (QueueObject::Api(queue), BufferObject::Api(buffer)) => {
                let mut list = device.create_command_list(queue.list_type());
                list.fill(buffer, word * 4, 4, value)?;
                Ok(queue.execute(&[&list.close()?])?)
            }
            (QueueObject::Raw(queue), BufferObject::Raw(buffer)) => {
                let destination = buffer.allocation.gpu_va + word * 4;
                queue.execute(&[fill(destination, 4, value)])
            }
            _ => Err(CallError::Missing),
        }
    }

    pub(crate) fn signal(&self, fence: &FenceObject, value: u64) -> Called {
        match (self, fence) {
            (QueueObject::Api(queue), FenceObject::Api(fence)) => Ok(queue.signal(fence, value)?),
            (QueueObject::Raw(queue), FenceObject::Raw(_, fence)) => queue.signal(fence, value),
            _ => Err(CallError::Missing),
        }
    }

    pub(crate) fn wait(&self, fence: &FenceObject, value: u64) -> Called {
        match (self, fence) {
            (QueueObject::Api(queue), FenceObject::Api(fence)) => Ok(queue.wait(fence, value)?),
            (QueueObject::Raw(queue), FenceObject::Raw(_, fence)) => queue.wait(fence, value),
            _ => Err(CallError::Missing),
        }
    }

    /// Queues a signal on this queue and on another one of its kind.
    pub(crate) fn broadcast(&self, other: &QueueObject, fence: &FenceObject, value: u64) -> Called {
        match (self, other, fence) {
            (QueueObject::Raw(queue), QueueObject::Raw(other), FenceObject::Raw(_, fence)) => {
                queue.broadcast(other, fence, value)
            }
            _ => Err(CallError::Missing),
        }
    }

    pub(crate) fn set_priority(&self, below: u64) -> Called {
        match self {
            QueueObject::Api(_) => Err(CallError::Missing),
            QueueObject::Raw(queue) => queue.set_priority(below),
        }
    }

    pub(crate) fn drain(&self) -> Called {
        match self {
            QueueObject::Api(queue) => Ok(queue.wait_idle()?),
            QueueObject::Raw(queue) => queue.drain(),
        }
    }

    /// Queues packets at the call surface.
    pub(crate) fn flood(&self, count: u64, ns: u64, signals: bool) -> Called {
        match self {
            QueueObject::Api(_) => Err(CallError::Missing),
            QueueObject::Raw(queue) => queue.flood(count, ns, signals),
        }
    }

    /// Destroys a queue at the call surface while other threads may use it.
    pub(crate) fn close(&self) -> Called {
        match self {
            QueueObject::Api(_) => Err(CallError::Missing),
            QueueObject::Raw(queue) => queue.close(),
        }
    }

    /// Destroys what a closed queue has left.
    pub(crate) fn destroy_rest(self) -> Called {
        match self {
            QueueObject::Api(_) => Ok(()),
            QueueObject::Raw(queue) => queue.destroy_rest(),
        }
    }

    pub(crate) fn destroy(self) -> Called {
        match self {
            QueueObject::Api(queue) => {
                drop(queue);
                Ok(())
            }
            QueueObject::Raw(queue) => {
                queue.close()?;
                queue.destroy_rest()
            }
        }
    }
}

/// An instance of a fence.
#[derive(Clone)]
pub(crate) enum FenceObject {
    Api(Fence),
    Raw(Client, FenceInstance),
}

impl FenceObject {
    pub(crate) fn signal(&self, value: u64) -> Called {
        match self {
            FenceObject::Api(fence) => Ok(fence.signal(value)?),
            FenceObject::Raw(client, fence) => {
                let flags = SignalFlags::ALLOW_FENCE_REWIND;
                Ok(client.kernel.signal_from_cpu(&at(fence, value), flags)?)
            }
        }
    }

    pub(crate) fn wait(&self, value: u64) -> Called {
        match self {
            FenceObject::Api(fence) => Ok(fence.wait(value)?),
            FenceObject::Raw(client, fence) => Ok(client.wait(fence.handle, value)?),
        }
    }

    /// Blocks until both have, or one has, reached its value. Of the call surface.
    pub(crate) fn wait_beside(
        &self,
        value: u64,
        other: &FenceObject,
        least: u64,
        mode: WaitMode,
    ) -> Called {
        let (FenceObject::Raw(client, one), FenceObject::Raw(_, other)) = (self, other) else {
            return Err(CallError::Missing);
        };
        let both = [(one, value), (other, least)];
        let both = both.map(|(fence, value)| FenceValue { fence: fence.handle, value });
        Ok(client.kernel.wait_from_cpu(&both, mode, None)?)
    }

    pub(crate) fn register(&self, platform: &Platform, value: u64) -> Called<Registered> {
        match self {
            FenceObject::Api(fence) => {
                let event = ApiEvent::new(platform, EventDesc::auto_reset());
                let registration = fence.register_event(value, &event)?;
                Ok(Registered::Api { event, registration: Some(registration) })
            }
            FenceObject::Raw(client, fence) => {
                let notice = Arc::new(Notice {
                    times: platform.page(1).word(0),
                    event: platform.event(true),
                });
                let fences = [FenceValue { fence: fence.handle, value }];
                let callback = WaitNotice::Callback(notice.clone());
                let registration =
                    client.kernel.register_cpu_wait(&fences, WaitMode::All, callback)?;
                Ok(Registered::Raw { notice, registration: Some(registration) })
            }
        }
    }

    pub(crate) fn destroy(self) -> Called {
        match self {
            FenceObject::Api(fence) => {
                drop(fence);
                Ok(())
            }
            FenceObject::Raw(client, fence) => {
                Ok(client.kernel.destroy_synchronization_object(fence.handle)?)
            }
        }
    }
}

/// Counts the notices of a registered wait.
pub(crate) struct Notice {
    times: Word,
    event: Event,
}

impl WaitCallback for Notice {
    fn wait_is_over(&self) {
        self.times.fetch_add(1);
        self.event.set(Step::ThreadWake);
    }
}

/// A registered wait of a thread.
pub(crate) enum Registered {
    Api { event: ApiEvent, registration: Option<EventRegistration> },
    Raw { notice: Arc<Notice>, registration: Option<CpuWaitRegistration> },
}

impl Registered {
    /// Blocks until the wait is over, and takes its notice.
    pub(crate) fn wait(&self) -> Called {
        match self {
            Registered::Api { event, .. } => Ok(event.wait()?),
            Registered::Raw { notice, .. } => {
                use tidegate::platform::WaitEnd;
                match notice.event.wait_for(None, "the notice of a wait") {
                    WaitEnd::Stopped => Err(Status::CANCELLED.into()),
                    _ => Ok(()),
                }
            }
        }
    }

    /// Cancels the wait. Returns the notices given by then.
    pub(crate) fn cancel(&mut self) -> u64 {
        match self {
            Registered::Api { event, registration } => {
                drop(registration.take());
                u64::from(event.try_take())
            }
            Registered::Raw { notice, registration } => {
                drop(registration.take());
                notice.times.load()
            }
        }
    }

    /// Returns the notices that were not taken (queue API), or all (calls).
    pub(crate) fn notices(&self) -> u64 {
        match self {
            Registered::Api { event, .. } => u64::from(event.is_set()),
            Registered::Raw { notice, .. } => notice.times.load(),
        }
    }

    /// Returns whether notices are counted, and not only noted.
    pub(crate) fn is_counted(&self) -> bool {
        matches!(self, Registered::Raw { .. })
    }
}

/// A buffer.
#[derive(Clone)]
pub(crate) enum BufferObject {
    Api(Buffer),
    Raw(Arc<RawBuffer>),
}

/// An allocation in local memory, with the paging queue that makes it resident.
pub(crate) struct RawBuffer {
    pub(crate) client: Client,
    pub(crate) allocation: Allocation,
    pub(crate) paging: PagingQueue,
}

impl BufferObject {
    pub(crate) fn read(&self, word: u64) -> Called<u32> {
        let mut bytes = [0; 4];
        match self {
            BufferObject::Api(buffer) => buffer.read(word * 4, &mut bytes)?,
            BufferObject::Raw(buffer) => {
                let outside = Status::INTERNAL_ERROR;
                match &buffer.allocation.memory {
                    AllocationMemory::Bulk(m) => {
                        m.read(word * 4, &mut bytes).map_err(|_| outside)?
                    }
                    AllocationMemory::Window(m) => {
                        m.read(word * 4, &mut bytes).map_err(|_| outside)?;
                    }
                    AllocationMemory::ByCalls(m) => {
                        m.read(word * 4, &mut bytes).map_err(|_| outside)?;
                    }
                    AllocationMemory::Protocol(_) => return Err(outside.into()),
                }
            }
        }
        Ok(u32::from_le_bytes(bytes))
    }

    /// Takes the reference away and gives it back.
    pub(crate) fn evict(&self) -> Called {
        self.page_out()?;
        self.page_in()
    }

    /// Takes the reference away.
    pub(crate) fn page_out(&self) -> Called {
        let BufferObject::Raw(buffer) = self else { return Err(CallError::Missing) };
        let RawBuffer { client, allocation, .. } = &**buffer;
        let handles = [allocation.handle];
        client.kernel.evict(client.device, &handles).map_err(|status| match status {
            // The device was lost after an earlier eviction, whose reference did not come back.
            Status::INVALID_PARAMETER if client.state() != Ok(DeviceState::Active) => {
                Status::DEVICE_REMOVED
            }
            status => status,
        })?;
        client.kernel.query_allocation_residency(client.device, &handles)?;
        Ok(())
    }

    /// Gives the reference back, and waits for the paging.
    pub(crate) fn page_in(&self) -> Called {
        let BufferObject::Raw(buffer) = self else { return Err(CallError::Missing) };
        let RawBuffer { client, allocation, paging } = &**buffer;
        let handles = [allocation.handle];
        let args = MakeResident { paging_queue: paging.handle, allocations: &handles };
        match client.kernel.make_resident(args)? {
            Residency::Resident => Ok(()),
            Residency::Pending { paging_fence_value } => {
                Ok(client.wait(paging.fence.handle, paging_fence_value)?)
            }
            Residency::OverBudget { .. } => Err(Status::NO_MEMORY.into()),
        }
    }

    pub(crate) fn destroy(self) -> Called {
        match self {
            BufferObject::Api(buffer) => {
                drop(buffer);
                Ok(())
            }
            BufferObject::Raw(buffer) => {
                let kernel = &buffer.client.kernel;
                kernel.destroy_allocation(buffer.allocation.handle)?;
                Ok(kernel.destroy_paging_queue(buffer.paging.handle)?)
            }
        }
    }
}
