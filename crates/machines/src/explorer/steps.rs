//! The log of an explored machine while tracing is on: visible steps, and stores that entered or
//! left a store buffer, in order. It explains a replayed schedule.
//!
//! Invariants: logging is not a step, and the log is not part of the machine's state. Without
//! tracing no log is kept.
//!
//! Entry points: `Platform::take_steps`, `Word::named`, [`StepLog::name_of`].

use super::controller::{AgentIx, Object, OpKind};
use super::site::Site;
use std::collections::{HashMap, VecDeque};

/// A logged event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepEvent {
    /// The agent of the event.
    pub agent: AgentIx,
    /// The kind of event.
    pub what: Happened,
    /// The object of the event.
    pub object: Object,
    /// The value of the word that was loaded or stored, if any.
    pub value: Option<u64>,
    /// The number of visible steps before it.
    pub step: u64,
    /// Its place in the program.
    pub site: Site,
}

/// The kind of a logged event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// The agent took a visible step.
    Step(OpKind),
    /// A store entered the agent's store buffer. `Visible` has the same number.
    Buffered(u32),
    /// A store left the buffer and is visible to every agent.
    Visible(u32),
}

/// The agent of an event, and the place in its program.
type By = (AgentIx, Site);
/// An object, and the value of the word that was loaded or stored, if any.
type Stored = (Object, Option<u64>);

/// The events of a run and the names of their objects.
#[derive(Clone, Debug, Default)]
pub struct StepLog {
    /// The events in order. The time of a record of the same run is the number of events before it.
    pub events: Vec<StepEvent>,
    /// The names of the agents, by number.
    pub agents: Vec<String>,
    names: HashMap<Object, String>,
    pages: HashMap<u32, String>,
    /// Numbers of the stores in each agent's buffer, oldest first.
    buffered: HashMap<AgentIx, VecDeque<u32>>,
    stores: u32,
}

impl StepLog {
    /// Returns the name of `object`: its own, else its number within its container.
    pub fn name_of(&self, object: Object) -> String {
        if let Some(name) = self.names.get(&object) {
            return name.clone();
        }
        match object {
            Object::None => String::new(),
            Object::Word { page, index } => match self.pages.get(&page) {
                Some(name) => format!("word {index} of {name}"),
                None => format!("word {index} of page {page}"),
            },
            Object::Bulk(bulk) => format!("bytes {bulk}"),
            Object::Mutex(mutex) => format!("lock {mutex}"),
        }
    }

    /// Names an object.
    pub fn name(&mut self, object: Object, name: &str) {
        self.names.insert(object, name.to_owned());
    }

    /// Names the words of a page.
    pub fn name_page(&mut self, page: u32, name: &str) {
        self.pages.insert(page, name.to_owned());
    }

    fn push(&mut self, (agent, site): By, what: Happened, (object, value): Stored, step: u64) {
        self.events.push(StepEvent { agent, what, object, value, step, site });
    }

    pub(crate) fn step(&mut self, by: By, (op, object): (OpKind, Object), step: u64) {
        self.push(by, Happened::Step(op), (object, None), step);
    }

    /// Sets the value of the last logged step.
    pub(crate) fn value(&mut self, value: u64) {
        if let Some(last) = self.events.last_mut() {
            last.value = Some(value);
        }
    }

    pub(crate) fn buffered(&mut self, by: By, stored: Stored, step: u64) {
        self.stores += 1;
        self.buffered.entry(by.0).or_default().push_back(self.stores);
        self.push(by, Happened::Buffered(self.stores), stored, step);
    }

    pub(crate) fn visible(&mut self, by: By, stored: Stored, step: u64) {
        let store = self.buffered.get_mut(&by.0).and_then(VecDeque::pop_front);
        if let Some(store) = store {
            self.push(by, Happened::Visible(store), stored, step);
        }
    }
}
