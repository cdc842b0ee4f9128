//! The D3DKMT calls of a process. Each call copies its arguments, resolves its handles, validates,
//! drops the table's lock, and calls the room that does the work.

use super::Process;
use crate::fence::CreateFence;
use crate::fence::names::ShareKind;
use crate::fence::signal::{check_flags, signal};
use crate::object::FenceObject;
use crate::object::context::ContextDesc;
use crate::object::device::{Device, DeviceOwner, OpenFences};
use crate::object::doorbell::{Doorbell, DoorbellRequest};
use crate::object::hw_queue::{HwQueue, HwQueueDesc};
use crate::object::object_table::Object;
use crate::object::paging_queue::PagingQueueObject;
use crate::scheduling::{CommandKind, CommandRange, Signal, fence_signal};
use std::sync::{Arc, Weak};
use tidegate_calls::doorbell::Connection;
use tidegate_calls::{
    AdapterInfo, Allocation, AllocationMemory, AllocationResidency, ClockCalibration,
    CpuWaitRegistration, CreateAllocation, CreateContextVirtual, CreateDoorbell, CreateHwContext,
    CreateHwQueue, CreateMonitoredFence, CreateNativeFence, CreatePagingQueue, CreateResource,
    CreateSynchronizationObject, DeviceErrorReason, DeviceState, FenceInstance, FenceValue, Handle,
    LogDetail, MakeResident, NodeInfo, NtHandle, OpenSyncObject, OpenSynchronizationObject,
    OpenedResource, Priority, ReadOnly, ReserveGpuVirtualAddress, ReservedAddresses, Residency,
    ResidencyPriority, Resource, ResourceData, ResourceName, SegmentGroup, SignalFlags,
    SignalFromGpu2, Status, SubmitCommand, SubmitCommandToHwQueue, SubmitSignalToHwQueues,
    SyncObjectAccess, SynchronizationObject, TdrTest, UpdateGpuVirtualAddress, VideoMemoryInfo,
    WaitMode, WaitNotice,
};
use tidegate_d3dukmdt::MAX_BROADCAST_CONTEXTS;
use tidegate_ddi::{EngineId, OsHandle, Passive, VidSchCaps};
use tidegate_platform::{Event, QueueNumber};

/// Maximum number of allocations in one call. A limit of this project; the headers state none.
pub(super) const MAX_ALLOCATIONS: usize = 4096;

/// The GPU's clock counts nanoseconds (`DxgkDdiCalibrateGpuClock`).
const GPU_CLOCK_HZ: u64 = 1_000_000_000;

impl Process {
    pub(super) fn query_adapter_info(&self) -> AdapterInfo {
        let caps = &self.objects.port.declared.caps;
        let native = caps.scheduling.contains(VidSchCaps::NATIVE_GPU_FENCE);
        let nodes = caps.nodes.iter().map(|n| NodeInfo {
            engine_type: n.engine_type.engine_type(),
            name: n.friendly_name.clone(),
            user_mode_submission: n.user_mode_submission && !self.kind.kernel_queues_only,
            writes_fences: n.writes_fences,
        });
        AdapterInfo {
            description: caps.description.clone(),
            native_gpu_fence_supported: native,
            hardware_scheduling: caps.nodes.iter().any(|n| n.context_scheduling),
            no_64bit_atomics: caps.scheduling.contains(VidSchCaps::NO_64BIT_ATOMICS),
            io_mmu: caps.io_mmu,
            physical_adapters: caps.physical_adapters,
            graphics_preemption: caps.preemption.graphics as u32,
            compute_preemption: caps.preemption.compute as u32,
            nodes: nodes.collect(),
        }
    }

    pub(super) fn query_clock_calibration(
        &self,
        node_ordinal: u32,
        engine_ordinal: u32,
    ) -> Result<ClockCalibration, Status> {
        let (level, port) = (&entered(), &self.objects.port);
        port.check()?;
        let engine = EngineId { node_ordinal, engine_ordinal };
        port.check_engine(engine).map_err(|_| Status::INVALID_PARAMETER)?;
        let _awake = port.awake(level);
        let read = port.driver(level).calibrate_gpu_clock(&level.raise(), node_ordinal);
        Ok(ClockCalibration { gpu_frequency: GPU_CLOCK_HZ, gpu_clock: read.gpu_ns, cpu: read.cpu })
    }

