//! Fences as an application sees them: a 64-bit value that CPU and queues signal and wait for.
//! Native and monitored fences have the same interface; `queue` checks which queues may use them.

use crate::error::{Error, Result};
use crate::event::{Event, EventRegistration, Waited};
use crate::hazards;
use crate::model::{FenceDesc, FenceFlags};
use crate::shared_device::{Condition, RecordedCall, SharedDevice};
use crate::umd::fence::{self, FenceObject};
use crate::umd::registration::Registration;
use crate::umd::thunk::CPU_WAIT_CALL;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tidegate_calls::{
    FenceInstance, NtHandle, OpenSyncObject, SignalFlags, Status, SyncObjectAccess,
    SyncObjectFlags, WaitMode, WaitNotice,
};
use tidegate_trace::{FenceId, Kind, LaneId, NameId};

/// A fence. Queued signals keep it alive when the last handle is dropped. Waits do not: when the
/// last handle is gone and no queued signal of the fence is left, its waits are released, as in
/// Direct3D 12. Work behind such a wait then runs, although no signal has reached its value.
#[doc(alias = "ID3D12Fence")]
#[derive(Clone)]
pub struct Fence {
    pub(crate) object: Arc<FenceObject>,
    device: Arc<SharedDevice>,
    initial_value: u64,
    flags: FenceFlags,
    lane: Option<LaneId>,
}

// spec: ME-046
fn kernel_flags(name: &str, flags: FenceFlags) -> Result<SyncObjectFlags> {
    let mut kernel_flags = SyncObjectFlags::empty();
    if flags.contains(FenceFlags::SHARED) {
        kernel_flags |= SyncObjectFlags::SHARED | SyncObjectFlags::NT_SECURITY_SHARING;
    }
    if flags.contains(FenceFlags::SHARED_CROSS_ADAPTER) {
        if !flags.contains(FenceFlags::SHARED) {
            let what = format!("fence '{name}'");
            return Err(Error::BadValue {
                what,
                why: "a fence of several adapters is shared; ask for SHARED too",
            });
        }
        kernel_flags |= SyncObjectFlags::CROSS_ADAPTER;
    }
    Ok(kernel_flags)
}

/// The error of a status that is about the name of a shared object.
fn name_error(name: &str, status: Status) -> Option<Error> {
    let name = name.to_owned();
    match status {
        Status::OBJECT_NAME_COLLISION => Some(Error::NameTaken { name }),
        Status::OBJECT_NAME_NOT_FOUND => Some(Error::NameNotFound { name }),
        Status::OBJECT_NAME_INVALID => Some(Error::BadValue {
            what: format!("the shared name '{name}'"),
            why: "a name is not empty, and has no backslash behind the prefix Global\\ or Local\\",
        }),
        _ => None,
    }
}

impl Fence {
    pub(crate) fn new(
        device: &Arc<SharedDevice>,
        desc: FenceDesc,
        lane: Option<LaneId>,
    ) -> Result<Fence> {
        let FenceDesc { name, initial_value, flags } = &desc;
        let (umd, native) = (&device.umd, device.native_fences);
        let kernel_flags = kernel_flags(name, *flags)?;
        let (call, made) = fence::create(umd, native, name, *initial_value, kernel_flags);
        Fence::around(device, name, call, made, *initial_value, *flags, lane)
    }

    /// Opens a fence that another device shares.
    pub(crate) fn open(
        device: &Arc<SharedDevice>,
        name: &str,
        nt_handle: &NtHandle,
        lane: Option<LaneId>,
    ) -> Result<Fence> {
        let (owner, flags) = (device.umd.handle(), SyncObjectFlags::empty());
        let args = OpenSyncObject { device: owner, nt_handle, flags, engine_affinity: 0 };
        let opened = device.umd.enter().open_sync_object_from_nt_handle(args);
        // Where engines update 32 bits, an opener cannot know how often the value has wrapped.
        Fence::around(
            device,
            name,
            "D3DKMTOpenSyncObjectFromNtHandle2",
            opened,
            0,
            FenceFlags::SHARED,
            lane,
        )
    }

    fn around(
        device: &Arc<SharedDevice>,
        name: &str,
        call: &'static str,
        made: std::result::Result<FenceInstance, Status>,
        initial_value: u64,
        flags: FenceFlags,
        lane: Option<LaneId>,
    ) -> Result<Fence> {
        let instance = made.map_err(|s| device.error(call, &format!("fence '{name}'"), s))?;
        let what = || format!("fence '{name}', whose value no CPU reaches");
        let object = FenceObject::new(&device.umd, name, instance, initial_value);
        let object = object.ok_or_else(|| device.error(call, &what(), Status::NOT_SUPPORTED))?;
        if let Some(states) = &device.states {
            states.add_fence(&object, initial_value, flags.contains(FenceFlags::SHARED));
        }
        hazards::add_fence(&device.umd.platform, &object, initial_value);
        let (object, device) = (Arc::new(object), Arc::clone(device));
        Ok(Fence { object, device, initial_value, flags, lane })
    }

