//! The handles of objects.

use crate::clause::{Clause, Family};
use crate::journal::Event;
use crate::tally::Tally;
use crate::twin::Twin;
use std::collections::BTreeSet;
use tidegate::ddi::{DdiCall, DriverHandle, Entry};

/// A kind of object, the clause of its handles, and the entry that creates it.
const KINDS: [(Entry, &str); 6] = [
    (Entry::CreateDevice, "life-devices"),
    (Entry::CreateContext, "life-contexts"),
    (Entry::CreateHwQueue, "life-hw-queues"),
    (Entry::CreateNativeFence, "life-native-fences"),
    (Entry::OpenNativeFence, "life-fence-instances"),
    (Entry::CreateDoorbell, "life-doorbells"),
];

macro_rules! handles {
    ($id:literal, $what:literal, $Entry:ident, $situation:literal) => {
        Clause {
            id: $id,
            family: Family::Life,
            rule: concat!("two ", $what, " that exist have different handles"),
            source: "reference: handles of the driver",
            situations: &[$situation],
            twin: Twin::SameHandle(Entry::$Entry),
            also: &[],
        }
    };
}

/// The second queue rings the doorbell of the first, so it runs what is not there.
const fn with_faults(clause: Clause) -> Clause {
    Clause { also: &["paging-maps"], ..clause }
}

pub(super) static CLAUSES: [Clause; 6] = [
    handles!("life-devices", "devices", CreateDevice, "packets-beside"),
    handles!("life-contexts", "contexts", CreateContext, "packets"),
    handles!("life-hw-queues", "hardware queues", CreateHwQueue, "hw-queues"),
    handles!("life-native-fences", "native fences", CreateNativeFence, "hw-queues"),
    handles!("life-fence-instances", "instances of fences", OpenNativeFence, "hw-queues"),
    with_faults(handles!("life-doorbells", "doorbells", CreateDoorbell, "user-queues")),
];

pub(super) fn judge(tally: &mut Tally<'_>) {
    let journal = tally.journal;
    let mut alive: BTreeSet<(usize, DriverHandle)> = BTreeSet::new();
    let kind = |of: Entry| KINDS.iter().position(|(entry, _)| *entry == of);
    for (place, event) in journal.events() {
        match event {
            Event::Made(entry, handle) => {
                let Some(kind) = kind(*entry) else { continue };
                let new = alive.insert((kind, *handle));
                tally.check(KINDS[kind].1, place, new, || {
                    format!("{entry} returned {:#x} again", handle.0)
                });
            }
            Event::Called(call) => {
                let ended = match call {
                    DdiCall::DestroyDevice { device } => Some((Entry::CreateDevice, *device)),
                    DdiCall::DestroyContext { context } => Some((Entry::CreateContext, *context)),
                    DdiCall::DestroyHwQueue { hw_queue } => Some((Entry::CreateHwQueue, *hw_queue)),
                    DdiCall::DestroyNativeFence { global } => {
                        Some((Entry::CreateNativeFence, *global))
                    }
                    DdiCall::CloseNativeFence { local } => Some((Entry::OpenNativeFence, *local)),
                    DdiCall::DestroyDoorbell { doorbell } => {
                        Some((Entry::CreateDoorbell, *doorbell))
                    }
                    _ => None,
                };
                if let Some((entry, handle)) = ended
                    && let Some(kind) = kind(entry)
                {
                    alive.remove(&(kind, handle));
                }
            }
            _ => {}
        }
    }
}