    pub(super) fn create_device(&self) -> Result<Handle, Status> {
        let level = &entered();
        let fences = Arc::downgrade(&self.handles) as Weak<dyn OpenFences>;
        let memory = self.memory.lock().as_ref().map(|g| (g.space.clone(), g.fence_pool.clone()));
        let (space, fence_pool) = memory.ok_or(Status::DEVICE_REMOVED)?;
        // The process is blocked for the engine timeouts that it caused (0x142).
        if self.objects.recovery.get().is_some_and(|recovery| recovery.is_blocked(space.number)) {
            return Err(Status::ACCESS_DENIED);
        }
        let owner = DeviceOwner {
            space: &space,
            fence_pool: &fence_pool,
            fences: Some(fences),
            may_raise_priority: self.kind.may_raise_priority,
        };
        let device = self.objects.create_device(level, owner)?;
        self.insert(level, Object::Device(device))
    }

    pub(super) fn destroy_device(&self, device: Handle) -> Result<(), Status> {
        let device = self.device(device)?;
        self.end_device(&entered(), &device);
        Ok(())
    }

    pub(super) fn device_state(&self, device: Handle) -> Result<DeviceState, Status> {
        let found = {
            let objects = self.handles.lock();
            (objects.get(device), objects.is_closed())
        };
        match found {
            (Some(Object::Device(known)), closed) => Ok(match known.state() {
                DeviceState::Active if closed => self.state_after_end(device),
                state => state,
            }),
            (None, true) => Ok(self.state_after_end(device)),
            _ => Err(Status::INVALID_PARAMETER),
        }
    }

    pub(super) fn mark_device_as_error(
        &self,
        device: Handle,
        reason: DeviceErrorReason,
    ) -> Result<(), Status> {
        let level = &entered();
        let device = self.device(device)?;
        let recovery = self.objects.recovery.get().ok_or(Status::DEVICE_REMOVED)?;
        recovery.lose_marked_device(level, &device, reason);
        Ok(())
    }

    pub(super) fn disable_gpu_timeout(&self, object: Handle) -> Result<(), Status> {
        if !self.kind.may_raise_priority {
            return Err(Status::ACCESS_DENIED);
        }
        let found = self.handles.lock().get(object);
        match found {
            Some(Object::HwQueue(queue)) => queue.disable_timeout(),
            Some(Object::Context(context)) => {
                self.objects.sched.lock().disable_timeout(context.os_handle)
            }
            _ => return Err(Status::INVALID_PARAMETER),
        }
        Ok(())
    }

    pub(super) fn debug_timeouts(&self, test: TdrTest) -> Result<(), Status> {
        let level = &entered();
        self.objects.recovery.get().ok_or(Status::DEVICE_REMOVED)?.debug_timeouts(level, test)
    }

    pub(super) fn create_allocation(&self, args: CreateAllocation) -> Result<Allocation, Status> {
        self.make_allocation(&args)
    }

    pub(super) fn destroy_allocation(&self, allocation: Handle) -> Result<(), Status> {
        let level = &entered();
        self.destroy(level, allocation, |o| matches!(o, Object::Allocation(a) if !a.is_shared()))
    }

    // spec: UMS-190
    pub(super) fn lock2(
        &self,
        device: Handle,
        allocation: Handle,
    ) -> Result<AllocationMemory, Status> {
        let device = self.live_device(device)?;
        let locked = self.allocations_of(&device, &[allocation])?;
        Ok(locked[0].memory.clone())
    }

    pub(super) fn create_resource(&self, args: CreateResource<'_>) -> Result<Resource, Status> {
        self.make_resource(&args)
    }

    pub(super) fn query_resource_info(
        &self,
        device: Handle,
        name: ResourceName<'_>,
    ) -> Result<ResourceData, Status> {
        self.resource_data(device, name)
    }