    /// A handle by which another device, also of another process or on another adapter, opens the
    /// fence.
    pub(crate) fn share(&self, name: Option<&str>) -> Result<NtHandle> {
        let (device, objects) = (&self.device, [self.object.handle()]);
        let made = device.umd.enter().share_objects(&objects, SyncObjectAccess::all(), name);
        made.map_err(|status| {
            name_error(name.unwrap_or_default(), status)
                .unwrap_or_else(|| device.error("D3DKMTShareObjects", &self.what(), status))
        })
    }

    /// Another handle of the fence that was shared under a name.
    pub(crate) fn handle_from_name(device: &SharedDevice, name: &str) -> Result<NtHandle> {
        let access = SyncObjectAccess::all();
        let opened = device.umd.enter().open_sync_object_nt_handle_from_name(name, access);
        opened.map_err(|status| {
            let call = "D3DKMTOpenSyncObjectNtHandleFromName";
            let what = || format!("the shared name '{name}'");
            name_error(name, status).unwrap_or_else(|| device.error(call, &what(), status))
        })
    }

    #[inline]
    pub(crate) fn check_cpu_access(&self) -> Result<()> {
        match self.flags.contains(FenceFlags::NON_MONITORED) {
            false => Ok(()),
            true => Err(self.refusal_of_cpu()),
        }
    }

    #[cold]
    fn refusal_of_cpu(&self) -> Error {
        let why = "it was made NON_MONITORED: queues alone use it";
        Error::NotSupported { what: self.what(), why }
    }

    /// Returns a handle of the fence for a CPU thread with the timeline lane `lane`.
    pub fn on_lane(&self, lane: LaneId) -> Fence {
        Fence { lane: Some(lane), ..self.clone() }
    }

    /// Returns its description. For a fence that was opened by a handle it has the name of the
    /// open, [`FenceFlags::SHARED`], and no initial value: only its creator knows more.
    #[doc(alias = "GetCreationFlags")]
    pub fn desc(&self) -> FenceDesc {
        let (name, initial_value) = (self.name().to_owned(), self.initial_value);
        FenceDesc { name, initial_value, flags: self.flags }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.object.name
    }

    /// Returns whether it is a native fence.
    pub fn is_native(&self) -> bool {
        self.object.instance.native
    }

    /// Returns its number on the timeline; `None` without a timeline.
    pub fn trace_id(&self) -> Option<FenceId> {
        self.object.on_timeline(0).map(|(id, _)| id)
    }

    // spec: NF-001, ME-034
    /// The value now, without a kernel call; `u64::MAX` when the device was lost.
    #[doc(alias = "GetCompletedValue")]
    #[track_caller]
    pub fn completed_value(&self) -> u64 {
        let _call = self.device.umd.platform.enter_call("Fence::completed_value");
        let value = self.object.value.load();
        hazards::cpu_read(&self.device.umd.platform, &self.object, value);
        self.note_reached(value);
        value
    }

    /// Tells the check of states that the CPU has seen the fence at `value`.
    pub(crate) fn note_reached(&self, value: u64) {
        if let Some(states) = &self.device.states {
            states.cpu_reached(&self.object, value);
        }
    }

    /// Tells the check of states that an event is set once the fence is at `value`.
    pub(crate) fn arm_states(&self, value: u64) {
        if let Some(states) = &self.device.states {
            states.arm(&self.object, value);
        }
    }

    // spec: ME-035
    /// Signals from the CPU, at once. The value may rise or fall. Tasks of this device whose waits
    /// end by it are woken before the call returns.
    ///
    /// # Errors
    /// [`crate::Error::DeviceRemoved`], [`crate::Error::Stopped`].
    #[doc(alias = "ID3D12Fence::Signal")]
    #[track_caller]
    pub fn signal(&self, value: u64) -> Result<()> {
        let _call = self.device.umd.platform.enter_call("Fence::signal");
        self.check_cpu_access()?;
        let device = &self.device;
        let call = RecordedCall::begin(&device.umd.platform, self.lane);
        if let Some(states) = &device.states {
            states.cpu_signal(&self.object, value);
        }
        hazards::cpu_signal(&device.umd.platform, &self.object, value);
        let (fences, flags) = ([self.object.at(value)], SignalFlags::ALLOW_FENCE_REWIND);
        let signal = move || device.umd.enter().signal_from_cpu(&fences, flags);
        let signalled = device.wakers.wake_after(signal);
        self.end_call(call, Kind::CpuSignal, value);
        match signalled {
            Ok(()) => Ok(()),
            Err(status) => Err(self.refused_signal(status)),
        }
    }

    #[cold]
    fn refused_signal(&self, status: Status) -> Error {
        self.device.error("D3DKMTSignalSynchronizationObjectFromCpu", &self.what(), status)
    }

