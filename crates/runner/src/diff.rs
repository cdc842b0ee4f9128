//! Two workloads compared by kernel name: count, busy time, delays and makespan.
//!
//! Entry point: [`diff`].

use std::collections::BTreeMap;

use serde::Serialize;

use crate::kernels::{NameRow, Table, summary};

/// One side of a comparison. Times in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    /// The file.
    pub file: String,
    /// Whether the times are recorded. Otherwise they come from a run in virtual time.
    pub recorded: bool,
    /// From the start to the end of the last work.
    pub makespan_ns: u64,
    /// Pieces of work.
    pub count: u64,
    /// Busy time of all work.
    pub busy_ns: u64,
}

/// The figures of a name on one side. Times in nanoseconds; means are `null` where no submission is
/// known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// Pieces of work.
    pub count: u64,
    /// Busy time of all of them.
    pub busy_ns: u64,
    /// Mean time from submission to start.
    pub mean_queue_delay_ns: Option<u64>,
    /// Mean part of it in which the queue ran nothing.
    pub mean_launch_latency_ns: Option<u64>,
}

impl Figures {
    fn of(name: &NameRow) -> Figures {
        Figures {
            count: name.count,
            busy_ns: name.total_ns,
            mean_queue_delay_ns: name.mean_queue_delay_ns(),
            mean_launch_latency_ns: name.mean_launch_latency_ns(),
        }
    }
}

/// A name on both sides; a side without it is `null`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DiffRow {
    /// The name.
    pub name: String,
    /// The first side.
    pub a: Option<Figures>,
    /// The second side.
    pub b: Option<Figures>,
    /// Busy time of the second side less busy time of the first, in nanoseconds.
    pub busy_change_ns: i64,
}

/// Two workloads compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diff {
    /// The first.
    pub a: Side,
    /// The second.
    pub b: Side,
    /// Names by the size of the change of their busy time, largest first, then by name.
    pub kernels: Vec<DiffRow>,
}

/// Compares two tables by name; each comes with the name of its file.
pub fn diff(a: (&str, &Table), b: (&str, &Table)) -> Diff {
    let (a_names, b_names) = (summary(a.1), summary(b.1));
    let mut both: BTreeMap<&str, (Option<Figures>, Option<Figures>)> = BTreeMap::new();
    for name in &a_names {
        both.entry(&name.name).or_default().0 = Some(Figures::of(name));
    }
    for name in &b_names {
        both.entry(&name.name).or_default().1 = Some(Figures::of(name));
    }
    let busy = |side: Option<Figures>| side.map_or(0, |figures| figures.busy_ns).cast_signed();
    let row = |(name, (a, b)): (&str, _)| DiffRow {
        name: name.to_owned(),
        a,
        b,
        busy_change_ns: busy(b).saturating_sub(busy(a)),
    };
    let mut kernels: Vec<DiffRow> = both.into_iter().map(row).collect();
    // The sort keeps the order by name where changes are equal.
    kernels.sort_by_key(|row| std::cmp::Reverse(row.busy_change_ns.unsigned_abs()));
    let side = |(file, table): (&str, &Table), names: &[NameRow]| Side {
        file: file.to_owned(),
        recorded: table.recorded,
        makespan_ns: table.makespan_ns,
        count: names.iter().map(|name| name.count).sum(),
        busy_ns: names.iter().map(|name| name.total_ns).sum(),
    };
    Diff { a: side(a, &a_names), b: side(b, &b_names), kernels }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::tests::row;

    #[test]
    fn names_are_compared_and_sorted_by_their_change() {
        let table = |rows, makespan_ns| Table { rows, makespan_ns, recorded: false };
        let a = table(
            vec![row("same", 0, 0, 0, 5), row("less", 9, 9, 3, 40), row("gone", 60, 0, 0, 7)],
            67,
        );
        let b = table(
            vec![row("new", 0, 0, 0, 7), row("less", 10, 1, 1, 20), row("same", 40, 4, 4, 5)],
            45,
        );
        let diff = diff(("a.json", &a), ("b.json", &b));
        assert_eq!(
            (diff.a.makespan_ns, diff.b.makespan_ns, diff.a.busy_ns, diff.b.busy_ns),
            (67, 45, 52, 32)
        );
        let rows: Vec<(&str, i64)> =
            diff.kernels.iter().map(|row| (&*row.name, row.busy_change_ns)).collect();
        assert_eq!(rows, [("less", -20), ("gone", -7), ("new", 7), ("same", 0)]);
        let [less, gone, new, _] = &diff.kernels[..] else { panic!("four names") };
        assert_eq!((gone.b, new.a), (None, None));
        let delays = |side: Option<Figures>| {
            side.and_then(|s| Some((s.mean_queue_delay_ns?, s.mean_launch_latency_ns?)))
        };
        assert_eq!((delays(less.a), delays(less.b)), (Some((9, 3)), Some((1, 1))));
    }
}
