//! The machine of the C library, with a neighbour that is another process on it.
//!
//! Invariants
//! - The library has one machine for as long as the process lives. Its engines are threads, so a
//!   failure
//!   may need its input again.
//! - After an input, library and machine are as empty as at the beginning, and so are the open
//!   files.
//!
//! Entry points: [`InProcess::new`], [`InProcess::run`].

use crate::c_library::calls::{Outputs, named};
use crate::c_library::memory::Memory;
use crate::census::{Census, KEPT_REGIONS};
use crate::neighbour::Neighbour;
use crate::served::open_files;
use tidegate::Machine;
use tidegate_d3dkmt::held;

/// How often the end of an input is checked before what is left counts as left. Each time is a
/// round of the neighbour: an engine drops what was unmapped in its next turn.
const CHECKS: usize = 100_000;

/// Page tables that an ended shared fence may keep: its two addresses stay mapped to the page of
/// ended fences, as long as the process lives.
const TABLES_OF_A_FENCE: usize = 2;

/// What the inputs share.
pub(crate) struct InProcess {
    machine: &'static Machine,
    neighbour: Neighbour,
    memory: Memory,
    /// What there was before the input: objects and open files.
    before: (Census, usize),
    /// Number of regions of memory that inputs have left, but for tables of ended fences.
    kept_regions: usize,
}

/// Returns how many objects the library's handles name.
pub(crate) fn objects() -> usize {
    held().map_or(0, |held| held.objects)
}

impl InProcess {
    /// Starts the library, and has `warm_up` make once what its process keeps, such as the
    /// summaries of its doorbells.
    pub(crate) fn new(warm_up: impl FnOnce(&mut Memory)) -> InProcess {
        let mut memory = Memory::new();
        // Any call starts the kernel; there is no such adapter.
        let argument = memory.place(&[0; 4]);
        let _refused = named("D3DKMTCloseAdapter").enter(&memory, argument, &Outputs::default());
        let machine = held().and_then(|held| held.machine).expect("a kernel in this process");
        let mut neighbour = Neighbour::new(machine, 2);
        // Its first rounds connect its doorbell and make what stays.
        (0..3).for_each(|_| neighbour.round());
        let at_rest = Census::of(machine);
        warm_up(&mut memory);
        // The last object of a process may end in another thread's turn.
        while !at_rest.without_groups().is_left_in(Census::of(machine).without_groups()) {
            neighbour.round();
        }
        let before = (Census::of(machine), open_files());
        InProcess { machine, neighbour, memory, before, kept_regions: 0 }
    }

    /// Order: 1. a program makes its calls, ends what it has made, and returns how many fences that
    /// was; 2. the neighbour does a round; 3. machine and library are as empty as before.
    pub(crate) fn run(&mut self, program: impl FnOnce(&mut Memory) -> usize) {
        // 1.
        let fences = program(&mut self.memory);
        // 2.
        self.neighbour.round();
        self.neighbour.assert_active();
        // 3.
        let left = held().map(|held| (held.objects, held.nt_handles));
        assert_eq!(left, Some((0, 0)), "the library forgets what has ended");
        for _ in 0..CHECKS {
            if self.is_empty() {
                break;
            }
            self.neighbour.round();
        }
        let (before, after) = (&self.before.0, Census::of(self.machine));
        let mut regions = 0;
        before.assert_left(after, &mut regions);
        self.kept_regions += regions.saturating_sub(TABLES_OF_A_FENCE * fences);
        assert!(self.kept_regions <= KEPT_REGIONS, "{} regions are left", self.kept_regions);
        self.before.0 = after;
        let (files, allowed) = (open_files(), self.before.1);
        assert!(files <= allowed, "{files} files are open, {allowed} before");
        assert_eq!(self.machine.adapter().bug_checks(), [], "no contract was broken");
        assert_eq!(self.machine.driver().violations(), []);
    }

    fn is_empty(&self) -> bool {
        self.before.0.is_left_in(Census::of(self.machine)) && open_files() <= self.before.1
    }
}