    /// Reports to the hazard check that a wait of the CPU for `value` ended well.
    pub(crate) fn note_waited(&self, value: u64) {
        let one = std::iter::once((&*self.object, value));
        hazards::cpu_wait(&self.device.umd.platform, WaitMode::All, one);
    }

    /// Records a call that concerned `value` of the fence.
    #[inline]
    pub(crate) fn end_call(&self, call: Option<RecordedCall>, kind: Kind, value: u64) {
        if let Some(call) = call {
            self.record_call(call, kind, value);
        }
    }

    #[inline(never)]
    fn record_call(&self, call: RecordedCall, kind: Kind, value: u64) {
        let on_fence = |record: tidegate_trace::Record| record.on(self.on_timeline(value));
        call.end(&self.device.umd.platform, kind, NameId::NONE, on_fence);
    }

    /// The fence and `value` as the records of a timeline name them; `None` without a timeline.
    pub fn on_timeline(&self, value: u64) -> Option<(FenceId, u64)> {
        self.object.on_timeline(value)
    }

    /// Blocks until the value is at least `value`. A value that is reached already needs no kernel
    /// call.
    ///
    /// # Errors
    /// [`crate::Error::DeviceRemoved`], [`crate::Error::Stopped`]; [`crate::Error::NotSupported`]
    /// for a fence that was made NON_MONITORED.
    #[track_caller]
    pub fn wait(&self, value: u64) -> Result<()> {
        let _call = self.device.umd.platform.enter_call("Fence::wait");
        self.wait_for(value, None).map(|_| ())
    }

    /// Blocks as [`Fence::wait`] does, for `limit` at most. A limit of zero makes no kernel call.
    /// After a time-out nothing of the wait stays with the fence.
    ///
    /// # Errors
    /// As [`Fence::wait`].
    #[track_caller]
    pub fn wait_timeout(&self, value: u64, limit: Duration) -> Result<Waited> {
        let _call = self.device.umd.platform.enter_call("Fence::wait_timeout");
        self.wait_for(value, Some(limit))
    }

    fn wait_for(&self, value: u64, limit: Option<Duration>) -> Result<Waited> {
        self.check_cpu_access()?;
        let call = RecordedCall::begin(&self.device.umd.platform, self.lane);
        let fences = &[(&*self.object, value)];
        let condition = Condition { fences, mode: WaitMode::All, what: &|| self.what() };
        let result = self.device.block(&condition, limit);
        if matches!(result, Ok(Waited::Signalled(()))) {
            self.note_reached(value);
            self.note_waited(value);
        }
        self.end_call(call, Kind::CpuWait, value);
        result
    }

    // spec: ME-033
    /// Has `event` set once the value is at least `value`, and returns at once. Without an event it
    /// blocks until then, as [`Fence::wait`] does. Dropping the last handle of the event cancels
    /// the registration.
    ///
    /// # Errors
    /// As [`Fence::wait`].
    #[doc(alias = "SetEventOnCompletion")]
    #[track_caller]
    pub fn set_event_on_completion<'e>(
        &self,
        value: u64,
        event: impl Into<Option<&'e Event>>,
    ) -> Result<()> {
        let _call = self.device.umd.platform.enter_call("Fence::set_event_on_completion");
        match event.into() {
            Some(event) => {
                event.own(self.register_event(value, event)?.0);
                Ok(())
            }
            None => self.wait(value),
        }
    }

    /// Has `event` set as [`Fence::set_event_on_completion`] does, until the result is dropped.
    ///
    /// # Errors
    /// As [`Fence::wait`].
    #[track_caller]
    pub fn register_event(&self, value: u64, event: &Event) -> Result<EventRegistration> {
        let _call = self.device.umd.platform.enter_call("Fence::register_event");
        let one = std::iter::once((&*self.object, value));
        hazards::arm_event(event, WaitMode::All, one);
        let notice = WaitNotice::Event(event.signal().clone());
        self.register(value, notice).map(EventRegistration)
    }

    pub(crate) fn device(&self) -> &SharedDevice {
        &self.device
    }

    /// Fails if the value is what the fences of a removed device have.
    pub(crate) fn check_not_lost(&self) -> Result<()> {
        let lost = self.object.value.load() == u64::MAX;
        let reason = if lost { self.device.removed_reason() } else { None };
        reason.map_or(Ok(()), |reason| Err(Error::DeviceRemoved(reason)))
    }

    pub(crate) fn register(&self, value: u64, notice: WaitNotice) -> Result<Registration> {
        self.check_cpu_access()?;
        self.arm_states(value);
        let thunk = self.device.umd.kernel.thunk();
        let fences = [self.object.at(value)];
        let registered = Registration::new(thunk, &fences, WaitMode::All, notice);
        registered.map_err(|s| self.device.error(CPU_WAIT_CALL, &self.what(), s))
    }

    fn what(&self) -> String {
        format!("fence '{}'", self.name())
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_native() { "native" } else { "monitored" };
        write!(f, "Fence({:?}, {kind}, {})", self.name(), self.object.value.load())
    }
}
