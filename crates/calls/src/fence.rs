//! Arguments of synchronisation object calls.

use crate::{AdapterInfo, Handle, NativeFenceType, ReadOnly, SyncObjectFlags};
use tidegate_platform::{CacheType, Event};

/// Fences that one CPU wait names at most. Not published: bounds the copy of the caller's arrays.
pub const MAX_OBJECTS_PER_CPU_WAIT: usize = 4096;

bitflags::bitflags! {
    /// D3DDDICB_SIGNALFLAGS. A bit without a name here is reserved: a call that has one is refused.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SignalFlags: u32 {
        /// Queued signals: made when everything before it is with the GPU, and not when that is
        /// complete.
        const SIGNAL_AT_SUBMISSION = 1;
        /// [`SignalFromGpu2`] only: the packet sets a CPU event and touches no fence.
        const ENQUEUE_CPU_EVENT = 1 << 1;
        /// The caller means to go to a lower value.
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
    /// Rules.
    pub flags: SyncObjectFlags,
    /// One bit for each physical adapter on which engines see the fence; 0 for all.
    pub engine_affinity: u32,
    /// A name for reports and timelines; no rule of the interface.
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
    /// Rules.
    pub flags: SyncObjectFlags,
    /// One bit for each physical adapter on which engines see the fence; 0 for all.
    pub engine_affinity: u32,
    /// For the driver, which may answer in [`FenceInstance::private_data`].
    pub private_data: [u8; 64],
    /// A name for reports and timelines; no rule of the interface.
    pub name: &'a str,
}

/// CurrentValueCpuVa: a fence's value as the process sees it, for polling.
#[derive(Clone, Debug)]
pub enum CurrentValueView {
    /// Reading is allowed.
    ReadOnly(ReadOnly),
    /// The fence's value stands where no CPU reaches it (INTRA_GPU); the address is NULL.
    OutOfReach,
}

impl CurrentValueView {
    /// The value now, where the process can see it.
    #[inline]
    pub fn get(&self) -> Option<u64> {
        match self {
            CurrentValueView::ReadOnly(word) => Some(word.load()),
            CurrentValueView::OutOfReach => None,
        }
    }

    /// The word to poll, where the process has one.
    pub fn read_only(&self) -> Option<&ReadOnly> {
        match self {
            CurrentValueView::ReadOnly(word) => Some(word),
            CurrentValueView::OutOfReach => None,
        }
    }

    /// The value now.
    ///
    /// # Panics
    /// For a fence that no CPU reaches, as a load from NULL would: its maker knows what it is.
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
    /// The epoch of the fence's cell, which a ring's wait packet carries; `None` where the hardware
    /// keeps no history, or keeps it where no CPU reaches it.
    pub epoch: Option<ReadOnly>,
    /// FenceValueCPUVirtualAddress, CurrentValueCpuVa: where the process's CPU has the value, read
    /// only. On an adapter behind an IoMmu engines find it there too, and may store. 0 for a fence
    /// that the CPU does not reach.
    pub value_cpu_va: u64,
    /// How the CPU has it mapped: write-back where every adapter that reaches it is coherent with
    /// the CPU's caches, else uncached.
    pub cache_type: CacheType,
    /// FenceValueGPUVirtualAddress, CurrentValueGpuVa: where engines find the value, unless the
    /// adapter is behind an IoMmu; there nothing is mapped at this address.
    pub current_value_gpu_va: u64,
    /// Where engines find MonitoredValue; 0 for a monitored fence.
    pub monitored_value_gpu_va: u64,
    /// Whether it is a native fence.
    pub native: bool,
    /// The private data of a native fence as the driver left it; zeros for a monitored fence.
    pub private_data: [u8; 64],
    /// The fence's number on the timeline plus one; 0 for none.
    pub trace_fence: u32,
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

/// One fence and a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FenceValue {
    /// The fence.
    pub fence: Handle,
    /// Waited for, or signalled.
    pub value: u64,
}

/// D3DKMTSignalSynchronizationObjectFromGpu2: one packet for one or several contexts.
#[derive(Clone, Debug)]
pub struct SignalFromGpu2<'a> {
    /// 1 to 64 contexts of one device, each once.
    pub contexts: &'a [Handle],
    /// What to signal; empty with [`SignalFlags::ENQUEUE_CPU_EVENT`].
    pub fences: &'a [FenceValue],
    /// Which kind of signal it is.
    pub flags: SignalFlags,
    /// The event of [`SignalFlags::ENQUEUE_CPU_EVENT`]; none without it.
    pub cpu_event: Option<Event>,
}

/// D3DKMTSubmitSignalSyncObjectsToHwQueue: one packet for one or several kernel-mode hardware
/// queues.
#[derive(Clone, Copy, Debug)]
pub struct SubmitSignalToHwQueues<'a> {
    /// 1 to 64 queues of one device, each once.
    pub hw_queues: &'a [Handle],
    /// What to signal.
    pub fences: &'a [FenceValue],
    /// Which kind of signal it is; there are no CPU events here.
    pub flags: SignalFlags,
}

/// Whether all or any of several conditions end a wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitMode {
    /// All, each latched when it becomes true.
    #[default]
    All,
    /// Any one.
    Any,
}

// spec: NF-175
/// D3DKMT_GETNATIVEFENCELOGDETAIL: where a user-mode queue's logs stand for its engine, and how
/// their entries are numbered. All 0 for a queue without logs. The CPU of user mode reaches no log.
#[derive(Clone, Debug, Default)]
pub struct LogDetail {
    /// WaitLogNumberOfEntries: entries of the wait log as it is now.
    pub wait_entries: u32,
    /// SignalLogNumberOfEntries: entries of the signal log as it is now.
    pub signal_entries: u32,
    /// WaitLogGpuBaseAddress: the header of the wait log in the process's GPU address space.
    pub wait_log_gpu_va: u64,
    /// SignalLogGpuBaseAddress: the header of the signal log in the process's GPU address space.
    pub signal_log_gpu_va: u64,
    /// The user-mode driver numbers the entries of each log from 0 up to here, and begins again.
    /// The GPU takes a number modulo the entries of the log that is in place by then, so a log may
    /// become larger or smaller under numbers in flight. It holds for the life of the queue.
    pub numbers: u32,
    /// 1 while the kernel asks for verbose entries about command buffers. Look before each
    /// submission.
    pub verbose: Option<ReadOnly>,
}