    pub(super) fn open_resource(
        &self,
        device: Handle,
        name: ResourceName<'_>,
    ) -> Result<OpenedResource, Status> {
        self.open_shared_resource(device, name)
    }

    pub(super) fn destroy_resource(&self, resource: Handle) -> Result<(), Status> {
        self.end_resource(resource)
    }

    pub(super) fn reserve_gpu_virtual_address(
        &self,
        args: ReserveGpuVirtualAddress,
    ) -> Result<ReservedAddresses, Status> {
        self.reserve_addresses(&entered(), args)
    }

    pub(super) fn free_gpu_virtual_address(&self, reserved: Handle) -> Result<(), Status> {
        let level = &entered();
        self.destroy(level, reserved, |o| matches!(o, Object::Reserved(_)))
    }

    pub(super) fn update_gpu_virtual_address(
        &self,
        args: UpdateGpuVirtualAddress<'_>,
    ) -> Result<(), Status> {
        self.update_tiles(&entered(), args)
    }

    pub(super) fn create_paging_queue(
        &self,
        args: CreatePagingQueue,
    ) -> Result<tidegate_calls::PagingQueue, Status> {
        let level = &entered();
        let device = self.live_device(args.device)?;
        let queue = PagingQueueObject::new(level, &device, args.priority)?;
        let fence = self.enter_fence(level, queue.fence.clone())?;
        let handle = self.insert(level, Object::PagingQueue(queue))?;
        Ok(tidegate_calls::PagingQueue { handle, fence })
    }

    pub(super) fn destroy_paging_queue(&self, paging_queue: Handle) -> Result<(), Status> {
        let level = &entered();
        let queue = self.paging_queue(paging_queue)?;
        let fence = self.handle_of_fence(&queue.fence);
        self.destroy(level, paging_queue, |o| matches!(o, Object::PagingQueue(_)))?;
        let fence = fence.and_then(|handle| self.handles.lock().remove(handle));
        drop((queue, fence));
        Ok(())
    }

    pub(super) fn make_resident(&self, args: MakeResident<'_>) -> Result<Residency, Status> {
        let level = &entered();
        let queue = self.paging_queue(args.paging_queue)?;
        queue.device.check()?;
        let allocations = self.allocations_of(&queue.device, args.allocations)?;
        self.objects.memory.make_resident(level, &queue.queue, &allocations)
    }

    pub(super) fn evict(&self, device: Handle, allocations: &[Handle]) -> Result<(), Status> {
        let level = &entered();
        // A lost device gives its memory back.
        // spec: PRE-161
        let device = self.device(device)?;
        let allocations = self.allocations_of(&device, allocations)?;
        self.objects.memory.evict(level, device.os_handle, &allocations)
    }

    pub(super) fn query_allocation_residency(
        &self,
        device: Handle,
        allocations: &[Handle],
    ) -> Result<Vec<AllocationResidency>, Status> {
        self.residency_of(device, allocations)
    }

    pub(super) fn set_allocation_priority(
        &self,
        device: Handle,
        allocations: &[Handle],
        priority: ResidencyPriority,
    ) -> Result<(), Status> {
        self.set_priority(device, allocations, priority)
    }

    pub(super) fn query_video_memory_info(
        &self,
        group: SegmentGroup,
    ) -> Result<VideoMemoryInfo, Status> {
        self.objects.port.check()?;
        let objects = self.handles.lock();
        let devices = objects.iter().filter_map(|(_, object)| match object {
            Object::Device(device) => Some(device.os_handle),
            _ => None,
        });
        let devices: Vec<OsHandle> = devices.collect();
        drop(objects);
        Ok(self.objects.memory.info(group, &devices))
    }

    pub(super) fn create_context_virtual(
        &self,
        args: CreateContextVirtual,
    ) -> Result<Handle, Status> {
        let level = &entered();
        let device = self.live_device(args.device)?;
        if args.priority == Priority::Realtime && !device.may_raise_priority {
            return Err(Status::ACCESS_DENIED);
        }
        let desc = ContextDesc {
            node_ordinal: args.node_ordinal,
            engine_affinity: args.engine_affinity,
            hardware_scheduled: false,
            priority: args.priority,
            paging: false,
        };
        self.insert(level, Object::Context(self.objects.create_context(level, &device, &desc)?))
    }

