//! Accesses and the submissions and commands that made them.

use crate::clock::Place;
use crate::finding::{Side, TimelineKind};
use crate::footprint::AccessKind;
use crate::shadow::{AccessId, Accesses, Order};
use crate::tiles::Tiles;
use std::sync::Arc;

/// A GPU address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpaceKey(pub u64);

/// A list of a submission.
#[derive(Clone, Debug)]
pub struct ListInfo {
    /// The GPU address of its commands.
    pub gpu_va: u64,
    /// Its label.
    pub label: Option<String>,
    /// The number of its commands, without labels.
    pub commands: u32,
}

/// A command as identified by an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandRef {
    /// The link of its submission.
    pub link: u32,
    /// The GPU address of its command buffer.
    pub buffer: u64,
    /// Its number in the buffer, from 1.
    pub number: u32,
    /// Its kind: `copy`, `dispatch`.
    pub what: &'static str,
    /// The program that it runs; empty if none.
    pub program: &'static str,
}

/// A submission with its place in the order.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) place: Place,
    /// The place of the call on its CPU thread.
    pub(crate) issued: Place,
    pub(crate) space: SpaceKey,
    pub(crate) sequence: u64,
    pub(crate) number: u32,
    pub(crate) link: u32,
    pub(crate) lists: Vec<ListInfo>,
    /// The memory behind reserved addresses, if there is any.
    pub(crate) tiles: Option<Arc<Tiles>>,
}

/// An access and its origin.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) place: Place,
    /// The place of the CPU call that caused it, or of the CPU access itself.
    pub(crate) issued: Place,
    pub(crate) sequence: u64,
    pub(crate) kind: AccessKind,
    pub(crate) submission: Option<Arc<Submission>>,
    /// The number of the present, for the display.
    pub(crate) present: u32,
    pub(crate) buffer: u64,
    pub(crate) number: u32,
    pub(crate) what: &'static str,
    pub(crate) program: &'static str,
}

/// The accesses by number.
pub(crate) struct Table<'a>(pub(crate) &'a [Access]);

impl Accesses for Table<'_> {
    fn order(&self, earlier: AccessId, new: AccessId) -> Order {
        let (earlier, new) = (&self.0[earlier.0 as usize], &self.0[new.0 as usize]);
        if earlier.place.epoch.timeline == new.place.epoch.timeline {
            let late = earlier.place.epoch.tick > new.place.epoch.tick;
            return if late { Order::After } else { Order::Before };
        }
        if new.place.clock.includes(earlier.place.epoch) {
            Order::Before
        } else if earlier.place.clock.includes(new.place.epoch) {
            Order::After
        } else {
            Order::None
        }
    }

    fn same_timeline(&self, one: AccessId, other: AccessId) -> bool {
        let of = |id: AccessId| self.0[id.0 as usize].place.epoch.timeline;
        of(one) == of(other)
    }
}

/// Describes an access of a timeline with this kind and name.
pub(crate) fn side(kind: TimelineKind, timeline: &str, access: &Access) -> Side {
    let submission = access.submission.as_deref();
    let list = submission.and_then(|of| list_of(of, access.buffer, access.number));
    let what = match access.program {
        "" => access.what.to_owned(),
        program => format!("{} of {program}", access.what),
    };
    Side {
        kind,
        timeline: timeline.to_owned(),
        access: access.kind,
        submission: submission.map_or(access.present, |of| of.number),
        list: list.and_then(|(list, _)| list.label.clone()),
        command: list.map_or(access.number, |(_, number)| number),
        what,
        link: submission.map_or(0, |of| of.link),
    }
}

/// Returns the list of a command and the command's number in it. A queue runs a list's own buffer,
/// or one buffer with all lists of the call.
fn list_of(submission: &Submission, buffer: u64, number: u32) -> Option<(&ListInfo, u32)> {
    if let Some(list) = submission.lists.iter().find(|list| list.gpu_va == buffer) {
        return Some((list, number));
    }
    let mut before = 0;
    for list in &submission.lists {
        if number <= before + list.commands {
            return Some((list, number - before));
        }
        before += list.commands;
    }
    None
}
