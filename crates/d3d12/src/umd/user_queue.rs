//! Owns user-mode queues: the making of ring, control area and doorbell, the submitter lock, and the sleep when a ring is
//! full.
//!
//! The order of making: hardware context, hardware queue, ring and control area (resident from birth), doorbell. They end
//! the other way round, which is the order of the fields. Nothing is connected before the first submission.

use crate::counters::QueueStats;
use crate::device::DeviceInner;
use crate::error::{Error, Result};
use crate::umd::encode::{LogCursor, VerboseLog};
use crate::umd::in_flight::InFlight;
use crate::umd::owned::{Object, Owned};
use crate::umd::progress::FenceReader;
use crate::umd::ring::{Ring, Room};
use crate::umd::submit::{Submitter, Unit};
use crate::umd::{EngineChoice, Failure, QueueIdentity};
use tidegate_calls::{
    AllocationKind, AllocationMemory, CreateAllocation, CreateDoorbell, CreateHwContext, CreateHwQueue,
    Handle, Placement, Priority, Status,
};
use tidegate_gpu_abi::{CONTROL_WORDS, SLOT_BYTES};
use tidegate_platform::Mutex;

pub(crate) struct UserQueue {
    submitter: Mutex<Submitter>,
    progress: FenceReader,
    progress_fence: Handle,
    most_lists: u64,
    _doorbell: Owned,
    _hw_queue: Owned,
    _hw_context: Owned,
    _ring: Owned,
    _control: Owned,
}

fn allocation(
    device: &DeviceInner,
    bytes: u64,
    kind: AllocationKind,
) -> std::result::Result<(Owned, AllocationMemory), Status> {
    let args = CreateAllocation { device: device.handle(), bytes, kind, placement: Placement::System };
    let allocation = device.thunk.enter().create_allocation(args)?;
    Ok((Owned::new(&device.thunk, Object::Allocation, allocation.handle), allocation.memory))
}

impl UserQueue {
    // spec: UMS-015, UMS-033, NF-191
    pub(crate) fn new(id: &QueueIdentity, at: EngineChoice, priority: Priority) -> Result<UserQueue> {
        let device = &*id.device;
        let failed = |call| move |status| id.error(Failure::Refused(call, status));
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
            lane: id.lane,
        };
        let queue = kernel().create_hw_queue(args).map_err(failed("D3DKMTCreateHwQueue"))?;
        let hw_queue = Owned::new(&device.thunk, Object::HwQueue, queue.handle);

        let slots = device.options.ring_slots;
        let create = "D3DKMTCreateAllocation2";
        let (ring, ring_memory) =
            allocation(device, slots * SLOT_BYTES, AllocationKind::Bulk).map_err(failed(create))?;
        let (control, control_memory) =
            allocation(device, CONTROL_WORDS as u64 * 8, AllocationKind::Protocol).map_err(failed(create))?;
        let (AllocationMemory::Bulk(slot_bytes), AllocationMemory::Protocol(page)) =
            (ring_memory, control_memory)
        else {
            return Err(failed(create)(Status::OBJECT_TYPE_MISMATCH));
        };

        let args = CreateDoorbell {
            hw_queue: queue.handle,
            ring: ring.handle(),
            control: control.handle(),
            private_data: Vec::new(),
        };
        let doorbell = kernel().create_doorbell(args).map_err(failed("D3DKMTCreateDoorbell"))?;
        let owned_doorbell = Owned::new(&device.thunk, Object::Doorbell, doorbell.handle);
        let logs = kernel()
            .native_fence_log_detail(queue.handle)
            .map_err(failed("D3DKMTGetNativeFenceLogDetail"))?;

        let ring_of_slots = Ring::new(slot_bytes, &page, slots);
        let most_lists = ring_of_slots.most_per_submission();
        let submitter = Submitter {
            ring: ring_of_slots,
            doorbell,
            hint: None,
            progress: 0,
            wait_log: LogCursor::new(logs.numbers),
            signal_log: LogCursor::new(logs.numbers),
            verbose_log: VerboseLog::new(logs.verbose, logs.numbers),
            in_flight: InFlight::new(),
            stats: QueueStats::default(),
            ends_with_progress: true,
            aborted: false,
        };
        Ok(UserQueue {
            submitter: device.platform.mutex("submitter of a user-mode queue", submitter),
            progress: device.reader(queue.progress_value, 0),
            progress_fence: queue.progress_fence,
            most_lists,
            _doorbell: owned_doorbell,
            _hw_queue: hw_queue,
            _hw_context: hw_context,
            _ring: ring,
            _control: control,
        })
    }

    /// Submits `unit` when the ring has room for it. The submitter lock is dropped while the caller sleeps for room, so that
    /// a machine in which nobody can move is recognised; the unit itself is never divided.
    pub(crate) fn submit(&self, id: &QueueIdentity, unit: &Unit<'_>, queued_ns: u64) -> Result<()> {
        if let Unit::Execute(lists) = unit
            && lists.len() as u64 > self.most_lists
        {
            let (queue, lists) = (id.name.clone(), lists.len());
            return Err(Error::TooManyLists { queue, lists, most: self.most_lists });
        }
        loop {
            let target = {
                let mut submitter = self.submitter.lock_device();
                let need = submitter.slots_of(unit);
                match submitter.ring.room(need, || self.progress.load()) {
                    Room::AfterProgress(value) if !submitter.aborted => value,
                    _ => {
                        submitter.in_flight.collect(&self.progress);
                        let stats = &mut submitter.stats;
                        match unit {
                            Unit::Execute(_) => stats.executes += 1,
                            Unit::Wait(..) => stats.waits += 1,
                            Unit::Signal(..) => stats.signals += 1,
                            Unit::Marker => {}
                        }
                        let done = submitter.submit(id, unit, queued_ns);
                        drop(submitter);
                        return done.map_err(|failure| id.error(failure));
                    }
                }
            };
            id.device.wait_for_progress(id, self.progress_fence, &self.progress, target)?;
        }
    }

    pub(crate) fn wait_idle(&self, id: &QueueIdentity) -> Result<()> {
        let (drained, ends_with_progress) = {
            let submitter = self.submitter.lock_device();
            (submitter.ring.is_drained(), submitter.ends_with_progress)
        };
        if !ends_with_progress {
            // Waits and signals have no progress value. When the engine has not taken them yet, an empty command buffer
            // behind them has.
            if drained {
                return Ok(());
            }
            self.submit(id, &Unit::Marker, id.queued_ns())?;
        }
        let target = self.submitter.lock_device().progress;
        id.device.wait_for_progress(id, self.progress_fence, &self.progress, target)
    }

    pub(crate) fn stats(&self) -> QueueStats {
        self.submitter.lock_device().stats
    }

    pub(crate) fn label_at(&self, position: u64) -> Option<String> {
        self.submitter.lock_device().in_flight.label_at(position)
    }
}