    pub(super) fn destroy_context(&self, context: Handle) -> Result<(), Status> {
        let level = &entered();
        self.destroy(level, context, |o| matches!(o, Object::Context(_)))
    }

    pub(super) fn submit_command(&self, args: SubmitCommand) -> Result<(), Status> {
        let level = &entered();
        let context = self.context(args.context)?;
        context.device.check()?;
        let commands = CommandRange { gpu_va: args.commands_gpu_va, bytes: args.command_bytes };
        if !self.objects.port.declared.virtual_addresses {
            return self.render_at(level, &context, commands);
        }
        self.take_room_for_commands(commands)?;
        let sched = &self.objects.sched;
        let queued = sched.queued(context.os_handle);
        sched.submit_command(level, context.os_handle, CommandKind::Render, commands, queued);
        Ok(())
    }

    pub(super) fn queue_number(&self, queue: Handle) -> Option<QueueNumber> {
        let context = self.context(queue).map(|context| context.os_handle);
        let number = context.or_else(|_| self.hw_queue(queue).map(|queue| queue.os_handle));
        number.ok().map(QueueNumber::from)
    }

    pub(super) fn create_hw_context(&self, args: CreateHwContext) -> Result<Handle, Status> {
        let level = &entered();
        let device = self.live_device(args.device)?;
        let desc = ContextDesc {
            node_ordinal: args.node_ordinal,
            engine_affinity: args.engine_affinity,
            hardware_scheduled: true,
            priority: tidegate_calls::Priority::Normal,
            paging: false,
        };
        self.insert(level, Object::HwContext(self.objects.create_context(level, &device, &desc)?))
    }

    pub(super) fn destroy_hw_context(&self, hw_context: Handle) -> Result<(), Status> {
        let level = &entered();
        self.destroy(level, hw_context, |o| matches!(o, Object::HwContext(_)))
    }

    pub(super) fn set_context_scheduling_priority(
        &self,
        hw_context: Handle,
        priority: i32,
    ) -> Result<(), Status> {
        let level = &entered();
        let context = self.hw_context(hw_context)?;
        context.device.check()?;
        context.priority.set(level, &context.priority_request(), priority)
    }

    pub(super) fn set_context_in_process_scheduling_priority(
        &self,
        hw_context: Handle,
        priority: i32,
    ) -> Result<(), Status> {
        let level = &entered();
        let context = self.hw_context(hw_context)?;
        context.device.check()?;
        context.priority.set_in_process(level, &context.priority_request(), priority)
    }

    pub(super) fn create_hw_queue(
        &self,
        args: CreateHwQueue,
    ) -> Result<tidegate_calls::HwQueue, Status> {
        let level = &entered();
        let context = self.hw_context(args.hw_context)?;
        context.device.check()?;
        // spec: UMS-192
        if args.user_mode_submission && self.kind.kernel_queues_only {
            return Err(Status::NOT_SUPPORTED);
        }
        let desc = HwQueueDesc {
            user_mode_submission: args.user_mode_submission,
            native_fence_commands: args.native_fence_commands,
            exclusions: args.exclusions,
            priority: args.priority,
        };
        let queue = HwQueue::new(level, &context, &desc, &self.objects.hw_queues)?;
        let fence = queue.progress.fence.clone();
        let progress_value =
            fence.current.as_ref().ok_or(Status::NOT_SUPPORTED)?.cell().word().clone();
        let progress_gpu_va = queue.progress.mapping.current_va;
        let progress_fence = self.insert_fence(level, &queue.progress)?;
        let handle = self.insert(level, Object::HwQueue(queue))?;
        Ok(tidegate_calls::HwQueue {
            handle,
            progress_fence,
            progress_value: ReadOnly::new(progress_value),
            progress_gpu_va,
            native_progress_fence: fence.native.is_some(),
        })
    }

