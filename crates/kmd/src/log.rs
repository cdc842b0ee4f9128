//! Owns the driver's part in fence logs: where the hardware writes them, the barrier before the
//! kernel reads them, and the relation of their times to the CPU's. The hardware writes the
//! entries; the driver reads none.

use crate::hwqueue::set_log;
use crate::objects::LogPlace;
use crate::{KmdError, ReferenceDriver};
use tidegate_ddi::DriverHandle;
use tidegate_ddi::fence::{GpuClockCalibration, LogType, SetNativeFenceLogBuffer};
use tidegate_gpu_abi::Register;
use tidegate_platform::CpuTime;

/// Readings of the clock, of which the quickest is taken.
const CALIBRATION_READINGS: usize = 8;

fn slot_of(kind: LogType) -> usize {
    match kind {
        LogType::Waits => 0,
        LogType::Signals => 1,
        LogType::Commands => 2,
    }
}

impl ReferenceDriver {
    /// The new place is in use when this returns, and no operation writes the old one any more: the
    /// hardware changes it between two turns of the queue. A user-mode queue that has no ring yet
    /// writes no log before its doorbell is made, and gets the place with it.
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
        hardware.map_or(Ok(()), |id| self.mailbox.run(set_log(id, log)))
    }

    /// The hardware puts no barrier between an entry and the index that counts it; it stores both
    /// in this order. The kernel has loaded the index of each log of these queues, waits and
    /// signals alike; the register's read brings the entries that those count to memory, and behind
    /// the barrier the kernel's loads see them.
    pub(crate) fn flush_logs(&self, hw_queues: &[DriverHandle]) -> Vec<KmdError> {
        // spec: NF-216
        self.device.read_register(Register::LOG_FLUSH);
        self.platform.fence();
        let objects = self.objects.lock();
        hw_queues.iter().filter_map(|queue| objects.hw_queues.get(*queue).err()).collect()
    }

    /// GPU and CPU clock at one moment: of several readings the one between whose ends the least
    /// time went by.
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
