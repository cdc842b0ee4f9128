//! Owns the driver's part in fence logs: telling the hardware where they are, and the barrier before the kernel reads them.
//! The entries themselves are written by the hardware; the driver never looks at one.

use crate::hwqueue::set_log;
use crate::objects::LogPlace;
use crate::{KmdError, ReferenceDriver};
use tidegate_ddi::DriverHandle;
use tidegate_ddi::fence::{LogType, SetNativeFenceLogBuffer};

impl ReferenceDriver {
    /// The new place is in use when this returns; a user-mode queue that has no ring yet writes no log before its doorbell is
    /// made, and gets the place with it.
    pub(crate) fn place_log(&self, args: &SetNativeFenceLogBuffer) -> Result<(), KmdError> {
        let log = LogPlace {
            waits: args.log_type == LogType::Waits,
            header: args.header_address,
            payload: args.entries_address,
            entries: args.number_of_entries,
        };
        let hardware = {
            let mut objects = self.objects.lock();
            let queue = objects.hw_queues.get_mut(args.hw_queue)?;
            queue.logs[usize::from(!log.waits)] = Some(log);
            queue.hardware
        };
        hardware.map_or(Ok(()), |id| self.mailbox.run(set_log(id, log)))
    }

    /// The hardware puts no barrier between an entry and the index that counts it; it stores both in this order. The kernel
    /// has loaded the index; behind this barrier its loads of entries see all that the index counts.
    pub(crate) fn flush_logs(&self, hw_queues: &[DriverHandle]) -> Vec<KmdError> {
        // spec: NF-216
        self.platform.fence();
        let objects = self.objects.lock();
        hw_queues.iter().filter_map(|queue| objects.hw_queues.get(*queue).err()).collect()
    }
}
