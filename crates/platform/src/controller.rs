//! What an explorer decides: at every visible step of an explored machine, which agent moves next.
//!
//! A *visible step* is a load that memory must answer, a barrier, a locked operation, a lock, a
//! wait or a wake. A store goes into its agent's own store buffer, which no other agent sees, so it
//! is no choice; that it leaves the buffer is one ([`Choice::Flush`]). What a read of a hostile
//! process's memory finds is chosen too ([`Choice::Find`]), and only there: such a choice has no
//! other kinds beside it, and its first entry is what memory holds. Caller: `world`.
//! Implementations: the explorer's strategies.

/// Index of an agent in the order of its spawning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentIx(pub u16);

/// How stores become visible to other agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryModel {
    /// Every store is visible at once (cannot see a missing barrier).
    SequentiallyConsistent,
    /// Total store order: a first-in first-out store buffer per agent, as x86 has.
    TotalStoreOrder,
}

/// One thing that could happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The agent takes its pending visible step.
    Run(AgentIx),
    /// The oldest store in the agent's buffer reaches memory.
    Flush(AgentIx),
    /// The agent's look at what a hostile process writes finds this value (of bytes, the first
    /// eight).
    Find(AgentIx, u64),
}

impl Choice {
    /// The agent that the choice is about.
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
    /// A load from memory.
    Load,
    /// A store that goes to memory at once (sequentially consistent model, or through a kernel).
    Store,
    /// A locked read-modify-write.
    Exchange,
    /// A locked addition that does not tell the sum before: two of them commute.
    Add,
    /// A full barrier.
    Fence,
    /// Taking a lock.
    Lock,
    /// Releasing a lock. Never pending: it leaves the store buffer in order with the stores.
    Unlock,
    /// Going to sleep on a word.
    Wait,
    /// Waking sleepers of a word.
    Wake,
    /// A sleep on the clock.
    Sleep,
}

/// What a pending step touches; two steps on different objects commute.
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

/// What an agent that has no step to take waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// It has ended, or it has a step.
    Nothing,
    /// A wake on the word that it sleeps on.
    Word(Object),
    /// Another agent's end.
    End(AgentIx),
    /// A lock that another agent holds.
    Lock(u32),
    /// The clock, which moves only when no agent can.
    Clock,
}

/// The agents of a machine at a moment of choice.
pub trait Agents {
    /// Agents so far, ended ones included.
    fn count(&self) -> usize;

    /// What a choice does to which object.
    fn step(&self, choice: Choice) -> (OpKind, Object);

    /// What `agent` waits for. An agent with a full store buffer may wait for no more than that.
    fn waits_for(&self, agent: AgentIx) -> WaitsFor;
}

/// A moment of choice.
#[derive(Clone, Copy)]
pub struct Point<'a> {
    /// What could happen; at least two entries.
    pub choices: &'a [Choice],
    /// All agents.
    pub agents: &'a dyn Agents,
    /// The agent that moved last, if it can go on.
    pub current: Option<AgentIx>,
    /// Hash of the whole state: memory, store buffers, locks, and each agent's history of observed
    /// values.
    pub state: u64,
    /// Visible steps taken so far in this run.
    pub step: u64,
}

/// Chooses what happens next in an explored machine.
pub trait Controller {
    /// Returns an index into `point.choices`; anything beyond the end counts as 0.
    fn choose(&mut self, point: &Point<'_>) -> usize;

    /// Whether it wants to hear of accesses. Asked once.
    fn observes(&self) -> bool {
        false
    }

    /// `agent` did `op` to `object`. A buffered store is reported when it reaches memory.
    fn touched(&mut self, _agent: AgentIx, _op: OpKind, _object: Object) {}

    /// `agent` loaded `object` from its own store buffer, which is no step.
    fn forwarded(&mut self, _agent: AgentIx, _object: Object) {}
}
