//! The order of the kernel's locks, from the outermost to the innermost, by their names.
//!
//! Invariants: an agent takes a lock only while every lock that it holds is before it in
//! [`LOCK_ORDER`]; debug builds check this at run time. No two locks of one name are held together,
//! so no two adapters' locks are. The first group orders calls and is held over DDI calls
//! (`Mutex::lock_device`). Locks after the gate are those that a DPC or a call from inside the
//! driver takes, so no caller waits at the gate with one (decision 142). The second guards policy
//! state; nothing is called while it is held. The last group are leaves: nothing is taken inside
//! them.

/// Names of locks, as they are made with `Platform::mutex`.
pub(crate) const LOCK_ORDER: &[&str] = &[
    // Order calls.
    "grants of a context",
    "removal of an adapter",
    "the way to D3",
    "recovery of an adapter",
    "mapping of a shareable fence",
    "joining a cross-adapter fence",
    "the paging context",
    "tiles of reserved addresses",
    "priorities of a context",
    "the way to D0",
    "exclusive call of the driver",
    "the driver's gate",
    "moves of fence storage",
    "doorbell transition",
    "CPU updates of fences",
    "reading of fence logs",
    "idle contexts",
    "system process",
    "page tables",
    "suspensions of a context",
    "interrupt lock",
    "a CPU wait",
    "spare CPU waits",
    "room for queued work",
    // Guard policy state.
    "handle table",
    "local memory",
    "display of an adapter",
    "VidSch",
    "devices",
    "contexts",
    "hardware contexts",
    "hardware queues",
    "doorbells",
    "fence table",
    "parts of a context",
    "an older object",
    // Leaves.
    "a doorbell",
    "a keyed mutex",
    "a last use",
    "a paging queue",
    "a part in use",
    "a patched part",
    "a queued flip",
    "a tile update",
    "awaited work of a process",
    "bug checks",
    "context allocations",
    "context allocations of devices",
    "contexts that a reset cut off",
    "device state",
    "driver's object of memory",
    "faults in fence logs",
    "faults of a driver",
    "fence log reader",
    "fence pages",
    "fence pages of other affinities",
    "fence rewinds",
    "global handles",
    "holders of a fence",
    "interrupt worker",
    "last relay of a cross-adapter fence",
    "link of a cross-adapter fence",
    "lost histories",
    "lost signals",
    "mappings of a fence",
    "mappings of fence storage",
    "mappings of shareable fences",
    "members of a cross-adapter fence",
    "memory of a process",
    "mode of fence logs",
    "mutexes of a context",
    "openers of a fence",
    "names of shared objects",
    "opening of the driver's gate",
    "peers of an adapter",
    "place of a fence log",
    "place of an allocation",
    "place of fence storage",
    "power",
    "priority of a context",
    "processes of an adapter",
    "recovery history",
    "recovery policy",
    "references of an allocation",
    "reported interrupts",
    "segments of fence storage",
    "signal right of a mapping",
    "suspension of a context",
    "the rings of a doorbell",
    "tiles of an allocation",
    "timeouts",
    "timer",
    "value of a 32-bit fence",
    "victimised doorbells",
    "waiters of a fence",
    "work items",
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    /// The names of the locks and gates that the sources below `folder` make.
    fn made_in(folder: &Path, names: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() && !path.ends_with("tests") {
                made_in(&path, names);
            }
            if path.is_dir() || path.ends_with(file!().rsplit('/').next().unwrap()) {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let after = |maker| text.split(maker).skip(1);
            for rest in after(".mutex(").chain(after(".passage(")) {
                if let Some(name) = rest.trim_start().strip_prefix('"') {
                    names.insert(name.split('"').next().unwrap().to_owned());
                }
            }
        }
    }

    #[test]
    fn every_lock_of_the_kernel_has_one_place_in_the_order() {
        let mut made = BTreeSet::new();
        made_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut made);
        let ordered: BTreeSet<String> = LOCK_ORDER.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(ordered.len(), LOCK_ORDER.len(), "a name stands twice");
        let differs: Vec<&String> = made.symmetric_difference(&ordered).collect();
        assert!(differs.is_empty(), "not made, or not ordered: {differs:?}");
    }
}
