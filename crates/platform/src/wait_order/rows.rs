//! Sets of classes, and the paths along the edges between them.

use super::class::{CLASSES, ClassId};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

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

    pub(super) fn clear(&self) {
        self.0.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = ClassId> + '_ {
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
    pub(super) fn new() -> Rows {
        Rows((0..CLASSES).map(|_| Row::empty()).collect())
    }

    pub(super) fn of(&self, class: ClassId) -> &Row {
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
