//! What a row is: its measurement, its floor, its goal, and what the peers do in its place.

use super::measure::{Measured, Samples, Trouble, on_own_thread};
use super::sizes::{Calls, Scale};

/// How a row's figure is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Time for one operation.
    Time,
    /// Operations in a second.
    Rate,
}

/// What a row is to reach.
#[derive(Clone, Copy)]
pub(crate) enum Goal {
    /// At most so many times the floor.
    TimesFloor(f64),
    /// At most so many times the floor, or so many nanoseconds, whichever is more.
    TimesFloorOr(f64, f64),
    /// At least so many operations in a second.
    PerSecond(f64),
}

/// The physical floor of a row.
pub(crate) struct Floor {
    pub(crate) name: &'static str,
    pub(crate) measure: fn() -> Result<Samples, Trouble>,
}

/// One line of the bench.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// One operation, in words.
    pub(crate) about: &'static str,
    pub(crate) unit: Unit,
    pub(crate) floor: Floor,
    pub(crate) goal: Goal,
    pub(crate) measure: fn(Scale) -> Result<Measured, Trouble>,
    /// What `--peers` times beside it, in this order.
    pub(crate) peers: &'static [Counterpart],
}

/// What a peer has in place of the calls of a row.
#[derive(Clone, Copy)]
pub(crate) enum Counterpart {
    /// A measurement of a peer.
    Calls {
        /// The peer, as it names itself.
        peer: &'static str,
        /// The measurement, as the peer's program names it.
        key: &'static str,
        /// One operation, in words.
        calls: &'static str,
        /// What the operation does less or more than the row's.
        does: &'static str,
        size: Calls,
    },
    /// No such call, and why.
    None(&'static str),
}

impl Counterpart {
    /// Whether this is the measurement `key`.
    pub(crate) fn is(&self, wanted: &str) -> bool {
        matches!(self, Counterpart::Calls { key, .. } if *key == wanted)
    }
}

const LAVAPIPE: &str = "lavapipe";

/// The same call on lavapipe, in as many batches of as many calls.
pub(crate) const fn lavapipe(key: &'static str, calls: &'static str, size: Calls) -> Counterpart {
    let does = "less: no check of arguments, no log";
    Counterpart::Calls { peer: LAVAPIPE, key, calls, does, size }
}

/// The same on PoCL.
pub(crate) const fn pocl(key: &'static str, calls: &'static str, size: Calls) -> Counterpart {
    let does = "less: no value of a fence, no log; more: a kernel of one item";
    Counterpart::Calls { peer: "pocl", key, calls, does, size }
}

/// Something of a crate for threads or tasks.
pub(crate) const fn pure(
    peer: &'static str,
    key: &'static str,
    calls: &'static str,
    size: Calls,
) -> Counterpart {
    let does = "less: no queue, no engine, no decode, no log";
    Counterpart::Calls { peer, key, calls, does, size }
}

pub(crate) const fn floor(name: &'static str, measure: fn() -> Result<Samples, Trouble>) -> Floor {
    Floor { name, measure }
}

/// Takes a measurement on a thread of its own.
pub(crate) fn own(
    measure: impl FnOnce() -> Result<Measured, Box<dyn std::error::Error>> + Send + 'static,
) -> Result<Measured, Trouble> {
    on_own_thread(|| measure().map_err(|e| e.to_string()))
}
