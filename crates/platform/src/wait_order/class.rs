//! The classes of locks and waits, by their names.
//!
//! Invariant: a class has one number in a process. Numbers are never given back.

use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{PoisonError, RwLock};

/// The most classes of a process. Later ones are not ordered.
pub(super) const CLASSES: usize = 512;

/// A class of locks or waits by its name, as a small number. [`ClassId::NONE`] is not ordered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClassId(pub(crate) u16);

impl ClassId {
    pub(crate) const NONE: ClassId = ClassId(0);
}

/// A kind of wait. Waits of one class end in the same way, so all of them have the same place in
/// the order of waits.
pub struct WaitClass {
    pub(crate) name: &'static str,
    /// The classes of the code that ends such a wait, besides the agents that owe it.
    pub(crate) ended_by: &'static [&'static WaitClass],
    /// 0 until it is first used.
    id: AtomicU16,
}

/// A DPC. A wait that is ended by one depends on every lock that a DPC takes.
pub static DPC: WaitClass = WaitClass::named("a DPC");
/// An interrupt routine.
pub static INTERRUPT_ROUTINE: WaitClass = WaitClass::named("an interrupt routine");

impl WaitClass {
    /// Returns the class of this name.
    pub const fn named(name: &'static str) -> WaitClass {
        WaitClass { name, ended_by: &[], id: AtomicU16::new(0) }
    }

    /// Adds what ends a wait of this class, for an end that is not owed by an agent
    /// ([`crate::Platform::owe`]): [`DPC`], or another class.
    pub const fn ended_by(self, ended_by: &'static [&'static WaitClass]) -> WaitClass {
        WaitClass { ended_by, ..self }
    }

    /// Returns the name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn id(&self) -> ClassId {
        match self.id.load(Ordering::Relaxed) {
            0 => {
                let id = class_named(self.name);
                self.id.store(id.0, Ordering::Relaxed);
                id
            }
            id => ClassId(id),
        }
    }
}

impl fmt::Debug for WaitClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WaitClass({})", self.name)
    }
}

/// The names of the classes, by number; the first is [`ClassId::NONE`].
static NAMES: RwLock<Vec<&'static str>> = RwLock::new(Vec::new());

pub(super) fn name_of(class: ClassId) -> &'static str {
    let names = NAMES.read().unwrap_or_else(PoisonError::into_inner);
    names.get(usize::from(class.0)).copied().unwrap_or_default()
}

/// Returns the class of this name.
pub(crate) fn class_named(name: &'static str) -> ClassId {
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
pub(crate) fn class_of_text(name: String) -> ClassId {
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
