//! Arguments of a slice in Chrome and Perfetto files, beside its name, kind and times.
//!
//! Names and types are stable and the same in both formats; `docs/timeline.md` lists them. Numbers
//! are unsigned integers, of 64 bits in Perfetto's format.

use crate::model::{FenceId, Kind, LaneId, LaneKind, Record, Trace};

/// Every name, in the order in which arguments are written.
pub(crate) const NAMES: [&str; 13] = [
    "queued_ns",
    "submission",
    "queue",
    "engine",
    "fence",
    "value",
    "bytes",
    "groups",
    "lists",
    "records",
    "code",
    "stored",
    "amount",
];

/// The value of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Number(u64),
    /// The name of a fence.
    Fence(FenceId),
    /// The name of a lane.
    Lane(LaneId),
}

/// One argument: index into [`NAMES`], and value.
pub(crate) type Argument = (usize, Value);

/// The arguments of a record.
pub(crate) fn of(trace: &Trace, record: &Record) -> impl Iterator<Item = Argument> {
    let queued =
        trace.lanes[record.lane.0 as usize].kind == LaneKind::Queue || record.pending_ns() > 0;
    let number = |name: &str, value: u64| (index(name), Value::Number(value));
    let has_amount = record.arg != 0 && record.engine().is_none();
    let is_store = matches!(record.kind, Kind::Store | Kind::Flush);
    let linked = record.link.is_some() && !is_store;
    [
        queued.then(|| number("queued_ns", record.queued_ns)),
        linked.then(|| number("submission", u64::from(record.link.0))),
        record.queue().map(|queue| (index("queue"), Value::Lane(queue))),
        record.engine().map(|engine| (index("engine"), Value::Lane(engine))),
        record.fence().map(|(fence, _)| (index("fence"), Value::Fence(fence))),
        record.fence().map(|(_, value)| number("value", value)),
        (has_amount || record.kind == Kind::Lost || is_store)
            .then(|| number(amount(record.kind), record.arg)),
    ]
    .into_iter()
    .flatten()
}

/// The name of a record's extra number.
fn amount(kind: Kind) -> &'static str {
    match kind {
        Kind::Copy | Kind::Fill | Kind::MapWrite => "bytes",
        Kind::Dispatch | Kind::Draw => "groups",
        Kind::Submit => "lists",
        Kind::Lost => "records",
        Kind::Recovery => "code",
        Kind::Store | Kind::Flush => "stored",
        _ => "amount",
    }
}

fn index(name: &str) -> usize {
    NAMES.iter().position(|known| *known == name).expect("a name of an argument")
}

#[cfg(test)]
mod tests {
    use super::Value::{Fence, Lane, Number};
    use super::*;
    use crate::{ClockName, LinkId, NameId, TraceBuilder};

    #[test]
    fn arguments_are_typed_and_named_for_what_they_count() {
        let mut b = TraceBuilder::new("t", ClockName::Virtual);
        let queue = b.add_lane(LaneKind::Queue, "app", "render");
        let engine = b.add_lane(LaneKind::Engine, "GPU", "3D");
        let fence = b.add_fence("ready");
        let slice = Record::span(engine, Kind::Fill, NameId::NONE, 5, 9);
        let wait = Record::span(queue, Kind::Wait, NameId::NONE, 9, 10);
        b.append(vec![
            slice.for_queue(queue).linked(LinkId(3)).with_arg(64),
            wait.queued(2).on_fence(fence, 7),
            Record::instant(engine, Kind::Lost, NameId::NONE, 11),
            Record::span(queue, Kind::Execute, NameId::NONE, 12, 13).on_engine(engine),
        ]);
        let trace = b.finish();
        let seen: Vec<Vec<(&str, Value)>> = trace
            .records
            .iter()
            .map(|record| of(&trace, record).map(|(name, value)| (NAMES[name], value)).collect())
            .collect();
        let fill = vec![("submission", Number(3)), ("queue", Lane(queue)), ("bytes", Number(64))];
        let wait = vec![("queued_ns", Number(2)), ("fence", Fence(fence)), ("value", Number(7))];
        let executed = vec![("queued_ns", Number(12)), ("engine", Lane(engine))];
        assert_eq!(seen, [fill, wait, vec![("records", Number(0))], executed]);
    }
}
