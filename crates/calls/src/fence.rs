//! Arguments of synchronisation object calls.

use crate::{AdapterInfo, Handle, NativeFenceType, ReadOnly, SyncObjectFlags};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use tidegate_platform::{CacheType, Event, Platform, Step};

/// Most fences of a CPU wait. Not published: bounds the copy of the caller's arrays.
pub const MAX_OBJECTS_PER_CPU_WAIT: usize = 4096;

bitflags::bitflags! {
    /// D3DDDICB_SIGNALFLAGS. Unnamed bits are reserved and refused.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct SignalFlags: u32 {
        /// Queued signals: made when earlier work is submitted to the GPU, before it is complete.
        const SIGNAL_AT_SUBMISSION = 1;
        /// [`SignalFromGpu2`] only: the packet sets a CPU event and touches no fence.
        const ENQUEUE_CPU_EVENT = 1 << 1;
        /// A lower value is intended.
        const ALLOW_FENCE_REWIND = 1 << 2;
    }
}

/// D3DKMTCreateSynchronizationObject2 with D3DDDI_MONITORED_FENCE.
#[derive(Clone, Copy, Debug)]
pub struct CreateMonitoredFence<'a> {
    /// The device.
    pub device: Handle,
    /// Starting value.
    pub initial_value: u64,
    /// Flags.
    pub flags: SyncObjectFlags,
    /// One bit for each physical adapter on which engines see the fence; 0 for all.
    pub engine_affinity: u32,
    /// A name for reports and timelines. Not published.
    pub name: &'a str,
}

/// D3DKMTCreateNativeFence.
#[derive(Clone, Copy, Debug)]
pub struct CreateNativeFence<'a> {
    /// The device.
    pub device: Handle,
    /// Starting CurrentValue.
    pub initial_value: u64,
    /// DEFAULT or INTRA_GPU.
    pub fence_type: NativeFenceType,
    /// Flags.
    pub flags: SyncObjectFlags,
    /// One bit for each physical adapter on which engines see the fence; 0 for all.
    pub engine_affinity: u32,
    /// Private data for the driver, which may change it in [`FenceInstance::private_data`].
    pub private_data: [u8; 64],
    /// A name for reports and timelines. Not published.
    pub name: &'a str,
}

/// CurrentValueCpuVa: a fence's value as the process sees it, for polling.
#[derive(Clone, Debug)]
pub enum CurrentValueView {
    /// The process may read the value.
    ReadOnly(ReadOnly),
    /// No CPU reaches the value (INTRA_GPU); the address is NULL.
    OutOfReach,
}

impl CurrentValueView {
    /// The present value; `None` if the process cannot read it.
    #[inline]
    pub fn get(&self) -> Option<u64> {
        match self {
            CurrentValueView::ReadOnly(word) => Some(word.load()),
            CurrentValueView::OutOfReach => None,
        }
    }

    /// The word to poll; `None` if the process has none.
    pub fn read_only(&self) -> Option<&ReadOnly> {
        match self {
            CurrentValueView::ReadOnly(word) => Some(word),
            CurrentValueView::OutOfReach => None,
        }
    }

    /// Returns the present value.
    ///
    /// # Panics
    /// For a fence that no CPU reaches, as a load from NULL would.
    #[inline]
    pub fn load(&self) -> u64 {
        self.get().expect("an INTRA_GPU fence has no CPU address of its value")
    }
}

impl From<ReadOnly> for CurrentValueView {
    fn from(word: ReadOnly) -> CurrentValueView {
        CurrentValueView::ReadOnly(word)
    }
}

// spec: NF-016
/// A created or opened fence.
#[derive(Clone, Debug)]
pub struct FenceInstance {
    /// Its handle in this process.
    pub handle: Handle,
    /// The value, for polling.
    pub value: CurrentValueView,
    /// The epoch of the fence's cell, for wait packets of a ring; `None` if the hardware keeps no
    /// history, or no CPU reaches it.
    pub epoch: Option<ReadOnly>,
    /// FenceValueCPUVirtualAddress, CurrentValueCpuVa: the process's CPU address of the value, read
    /// only. Behind an IoMmu it is also the address for engines, which may store. 0 for a fence
    /// that the CPU does not reach.
    pub value_cpu_va: u64,
    /// Cache type of the CPU's mapping: write-back if every adapter that reaches it is coherent
    /// with the CPU's caches, else uncached.
    pub cache_type: CacheType,
    /// FenceValueGPUVirtualAddress, CurrentValueGpuVa: GPU address of the value. Behind an IoMmu
    /// nothing is mapped there.
    pub current_value_gpu_va: u64,
    /// GPU address of MonitoredValue; 0 for a monitored fence.
    pub monitored_value_gpu_va: u64,
    /// Whether it is a native fence.
    pub native: bool,
    /// The private data of a native fence after the call; zeros for a monitored fence.
    pub private_data: [u8; 64],
    /// The fence's number on the timeline plus one; 0 for none.
    pub trace_fence: u32,
    /// A number that no other fence of the kernel has or had. All instances of a fence have it.
    pub number: u64,
}

