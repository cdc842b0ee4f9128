//! The decisions of an explorer: at every visible step of an explored machine, which agent moves
//! next. Caller: `world`. Implementations: the explorer's strategies.
//!
//! A *visible step* is a load, a barrier, a locked operation, a lock, a wait or a wake.
//! A store goes to its agent's own store buffer, which no other agent sees, so it is not a choice.
//! Leaving the buffer is one ([`Choice::Flush`]). The value read from a hostile process's memory is
//! a separate choice ([`Choice::Find`]), offered without other kinds. Its first entry is the value
//! in memory.

use super::site::Site;

/// Index of an agent in order of spawning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentIx(pub u16);

/// How stores become visible to other agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryModel {
    /// Every store is immediately visible (cannot reveal a missing barrier).
    SequentiallyConsistent,
    /// Total store order: a FIFO store buffer per agent, as on x86.
    TotalStoreOrder,
}

/// A possible next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The agent takes its pending visible step.
    Run(AgentIx),
    /// The oldest store in the agent's buffer reaches memory.
    Flush(AgentIx),
    /// The agent's read of a hostile process's memory returns this value (for bytes, the
    /// first eight).
    Find(AgentIx, u64),
}

impl Choice {
    /// Returns the agent of the choice.
    pub fn agent(self) -> AgentIx {
        match self {
            Choice::Run(a) | Choice::Flush(a) | Choice::Find(a, _) => a,
        }
    }
}

/// The kind of an agent's pending visible step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpKind {
    /// First step of an agent.
    Start,
    /// A load, from memory or from the agent's own store buffer.
    Load,
    /// A store directly to memory (sequentially consistent model, or through a kernel).
    Store,
    /// A locked read-modify-write.
    Exchange,
    /// A locked addition that does not return the previous sum. Two of them commute.
    Add,
    /// A full barrier.
    Fence,
    /// A full barrier of every agent, executed for one of them (`membarrier`).
    FenceOfAgents,
    /// Taking a lock.
    Lock,
    /// Taking a lock if it is free.
    TryLock,
    /// Releasing a lock. Never pending: it leaves the store buffer in order with the stores.
    Unlock,
    /// Going to sleep on a word.
    Wait,
    /// Waking sleepers of a word.
    Wake,
    /// A sleep until a time.
    Sleep,
}

/// The object of a pending step. Steps on different objects commute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Object {
    /// Nothing shared.
    None,
    /// A protocol word.
    Word {
        /// Page number.
        page: u32,
        /// Word number in the page.
        index: u32,
    },
    /// A run of bulk bytes.
    Bulk(u32),
    /// A lock.
    Mutex(u32),
}

/// What an agent without a step waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// The agent has ended, or has a step.
    Nothing,
    /// A wake on the word that it sleeps on.
    Word(Object),
    /// The end of another agent.
    End(AgentIx),
    /// A lock that another agent holds.
    Lock(u32),
    /// The buffered stores of an agent.
    Stores(AgentIx),
    /// The clock, which moves only when no agent can.
    Clock,
}

/// A machine at a choice.
pub trait Agents {
    /// Returns the hash of the whole state: memory, store buffers, locks, and each agent's history
    /// of observed values.
    fn state(&self) -> u64;

    /// Returns the hash of the state of only these agents (bit n is agent n) and of what they have
    /// written. A state for agents that share nothing with others.
    fn state_of(&self, agents: u64) -> u64;

    /// Returns the number of agents so far, including ended ones.
    fn count(&self) -> usize;

    /// Returns the kind and the object of a choice's step.
    fn step(&self, choice: Choice) -> (OpKind, Object);

    /// Returns the place in the program of a choice's step, if the program named it.
    fn site(&self, choice: Choice) -> Site;

    /// Returns what `agent` waits for. With a full store buffer, this may be only room in
    /// the buffer.
    fn waits_for(&self, agent: AgentIx) -> WaitsFor;
}

/// A point at which the controller chooses.
#[derive(Clone, Copy)]
pub struct Point<'a> {
    /// The possible choices, at least two.
    pub choices: &'a [Choice],
    /// All agents.
    pub agents: &'a dyn Agents,
    /// The agent that moved last, if it can continue.
    pub current: Option<AgentIx>,
    /// Visible steps taken so far in this run.
    pub step: u64,
}

impl Point<'_> {
    /// Returns the hash of the whole state ([`Agents::state`]). Each call computes it.
    pub fn state(&self) -> u64 {
        self.agents.state()
    }
}

/// Chooses what happens next in an explored machine.
pub trait Controller {
    /// Returns an index into `point.choices`; anything beyond the end counts as 0.
    fn choose(&mut self, point: &Point<'_>) -> usize;

    /// Returns whether the controller wants to be notified of accesses. Called once.
    fn observes(&self) -> bool {
        false
    }

    /// Reports that `agent` did `op` to `object`. A buffered store is reported when it
    /// reaches memory.
    fn touched(&mut self, _agent: AgentIx, _op: OpKind, _object: Object) {}

    /// Reports that `agent`'s history was replaced by `position` (`Platform::forget_history`).
    fn forgot(&mut self, _agent: AgentIx, _position: u32) {}

    /// Reports an event that relates agents without an access to an object: the passing of time, a
    /// wait for the end of an agent, the start of one by an agent that has acted.
    fn related_all(&mut self) {}
}
