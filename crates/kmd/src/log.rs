//! The driver's part in fence logs: their location, the barrier before the kernel reads them, and
//! the relation of their timestamps to CPU time. The hardware writes the entries. The driver never
//! reads them.

use crate::hwqueue::set_log;
use crate::mailbox::unless_gone;
use crate::objects::LogPlace;
use crate::{KmdError, ReferenceDriver};
use tidegate_ddi::DriverHandle;
use tidegate_ddi::fence::{GpuClockCalibration, LogType, SetNativeFenceLogBuffer};
use tidegate_gpu_abi::Register;
use tidegate_platform::CpuTime;

/// Clock readings per calibration. The shortest one is used.
const CALIBRATION_READINGS: usize = 8;

fn slot_of(kind: LogType) -> usize {
    match kind {
        LogType::Waits => 0,
        LogType::Signals => 1,
        LogType::Commands => 2,
    }
}

impl ReferenceDriver {
    /// Moves a log. The hardware uses the new buffer from the queue's next turn on. The kernel
    /// unmaps the old buffer, which waits for the turns that write it, before it reads it a last
    /// time. A user-mode queue without a ring writes no log, and gets the buffer with its doorbell.
    pub(crate) fn place_log(&self, args: &SetNativeFenceLogBuffer) -> Result<(), KmdError> {
        let log = LogPlace {
            kind: args.log_type,
            header: args.header_address,
            payload: args.entries_address,
            entries: args.number_of_entries,
            notify_every: args.notify_every,
        };
        let hardware = {
            let mut objects = self.objects.lock();
            let queue = objects.hw_queues.get_mut(args.hw_queue)?;
            queue.logs[slot_of(log.kind)] = Some(log).filter(|log| log.entries > 0);
            queue.hardware
        };
        // The queue may be destroyed meanwhile.
        hardware.map_or(Ok(()), |id| unless_gone(self.mailbox.run(set_log(id, log))))
    }

    /// Makes log entries visible that the indices loaded by the kernel count.
    ///
    /// The hardware stores an entry and then the index that counts it, with no barrier between. The
    /// kernel has loaded the index of each log of these queues. The register read flushes the
    /// counted entries to memory, and the barrier orders the kernel's loads after it.
    pub(crate) fn flush_logs(&self, hw_queues: &[DriverHandle]) -> Vec<KmdError> {
        // spec: NF-216
        self.device.read_register(Register::LOG_FLUSH);
        self.platform.fence();
        let objects = self.objects.lock();
        hw_queues.iter().filter_map(|queue| objects.hw_queues.get(*queue).err()).collect()
    }

    /// Returns GPU and CPU time at the same moment: the shortest of several readings, since it has
    /// the smallest error.
    pub(crate) fn read_clocks(&self) -> GpuClockCalibration {
        let reading = || {
            let before = self.platform.now();
            let gpu_ns = self.device.read_register(Register::CLOCK);
            let took = self.platform.now().since(before);
            (took, GpuClockCalibration { gpu_ns, cpu: CpuTime(before.0 + took / 2) })
        };
        let mut best = reading();
        for _ in 1..CALIBRATION_READINGS {
            let next = reading();
            if next.0 < best.0 {
                best = next;
            }
        }
        best.1
    }
}
