//! Calls about hardware queues: creation, destruction, commands, waits and signals.

use crate::call::Call;
use crate::library::ended;
use crate::named_object::Object;
use crate::object::{ContextKind, Fence, HwQueue};
use crate::sync::{FenceArrays, fence_values, signal_flags};
use std::sync::Arc;
use tidegate_calls::{
    self as calls, BroadcastExclusions, CurrentValueView, Handle, Priority, Status,
};
use tidegate_wddm_abi::d3dkmthk::{
    CreateHwQueue, DestroyHwQueue, GetNativeFenceLogDetail, SubmitCommandToHwQueue,
    SubmitSignalSyncObjectsToHwQueue, SubmitWaitForSyncObjectsToHwQueue,
};
use tidegate_wddm_abi::d3dukmdt::{
    CreateHwQueueFlags, MAX_BROADCAST_CONTEXTS, MAX_OBJECTS_SIGNALED, MAX_OBJECTS_WAITED_ON,
    MAX_WRITTEN_PRIMARIES,
};

/// Flags that only the kernel sets, or that only its own tests may.
const NOT_OF_CALLERS: CreateHwQueueFlags =
    CreateHwQueueFlags::NATIVE_PROGRESS_FENCE.union(CreateHwQueueFlags::TEST_QUEUE);

// spec: UMS-130
pub(crate) fn create_hw_queue(call: &Call, args: &mut CreateHwQueue) -> Result<(), Status> {
    let library = call.library;
    let context = library.hw_context(args.hw_context)?;
    let mut flags = CreateHwQueueFlags::from_bits(args.flags).ok_or(Status::INVALID_PARAMETER)?;
    if flags.intersects(NOT_OF_CALLERS) {
        return Err(Status::INVALID_PARAMETER);
    }
    let (device, kernel) = (&context.device, context.device.kernel());
    let queue = kernel.create_hw_queue(calls::CreateHwQueue {
        hw_context: context.handle,
        user_mode_submission: flags.contains(CreateHwQueueFlags::USER_MODE_SUBMISSION),
        native_fence_commands: false,
        exclusions: BroadcastExclusions {
            signals: flags.contains(CreateHwQueueFlags::NO_BROADCAST_SIGNAL),
            waits: flags.contains(CreateHwQueueFlags::NO_BROADCAST_WAIT),
        },
        priority: Priority::Normal,
    })?;
    let end = || {
        let _ended = kernel.destroy_hw_queue(queue.handle);
    };
    let of_context = ContextKind::ForHwQueues { disables_timeout: true };
    if (flags.contains(CreateHwQueueFlags::DISABLE_GPU_TIMEOUT) || context.kind == of_context)
        && let Err(refusal) = kernel.disable_gpu_timeout(queue.handle)
    {
        end();
        return Err(refusal);
    }
    let fence = Fence {
        device: device.clone(),
        handle: queue.progress_fence,
        is_own: false,
        _value: CurrentValueView::ReadOnly(queue.progress_value.clone()),
    };
    let progress_fence = library.insert(Object::Fence(Arc::new(fence)), end)?;
    let object = HwQueue { device: device.clone(), handle: queue.handle, progress_fence };
    let handle = library.insert(Object::HwQueue(Arc::new(object)), || {
        library.remove(progress_fence);
        end();
    })?;
    flags.set(CreateHwQueueFlags::NATIVE_PROGRESS_FENCE, queue.native_progress_fence);
    args.flags = flags.bits();
    (args.hw_queue, args.progress_fence) = (handle.0, progress_fence.0);
    args.progress_fence_cpu_va = queue.progress_value.cpu_address();
    args.progress_fence_gpu_va = queue.progress_gpu_va;
    Ok(())
}

pub(crate) fn destroy_hw_queue(call: &Call, args: &DestroyHwQueue) -> Result<(), Status> {
    let queue = call.library.hw_queue(args.hw_queue)?;
    ended(queue.device.kernel().destroy_hw_queue(queue.handle))?;
    call.library.remove(args.hw_queue);
    call.library.remove(queue.progress_fence);
    Ok(())
}

// spec: UMS-131
pub(crate) fn submit_command_to_hw_queue(
    call: &Call,
    args: &SubmitCommandToHwQueue,
) -> Result<(), Status> {
    let queue = call.library.hw_queue(args.hw_queue)?;
    if args.num_primaries as usize > MAX_WRITTEN_PRIMARIES {
        return Err(Status::INVALID_PARAMETER);
    }
    queue.device.kernel().submit_command_to_hw_queue(calls::SubmitCommandToHwQueue {
        hw_queue: queue.handle,
        progress_fence_id: args.progress_fence_id,
        commands_gpu_va: args.command_buffer,
        command_bytes: args.command_length,
    })
}

// spec: UMS-132
pub(crate) fn submit_wait_to_hw_queue(
    call: &Call,
    args: &SubmitWaitForSyncObjectsToHwQueue,
) -> Result<(), Status> {
    let queue = call.library.hw_queue(args.hw_queue)?;
    let arrays = FenceArrays {
        handles: args.object_handle_array,
        values: args.fence_value_array,
        count: args.object_count,
    };
    let fences = fence_values(call, &queue.device, arrays, MAX_OBJECTS_WAITED_ON)?;
    queue.device.kernel().submit_wait_to_hw_queue(queue.handle, &fences)
}

// spec: UMS-133
pub(crate) fn submit_signal_to_hw_queues(
    call: &Call,
    args: &SubmitSignalSyncObjectsToHwQueue,
) -> Result<(), Status> {
    let count = args.broadcast_hw_queue_count;
    let queues =
        call.caller.handles(args.broadcast_hw_queue_array, count, MAX_BROADCAST_CONTEXTS)?;
    let queues = queues.into_iter().map(|handle| call.library.hw_queue(handle));
    let queues = queues.collect::<Result<Vec<_>, Status>>()?;
    let device = &queues.first().ok_or(Status::INVALID_PARAMETER)?.device;
    if !queues.iter().all(|queue| queue.device.adapter.is(&device.adapter)) {
        return Err(Status::INVALID_PARAMETER);
    }
    let arrays = FenceArrays {
        handles: args.object_handle_array,
        values: args.fence_value_array,
        count: args.object_count,
    };
    let fences = fence_values(call, device, arrays, MAX_OBJECTS_SIGNALED)?;
    let hw_queues: Vec<Handle> = queues.iter().map(|queue| queue.handle).collect();
    device.kernel().submit_signal_to_hw_queues(calls::SubmitSignalToHwQueues {
        hw_queues: &hw_queues,
        fences: &fences,
        flags: signal_flags(args.flags)?,
    })
}

// spec: NF-290
pub(crate) fn get_native_fence_log_detail(
    call: &Call,
    args: &mut GetNativeFenceLogDetail,
) -> Result<(), Status> {
    let queue = call.library.hw_queue(args.hw_queue)?;
    if args.flags != 0 {
        return Err(Status::INVALID_PARAMETER);
    }
    let detail = queue.device.kernel().native_fence_log_detail(queue.handle)?;
    args.wait_log_number_of_entries = detail.wait_entries;
    args.signal_log_number_of_entries = detail.signal_entries;
    args.wait_log_gpu_va = detail.wait_log_gpu_va;
    args.signal_log_gpu_va = detail.signal_log_gpu_va;
    Ok(())
}
