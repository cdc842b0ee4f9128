//! Calls about doorbells.
//!
//! A client stores to an address that is the same for all connects: a page of addresses that shows
//! the hardware's page while the doorbell is connected. The client does nothing after the store. A
//! thread of the library watches the doorbells that read CONNECTED and gives the hint that wakes an
//! engine (`ring_watch`, decision 171).
//!
//! D3DKMTNotifyWorkSubmission tells the driver of work, whatever the status. It connects a doorbell
//! that lost its hardware since the client read the status, because the client does not read it
//! again.

use crate::call::Call;
use crate::library::ended;
use crate::named_object::Object;
use crate::object::{Doorbell, Placed};
use std::sync::Arc;
use tidegate_calls::{self as calls, DoorbellStatus, Status};
use tidegate_wddm_abi::d3dkmthk::{
    ConnectDoorbell, CreateDoorbell, CreateDoorbellFlags, DestroyDoorbell, NotifyWorkSubmission,
};
use tidegate_wddm_abi::d3dukmdt::DOORBELL_PRIVATE_DATA_BYTES;

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
    let placed = [Some(&made.mapping), made.secondary.as_ref()].into_iter().flatten();
    let placed: Result<Vec<Placed>, _> =
        placed.map(|window| Ok((window.clone(), window.place()?))).collect();
    let Ok(windows) = placed.map_err(|_: std::io::Error| ()) else {
        let _ended = kernel.destroy_doorbell(made.handle);
        return Err(Status::NO_MEMORY);
    };
    let addresses = [0, 1].map(|at| windows.get(at).map_or(0, |(_, address)| *address));
    let object = Doorbell {
        device: queue.device.clone(),
        handle: made.handle,
        windows,
        status: made.status.clone(),
        _last_queued: made.last_queued.clone(),
        _memory: [ring, control],
        watched: call.library.platform.mutex("a doorbell of C", None),
    };
    let handle = call.library.insert(Object::Doorbell(Arc::new(object)), || {
        let _ended = kernel.destroy_doorbell(made.handle);
    })?;
    args.doorbell = handle.0;
    args.doorbell_cpu_va = addresses[0];
    args.doorbell_secondary_cpu_va = addresses[1];
    args.doorbell_status_cpu_va = made.status.cpu_address();
    args.last_queued_value_cpu_va = made.last_queued.cpu_address();
    call.caller.write_numbers(data, &made.private_data)
}

fn connect(call: &Call, doorbell: &Doorbell) -> Result<(), Status> {
    let rings = call.library.rings.watch(&call.library.platform)?;
    let mut watched = doorbell.watched.lock_device();
    let connection = doorbell.device.kernel().connect_doorbell(doorbell.handle)?;
    // Where the value has a base, the status tells the client to notify.
    // spec: UMS-022
    *watched = (connection.value_base == 0)
        .then(|| rings.watch(doorbell.windows.clone(), connection.hint));
    Ok(())
}

pub(crate) fn connect_doorbell(call: &Call, args: &ConnectDoorbell) -> Result<(), Status> {
    let doorbell = call.library.doorbell(args.doorbell)?;
    if args.flags != 0 {
        return Err(Status::INVALID_PARAMETER);
    }
    connect(call, &doorbell)
}

pub(crate) fn destroy_doorbell(call: &Call, args: &DestroyDoorbell) -> Result<(), Status> {
    let doorbell = call.library.doorbell(args.doorbell)?;
    ended(doorbell.device.kernel().destroy_doorbell(doorbell.handle))?;
    call.library.remove(args.doorbell);
    Ok(())
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
    for _ in 0..MOST_CONNECTS {
        match DoorbellStatus::from_word(doorbell.status.load()) {
            DoorbellStatus::Connected | DoorbellStatus::ConnectedNotify => {
                return doorbell.device.kernel().notify_work_submission(doorbell.handle);
            }
            DoorbellStatus::DisconnectedRetry => connect(call, &doorbell)?,
            DoorbellStatus::DisconnectedAbort => return Err(Status::DEVICE_REMOVED),
        }
    }
    Err(Status::GRAPHICS_TRY_AGAIN_LATER)
}
