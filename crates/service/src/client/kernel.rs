//! The calls, each a message and its answer. Waits for values that are reached, and rings, are
//! none.

use super::channel::Channel;
use super::doorbells::Doorbells;
use super::memory::Mapped;
use super::notices::{Notices, Wait};
use super::nt_handle;
use crate::arguments::*;
use crate::long;
use crate::transport::Attachment;
use crate::wire::{
    AllocationView, Call, ConnectionView, DoorbellView, FenceView, HwQueueView, LogView,
    OpenedResourceView, OwnMessage, WaitingCall,
};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use tidegate_calls::*;
use tidegate_platform::{CpuTime, Event, Mutex, Platform, QueueNumber};

/// How long a blocking wait polls before it is armed, in nanoseconds: about what an armed wait
/// costs.
const POLL_NS: u64 = 20_000;

/// The calls of a process that a service has opened. Dropping the last reference ends the process
/// in order ([`RemoteKernel::end_process`]). A client that is killed is terminated.
pub struct RemoteKernel {
    platform: Platform,
    info: AdapterInfo,
    adapters: u32,
    /// Nanoseconds from the service's clock to this platform's.
    clock_ahead_ns: i128,
    channel: Arc<Channel>,
    notices: Arc<Notices>,
    mapped: Mapped,
    doorbells: Doorbells,
    /// The values of open fences that the process may wait for.
    values: Mutex<BTreeMap<Handle, OpenFence>>,
    /// Held over the pieces of a call's commands.
    pieces: Mutex<()>,
}

/// A fence that is open until its device or paging queue ends.
struct OpenFence {
    ends_with: [Handle; 2],
    value: CurrentValueView,
}

impl fmt::Debug for RemoteKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteKernel({})", self.info.description)
    }
}

impl Drop for RemoteKernel {
    fn drop(&mut self) {
        self.end_process();
    }
}

impl RemoteKernel {
    /// `clock_ahead_ns`: nanoseconds from the service's clock to the platform's.
    pub(super) fn new(
        platform: &Platform,
        channel: Arc<Channel>,
        notices: Arc<Notices>,
        (info, adapters): (AdapterInfo, u32),
        clock_ahead_ns: i128,
    ) -> RemoteKernel {
        RemoteKernel {
            platform: platform.clone(),
            info,
            adapters,
            clock_ahead_ns,
            channel,
            notices,
            mapped: Mapped::new(platform),
            doorbells: Doorbells::new(platform),
            values: platform.mutex("values of fences", BTreeMap::new()),
            pieces: platform.mutex("pieces of commands", ()),
        }
    }

    /// Returns how many adapters the service has.
    pub fn adapters(&self) -> u32 {
        self.adapters
    }

    /// Makes a call without an effect, and returns whether the service has answered it.
    pub fn check_connection(&self) -> bool {
        let _: Option<QueueNumber> = self.queue_number(Handle(0));
        self.is_connected()
    }

    /// Ends the process in order: the service waits until its queued work is complete, for at most
    /// the TDR delay, and then ends its objects. Returns at once. Later calls return
    /// DEVICE_REMOVED.
    pub fn end_process(&self) {
        self.channel.say_goodbye();
    }

    /// Returns whether the service still answers, as far as the client knows.
    pub fn is_connected(&self) -> bool {
        !self.channel.is_lost()
    }
}

impl RemoteKernel {
    /// Makes a call. One that ends waits of its own process gives their notices before it returns.
    fn send<T: DeserializeOwned>(&self, call: Call) -> Result<T, Status> {
        let answer = self.channel.call(call);
        self.notices.give_due();
        answer
    }

    fn make_fence(
        &self,
        device: Handle,
        call: Call,
        may_wait: bool,
    ) -> Result<FenceInstance, Status> {
        let (view, files): (FenceView, _) = self.channel.call_with(call, &[])?;
        self.keep_fence([device; 2], view, &files, may_wait)
    }

    fn keep_fence(
        &self,
        ends_with: [Handle; 2],
        view: FenceView,
        files: &[Attachment],
        may_wait: bool,
    ) -> Result<FenceInstance, Status> {
        let made = self.mapped.fence(view, files)?;
        if may_wait && !self.info.no_64bit_atomics {
            let open = OpenFence { ends_with, value: made.value.clone() };
            self.values.lock().insert(made.handle, open);
        }
        Ok(made)
    }

