//! A row of the laboratory: what it is to reach, and what the peers do in its place.

use crate::sizes::Calls;
use tidegate_measure::{Floor, Found, Measured, Row, Scale, rate, time};

/// A row with its goal and its counterparts.
pub(crate) struct Aimed {
    pub(crate) row: Row,
    /// `None` for a row that no goal names.
    pub(crate) goal: Option<Goal>,
    /// What `--peers` times beside it, in this order.
    pub(crate) peers: &'static [Counterpart],
}

/// What a row is to reach.
#[derive(Clone, Copy)]
pub(crate) enum Goal {
    /// At most this many times the floor.
    TimesFloor(f64),
    /// At most this many times the floor, or this many nanoseconds, whichever is more.
    TimesFloorOr(f64, f64),
    /// At least this many operations in a second.
    PerSecond(f64),
}

impl Goal {
    /// How many times worse than the goal a row is; at most 1 is met.
    pub(crate) fn off(self, row_ns: f64, floor_ns: f64) -> f64 {
        match self {
            Goal::TimesFloor(times) => row_ns / floor_ns.max(f64::MIN_POSITIVE) / times,
            Goal::TimesFloorOr(times, ns) => row_ns / (times * floor_ns).max(ns),
            Goal::PerSecond(least) => row_ns * least / 1e9,
        }
    }

    pub(crate) fn shown(self) -> String {
        match self {
            Goal::TimesFloor(times) => format!("≤ {times}x"),
            Goal::TimesFloorOr(times, ns) => format!("≤ {times}x or {}", time(ns)),
            Goal::PerSecond(least) => format!("≥ {}", rate(least)),
        }
    }
}

/// A row that only the laboratory has.
pub(crate) const fn row(
    name: &'static str,
    about: &'static str,
    floor: Floor,
    measure: fn(Scale) -> Found<Measured>,
) -> Aimed {
    of(tidegate_measure::row(name, about, floor, measure))
}

/// A row that users have, too.
pub(crate) const fn of(row: Row) -> Aimed {
    Aimed { row, goal: None, peers: &[] }
}

impl Aimed {
    /// At most this many times the floor.
    pub(crate) const fn within(self, times: f64) -> Aimed {
        Aimed { goal: Some(Goal::TimesFloor(times)), ..self }
    }

    /// At most this many times the floor, or this many nanoseconds, whichever is more.
    pub(crate) const fn within_or(self, times: f64, ns: f64) -> Aimed {
        Aimed { goal: Some(Goal::TimesFloorOr(times, ns)), ..self }
    }

    /// At least this many operations in a second, which is the row's figure.
    pub(crate) const fn per_second(self, least: f64) -> Aimed {
        Aimed { row: self.row.as_rate(), goal: Some(Goal::PerSecond(least)), ..self }
    }

    /// The same with operations in a second as its figure.
    pub(crate) const fn with_rate(self) -> Aimed {
        Aimed { row: self.row.as_rate(), ..self }
    }

    pub(crate) const fn beside(self, peers: &'static [Counterpart]) -> Aimed {
        Aimed { peers, ..self }
    }
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
        /// How this operation differs from the row's.
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

/// A measurement of a peer.
pub(crate) const fn peer(
    peer: &'static str,
    key: &'static str,
    calls: &'static str,
    does: &'static str,
    size: Calls,
) -> Counterpart {
    Counterpart::Calls { peer, key, calls, does, size }
}

/// The same call on lavapipe, in as many batches of as many calls.
pub(crate) const fn lavapipe(key: &'static str, calls: &'static str, size: Calls) -> Counterpart {
    peer("lavapipe", key, calls, "less: no check of arguments, no log", size)
}

/// Something of a crate for threads or tasks.
pub(crate) const fn pure(
    name: &'static str,
    key: &'static str,
    calls: &'static str,
    size: Calls,
) -> Counterpart {
    peer(name, key, calls, "less: no queue, no engine, no decode, no log", size)
}