    pub(super) fn destroy_hw_queue(&self, hw_queue: Handle) -> Result<(), Status> {
        let level = &entered();
        let queue = self.hw_queue(hw_queue)?;
        let progress = self.handle_of_fence(&queue.progress);
        let removed = {
            // A doorbell being created either is found here, or its creation sees the
            // queue retired.
            let _transition = self.objects.doorbells.transition.lock_device();
            if !self.objects.doorbells.of_queue(queue.os_handle).is_empty() {
                return Err(Status::INVALID_PARAMETER);
            }
            let removed = self.remove(hw_queue, |o| matches!(o, Object::HwQueue(_)))?;
            queue.unlist();
            removed
        };
        let fence = progress.and_then(|handle| self.handles.lock().remove(handle));
        removed.end(level, &self.objects.hw_queues);
        drop((queue, fence));
        Ok(())
    }

    pub(super) fn submit_command_to_hw_queue(
        &self,
        args: SubmitCommandToHwQueue,
    ) -> Result<(), Status> {
        let level = &entered();
        let queue = self.kernel_mode_queue(args.hw_queue)?;
        let commands = CommandRange { gpu_va: args.commands_gpu_va, bytes: args.command_bytes };
        self.take_room_for_commands(commands)?;
        queue.submit_command(level, args.progress_fence_id, commands)
    }

    pub(super) fn submit_wait_to_hw_queue(
        &self,
        hw_queue: Handle,
        fences: &[FenceValue],
    ) -> Result<(), Status> {
        let level = &entered();
        let queue = self.kernel_mode_queue(hw_queue)?;
        let targets = self.wait_targets(fences)?;
        self.take_room(targets.len())?;
        queue.submit_wait(level.into(), &targets);
        Ok(())
    }

    pub(super) fn submit_signal_to_hw_queues(
        &self,
        args: SubmitSignalToHwQueues<'_>,
    ) -> Result<(), Status> {
        let level = &entered();
        let queues = one_packet(args.hw_queues, |h| self.kernel_mode_queue(h), |q| &q.device)?;
        HwQueue::check_broadcast(&queues)?;
        // This call takes no event.
        check_flags(
            args.flags,
            SignalFlags::ALLOW_FENCE_REWIND | SignalFlags::SIGNAL_AT_SUBMISSION,
        )?;
        let fences = self.signal_targets(args.fences, args.flags)?;
        self.take_room(queues.len() * fences.len())?;
        HwQueue::submit_signal(level, &queues, fences, args.flags);
        Ok(())
    }

    pub(super) fn create_monitored_fence(
        &self,
        args: CreateMonitoredFence<'_>,
    ) -> Result<FenceInstance, Status> {
        let level = &entered();
        let create = CreateFence {
            name: args.name,
            initial_value: args.initial_value,
            flags: args.flags,
            native: None,
            private_data: [0; 64],
            affinity: self.affinity(args.engine_affinity)?,
        };
        self.create_fence(level, args.device, &create)
    }

    // spec: NF-091
    pub(super) fn create_native_fence(
        &self,
        args: CreateNativeFence<'_>,
    ) -> Result<FenceInstance, Status> {
        let level = &entered();
        let create = CreateFence {
            name: args.name,
            initial_value: args.initial_value,
            flags: args.flags,
            native: Some(args.fence_type),
            private_data: args.private_data,
            affinity: self.affinity(args.engine_affinity)?,
        };
        self.create_fence(level, args.device, &create)
    }

    pub(super) fn share_objects(
        &self,
        objects: &[Handle],
        access: SyncObjectAccess,
        name: Option<&str>,
    ) -> Result<NtHandle, Status> {
        match objects {
            [object] => self.share(*object, access, name),
            &[resource, mutex, object] => {
                self.share_together([resource, mutex, object], access, name)
            }
            _ => Err(Status::INVALID_PARAMETER),
        }
    }

    pub(super) fn open_sync_object_nt_handle_from_name(
        &self,
        name: &str,
        access: SyncObjectAccess,
    ) -> Result<NtHandle, Status> {
        self.open_name(name, ShareKind::SyncObject, access)
    }

    pub(super) fn open_sync_object_from_nt_handle(
        &self,
        args: OpenSyncObject<'_>,
    ) -> Result<FenceInstance, Status> {
        self.open_fence(&entered(), &args, false)
    }

