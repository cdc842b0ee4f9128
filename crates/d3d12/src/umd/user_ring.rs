//! The parts of a user-mode queue: hardware context and queue, ring and control area, doorbell, and
//! the state of its submissions. A queue whose doorbell is permanently lost gets new parts
//! (`successor`).
//!
//! Order of creation: hardware context, hardware queue, ring and control area (resident from
//! creation), doorbell. They are destroyed in reverse order, which is the order of the fields. The
//! doorbell is connected by the first submission.

use crate::counters::QueueStats;
use crate::umd::device::UmdDevice;
use crate::umd::encode::{LogCursor, VerboseLog};
use crate::umd::failure::{Failure, Why};
use crate::umd::held_fences::HeldFences;
use crate::umd::in_flight::InFlight;
use crate::umd::kernel_object::{Object, Owned};
use crate::umd::kernel_queue::{Feed, create_hw_queue};
use crate::umd::progress::FenceReader;
use crate::umd::queue_identity::QueueIdentity;
use crate::umd::ring::Ring;
use crate::umd::submit::Submitter;
use tidegate_calls::{
    AllocationKind, AllocationMemory, CreateAllocation, CreateDoorbell, CreateDoorbellFlags,
    Handle, Placement, Status,
};
use tidegate_gpu_abi::{CONTROL_WORDS, SLOT_BYTES};

pub(crate) struct UserRing {
    pub(crate) progress: FenceReader,
    pub(crate) progress_fence: Handle,
    /// `None` after [`UserRing::stop`].
    doorbell: Option<Owned>,
    _hw_queue: Owned,
    _hw_context: Owned,
    _ring: Owned,
    _control: Owned,
    /// Declared last: it holds memory that the engine may use until the other parts are destroyed.
    pub(crate) submitter: Submitter,
}

fn allocation(
    device: &UmdDevice,
    bytes: u64,
    kind: AllocationKind,
) -> Result<(Owned, AllocationMemory), Failure> {
    let args =
        CreateAllocation { device: device.handle(), bytes, kind, placement: Placement::System };
    let made = device.enter().create_allocation(args).map_err(Why::of(CREATE_ALLOCATION))?;
    Ok((Owned::new(&device.kernel, Object::Allocation, made.handle), made.memory))
}

const CREATE_ALLOCATION: &str = "D3DKMTCreateAllocation2";

impl UserRing {
    // spec: UMS-015, UMS-033, NF-191
    pub(crate) fn new(id: &QueueIdentity, slots: u64) -> Result<UserRing, Failure> {
        let device = &*id.device;
        let (queue, hw_queue, hw_context) = create_hw_queue(id, Feed::Doorbell)?;
        let (ring, ring_memory) = allocation(device, slots * SLOT_BYTES, AllocationKind::Bulk)?;
        let (control, control_memory) =
            allocation(device, CONTROL_WORDS as u64 * 8, AllocationKind::Protocol)?;
        let (AllocationMemory::Bulk(slot_bytes), AllocationMemory::Protocol(page)) =
            (ring_memory, control_memory)
        else {
            return Err(Why::Refused(CREATE_ALLOCATION, Status::OBJECT_TYPE_MISMATCH).into());
        };
        let args = CreateDoorbell {
            hw_queue: queue.handle,
            ring: ring.handle(),
            control: control.handle(),
            flags: CreateDoorbellFlags::empty(),
            private_data: Vec::new(),
        };
        let doorbell = device.enter().create_doorbell(args);
        let doorbell = doorbell.map_err(Why::of("D3DKMTCreateDoorbell"))?;
        let owned_doorbell = Owned::new(&device.kernel, Object::Doorbell, doorbell.handle);
        let logs = device.enter().native_fence_log_detail(queue.handle);
        let logs = logs.map_err(Why::of("D3DKMTGetNativeFenceLogDetail"))?;

        let submitter = Submitter {
            number: id.register(queue.handle),
            ring: Ring::new(slot_bytes, &page, slots),
            doorbell,
            connection: None,
            progress: 0,
            wait_log: LogCursor::new(logs.numbers),
            signal_log: LogCursor::new(logs.numbers),
            verbose_log: VerboseLog::new(logs.verbose, logs.numbers),
            in_flight: InFlight::new(),
            held: HeldFences::new(),
            stats: QueueStats::default(),
            ends_with_progress: true,
            aborted: false,
        };
        Ok(UserRing {
            progress: device.reader(queue.progress_value, 0),
            progress_fence: queue.progress_fence,
            doorbell: Some(owned_doorbell),
            _hw_queue: hw_queue,
            _hw_context: hw_context,
            _ring: ring,
            _control: control,
            submitter,
        })
    }

    /// Destroys the doorbell, so that the hardware stops reading the ring.
    pub(crate) fn stop(&mut self) {
        self.doorbell = None;
    }
}