    /// Removes the fences that have ended with their device or paging queue.
    fn end_fences_of(&self, ended: Handle) {
        self.values.lock().retain(|_, open| !open.ends_with.contains(&ended));
    }

    /// Returns whether a wait is over, as far as the values say. A fence that reads its maximum may
    /// belong to a lost device, which the kernel knows.
    fn is_reached(&self, fences: &[FenceValue], mode: WaitMode) -> bool {
        let values = self.values.lock();
        let reached = |wanted: &FenceValue| {
            let value = values.get(&wanted.fence).and_then(|open| open.value.get());
            value.is_some_and(|value| value >= wanted.value && value != u64::MAX)
        };
        match mode {
            WaitMode::All => !fences.is_empty() && fences.iter().all(reached),
            WaitMode::Any => fences.iter().any(reached),
        }
    }

    fn nt_handle(&self, call: Call) -> Result<NtHandle, Status> {
        let ((), files) = self.channel.call_with(call, &[])?;
        files.into_iter().next().map(nt_handle::of_attachment).ok_or(Status::DEVICE_REMOVED)
    }

    fn by_resource_name<T: DeserializeOwned>(
        &self,
        name: ResourceName<'_>,
        call: impl FnOnce(SharedName) -> Call,
    ) -> Result<T, Status> {
        let (name, files) = match name {
            ResourceName::Shared(handle) => (SharedName::Global(handle), &[][..]),
            ResourceName::NtHandle(handle) => {
                let file = nt_handle::attachment(handle).ok_or(Status::INVALID_HANDLE)?;
                (SharedName::File, std::slice::from_ref(file))
            }
        };
        self.channel.call_with(call(name), files).map(|(value, _)| value)
    }

    fn open_fence(
        &self,
        args: OpenSyncObject<'_>,
        call: impl FnOnce(OpenSyncObjectMessage) -> Call,
    ) -> Result<FenceInstance, Status> {
        let OpenSyncObject { device, nt_handle, flags, engine_affinity } = args;
        let file = nt_handle::attachment(nt_handle).ok_or(Status::INVALID_HANDLE)?;
        let call = call(OpenSyncObjectMessage { device, flags, engine_affinity });
        let (view, files) = self.channel.call_with(call, std::slice::from_ref(file))?;
        let may_wait = !flags.contains(SyncObjectFlags::NO_WAIT);
        self.keep_fence([device; 2], view, &files, may_wait)
    }
}

/// The method of a call whose arguments are all of its message.
macro_rules! send {
    (adapts $($call:tt)*) => {};
    (forgets $($call:tt)*) => {};
    (special $($call:tt)*) => {};
    (queues $Name:ident $f:ident ($($arg:ident: $ty:ty),*) -> $out:ty) => {
        fn $f(&self, $($arg: $ty),*) -> $out {
            self.channel.call(Call::$Name { $($arg: $arg.into()),* })
        }
    };
    ($how:ident $Name:ident $f:ident ($($arg:ident: $ty:ty),*) -> $out:ty) => {
        fn $f(&self, $($arg: $ty),*) -> $out {
            self.send(Call::$Name { $($arg: $arg.into()),* })
        }
    };
}

