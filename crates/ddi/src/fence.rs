//! Owns the arguments of the native fence DDIs.

use crate::{DriverHandle, NativeFenceType, OsHandle};
use tidegate_d3dukmdt::FenceCell;
use tidegate_platform::{Bulk, CpuTime, PhysicalAddress, Word};

/// DXGKARG_CREATENATIVEFENCE.
#[derive(Clone, Debug)]
pub struct CreateNativeFence {
    /// The kernel's handle; comes back in the signalled interrupt's array.
    pub os_handle: OsHandle,
    /// DEFAULT or INTRA_GPU.
    pub fence_type: NativeFenceType,
    /// CurrentValue and MonitoredValue in the system process's address space, if the caps asked for
    /// it; on the original, zeros if not.
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

/// One element of DXGKARG_UPDATEMONITOREDVALUES. It borrows the address: a driver cannot keep the
/// element beyond the call.
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
    /// What MonitoredValue becomes.
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
    /// What CurrentValue becomes.
    pub value: u64,
    /// Kernel CPU address of CurrentValue, for the duration of the call; `None` for an INTRA_GPU
    /// fence, which no CPU reaches.
    pub current_value: Option<&'a FenceCell>,
}

/// DXGK_UPDATECURRENTVALUESFROMCPU_FLAGS, of which at most one is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateCurrentMode {
    /// Write the value, then notify waiting hardware queues.
    Write,
    /// The value is written already: only notify waiting hardware queues.
    NotificationOnly,
    /// The parent device is in error: GPU waits on the fence pass from now on, signals do nothing.
    /// The value is left alone; the kernel shows readers the maximum.
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
    /// How many entries fit; 0 takes the log away, and the other members say nothing.
    pub number_of_entries: u32,
    /// While a timeline is recorded: the hardware is to interrupt behind every so many entries, so
    /// that the log is read before it runs over; 0 for never. A hint: the interrupt is a spurious
    /// one, which every kernel must take. Not published.
    pub notify_every: u32,
    /// LogBufferGpuVa: the header in the process's GPU address space. The entries follow it, at
    /// `LOG_HEADER_BYTES`.
    pub gpu_va: u64,
    /// LogBufferSystemProcessGpuVa: the header in the address space of the system process, for the
    /// CMP. The entries follow it there, too.
    pub system_process_gpu_va: u64,
    /// The header word (index and wraparound count), kernel CPU address.
    pub header: Word,
    /// The header's place on the bus.
    pub header_address: PhysicalAddress,
    /// The entries, kernel CPU address.
    pub entries: Bulk,
    /// The entries' place on the bus.
    pub entries_address: PhysicalAddress,
}

/// What DxgkDdiCalibrateGpuClock tells: two clocks at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuClockCalibration {
    /// The GPU's clock, as in fence logs: nanoseconds since the adapter started.
    pub gpu_ns: u64,
    /// The CPU's clock at that moment.
    pub cpu: CpuTime,
}
