//! The calls of reserved addresses: their arguments, resolved and checked.

use super::Process;
use crate::fence::cpu_wait;
use crate::memory::{Reserved, TileChange};
use crate::object::object_table::Object;
use crate::object::tile_update::{Changes, TileUpdate};
use std::sync::Arc;
use tidegate_calls::{
    FenceValue, ReserveGpuVirtualAddress, ReservedAddresses, Status, SyncObjectFlags, TILE_BYTES,
    TileOperation, UpdateGpuVirtualAddress,
};
use tidegate_ddi::Passive;

/// Maximum number of operations in one call.
const MAX_OPERATIONS: usize = 4096;

impl Process {
    /// D3DKMTReserveGpuVirtualAddress.
    pub(super) fn reserve_addresses(
        &self,
        level: &Passive,
        args: ReserveGpuVirtualAddress,
    ) -> Result<ReservedAddresses, Status> {
        let device = self.live_device(args.device)?;
        let reserved = self.objects.memory.reserve(device.clone(), &device.space, args.bytes)?;
        let gpu_va = reserved.gpu_va;
        Ok(ReservedAddresses { handle: self.insert(level, Object::Reserved(reserved))?, gpu_va })
    }

    /// D3DKMTUpdateGpuVirtualAddress.
    pub(super) fn update_tiles(
        &self,
        level: &Passive,
        UpdateGpuVirtualAddress { reserved, operations, fence, value }: UpdateGpuVirtualAddress<'_>,
    ) -> Result<(), Status> {
        let Some(Object::Reserved(reserved)) = self.handles.lock().get(reserved) else {
            return Err(Status::INVALID_PARAMETER);
        };
        let changes = self.tile_changes(&reserved, operations)?;
        let wanted = [FenceValue { fence, value }];
        let instances = self.instances(&wanted, 1, SyncObjectFlags::NO_WAIT)?;
        let (instance, next) = (&instances[0].0, value.saturating_add(1));
        let done = [FenceValue { fence, value: next }];
        self.instances(&done, 1, SyncObjectFlags::NO_SIGNAL)?;
        self.take_room(operations.len())?;
        let fence = Arc::downgrade(instance);
        let changes = Changes { reserved, changes, fence, value: next };
        let update = TileUpdate::new(&self.objects.port, changes);
        self.count_update(&update, operations.len());
        cpu_wait::enter_callback(level.into(), &self.objects.fences, instance, value, update);
        Ok(())
    }

    /// Resolves the operations of one update of reserved addresses.
    fn tile_changes(
        &self,
        reserved: &Reserved,
        operations: &[TileOperation],
    ) -> Result<Vec<TileChange>, Status> {
        if operations.is_empty() || operations.len() > MAX_OPERATIONS {
            return Err(Status::INVALID_PARAMETER);
        }
        let resolve = |&TileOperation { first, count, memory }: &TileOperation| {
            if !reserved.has(first, count) {
                return Err(Status::INVALID_PARAMETER);
            }
            let Some((handle, offset)) = memory else {
                return Ok(TileChange { first, count, memory: None });
            };
            let allocation = self.allocation(handle)?;
            let is_own = allocation.device.os_handle() == reserved.device.os_handle();
            let end = offset.checked_add(count * TILE_BYTES);
            let is_inside = end.is_some_and(|end| end <= allocation.bytes);
            let is_aligned = offset.is_multiple_of(TILE_BYTES);
            if !is_own || !is_inside || !is_aligned || allocation.bulk().is_none() {
                return Err(Status::INVALID_PARAMETER);
            }
            Ok(TileChange { first, count, memory: Some((allocation, offset)) })
        };
        operations.iter().map(resolve).collect()
    }
}