macro_rules! send_all {
    ([]
        local { $($local:tt)* }
        sent { $($(#[$meta:meta])* $Name:ident $how:ident
            fn $f:ident($($arg:ident: $ty:ty $(=> $message:ty)?),* $(,)?) -> $out:ty;)* }
    ) => {
        $(send! { $how $Name $f ($($arg: $ty),*) -> $out })*
    };
}

impl Kernel for RemoteKernel {
    tidegate_calls::for_each_call!(send_all! {});

    fn query_adapter_info(&self) -> AdapterInfo {
        self.info.clone()
    }

    fn query_clock_calibration(
        &self,
        node_ordinal: u32,
        engine_ordinal: u32,
    ) -> Result<ClockCalibration, Status> {
        let call = Call::QueryClockCalibration { node_ordinal, engine_ordinal };
        let read: ClockCalibration = self.channel.call(call)?;
        let cpu = i128::from(read.cpu.0) + self.clock_ahead_ns;
        Ok(ClockCalibration { cpu: CpuTime(u64::try_from(cpu).unwrap_or(0)), ..read })
    }

    fn destroy_device(&self, device: Handle) -> Result<(), Status> {
        let ended = self.notices.wait_in(WaitingCall::DestroyDevice { device });
        self.notices.give_due();
        ended?;
        self.end_fences_of(device);
        self.doorbells.forget_ended();
        Ok(())
    }

    fn wait_for_vertical_blank_event(&self) -> Result<(), Status> {
        self.notices.wait_in(WaitingCall::WaitForVerticalBlankEvent)
    }

    fn device_state(&self, device: Handle) -> Result<DeviceState, Status> {
        match self.send(Call::DeviceState { device }) {
            Err(_) if self.channel.is_lost() => Ok(DeviceState::Removed),
            state => state,
        }
    }

    fn queue_number(&self, queue: Handle) -> Option<QueueNumber> {
        self.channel.call(Call::QueueNumber { queue }).ok().flatten()
    }

    fn create_allocation(&self, args: CreateAllocation) -> Result<Allocation, Status> {
        let (view, files): (AllocationView, _) =
            self.channel.call_with(Call::CreateAllocation { args }, &[])?;
        let AllocationView { handle, gpu_va, bytes, memory } = view;
        let memory =
            self.mapped.allocation((&self.channel, args.device, handle), (memory, bytes), &files);
        let memory = memory.inspect_err(|_| {
            let _: Result<(), Status> = self.destroy_allocation(handle);
        })?;
        Ok(Allocation { handle, gpu_va, bytes, memory })
    }

    fn lock2(&self, device: Handle, allocation: Handle) -> Result<AllocationMemory, Status> {
        let call = Call::Lock2 { device, allocation };
        let ((view, bytes), files) = self.channel.call_with(call, &[])?;
        self.mapped.allocation((&self.channel, device, allocation), (view, bytes), &files)
    }

    fn query_resource_info(
        &self,
        device: Handle,
        name: ResourceName<'_>,
    ) -> Result<ResourceData, Status> {
        self.by_resource_name(name, |name| Call::QueryResourceInfo { device, name })
    }

    fn open_resource(
        &self,
        device: Handle,
        name: ResourceName<'_>,
    ) -> Result<OpenedResource, Status> {
        let view: OpenedResourceView =
            self.by_resource_name(name, |name| Call::OpenResource { device, name })?;
        let (handle, data, allocations) = view;
        let map = |(handle, gpu_va, bytes)| {
            let memory = self.lock2(device, handle)?;
            Ok(Allocation { handle, gpu_va, bytes, memory })
        };
        let allocations: Result<Vec<Allocation>, Status> =
            allocations.into_iter().map(map).collect();
        let allocations = allocations.inspect_err(|_| {
            let _ended = self.destroy_resource(handle);
        })?;
        Ok(OpenedResource { handle, data, allocations })
    }

    fn create_paging_queue(&self, args: CreatePagingQueue) -> Result<PagingQueue, Status> {
        let device = args.device;
        let ((handle, fence), files) =
            self.channel.call_with(Call::CreatePagingQueue { args }, &[])?;
        let fence = self.keep_fence([device, handle], fence, &files, true)?;
        Ok(PagingQueue { handle, fence })
    }

    fn destroy_paging_queue(&self, paging_queue: Handle) -> Result<(), Status> {
        self.send::<()>(Call::DestroyPagingQueue { paging_queue })?;
        self.end_fences_of(paging_queue);
        Ok(())
    }

    fn render(&self, args: Render<'_>) -> Result<(), Status> {
        let (contexts, allocations) = (args.contexts.to_vec(), args.allocations.to_vec());
        let render =
            |commands| Call::Render { args: RenderMessage { contexts, commands, allocations } };
        if args.commands.len() <= long::MAX_INLINE_BYTES {
            return self.channel.call(render(Commands::Here(args.commands.to_vec())));
        }
        if args.commands.len() > MAX_RENDER_BYTES {
            return Err(Status::INVALID_PARAMETER);
        }
        if !self.channel.carries_files() {
            let _turn = self.pieces.lock_device();
            for piece in args.commands.chunks(long::MAX_INLINE_BYTES) {
                self.channel.call::<()>(OwnMessage::SendCommands { piece: piece.to_vec() })?;
            }
            return self.channel.call(render(Commands::Pieces(args.commands.len() as u32)));
        }
        let file = long::into_file(args.commands).map_err(|_| Status::NO_MEMORY)?;
        let file = Attachment::from(file);
        let call = render(Commands::File(args.commands.len() as u32));
        self.channel.call_with(call, &[file]).map(|((), _)| ())
    }

    fn create_hw_queue(&self, args: CreateHwQueue) -> Result<HwQueue, Status> {
        let (view, files): (HwQueueView, _) =
            self.channel.call_with(Call::CreateHwQueue { args }, &[])?;
        Ok(HwQueue {
            handle: view.handle,
            progress_fence: view.progress_fence,
            progress_value: self.mapped.read_only(view.progress_value, &files)?,
            progress_gpu_va: view.progress_gpu_va,
            native_progress_fence: view.native_progress_fence,
        })
    }

    fn create_monitored_fence(
        &self,
        args: CreateMonitoredFence<'_>,
    ) -> Result<FenceInstance, Status> {
        let CreateMonitoredFence { device, initial_value, flags, engine_affinity, name } = args;
        let name = name.to_owned();
        let args =
            CreateMonitoredFenceMessage { device, initial_value, flags, engine_affinity, name };
        let call = Call::CreateMonitoredFence { args };
        self.make_fence(device, call, !flags.contains(SyncObjectFlags::NO_WAIT))
    }

    fn create_native_fence(&self, args: CreateNativeFence<'_>) -> Result<FenceInstance, Status> {
        let (device, flags) = (args.device, args.flags);
        let args = CreateNativeFenceMessage {
            device,
            initial_value: args.initial_value,
            fence_type: args.fence_type,
            flags,
            engine_affinity: args.engine_affinity,
            private_data: args.private_data.to_vec(),
            name: args.name.to_owned(),
        };
        let call = Call::CreateNativeFence { args };
        self.make_fence(device, call, !flags.contains(SyncObjectFlags::NO_WAIT))
    }

    fn share_objects(
        &self,
        objects: &[Handle],
        access: SyncObjectAccess,
        name: Option<&str>,
    ) -> Result<NtHandle, Status> {
        let (objects, name) = (objects.to_vec(), name.map(str::to_owned));
        self.nt_handle(Call::ShareObjects { objects, access, name })
    }

    fn open_sync_object_nt_handle_from_name(
        &self,
        name: &str,
        access: SyncObjectAccess,
    ) -> Result<NtHandle, Status> {
        self.nt_handle(Call::OpenSyncObjectNtHandleFromName { name: name.to_owned(), access })
    }

    fn open_nt_handle_from_name(
        &self,
        name: &str,
        access: SyncObjectAccess,
    ) -> Result<NtHandle, Status> {
        self.nt_handle(Call::OpenNtHandleFromName { name: name.to_owned(), access })
    }

    fn open_sync_object_from_nt_handle(
        &self,
        args: OpenSyncObject<'_>,
    ) -> Result<FenceInstance, Status> {
        self.open_fence(args, |args| Call::OpenSyncObjectFromNtHandle { args })
    }

    fn open_native_fence_from_nt_handle(
        &self,
        args: OpenSyncObject<'_>,
    ) -> Result<FenceInstance, Status> {
        self.open_fence(args, |args| Call::OpenNativeFenceFromNtHandle { args })
    }

    fn destroy_synchronization_object(&self, fence: Handle) -> Result<(), Status> {
        self.values.lock().remove(&fence);
        self.send(Call::DestroySynchronizationObject { fence })
    }

    fn wait_from_cpu(
        &self,
        fences: &[FenceValue],
        mode: WaitMode,
        event: Option<Event>,
    ) -> Result<(), Status> {
        if let Some(event) = event {
            // Nothing cancels this wait: it ends with its fences, or with the connection.
            let notice = WaitNotice::Event(event);
            return self.notices.register(fences, mode, notice).map(|wait: Wait| drop(wait));
        }
        let reached = || self.is_reached(fences, mode);
        if reached() || self.platform.poll_for(POLL_NS, reached) {
            return Ok(());
        }
        self.notices.block(fences, mode)?;
        if self.is_reached(fences, mode) {
            return Ok(());
        }
        // The fences of a lost device read their maximum, and the fences of an ended wait-any may
        // not have been reached.
        let checked = self.channel.call(OwnMessage::CheckWait { fences: fences.to_vec() });
        self.notices.give_due();
        match checked {
            // The wait was entered, so each fence existed: one of them was destroyed, which
            // releases its waiters.
            Err(Status::INVALID_PARAMETER) => Ok(()),
            checked => checked,
        }
    }

    fn register_cpu_wait(
        &self,
        fences: &[FenceValue],
        mode: WaitMode,
        notice: WaitNotice,
    ) -> Result<CpuWaitRegistration, Status> {
        self.notices.register(fences, mode, notice).map(CpuWaitRegistration::new)
    }

    fn signal_from_gpu2(&self, args: SignalFromGpu2<'_>) -> Result<(), Status> {
        let call = |event| {
            let (contexts, fences) = (args.contexts.to_vec(), args.fences.to_vec());
            let args = SignalFromGpu2Message { contexts, fences, flags: args.flags, event };
            Call::SignalFromGpu2 { args }
        };
        match args.cpu_event.clone() {
            // Nothing cancels a queued event.
            Some(event) => self.notices.announce(event, |key| call(Some(key))).map(drop),
            None => self.send(call(None)),
        }
    }

    fn open_synchronization_object(
        &self,
        args: OpenSynchronizationObject<'_>,
    ) -> Result<Handle, Status> {
        let (shared, device, flags, nt_handle) = match args {
            OpenSynchronizationObject::Shared(shared) => {
                (Some(shared), None, SyncObjectFlags::empty(), None)
            }
            OpenSynchronizationObject::NtHandle { nt_handle: shared, device, flags } => {
                (None, device, flags, Some(shared))
            }
        };
        let file = |handle| nt_handle::attachment(handle).ok_or(Status::INVALID_HANDLE);
        let files = nt_handle.map(file).transpose()?.map_or(&[][..], std::slice::from_ref);
        let args = OpenSynchronizationObjectMessage { shared, device, flags };
        let call = Call::OpenSynchronizationObject { args };
        self.channel.call_with(call, files).map(|(handle, _)| handle)
    }

    fn open_keyed_mutex(&self, name: ResourceName<'_>) -> Result<OpenedKeyedMutex, Status> {
        self.by_resource_name(name, |name| Call::OpenKeyedMutex { name })
    }

    fn open_keyed_mutex_changes(
        &self,
        device: Handle,
        mutex: Handle,
    ) -> Result<FenceInstance, Status> {
        self.make_fence(device, Call::OpenKeyedMutexChanges { device, mutex }, true)
    }

    fn create_doorbell(&self, args: CreateDoorbell) -> Result<Doorbell, Status> {
        let CreateDoorbell { hw_queue, ring, control, flags, private_data } = args;
        let flags = flags.bits();
        let args = CreateDoorbellMessage { hw_queue, ring, control, flags, private_data };
        let (view, files): (DoorbellView, _) =
            self.channel.call_with(Call::CreateDoorbell { args }, &[])?;
        self.doorbells.enter(&self.mapped, view, &files)
    }

    fn connect_doorbell(&self, doorbell: Handle) -> Result<Connection, Status> {
        let call = Call::ConnectDoorbell { doorbell };
        let (view, files): (ConnectionView, _) = self.channel.call_with(call, &[])?;
        self.doorbells.show((&self.mapped, &self.channel), doorbell, view, &files)
    }

    fn destroy_doorbell(&self, doorbell: Handle) -> Result<(), Status> {
        self.doorbells.forget(doorbell);
        self.channel.call(Call::DestroyDoorbell { doorbell })
    }

    fn native_fence_log_detail(&self, hw_queue: Handle) -> Result<LogDetail, Status> {
        let call = Call::NativeFenceLogDetail { hw_queue };
        let (view, files): (LogView, _) = self.channel.call_with(call, &[])?;
        let verbose = view.verbose.map(|word| self.mapped.read_only(word, &files));
        Ok(LogDetail {
            wait_entries: view.wait_entries,
            signal_entries: view.signal_entries,
            wait_log_gpu_va: view.wait_log_gpu_va,
            signal_log_gpu_va: view.signal_log_gpu_va,
            numbers: view.numbers,
            verbose: verbose.transpose()?,
        })
    }

    fn display(&self) -> Option<DisplayInfo> {
        self.channel.call(Call::Display {}).ok().flatten()
    }
}
