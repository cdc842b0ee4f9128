//! Fences as an application sees them: a 64-bit value that CPU and queues signal and wait for.
//! Native and monitored fences have the same interface; `queue` checks which queues may use them.

use crate::device::DeviceInner;
use crate::error::{Error, Result};
use crate::model::FenceFlags;
use crate::umd::kernel_object::{Object, Owned};
use crate::umd::progress::FenceReader;
use std::fmt;
use std::sync::Arc;
use tidegate_calls::{
    CreateMonitoredFence, CreateNativeFence, FenceInstance, FenceValue, NativeFenceType, NtHandle,
    OpenSyncObject, ReadOnly, SignalFlags, Status, SyncObjectAccess, SyncObjectFlags, WaitMode,
};
use tidegate_d3dukmdt::fence_cell::{FenceWait, NO_EPOCH, REACHED};
use tidegate_platform::Event;
use tidegate_trace::{FenceId, Kind, LaneId, NameId};

/// A fence. Queued signals keep it alive when the last handle is dropped. Waits do not: they are
/// released when it ends.
#[derive(Clone)]
pub struct Fence {
    pub(crate) inner: Arc<FenceInner>,
    lane: Option<LaneId>,
}

pub(crate) struct FenceInner {
    pub(crate) instance: FenceInstance,
    pub(crate) name: String,
    /// Whether the CPU may wait for it and signal it.
    cpu_access: bool,
    value: FenceReader,
    _owned: Owned,
    pub(crate) device: Arc<DeviceInner>,
}

impl FenceInner {
    pub(crate) fn at(&self, value: u64) -> FenceValue {
        FenceValue { fence: self.instance.handle, value }
    }

    /// Where engines of the device's adapter reach its value.
    pub(crate) fn engine_va(&self) -> u64 {
        self.instance.engine_va(&self.device.info)
    }

    /// A wait for `value` that latches from now on: its epoch is loaded before the value.
    // spec: ME-043
    pub(crate) fn wait_for(&self, value: u64) -> FenceWait {
        let epoch = self.instance.epoch.as_ref().map_or(NO_EPOCH, ReadOnly::load);
        FenceWait { value, epoch: if self.value.load() >= value { REACHED } else { epoch } }
    }

    /// The fence and a value as a record names them.
    pub(crate) fn on_timeline(&self, value: u64) -> Option<(FenceId, u64)> {
        self.instance.trace_fence.checked_sub(1).map(|number| (FenceId(number), value))
    }
}

/// What the kernel is asked for.
// spec: ME-046
fn kernel_flags(name: &str, flags: FenceFlags) -> Result<SyncObjectFlags> {
    let mut asked = SyncObjectFlags::empty();
    if flags.contains(FenceFlags::SHARED) {
        asked |= SyncObjectFlags::SHARED | SyncObjectFlags::NT_SECURITY_SHARING;
    }
    if flags.contains(FenceFlags::SHARED_CROSS_ADAPTER) {
        if !flags.contains(FenceFlags::SHARED) {
            let what = format!("fence '{name}'");
            return Err(Error::BadValue {
                what,
                why: "a fence of several adapters is shared; ask for SHARED too",
            });
        }
        asked |= SyncObjectFlags::CROSS_ADAPTER;
    }
    Ok(asked)
}

impl Fence {
    pub(crate) fn new(
        device: &Arc<DeviceInner>,
        name: &str,
        initial_value: u64,
        flags: FenceFlags,
        lane: Option<LaneId>,
    ) -> Result<Fence> {
        let cpu_access = !flags.contains(FenceFlags::NON_MONITORED);
        let (owner, flags) = (device.handle(), kernel_flags(name, flags)?);
        let kernel = device.thunk.enter();
        let (call, made) = if device.native_fences {
            let fence_type = NativeFenceType::Default;
            let args = CreateNativeFence {
                device: owner,
                initial_value,
                fence_type,
                flags,
                engine_affinity: 0,
                private_data: [0; 64],
                name,
            };
            ("D3DKMTCreateNativeFence", kernel.create_native_fence(args))
        } else {
            let args = CreateMonitoredFence {
                device: owner,
                initial_value,
                flags,
                engine_affinity: 0,
                name,
            };
            ("D3DKMTCreateSynchronizationObject2", kernel.create_monitored_fence(args))
        };
        Fence::around(device, name, (call, made), (initial_value, cpu_access), lane)
    }

    /// Opens a fence that another device shares.
    pub(crate) fn open(
        device: &Arc<DeviceInner>,
        name: &str,
        nt_handle: &NtHandle,
        lane: Option<LaneId>,
    ) -> Result<Fence> {
        let (owner, flags) = (device.handle(), SyncObjectFlags::empty());
        let args = OpenSyncObject { device: owner, nt_handle, flags, engine_affinity: 0 };
        let opened = device.thunk.enter().open_sync_object_from_nt_handle(args);
        // Where engines update 32 bits, an opener cannot know how often the value has wrapped.
        Fence::around(device, name, ("D3DKMTOpenSyncObjectFromNtHandle2", opened), (0, true), lane)
    }

