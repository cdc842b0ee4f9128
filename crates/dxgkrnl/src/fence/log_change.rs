//! Relocates the logs when the mode of an adapter's logs changes.
//!
//! Order of a change: 1. the new log is allocated and mapped; 2. the driver is given its address,
//! which holds from the queue's next turn on; 3. the old log is unmapped: afterwards no operation
//! writes it; 4. under the reading lock, the old log is read a last time, the new log takes its
//! place, and is read; 5. the old log is freed. Steps 2 and 3 wait, so no lock is held that a DPC
//! can want. An interrupt in between finds the old log; step 4 reads the signals that it missed.

use super::log::{Barrier, FenceLog, LogReader, LoggedQueue};
use super::signaled;
use crate::memory::AddressSpace;
use std::sync::Arc;
use tidegate_calls::Status;
use tidegate_ddi::Passive;

/// Brings a queue's logs to the current mode.
pub(crate) fn follow_mode(
    level: &Passive,
    reader: &LogReader,
    queue: &dyn LoggedQueue,
) -> Result<(), Status> {
    let Some(logs) = queue.logs() else { return Ok(()) };
    let mode = reader.mode();
    let capacity = reader.capacity(mode);
    // The process stops numbering before the log is removed, and starts only once it exists.
    if !mode.verbose {
        logs.verbose.store(0);
    }
    let wanted = [capacity, capacity, if mode.verbose { capacity } else { 0 }];
    for (log, wanted) in logs.all().into_iter().zip(wanted) {
        if log.place().map_or(0, |place| place.capacity) != wanted {
            replace(level, reader, queue, &logs.space, log, wanted)?;
        }
    }
    if mode.verbose {
        logs.verbose.store(1);
    }
    Ok(())
}

/// Replaces a log by one of this capacity, or by none.
// spec: NF-190
fn replace(
    level: &Passive,
    reader: &LogReader,
    queue: &dyn LoggedQueue,
    space: &Arc<AddressSpace>,
    log: &FenceLog,
    capacity: u32,
) -> Result<(), Status> {
    // 1.
    let new = match capacity {
        0 => None,
        _ => Some(reader.new_place(level, space, log.log_type, capacity)?),
    };
    // 2.
    reader.set_buffer(level.into(), queue.driver(), log.log_type, new.as_deref());
    // 3.
    if let Some(old) = log.place() {
        old.unmap(level);
    }
    // 4.
    let driver = reader.port.driver(level);
    let (old, signals) = {
        let _driver = reader.port.driver(level);
        let _reading = reader.reading.lock_device();
        let read = || reader.read(level.into(), &[queue], Barrier::OfDriver(Some(&driver)));
        let last = read();
        let old = std::mem::replace(&mut *log.place.lock(), new);
        log.position.lock().word = 0;
        (old, [last, read()])
    };
    drop(driver);
    // 5.
    drop(old);
    for signals in signals {
        signaled::wake_logged(level.into(), &[queue], signals);
    }
    Ok(())
}
