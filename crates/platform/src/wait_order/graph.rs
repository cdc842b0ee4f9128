//! The edges of one machine, and the circles among them.
//!
//! Invariants: a bit of a row is an edge of this machine. [`sightings`](super::sightings) holds the
//! union over all machines of the process. A circle of a machine is a circle of the union, so edges
//! are searched for circles only between classes that stand in a circle of the union. An edge
//! enters the union after the marks of its circles are set, so no circle is missed by two agents
//! that add its edges at the same time.

use super::{ClassId, Kind, sightings};
use crate::{Platform, PlatformKind};
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

/// The most classes of a process. Later ones are not ordered.
pub(super) const CLASSES: usize = 512;
const WORDS: usize = CLASSES / 64;

/// A set of classes.
pub(super) struct Row([AtomicU64; WORDS]);

impl Row {
    pub(super) const fn empty() -> Row {
        Row([const { AtomicU64::new(0) }; WORDS])
    }

    #[inline]
    pub(super) fn has(&self, class: ClassId) -> bool {
        self.0[usize::from(class.0) / 64].load(Ordering::SeqCst) >> (class.0 % 64) & 1 != 0
    }

    /// Returns whether it is new.
    pub(super) fn insert(&self, class: ClassId) -> bool {
        let bit = 1 << (class.0 % 64);
        self.0[usize::from(class.0) / 64].fetch_or(bit, Ordering::SeqCst) & bit == 0
    }

    fn clear(&self) {
        self.0.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    fn iter(&self) -> impl Iterator<Item = ClassId> + '_ {
        self.0.iter().enumerate().flat_map(|(index, word)| {
            let mut left = word.load(Ordering::SeqCst);
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                left &= left.wrapping_sub(1);
                (bit < 64).then_some(ClassId((index * 64) as u16 + bit as u16))
            })
        })
    }
}

/// The successors of each class.
pub(super) struct Rows(Box<[Row]>);

impl Rows {
    fn new() -> Rows {
        Rows((0..CLASSES).map(|_| Row::empty()).collect())
    }

    fn of(&self, class: ClassId) -> &Row {
        &self.0[usize::from(class.0)]
    }
}

/// Returns the shortest path between two classes, both included.
pub(super) fn path<'a>(
    row: impl Fn(ClassId) -> &'a Row,
    from: ClassId,
    to: ClassId,
) -> Option<Vec<ClassId>> {
    let mut before: HashMap<u16, ClassId> = HashMap::new();
    let mut next = VecDeque::from([from]);
    while let Some(class) = next.pop_front() {
        if class == to {
            let mut path = vec![to];
            while let Some(class) = path.last().filter(|class| **class != from) {
                path.push(before[&class.0]);
            }
            path.reverse();
            return Some(path);
        }
        for successor in row(class).iter().filter(|successor| *successor != from) {
            before.entry(successor.0).or_insert_with(|| {
                next.push_back(successor);
                class
            });
        }
    }
    None
}

thread_local! {
    /// Empty ones for reuse: explorers make millions of machines.
    static SPARE: RefCell<Vec<Recorded>> = const { RefCell::new(Vec::new()) };
}

struct Recorded {
    rows: Rows,
    /// The classes whose rows are not empty.
    used: Row,
}

/// The edges of a machine.
pub(crate) struct Graph {
    /// `None` where the order of waits is not recorded.
    recorded: Option<Recorded>,
    found: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    /// The classes of each circle, sorted.
    classes: Vec<Vec<u16>>,
    texts: Vec<String>,
}

impl Graph {
    pub(crate) fn new(kind: PlatformKind) -> Graph {
        let records = cfg!(debug_assertions) || kind == PlatformKind::Explored;
        let new = || {
            let spare = SPARE.with_borrow_mut(Vec::pop);
            spare.unwrap_or_else(|| Recorded { rows: Rows::new(), used: Row::empty() })
        };
        Graph { recorded: records.then(new), found: Mutex::default() }
    }