    pub(super) fn open_native_fence_from_nt_handle(
        &self,
        args: OpenSyncObject<'_>,
    ) -> Result<FenceInstance, Status> {
        self.open_fence(&entered(), &args, true)
    }

    // spec: NF-093, MF-051
    pub(super) fn destroy_synchronization_object(&self, fence: Handle) -> Result<(), Status> {
        let level = &entered();
        self.destroy(level, fence, |o| matches!(o, Object::Fence(_) | Object::Older(_)))
    }

    pub(super) fn create_synchronization_object(
        &self,
        args: CreateSynchronizationObject,
    ) -> Result<SynchronizationObject, Status> {
        self.create_older(&args)
    }

    pub(super) fn open_synchronization_object(
        &self,
        args: OpenSynchronizationObject<'_>,
    ) -> Result<Handle, Status> {
        self.open_older(args)
    }

    pub(super) fn wait_for_synchronization_objects(
        &self,
        context: Handle,
        objects: &[Handle],
        fence_value: u64,
    ) -> Result<(), Status> {
        self.wait_for_older(context, objects, fence_value)
    }

    pub(super) fn signal_synchronization_objects(
        &self,
        contexts: &[Handle],
        objects: &[Handle],
        flags: SignalFlags,
        fence_value: u64,
    ) -> Result<(), Status> {
        self.signal_older(contexts, objects, flags, fence_value)
    }

    pub(super) fn wait_from_cpu(
        &self,
        fences: &[FenceValue],
        mode: WaitMode,
        event: Option<Event>,
    ) -> Result<(), Status> {
        self.wait_on_cpu(&entered(), fences, mode, event)
    }

    pub(super) fn register_cpu_wait(
        &self,
        fences: &[FenceValue],
        mode: WaitMode,
        notice: WaitNotice,
    ) -> Result<CpuWaitRegistration, Status> {
        self.register_wait(&entered(), fences, mode, notice)
    }

    // spec: NF-003
    // spec: MF-001
    pub(super) fn signal_from_cpu(
        &self,
        fences: &[FenceValue],
        flags: SignalFlags,
    ) -> Result<(), Status> {
        let level = &entered();
        // The other flags are for queues.
        check_flags(flags, SignalFlags::ALLOW_FENCE_REWIND)?;
        if let [one] = fences
            && self.signal_directly(level, *one)
        {
            return Ok(());
        }
        signal(level.into(), &self.signal_targets(fences, flags)?, flags);
        Ok(())
    }

    pub(super) fn wait_from_gpu(
        &self,
        context: Handle,
        fences: &[FenceValue],
    ) -> Result<(), Status> {
        let level = &entered();
        let context = self.context(context)?;
        context.device.check()?;
        let targets = self.wait_targets(fences)?;
        self.take_room(targets.len())?;
        self.objects.sched.wait(level.into(), context.scheduled(), &targets);
        Ok(())
    }

    pub(super) fn signal_from_gpu2(&self, args: SignalFromGpu2<'_>) -> Result<(), Status> {
        let level = &entered();
        let contexts = one_packet(args.contexts, |h| self.context(h), |c| &c.device)?;
        check_flags(args.flags, SignalFlags::all())?;
        let enqueue_event = args.flags.contains(SignalFlags::ENQUEUE_CPU_EVENT);
        let signal = match args.cpu_event {
            Some(event) if enqueue_event && args.fences.is_empty() => {
                Signal { flags: args.flags, ..Signal::event(event) }
            }
            None if !enqueue_event => {
                fence_signal(self.signal_targets(args.fences, args.flags)?, args.flags)
            }
            _ => return Err(Status::INVALID_PARAMETER),
        };
        self.take_room(contexts.len() * signal.fences().len().max(1))?;
        let queues: Vec<_> = contexts.iter().map(|context| context.scheduled()).collect();
        self.objects.sched.signal(level, &queues, signal);
        Ok(())
    }

