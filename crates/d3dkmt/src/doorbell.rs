//! Calls about doorbells.
//!
//! A client stores to an address that is the same for all connects, while the kernel rotates the
//! page behind its doorbell at each. So the client's doorbell is a cell of the library, the status
//! of a connected doorbell is CONNECTED_NOTIFY, and D3DKMTNotifyWorkSubmission passes the cell's
//! value to the kernel's doorbell. That call connects a doorbell that lost its hardware since the
//! client read the status, because the client does not read it again.

use crate::call::Call;
use crate::library::ended;
use crate::named_object::Object;
use crate::object::Doorbell;
use std::sync::Arc;
use tidegate_calls::{self as calls, Connection, DoorbellStatus, Status};
use tidegate_platform::MutexGuard;
use tidegate_wddm_abi::d3dkmthk::{
    ConnectDoorbell, CreateDoorbell, CreateDoorbellFlags, DestroyDoorbell, NotifyWorkSubmission,
};
use tidegate_wddm_abi::d3dukmdt::DOORBELL_PRIVATE_DATA_BYTES;

/// The client's doorbell.
const PRIMARY: usize = 0;
/// The client's second doorbell, on a line of its own.
const SECONDARY: usize = 8;
const CELLS: usize = 16;
/// Connects of one notification before it gives up.
const MOST_CONNECTS: usize = 8;

// spec: UMS-023
pub(crate) fn create_doorbell(call: &Call, args: &mut CreateDoorbell) -> Result<(), Status> {
    let queue = call.library.hw_queue(args.hw_queue)?;
    let ring = call.library.allocation(args.ring_buffer)?;
    let control = call.library.allocation(args.ring_buffer_control)?;
    let flags = CreateDoorbellFlags::from_bits(args.flags).ok_or(Status::INVALID_PARAMETER)?;
    let adapter = &queue.device.adapter;
    if !ring.device.adapter.is(adapter) || !control.device.adapter.is(adapter) {
        return Err(Status::INVALID_PARAMETER);
    }
    let (data, bytes) = (args.private_driver_data, args.private_driver_data_size);
    let private_data = call.caller.numbers::<u8>(data, bytes, DOORBELL_PRIVATE_DATA_BYTES)?;
    let kernel = queue.device.kernel();
    let made = kernel.create_doorbell(calls::CreateDoorbell {
        hw_queue: queue.handle,
        ring: ring.handle,
        control: control.handle,
        flags,
        private_data,
    })?;
    let platform = &call.library.platform;
    let cells = platform.page(CELLS);
    let addresses = [PRIMARY, SECONDARY].map(|cell| cells.word(cell).cpu_address());
    let has_secondary = made.secondary.is_some();
    let object = Doorbell {
        device: queue.device.clone(),
        handle: made.handle,
        cells,
        mapping: made.mapping,
        status: made.status.clone(),
        _last_queued: made.last_queued.clone(),
        _memory: [ring, control],
        connection: platform.mutex("a doorbell of C", None),
    };
    let handle = call.library.insert(Object::Doorbell(Arc::new(object)), || {
        let _ended = kernel.destroy_doorbell(made.handle);
    })?;
    args.doorbell = handle.0;
    args.doorbell_cpu_va = addresses[0];
    args.doorbell_secondary_cpu_va = if has_secondary { addresses[1] } else { 0 };
    args.doorbell_status_cpu_va = made.status.cpu_address();
    args.last_queued_value_cpu_va = made.last_queued.cpu_address();
    call.caller.write_numbers(data, &made.private_data)
}

fn connect(doorbell: &Doorbell, connection: &mut Option<Connection>) -> Result<(), Status> {
    *connection = Some(doorbell.device.kernel().connect_doorbell(doorbell.handle)?);
    Ok(())
}

pub(crate) fn connect_doorbell(call: &Call, args: &ConnectDoorbell) -> Result<(), Status> {
    let doorbell = call.library.doorbell(args.doorbell)?;
    if args.flags != 0 {
        return Err(Status::INVALID_PARAMETER);
    }
    let mut connection = doorbell.connection.lock_device();
    connect(&doorbell, &mut connection)
}

pub(crate) fn destroy_doorbell(call: &Call, args: &DestroyDoorbell) -> Result<(), Status> {
    let doorbell = call.library.doorbell(args.doorbell)?;
    ended(doorbell.device.kernel().destroy_doorbell(doorbell.handle))?;
    call.library.remove(args.doorbell);
    Ok(())
}

/// Passes the client's store to the kernel's doorbell.
fn ring(call: &Call, doorbell: &Doorbell, connection: &MutexGuard<'_, Option<Connection>>) {
    let base = connection.as_ref().map_or(0, |connection| connection.value_base);
    // The second doorbell rings the same queue, and pointers only rise.
    let pointer = doorbell.cells.load(PRIMARY).max(doorbell.cells.load(SECONDARY));
    doorbell.mapping.store(0, base.wrapping_add(pointer));
    call.library.platform.fence();
    if let Some(connection) = connection.as_ref() {
        connection.hint.rung();
    }
}

// spec: UMS-024
pub(crate) fn notify_work_submission(
    call: &Call,
    args: &NotifyWorkSubmission,
) -> Result<(), Status> {
    let doorbell = call.library.doorbell(args.doorbell)?;
    if args.flags != 0 {
        return Err(Status::INVALID_PARAMETER);
    }
    let mut connection = doorbell.connection.lock_device();
    for _ in 0..MOST_CONNECTS {
        ring(call, &doorbell, &connection);
        match DoorbellStatus::from_word(doorbell.status.load()) {
            DoorbellStatus::Connected => return Ok(()),
            DoorbellStatus::ConnectedNotify => {
                return doorbell.device.kernel().notify_work_submission(doorbell.handle);
            }
            DoorbellStatus::DisconnectedRetry => connect(&doorbell, &mut connection)?,
            DoorbellStatus::DisconnectedAbort => return Err(Status::DEVICE_REMOVED),
        }
    }
    Err(Status::GRAPHICS_TRY_AGAIN_LATER)
}