    #[inline]
    pub(super) fn has(&self, from: ClassId, to: ClassId) -> bool {
        self.recorded.as_ref().is_none_or(|recorded| recorded.rows.of(from).has(to))
    }

    /// Adds an edge, and reports the circle that it closes.
    #[cold]
    pub(super) fn add(&self, platform: &Platform, (from, to): (ClassId, ClassId), kind: Kind) {
        let Some(Recorded { rows, used }) = &self.recorded else { return };
        if to == ClassId::NONE || !rows.of(from).insert(to) {
            return;
        }
        used.insert(from);
        if !sightings::note((from, to), kind) {
            return;
        }
        let Some(mut circle) = path(|class| rows.of(class), to, from) else { return };
        // The text is the same whichever edge closes the circle.
        let first = (0..circle.len()).min_by_key(|at| name_of(circle[*at]));
        circle.rotate_left(first.unwrap_or(0));
        let mut classes: Vec<u16> = circle.iter().map(|class| class.0).collect();
        classes.sort_unstable();
        {
            let mut found = self.found();
            if found.classes.contains(&classes) {
                return;
            }
            found.classes.push(classes);
        }
        let text = sightings::text_of_circle(&circle);
        super::report_circle(platform, &text);
        self.found().texts.push(text);
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn take_circles(&self) -> Vec<String> {
        std::mem::take(&mut self.found().texts)
    }

    pub(super) fn circles(&self) -> Vec<String> {
        self.found().texts.clone()
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        const KEPT: usize = 4;
        let Some(recorded) = self.recorded.take() else { return };
        // Dropped instead if the thread is ending.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < KEPT {
                recorded.used.iter().for_each(|class| recorded.rows.of(class).clear());
                recorded.used.clear();
                spare.push(recorded);
            }
        });
    }
}

/// The names of the classes, by number; the first is [`ClassId::NONE`].
static NAMES: RwLock<Vec<&'static str>> = RwLock::new(Vec::new());

pub(super) fn name_of(class: ClassId) -> &'static str {
    let names = NAMES.read().unwrap_or_else(PoisonError::into_inner);
    names.get(usize::from(class.0)).copied().unwrap_or_default()
}

/// Returns the class of this name.
pub(super) fn class_named(name: &'static str) -> ClassId {
    const CACHED: usize = 256;
    type Cached = (usize, usize, ClassId);
    thread_local! {
        static CACHE: RefCell<[Cached; CACHED]> =
            const { RefCell::new([(0, 0, ClassId::NONE); CACHED]) };
    }
    let (address, length) = (name.as_ptr().addr(), name.len());
    let at = (address ^ address >> 8 ^ length) % CACHED;
    let find = || {
        let known = position(name);
        known.unwrap_or_else(|| add_class(name))
    };
    let cached = CACHE.try_with(|cache| {
        let mut cache = cache.borrow_mut();
        if (cache[at].0, cache[at].1) != (address, length) {
            cache[at] = (address, length, find());
        }
        cache[at].2
    });
    cached.unwrap_or_else(|_| find())
}

/// As [`class_named`], for a name that was made at run time.
pub(super) fn class_of_text(name: String) -> ClassId {
    position(&name).unwrap_or_else(|| add_class(name.leak()))
}

fn position(name: &str) -> Option<ClassId> {
    let names = NAMES.read().unwrap_or_else(PoisonError::into_inner);
    names.iter().position(|known| *known == name).map(|at| ClassId(at as u16))
}

fn add_class(name: &'static str) -> ClassId {
    let mut names = NAMES.write().unwrap_or_else(PoisonError::into_inner);
    if names.is_empty() {
        names.push("");
    }
    if let Some(at) = names.iter().position(|known| *known == name) {
        return ClassId(at as u16);
    }
    if names.len() == CLASSES {
        return ClassId::NONE;
    }
    names.push(name);
    ClassId(names.len() as u16 - 1)
}