    fn around(
        device: &Arc<DeviceInner>,
        name: &str,
        (call, made): (&'static str, std::result::Result<FenceInstance, Status>),
        (initial_value, cpu_access): (u64, bool),
        lane: Option<LaneId>,
    ) -> Result<Fence> {
        let instance = made.map_err(|s| device.error(call, &format!("fence '{name}'"), s))?;
        let what = || format!("fence '{name}', whose value no CPU reaches");
        let reached = Fence::with_value(device, name, instance, (initial_value, cpu_access), lane);
        reached.ok_or_else(|| device.error(call, &what(), Status::NOT_SUPPORTED))
    }

    /// `None` when no CPU reaches its value.
    fn with_value(
        device: &Arc<DeviceInner>,
        name: &str,
        instance: FenceInstance,
        (initial_value, cpu_access): (u64, bool),
        lane: Option<LaneId>,
    ) -> Option<Fence> {
        let owned = Owned::new(&device.thunk, Object::Fence, instance.handle);
        let word = instance.value.read_only().cloned()?;
        let value = device.reader(word, initial_value);
        let (name, device) = (name.to_owned(), Arc::clone(device));
        let inner = FenceInner { instance, name, cpu_access, value, _owned: owned, device };
        Some(Fence { inner: Arc::new(inner), lane })
    }

    /// The fence of a paging queue, which the kernel alone signals; `None` when no CPU reaches its
    /// value.
    pub(crate) fn of_paging_queue(
        device: &Arc<DeviceInner>,
        fence: FenceInstance,
    ) -> Option<Fence> {
        Fence::with_value(device, "paging", fence, (0, true), None)
    }

    /// A handle by which another device, also of another process or on another adapter, opens the
    /// fence.
    pub(crate) fn share(&self) -> Result<NtHandle> {
        let device = &self.inner.device;
        let made = device
            .thunk
            .enter()
            .share_objects(&[self.inner.instance.handle], SyncObjectAccess::all());
        made.map_err(|s| device.error("D3DKMTShareObjects", &self.what(), s))
    }

    fn check_cpu_access(&self) -> Result<()> {
        if self.inner.cpu_access {
            return Ok(());
        }
        Err(Error::NotSupported {
            what: self.what(),
            why: "it was made NON_MONITORED: queues alone use it",
        })
    }

    /// The same fence for a CPU thread that is drawn on `lane`.
    pub fn on_lane(&self, lane: LaneId) -> Fence {
        Fence { inner: Arc::clone(&self.inner), lane: Some(lane) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Whether it is a native fence.
    pub fn is_native(&self) -> bool {
        self.inner.instance.native
    }

    /// Its number on the timeline, if it has one.
    pub fn trace_id(&self) -> Option<FenceId> {
        self.inner.on_timeline(0).map(|(id, _)| id)
    }

    // spec: NF-001, ME-034
    /// The value now, without a kernel call; `u64::MAX` when the device was lost.
    #[doc(alias = "GetCompletedValue")]
    pub fn completed_value(&self) -> u64 {
        self.inner.value.load()
    }

    // spec: ME-035
    /// Signals from the CPU, at once; the value may go down as well as up.
    ///
    /// # Errors
    /// [`crate::Error::DeviceRemoved`], [`crate::Error::Stopped`].
    pub fn signal(&self, value: u64) -> Result<()> {
        self.check_cpu_access()?;
        let device = &self.inner.device;
        let start = device.stamp(self.lane);
        let fences = [self.inner.at(value)];
        let signalled =
            device.thunk.enter().signal_from_cpu(&fences, SignalFlags::ALLOW_FENCE_REWIND);
        device.record_call(start, Kind::CpuSignal, NameId::NONE, |r| {
            r.on(self.inner.on_timeline(value))
        });
        signalled
            .map_err(|s| device.error("D3DKMTSignalSynchronizationObjectFromCpu", &self.what(), s))
    }

    /// The fence and `value` as the records of a timeline name them; `None` without a timeline.
    pub fn on_timeline(&self, value: u64) -> Option<(FenceId, u64)> {
        self.inner.on_timeline(value)
    }

    /// Blocks until the value is at least `value`. A value that is reached already needs no kernel
    /// call.
    ///
    /// # Errors
    /// [`crate::Error::DeviceRemoved`], [`crate::Error::Stopped`].
    pub fn wait(&self, value: u64) -> Result<()> {
        self.check_cpu_access()?;
        let device = &self.inner.device;
        let start = device.stamp(self.lane);
        let reached = || self.completed_value() >= value;
        let lost = || self.completed_value() == u64::MAX;
        let result =
            device.block(&[self.inner.at(value)], WaitMode::All, || self.what(), reached, lost);
        device.record_call(start, Kind::CpuWait, NameId::NONE, |r| {
            r.on(self.inner.on_timeline(value))
        });
        result
    }

    // spec: ME-033
    /// Has `event` set once the value is at least `value`; returns at once.
    ///
    /// # Errors
    /// [`crate::Error::DeviceRemoved`], [`crate::Error::Stopped`].
    pub fn set_event_on_completion(&self, value: u64, event: &Event) -> Result<()> {
        self.check_cpu_access()?;
        let device = &self.inner.device;
        let asked = device.thunk.enter().wait_from_cpu(
            &[self.inner.at(value)],
            WaitMode::All,
            Some(event.clone()),
        );
        asked
            .map_err(|s| device.error("D3DKMTWaitForSynchronizationObjectFromCpu", &self.what(), s))
    }

    fn what(&self) -> String {
        format!("fence '{}'", self.name())
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_native() { "native" } else { "monitored" };
        write!(f, "Fence({:?}, {kind}, {})", self.name(), self.completed_value())
    }
}
