//! The handles of objects, and save areas.

use crate::clause::{Clause, Family};
use crate::journal::Event;
use crate::tally::Tally;
use crate::twin::{Twin, Wrong};
use std::collections::BTreeSet;
use tidegate::ddi::{DdiCall, DriverHandle, Entry, OsHandle};

const SAVE_AREAS: &str = "life-save-areas";
const SAVE_AREA_ONCE: &str = "life-save-area-once";

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
        Clause::new(
            Family::Life,
            $id,
            concat!("two ", $what, " that exist have different handles"),
            "reference: handles of the driver",
            &[$situation],
            Twin::SameHandle(Entry::$Entry),
        )
    };
}

const fn save_areas(id: &'static str, rule: &'static str, wrong: Wrong) -> Clause {
    let twin = Twin::Callbacks(wrong);
    Clause::new(Family::Life, id, rule, "PRE-013, PRE-014", &["packets"], twin)
}

/// The reports of the second fence name the first.
const fn with_lost_signals(clause: Clause) -> Clause {
    Clause { also: &["queues-signals"], ..clause }
}

/// The second queue rings the doorbell of the first, so it runs what is not there.
const fn with_faults(clause: Clause) -> Clause {
    Clause { also: &["paging-maps"], ..clause }
}

pub(super) static CLAUSES: [Clause; 8] = [
    handles!("life-devices", "devices", CreateDevice, "packets-beside"),
    handles!("life-contexts", "contexts", CreateContext, "packets"),
    handles!("life-hw-queues", "hardware queues", CreateHwQueue, "hw-queues"),
    with_lost_signals(handles!(
        "life-native-fences",
        "native fences",
        CreateNativeFence,
        "hw-queues"
    )),
    handles!("life-fence-instances", "instances of fences", OpenNativeFence, "hw-queues"),
    with_faults(handles!("life-doorbells", "doorbells", CreateDoorbell, "user-queues")),
    save_areas(
        SAVE_AREAS,
        "each save area is freed before DxgkDdiStopDevice returns",
        Wrong::KeepsSaveAreas,
    ),
    save_areas(
        SAVE_AREA_ONCE,
        "DxgkCbDestroyContextAllocation names a save area that exists",
        Wrong::EndsSaveAreasTwice,
    ),
];

pub(super) fn judge(tally: &mut Tally<'_>) {
    let journal = tally.journal;
    let mut alive: BTreeSet<(usize, DriverHandle)> = BTreeSet::new();
    let mut areas: BTreeSet<OsHandle> = BTreeSet::new();
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
            Event::SaveArea(area) => {
                areas.insert(*area);
            }
            Event::SaveAreaEnds(area) => {
                let existed = areas.remove(area);
                tally.check(SAVE_AREA_ONCE, place, existed, || {
                    format!("save area {:#x} does not exist", area.0)
                });
            }
            Event::Returned(Entry::StopDevice, _) => {
                tally.check(SAVE_AREAS, place, areas.is_empty(), || {
                    format!("{} save areas are left", areas.len())
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
