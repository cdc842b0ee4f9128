//! What a row is: one operation, its floor, and how small it can be made.

use crate::measure::{Found, Measured, Samples};

/// How a row's figure is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Time for one operation.
    Time,
    /// Operations in a second.
    Rate,
}

/// The physical floor of a row.
#[derive(Clone, Copy)]
pub struct Floor {
    /// Its name in reports.
    pub name: &'static str,
    /// Measures it, on a thread of its own.
    pub measure: fn() -> Found<Samples>,
}

/// One line of a bench.
#[derive(Clone, Copy)]
pub struct Row {
    /// Its name in reports and filters.
    pub name: &'static str,
    /// One operation, in words.
    pub about: &'static str,
    /// How its figure is shown.
    pub unit: Unit,
    /// What the row is compared with.
    pub floor: Floor,
    /// Measures it, on a thread of its own.
    pub measure: fn(Scale) -> Found<Measured>,
}

/// A row whose figure is the time for one operation.
pub const fn row(
    name: &'static str,
    about: &'static str,
    floor: Floor,
    measure: fn(Scale) -> Found<Measured>,
) -> Row {
    Row { name, about, unit: Unit::Time, floor, measure }
}

impl Row {
    /// The same with operations in a second as its figure.
    #[must_use]
    pub const fn as_rate(self) -> Row {
        Row { unit: Unit::Rate, ..self }
    }
}

/// A floor.
pub const fn floor(name: &'static str, measure: fn() -> Found<Samples>) -> Floor {
    Floor { name, measure }
}

/// By what the operations and objects of a row are divided: 1, except in tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale(pub u64);

impl Scale {
    /// Returns `count` divided by the scale, but at least `least`.
    pub fn of(self, count: u64, least: u64) -> u64 {
        (count / self.0.max(1)).max(least)
    }
}

/// How long a thread sleeps before it is woken.
pub const ASLEEP_NS: u64 = 70_000;
