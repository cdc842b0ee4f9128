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

/// The objects that exist.
#[derive(Default)]
pub(super) struct Walk {
    alive: BTreeSet<(usize, DriverHandle)>,
    areas: BTreeSet<OsHandle>,
}

impl crate::walk::Walk for Walk {
    fn event(&mut self, tally: &mut Tally, event: &Event) {
        let kind = |of: Entry| KINDS.iter().position(|(entry, _)| *entry == of);
        match event {
            Event::Made { entry, handle, .. } => {
                let Some(kind) = kind(*entry) else { return };
                let new = self.alive.insert((kind, *handle));
                tally.check(KINDS[kind].1, new, || {
                    format!("{entry} returned {:#x} again", handle.0)
                });
            }
            Event::SaveArea(area) => {
                self.areas.insert(*area);
            }
            Event::SaveAreaEnds(area) => {
                let existed = self.areas.remove(area);
                tally.check(SAVE_AREA_ONCE, existed, || {
                    format!("save area {:#x} does not exist", area.0)
                });
            }
            Event::Returned(Entry::StopDevice, _) => {
                tally.check(SAVE_AREAS, self.areas.is_empty(), || {
                    format!("{} save areas are left", self.areas.len())
                });
            }
            Event::Called(call) => {
                if let Some((entry, handle)) = ended(call)
                    && let Some(kind) = kind(entry)
                {
                    self.alive.remove(&(kind, handle));
                }
            }
            _ => {}
        }
    }
}

/// Returns the object that a call ends: the entry that created it, and its handle.
fn ended(call: &DdiCall) -> Option<(Entry, DriverHandle)> {
    match call {
        DdiCall::DestroyDevice { device } => Some((Entry::CreateDevice, *device)),
        DdiCall::DestroyContext { context } => Some((Entry::CreateContext, *context)),
        DdiCall::DestroyHwQueue { hw_queue } => Some((Entry::CreateHwQueue, *hw_queue)),
        DdiCall::DestroyNativeFence { global } => Some((Entry::CreateNativeFence, *global)),
        DdiCall::CloseNativeFence { local } => Some((Entry::OpenNativeFence, *local)),
        DdiCall::DestroyDoorbell { doorbell } => Some((Entry::CreateDoorbell, *doorbell)),
        _ => None,
    }
}