impl FenceInstance {
    /// The address by which engines of `adapter` reach the value.
    pub fn engine_va(&self, adapter: &AdapterInfo) -> u64 {
        if adapter.io_mmu && self.value_cpu_va != 0 {
            self.value_cpu_va
        } else {
            self.current_value_gpu_va
        }
    }
}

/// A fence and a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FenceValue {
    /// The fence.
    pub fence: Handle,
    /// The awaited or signalled value.
    pub value: u64,
}

/// D3DKMTSignalSynchronizationObjectFromGpu2: one packet for one or several contexts.
#[derive(Clone, Debug)]
pub struct SignalFromGpu2<'a> {
    /// 1 to 64 contexts of one device, each once.
    pub contexts: &'a [Handle],
    /// What to signal; empty with [`SignalFlags::ENQUEUE_CPU_EVENT`].
    pub fences: &'a [FenceValue],
    /// Flags of the signal.
    pub flags: SignalFlags,
    /// What [`SignalFlags::ENQUEUE_CPU_EVENT`] enqueues; none without it.
    pub cpu_event: Option<WaitNotice>,
}

/// D3DKMTSubmitSignalSyncObjectsToHwQueue: one packet for one or several kernel-mode hardware
/// queues.
#[derive(Clone, Copy, Debug)]
pub struct SubmitSignalToHwQueues<'a> {
    /// 1 to 64 queues of one device, each once.
    pub hw_queues: &'a [Handle],
    /// What to signal.
    pub fences: &'a [FenceValue],
    /// Flags of the signal, without CPU events.
    pub flags: SignalFlags,
}

/// Whether all or any of the conditions end a wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum WaitMode {
    /// All; each condition latches.
    #[default]
    All,
    /// Any.
    Any,
}

/// A function that the end of a CPU wait calls.
pub trait WaitCallback: Send + Sync {
    /// Called at most once, at DISPATCH_LEVEL or below, on any agent of the kernel. It must not
    /// block, make a call of the kernel, or drop a [`CpuWaitRegistration`].
    fn wait_is_over(&self);
}

/// What the end of a registered CPU wait, or a queue that reaches a CPU event, does.
#[derive(Clone)]
pub enum WaitNotice {
    /// Sets the event.
    Event(Event),
    /// Calls the function.
    Callback(Arc<dyn WaitCallback>),
}

impl WaitNotice {
    /// Sets the event, or calls the function. A panic of the function ends here.
    pub fn give(&self, platform: &Platform) {
        match self {
            WaitNotice::Event(event) => event.set(Step::ThreadWake),
            WaitNotice::Callback(callback) => {
                let _contained = platform.call_foreign(|| callback.wait_is_over());
            }
        }
    }
}

impl fmt::Debug for WaitNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitNotice::Event(event) => f.debug_tuple("Event").field(event).finish(),
            WaitNotice::Callback(_) => f.write_str("Callback"),
        }
    }
}

/// For the kernel: a registered CPU wait.
pub trait RegisteredWait: Send + Sync {
    /// Returns whether the condition has held.
    fn is_over(&self) -> bool;

    /// Removes the wait. When it returns, the notice is not given any more.
    fn cancel(&self);
}

/// A registered CPU wait. Dropping it cancels the wait: nothing of it stays in the kernel, and once
/// the drop has returned the notice is not given any more.
#[must_use = "dropping the registration cancels the wait"]
pub struct CpuWaitRegistration(Box<dyn RegisteredWait>);

impl CpuWaitRegistration {
    /// For the kernel: the registration of `wait`.
    pub fn new(wait: impl RegisteredWait + 'static) -> CpuWaitRegistration {
        CpuWaitRegistration(Box::new(wait))
    }

    /// Returns whether the condition has held.
    pub fn is_over(&self) -> bool {
        self.0.is_over()
    }
}

impl Drop for CpuWaitRegistration {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl fmt::Debug for CpuWaitRegistration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CpuWaitRegistration")
    }
}

// spec: NF-175
/// D3DKMT_GETNATIVEFENCELOGDETAIL: GPU addresses of a user-mode queue's logs, and the numbering of
/// their entries. All 0 for a queue without logs. User mode reaches no log by CPU.
#[derive(Clone, Debug, Default)]
pub struct LogDetail {
    /// WaitLogNumberOfEntries: entries of the present wait log.
    pub wait_entries: u32,
    /// SignalLogNumberOfEntries: entries of the present signal log.
    pub signal_entries: u32,
    /// WaitLogGpuBaseAddress: the header of the wait log in the process's GPU address space.
    pub wait_log_gpu_va: u64,
    /// SignalLogGpuBaseAddress: the header of the signal log in the process's GPU address space.
    pub signal_log_gpu_va: u64,
    /// The user-mode driver numbers the entries of each log modulo this number, for the life of the
    /// queue. The GPU takes an entry number modulo the entries of the present log, so a log may be
    /// resized while operations are in flight.
    pub numbers: u32,
    /// 1 while the kernel wants verbose entries for command buffers. Load it before each
    /// submission.
    pub verbose: Option<ReadOnly>,
}
