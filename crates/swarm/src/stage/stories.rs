//! Operations of several calls at the call surface, whose objects no other step uses.
//!
//! Invariant: each ends what it has made, also when a call in the middle fails because the device
//! was lost: the device ends it then.

use super::objects::{CallError, Called};
use crate::words::ThreadId;
use tidegate::calls::{
    AllocationKind, CreateKeyedMutex, CreateResource, CreateSynchronizationObject,
    KeyedMutexAcquire, OlderObject, OpenSynchronizationObject, Placement, Present, PresentQueue,
    Priority, ReleaseKeyedMutex, ReserveGpuVirtualAddress, ResourceData, ResourceName, SignalFlags,
    Status, SyncObjectAccess, SyncObjectFlags, TILE_BYTES, TileOperation, UpdateGpuVirtualAddress,
};
use tidegate::d3dukmdt::{PixelFormat, Surface as Picture};
use tidegate_testbed::{Client, at};

/// Flags of what is shared by NT handle.
const SHARED: SyncObjectFlags = SyncObjectFlags::SHARED.union(SyncObjectFlags::NT_SECURITY_SHARING);

pub(super) fn tiles(client: &Client, tiles: u64) -> Called {
    let Client { kernel, device, .. } = client;
    let bytes = tiles * TILE_BYTES;
    let args = ReserveGpuVirtualAddress { device: *device, bytes };
    let reserved = kernel.reserve_gpu_virtual_address(args)?;
    let memory = client.try_allocate(bytes, AllocationKind::Bulk, Placement::System)?;
    kernel.lock2(*device, memory.handle)?;
    let fence = client.try_monitored(0, SyncObjectFlags::empty())?;
    let mapped = TileOperation { first: 0, count: tiles, memory: Some((memory.handle, 0)) };
    let unmapped = TileOperation { first: 0, count: tiles, memory: None };
    for (operation, value) in [(mapped, 1), (unmapped, 3)] {
        kernel.update_gpu_virtual_address(UpdateGpuVirtualAddress {
            reserved: reserved.handle,
            operations: &[operation],
            fence: fence.handle,
            value,
        })?;
        client.try_signal(&fence, value)?;
        client.wait(fence.handle, value + 1)?;
    }
    kernel.destroy_synchronization_object(fence.handle)?;
    kernel.free_gpu_virtual_address(reserved.handle)?;
    Ok(kernel.destroy_allocation(memory.handle)?)
}

pub(super) fn share_resource(client: &Client, bytes: u64) -> Called {
    let Client { kernel, device, .. } = client;
    let memory = client.try_allocate(bytes, AllocationKind::Bulk, Placement::System)?;
    let data = ResourceData { allocations: vec![vec![7]], ..ResourceData::default() };
    let made = kernel.create_resource(CreateResource {
        device: *device,
        allocations: &[memory.handle],
        data: &data,
        nt_security_sharing: true,
    })?;
    let shared = kernel.share_objects(&[made.handle], SyncObjectAccess::all(), None)?;
    let found = kernel.query_resource_info(*device, ResourceName::NtHandle(&shared))?;
    if found != data {
        return Err(Status::INTERNAL_ERROR.into());
    }
    let opened = kernel.open_resource(*device, ResourceName::NtHandle(&shared))?;
    kernel.destroy_resource(made.handle)?;
    Ok(kernel.destroy_resource(opened.handle)?)
}

pub(super) fn semaphore(client: &Client, rounds: u64) -> Called {
    let Client { kernel, device, .. } = client;
    let context = client.try_context(0, Priority::Normal)?;
    let object = OlderObject::Semaphore { max_count: 1, initial_count: 1 };
    let args = CreateSynchronizationObject { device: *device, object, flags: SHARED };
    let made = kernel.create_synchronization_object(args)?;
    let nt_handle = kernel.share_objects(&[made.handle], SyncObjectAccess::all(), None)?;
    let opened = kernel.open_synchronization_object(OpenSynchronizationObject::NtHandle {
        nt_handle: &nt_handle,
        device: Some(*device),
        flags: SyncObjectFlags::empty(),
    })?;
    let done = client.try_monitored(0, SyncObjectFlags::empty())?;
    for _ in 0..rounds {
        kernel.wait_for_synchronization_objects(context, &[made.handle], 0)?;
        let flags = SignalFlags::empty();
        kernel.signal_synchronization_objects(&[context], &[opened], flags, 0)?;
    }
    kernel.signal_from_gpu(context, &at(&done, 1))?;
    client.wait(done.handle, 1)?;
    kernel.destroy_synchronization_object(opened)?;
    kernel.destroy_synchronization_object(made.handle)?;
    kernel.destroy_context(context)?;
    Ok(kernel.destroy_synchronization_object(done.handle)?)
}

