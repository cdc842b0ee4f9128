//! Arguments of the native fence DDIs.

use crate::{DriverHandle, NativeFenceType, OsHandle};
use tidegate_d3dukmdt::FenceCell;
use tidegate_platform::{Bulk, CpuTime, PhysicalAddress, Word};

/// DXGKARG_CREATENATIVEFENCE.
#[derive(Clone, Debug)]
pub struct CreateNativeFence {
    /// The kernel's handle; the signalled interrupt's array names fences by it.
    pub os_handle: OsHandle,
    /// DEFAULT or INTRA_GPU.
    pub fence_type: NativeFenceType,
    /// CurrentValue and MonitoredValue in the system process's address space. `None` unless the
    /// caps require the mapping; the published structure has zeros then.
    pub system_process_va: Option<(u64, u64)>,
    /// Private driver data, in and out.
    pub private_data: [u8; 64],
}

/// DXGKARG_OPENNATIVEFENCE.
#[derive(Clone, Copy, Debug)]
pub struct OpenNativeFence {
    /// The driver's handle of the fence.
    pub global: DriverHandle,
    /// The kernel's handle of this instance.
    pub os_handle: OsHandle,
    /// The driver's handle of the opening device.
    pub device: DriverHandle,
    /// CurrentValue in the process's GPU address space.
    pub current_value_gpu_va: u64,
    /// MonitoredValue in the process's GPU address space.
    pub monitored_value_gpu_va: u64,
}

/// One element of DXGKARG_UPDATEMONITOREDVALUES. It borrows the address, so a driver cannot keep it
/// beyond the call.
///
/// ```compile_fail,E0521
/// use tidegate_ddi::fence::UpdateMonitoredValue;
/// struct Driver {
///     kept: Vec<UpdateMonitoredValue<'static>>,
/// }
/// impl Driver {
///     fn update_monitored_values(&mut self, fences: &[UpdateMonitoredValue<'_>]) {
///         self.kept.extend_from_slice(fences);
///     }
/// }
/// ```
// spec: NF-139
#[derive(Clone, Copy, Debug)]
pub struct UpdateMonitoredValue<'a> {
    /// The driver's handle of the fence.
    pub fence: DriverHandle,
    /// The new MonitoredValue.
    pub value: u64,
    /// Kernel CPU address of MonitoredValue, for the duration of the call.
    pub monitored_value: &'a Word,
}

/// One element of DXGKARG_UPDATECURRENTVALUESFROMCPU. It borrows the address, like
/// [`UpdateMonitoredValue`].
#[derive(Clone, Copy, Debug)]
pub struct UpdateCurrentValue<'a> {
    /// The driver's handle of the fence.
    pub fence: DriverHandle,
    /// The new CurrentValue.
    pub value: u64,
    /// Kernel CPU address of CurrentValue, for the duration of the call; `None` for an INTRA_GPU
    /// fence.
    pub current_value: Option<&'a FenceCell>,
}

/// DXGK_UPDATECURRENTVALUESFROMCPU_FLAGS, of which at most one is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateCurrentMode {
    /// Write the value, then notify waiting hardware queues.
    Write,
    /// The value is already written: only notify waiting hardware queues.
    NotificationOnly,
    /// The parent device is in error: GPU waits on the fence pass from now on, and signals have no
    /// effect. The value does not change; the kernel returns the maximum to readers.
    AlwaysSignaled,
}

pub use tidegate_d3dukmdt::log::LogType;

/// DXGKARG_SETNATIVEFENCELOGBUFFER.
#[derive(Clone, Debug)]
pub struct SetNativeFenceLogBuffer {
    /// The driver's handle of the hardware queue.
    pub hw_queue: DriverHandle,
    /// Waits or signals.
    pub log_type: LogType,
    /// Entries of the log; 0 removes the log, and the other members are unused.
    pub number_of_entries: u32,
    /// Entries between two interrupts, so that the log is read before it overflows while a timeline
    /// is recorded; 0 for none. A hint: the interrupt is a spurious one, which every kernel must
    /// accept. Not published.
    pub notify_every: u32,
    /// LogBufferGpuVa: the header in the process's GPU address space. The entries follow it, at
    /// `LOG_HEADER_BYTES`.
    pub gpu_va: u64,
    /// LogBufferSystemProcessGpuVa: the header in the address space of the system process, for the
    /// CMP. The entries follow it.
    pub system_process_gpu_va: u64,
    /// The header word (index and wraparound count), kernel CPU address.
    pub header: Word,
    /// Bus address of the header.
    pub header_address: PhysicalAddress,
    /// The entries, kernel CPU address.
    pub entries: Bulk,
    /// Bus address of the entries.
    pub entries_address: PhysicalAddress,
}

/// Result of DxgkDdiCalibrateGpuClock: both clocks at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuClockCalibration {
    /// The GPU's clock, as in fence logs: nanoseconds since the adapter started.
    pub gpu_ns: u64,
    /// The CPU's clock at that moment.
    pub cpu: CpuTime,
}
