//! What happened in an explored machine, in order, while tracing is on: visible steps, stores that
//! entered a store buffer, and stores that left one. It serves the reader of a replayed
//! schedule.
//!
//! Invariants: keeping the log is no step, and nothing in it goes into the state of the machine.
//! While tracing is off nothing is kept.
//!
//! Entry points: [`crate::Platform::take_steps`], [`StepLog::name_of`],
//! [`crate::memory::Word::named`].

use crate::controller::{AgentIx, Object, OpKind};
use std::collections::{HashMap, VecDeque};

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepEvent {
    /// The agent that did it.
    pub agent: AgentIx,
    /// What it is.
    pub what: Happened,
    /// What it touched.
    pub object: Object,
    /// The word that was loaded or stored, where one was.
    pub value: Option<u64>,
    /// Visible steps of the run before it.
    pub step: u64,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// The agent took a visible step.
    Step(OpKind),
    /// A store entered the agent's store buffer; the number is the same when it leaves.
    Buffered(u32),
    /// A store left the buffer: every agent sees it from now on.
    Visible(u32),
}

/// The events of a run and the names of what they touched.
#[derive(Clone, Debug, Default)]
pub struct StepLog {
    /// In the order in which they happened: the time of a record of the same run is the number of
    /// events before it.
    pub events: Vec<StepEvent>,
    /// The names of the agents, by number.
    pub agents: Vec<String>,
    names: HashMap<Object, String>,
    pages: HashMap<u32, String>,
    /// Numbers of the stores in each agent's buffer, the oldest first.
    buffered: HashMap<AgentIx, VecDeque<u32>>,
    stores: u32,
}

impl StepLog {
    /// What `object` is called: its own name, else its number within what it belongs to.
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

    pub(crate) fn name(&mut self, object: Object, name: &str) {
        self.names.insert(object, name.to_owned());
    }

    pub(crate) fn name_page(&mut self, page: u32, name: &str) {
        self.pages.insert(page, name.to_owned());
    }

    pub(crate) fn step(&mut self, agent: AgentIx, (op, object): (OpKind, Object), step: u64) {
        self.events.push(StepEvent { agent, what: Happened::Step(op), object, value: None, step });
    }

    /// The value of the step that was logged last.
    pub(crate) fn value(&mut self, value: u64) {
        if let Some(last) = self.events.last_mut() {
            last.value = Some(value);
        }
    }

    pub(crate) fn buffered(
        &mut self,
        agent: AgentIx,
        (object, value): (Object, Option<u64>),
        step: u64,
    ) {
        self.stores += 1;
        self.buffered.entry(agent).or_default().push_back(self.stores);
        self.events.push(StepEvent {
            agent,
            what: Happened::Buffered(self.stores),
            object,
            value,
            step,
        });
    }

    pub(crate) fn visible(
        &mut self,
        agent: AgentIx,
        (object, value): (Object, Option<u64>),
        step: u64,
    ) {
        let store = self.buffered.get_mut(&agent).and_then(VecDeque::pop_front);
        let Some(store) = store else { return };
        self.events.push(StepEvent { agent, what: Happened::Visible(store), object, value, step });
    }
}