pub(super) fn keyed_mutex(client: &Client, rounds: u64) -> Called {
    let Client { kernel, device, .. } = client;
    let made = kernel.create_keyed_mutex(CreateKeyedMutex {
        device: *device,
        initial_key: 0,
        data: vec![0],
        nt_security_sharing: false,
    })?;
    let opened = kernel.open_keyed_mutex(ResourceName::Shared(made.shared_handle))?;
    let changes = kernel.open_keyed_mutex_changes(*device, opened.handle)?;
    let instances = [made.handle, opened.handle];
    let passed_on =
        |value: u64| KeyedMutexAcquire::Acquired { fence_value: value, data: vec![value as u8] };
    for turn in 0..2 * rounds {
        let of_turn = |turn: u64| instances[(turn % 2) as usize];
        let KeyedMutexAcquire::Held { change } =
            kernel.acquire_keyed_mutex(of_turn(turn + 1), turn + 1)?
        else {
            return Err(Status::INTERNAL_ERROR.into());
        };
        if kernel.acquire_keyed_mutex(of_turn(turn), turn)? != passed_on(turn) {
            return Err(Status::INTERNAL_ERROR.into());
        }
        kernel.release_keyed_mutex(ReleaseKeyedMutex {
            mutex: of_turn(turn),
            key: turn + 1,
            fence_value: turn + 1,
            replaces_data: true,
            data: &[turn as u8 + 1],
        })?;
        client.wait(changes.handle, change)?;
    }
    kernel.destroy_synchronization_object(changes.handle)?;
    instances.into_iter().try_for_each(|mutex| Ok(kernel.destroy_keyed_mutex(mutex)?))
}

pub(super) fn name_fence(client: &Client, thread: ThreadId, value: u64) -> Called {
    let kernel = &client.kernel;
    let fence = client.try_monitored(0, SHARED)?;
    let (name, access) = (format!("fence of {thread}"), SyncObjectAccess::all());
    let shared = kernel.share_objects(&[fence.handle], access, Some(&name))?;
    let found = kernel.open_sync_object_nt_handle_from_name(&name, access)?;
    let opened = client.open_shared(&found, SyncObjectFlags::empty())?;
    client.try_signal(&fence, value)?;
    client.wait(opened.handle, value)?;
    kernel.destroy_synchronization_object(fence.handle)?;
    kernel.destroy_synchronization_object(opened.handle)?;
    drop((shared, found));
    Ok(())
}

pub(super) fn vsync(client: &Client) -> Called {
    client.kernel.display().ok_or(CallError::Missing)?;
    Ok(client.kernel.wait_for_vertical_blank_event()?)
}

pub(super) fn flip(client: &Client, sync_interval: u32) -> Called {
    let kernel = &client.kernel;
    let picture = Picture::packed(8, 8, PixelFormat::A8R8G8B8);
    let memory = client.try_allocate(8 * 8 * 4, AllocationKind::Bulk, Placement::System)?;
    let context = client.try_context(0, Priority::Normal)?;
    let shown = client.try_monitored(0, SyncObjectFlags::empty())?;
    let presented = kernel.present(Present {
        queue: PresentQueue::Context(context),
        allocation: memory.handle,
        surface: picture,
        vid_pn_source_id: 0,
        sync_interval,
        shown: Some(at(&shown, 1)[0]),
    });
    match presented {
        Ok(()) => client.wait(shown.handle, 1)?,
        // Another device presents.
        Err(Status::GRAPHICS_VIDPN_SOURCE_IN_USE | Status::GRAPHICS_TRY_AGAIN_LATER) => {}
        Err(status) => return Err(status.into()),
    }
    kernel.destroy_context(context)?;
    kernel.destroy_synchronization_object(shown.handle)?;
    Ok(kernel.destroy_allocation(memory.handle)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::platform::{Platform, StepCosts};
    use tidegate::{Machine, MachineConfig};

    #[test]
    fn a_present_that_is_refused_fails_its_step() {
        let platform = Platform::virtual_time(StepCosts::free());
        let config = MachineConfig::standard(&platform).with_display(1_000);
        let machine = Machine::new(&platform, config).unwrap();
        let kernel = machine.open("presents").unwrap();
        let own = platform.clone();
        machine
            .run(move || {
                let device = kernel.create_device().unwrap();
                let client = Client::of(&own, kernel, device);
                assert_eq!(flip(&client, 1), Ok(()));
                assert_eq!(flip(&client, 99), Err(Status::INVALID_PARAMETER.into()));
            })
            .unwrap();
    }
}