    // spec: UMS-018
    pub(super) fn create_doorbell(
        &self,
        args: CreateDoorbell,
    ) -> Result<tidegate_calls::Doorbell, Status> {
        let level = &entered();
        let queue = self.hw_queue(args.hw_queue)?;
        queue.device.check()?;
        let (ring, control) = (self.allocation(args.ring)?, self.allocation(args.control)?);
        // Ring and control area end with their device, so it must be the device of the queue.
        // spec: UMS-180
        if [&ring, &control].iter().any(|part| part.device.os_handle() != queue.device.os_handle) {
            return Err(Status::INVALID_PARAMETER);
        }
        let mut private_data = args.private_data;
        let doorbell = Doorbell::new(
            level,
            &self.objects.doorbells,
            &queue,
            DoorbellRequest {
                ring,
                control,
                flags: args.flags,
                only_stores: self.kind.only_stores,
                maps_pages: self.kind.maps_doorbells,
            },
            &mut private_data,
        )?;
        let handle = self.insert(level, Object::Doorbell(doorbell.clone()))?;
        let (mapping, secondary) = doorbell.mappings();
        Ok(tidegate_calls::Doorbell {
            handle,
            mapping,
            secondary,
            status: ReadOnly::new(doorbell.status.clone()),
            last_queued: doorbell.last_queued.trusted().clone(),
            private_data,
        })
    }

    // spec: UMS-019
    pub(super) fn connect_doorbell(&self, doorbell: Handle) -> Result<Connection, Status> {
        let level = &entered();
        self.doorbell(doorbell)?.connect(level)
    }

    // spec: UMS-020
    pub(super) fn destroy_doorbell(&self, doorbell: Handle) -> Result<(), Status> {
        let level = &entered();
        self.destroy(level, doorbell, |o| matches!(o, Object::Doorbell(_)))
    }

    // spec: UMS-021
    pub(super) fn notify_work_submission(&self, doorbell: Handle) -> Result<(), Status> {
        let level = &entered();
        self.doorbell(doorbell)?.notify(level)
    }

    pub(super) fn native_fence_log_detail(&self, hw_queue: Handle) -> Result<LogDetail, Status> {
        let queue = self.hw_queue(hw_queue)?;
        Ok(queue
            .logs
            .as_ref()
            .map_or_else(LogDetail::default, |logs| self.objects.log_reader.detail(logs)))
    }
}

/// Enters PASSIVE level, at which process calls run.
pub(super) fn entered() -> Passive {
    Passive::enter()
}

impl Process {
    fn handle_of_fence(&self, fence: &Arc<FenceObject>) -> Option<Handle> {
        let handle = *fence.handle.get()?;
        match self.handles.lock().get(handle)? {
            Object::Fence(found) if Arc::ptr_eq(&found, fence) => Some(handle),
            _ => None,
        }
    }

    /// Resolves a kernel-mode queue whose device is not lost.
    // spec: UMS-017
    // spec: UMS-016
    fn kernel_mode_queue(&self, handle: Handle) -> Result<Arc<HwQueue>, Status> {
        let queue = self.hw_queue(handle)?;
        queue.device.check()?;
        if queue.user_mode_submission {
            return Err(Status::INVALID_PARAMETER);
        }
        Ok(queue)
    }
}

/// Checks the contexts or hardware queues of one signal packet: 1 to 64, distinct, of one device
/// that is not lost.
// spec: MF-066
pub(super) fn one_packet<T>(
    handles: &[Handle],
    find: impl Fn(Handle) -> Result<Arc<T>, Status>,
    device: impl Fn(&T) -> &Arc<Device>,
) -> Result<Vec<Arc<T>>, Status> {
    if handles.len() > MAX_BROADCAST_CONTEXTS {
        return Err(Status::INVALID_PARAMETER);
    }
    let found =
        handles.iter().map(|handle| find(*handle)).collect::<Result<Vec<Arc<T>>, Status>>()?;
    let first = device(found.first().ok_or(Status::INVALID_PARAMETER)?);
    let of_one_device = found.iter().all(|each| Arc::ptr_eq(device(each), first));
    let each_once = handles.iter().enumerate().all(|(n, handle)| !handles[..n].contains(handle));
    if !of_one_device || !each_once {
        return Err(Status::INVALID_PARAMETER);
    }
    first.check()?;
    Ok(found)
}
