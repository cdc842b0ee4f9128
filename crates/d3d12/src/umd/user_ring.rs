//! Owns what a user-mode queue is made of: hardware context and queue, ring and control area,
//! doorbell, and the state of its submissions. A queue that loses its doorbell for good gets
//! another one (`successor`).
//!
//! The order of making: hardware context, hardware queue, ring and control area (resident from
//! birth), doorbell. They end the other way round, which is the order of the fields. Nothing is
//! connected before the first submission.

use crate::counters::QueueStats;
use crate::device::DeviceInner;
use crate::umd::encode::{LogCursor, VerboseLog};
use crate::umd::in_flight::InFlight;
use crate::umd::kernel_object::{Object, Owned};
use crate::umd::progress::FenceReader;
use crate::umd::ring::Ring;
use crate::umd::signalled_fences::SignalledFences;
use crate::umd::submit::Submitter;
use crate::umd::{EngineChoice, Failure, QueueIdentity};
use tidegate_calls::{
    AllocationKind, AllocationMemory, CreateAllocation, CreateDoorbell, CreateDoorbellFlags,
    CreateHwContext, CreateHwQueue, Handle, Placement, Priority, Status,
};
use tidegate_gpu_abi::{CONTROL_WORDS, SLOT_BYTES};

pub(crate) struct UserRing {
    pub(crate) progress: FenceReader,
    pub(crate) progress_fence: Handle,
    /// `None` when it was ended before the rest.
    doorbell: Option<Owned>,
    _hw_queue: Owned,
    _hw_context: Owned,
    _ring: Owned,
    _control: Owned,
    /// Last: it holds what the engine may use until the rest has ended.
    pub(crate) submitter: Submitter,
}

fn allocation(
    device: &DeviceInner,
    bytes: u64,
    kind: AllocationKind,
) -> Result<(Owned, AllocationMemory), Status> {
    let args =
        CreateAllocation { device: device.handle(), bytes, kind, placement: Placement::System };
    let allocation = device.thunk.enter().create_allocation(args)?;
    Ok((Owned::new(&device.thunk, Object::Allocation, allocation.handle), allocation.memory))
}

impl UserRing {
    // spec: UMS-015, UMS-033, NF-191
    pub(crate) fn new(
        id: &QueueIdentity,
        at: EngineChoice,
        priority: Priority,
        slots: u64,
    ) -> Result<UserRing, Failure> {
        let device = &*id.device;
        let failed = |call| move |status| Failure::Refused(call, status);
        let kernel = || device.thunk.enter();

        let EngineChoice { node_ordinal, engine_affinity } = at;
        let args = CreateHwContext { device: device.handle(), node_ordinal, engine_affinity };
        let context = kernel().create_hw_context(args).map_err(failed("D3DKMTCreateHwContext"))?;
        let hw_context = Owned::new(&device.thunk, Object::HwContext, context);
        let args = CreateHwQueue {
            hw_context: context,
            user_mode_submission: true,
            priority,
            tag: id.tag,
        };
        let queue = kernel().create_hw_queue(args).map_err(failed("D3DKMTCreateHwQueue"))?;
        let hw_queue = Owned::new(&device.thunk, Object::HwQueue, queue.handle);

        let create = "D3DKMTCreateAllocation2";
        let (ring, ring_memory) =
            allocation(device, slots * SLOT_BYTES, AllocationKind::Bulk).map_err(failed(create))?;
        let (control, control_memory) =
            allocation(device, CONTROL_WORDS as u64 * 8, AllocationKind::Protocol)
                .map_err(failed(create))?;
        let (AllocationMemory::Bulk(slot_bytes), AllocationMemory::Protocol(page)) =
            (ring_memory, control_memory)
        else {
            return Err(failed(create)(Status::OBJECT_TYPE_MISMATCH));
        };

        let args = CreateDoorbell {
            hw_queue: queue.handle,
            ring: ring.handle(),
            control: control.handle(),
            flags: CreateDoorbellFlags::empty(),
            private_data: Vec::new(),
        };
        let doorbell = kernel().create_doorbell(args).map_err(failed("D3DKMTCreateDoorbell"))?;
        let owned_doorbell = Owned::new(&device.thunk, Object::Doorbell, doorbell.handle);
        let logs = kernel()
            .native_fence_log_detail(queue.handle)
            .map_err(failed("D3DKMTGetNativeFenceLogDetail"))?;

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
            signalled: SignalledFences::new(),
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

    /// Ends the doorbell and with it the hardware's hold on the ring: nothing in it runs from here
    /// on.
    pub(crate) fn stop(&mut self) {
        self.doorbell = None;
    }
}
