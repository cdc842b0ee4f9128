//! The choices of agents that are searched together: all agents of a machine, or one group that
//! shares nothing with others.
//!
//! Invariants: a run of a systematic search repeats the previous one up to the strategy's last
//! node. Up to there the choices are taken from the previous run, without the strategy and without
//! the reduction. Beyond a known state the run is only finished.
//!
//! Entry points: [`Lane::begin_run`], [`Lane::choose`].

use crate::sharing::{Sharing, bit};
use crate::strategy::Strategy;
use tidegate_platform::{AgentIx, Agents, Choice, Object, OpKind, Point, Site, WaitsFor};

/// A node of the strategy on the way of the current run.
struct Branch {
    /// Number of choices before it.
    at: usize,
    /// The choices that the strategy was offered: an end index in [`Lane::offered`].
    end: usize,
    current: Option<AgentIx>,
    mover: Option<AgentIx>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The choices repeat the previous run.
    Repeats,
    Searches,
    /// The rest of the run only finishes it.
    Finishes,
}

/// The choices of one group of agents.
pub(crate) struct Lane {
    /// The agents as bits.
    pub(crate) agents: u64,
    /// Scratch space of the caller: the choices of this group.
    pub(crate) choices: Vec<Choice>,
    phase: Phase,
    /// Number of choices so far.
    at: usize,
    /// The choices of the run, up to the last known state.
    taken: Vec<Choice>,
    branches: Vec<Branch>,
    offered: Vec<Choice>,
    /// The agent that the strategy last selected.
    mover: Option<AgentIx>,
    /// Scratch space: the choices offered to the strategy.
    order: Vec<Choice>,
}

impl Lane {
    pub(crate) fn of(agents: u64) -> Lane {
        Lane {
            agents,
            choices: Vec::new(),
            phase: Phase::Searches,
            at: 0,
            taken: Vec::new(),
            branches: Vec::new(),
            offered: Vec::new(),
            mover: None,
            order: Vec::new(),
        }
    }

    /// Begins a run, which repeats the previous one up to the strategy's last node.
    pub(crate) fn begin_run(
        &mut self,
        group: usize,
        strategy: &impl Strategy,
        sharing: &mut Option<Sharing>,
    ) {
        self.mover = None;
        self.at = 0;
        self.branches.truncate(strategy.resumes_at(group).unwrap_or(0));
        let last = self.branches.last();
        self.taken.truncate(last.map_or(0, |branch| branch.at));
        self.offered.truncate(last.map_or(0, |branch| branch.end));
        self.phase = match (last, strategy.is_finishing(group)) {
            (_, true) => Phase::Finishes,
            (Some(_), false) => Phase::Repeats,
            (None, false) => Phase::Searches,
        };
        if let (Some(sharing), true) = (sharing, self.phase != Phase::Searches) {
            sharing.set_repeating(self.agents, true);
        }
    }

    /// Returns the index of a choice; an error if the run does not repeat the previous one.
    pub(crate) fn choose(
        &mut self,
        group: usize,
        strategy: &mut impl Strategy,
        sharing: &mut Option<Sharing>,
        point: &Point<'_>,
    ) -> Result<usize, ()> {
        if self.phase == Phase::Finishes {
            return Ok(strategy.choose_in(group, point));
        }
        let chosen = match self.phase {
            Phase::Repeats => self.repeat(group, strategy, sharing, point)?,
            _ => self.search(group, strategy, sharing, point),
        };
        self.at += 1;
        if self.phase == Phase::Searches && strategy.resumes_at(group).is_some() {
            let choice = point.choices.get(chosen).unwrap_or(&point.choices[0]);
            self.taken.push(*choice);
        }
        if strategy.is_finishing(group) {
            self.phase = Phase::Finishes;
            if let Some(sharing) = sharing {
                sharing.set_repeating(self.agents, true);
            }
        }
        Ok(chosen)
    }

    /// Repeats a choice of the previous run. At the last node, the strategy chooses next.
    fn repeat(
        &mut self,
        group: usize,
        strategy: &mut impl Strategy,
        sharing: &mut Option<Sharing>,
        point: &Point<'_>,
    ) -> Result<usize, ()> {
        let place = |choice: &Choice| point.choices.iter().position(|c| c == choice);
        let index = if let Some(choice) = self.taken.get(self.at) {
            place(choice)
        } else {
            self.phase = Phase::Searches;
            if let Some(sharing) = sharing {
                sharing.set_repeating(self.agents, false);
            }
            let before = self.branches.iter().rev().nth(1).map_or(0, |branch| branch.end);
            let offered = &self.offered[before..];
            let last = self.branches.last().ok_or(())?;
            self.mover = last.mover;
            let node = Point { choices: offered, current: last.current, ..*point };
            let chosen = strategy.choose_in(group, &node);
            let chosen = *offered.get(chosen).unwrap_or(&offered[0]);
            self.note_mover(chosen);
            place(&chosen)
        };
        index.ok_or_else(|| self.phase = Phase::Finishes)
    }

    fn search(
        &mut self,
        group: usize,
        strategy: &mut impl Strategy,
        sharing: &mut Option<Sharing>,
        point: &Point<'_>,
    ) -> usize {
        let Some(sharing) = sharing else {
            return self.choose_at_node(group, strategy, point.choices, point.current, point);
        };
        if let Some(index) = sharing.commuting(point) {
            return index;
        }
        let found = matches!(point.choices[0], Choice::Find(..));
        let counts = strategy.counts_switches();
        let closed = if found || counts { None } else { sharing.closed_group(point) };
        let index = if closed.is_none() && self.mover == point.current || found {
            self.choose_at_node(group, strategy, point.choices, point.current, point)
        } else {
            self.choose_among(closed.unwrap_or(u64::MAX), group, strategy, point)
        };
        if let Some(choice) = point.choices.get(index) {
            self.note_mover(*choice);
        }
        index
    }

    fn note_mover(&mut self, choice: Choice) {
        if let Choice::Run(agent) = choice {
            self.mover = Some(agent);
        }
    }

    /// Leaves a choice to the strategy, and keeps its node.
    fn choose_at_node(
        &mut self,
        group: usize,
        strategy: &mut impl Strategy,
        choices: &[Choice],
        current: Option<AgentIx>,
        point: &Point<'_>,
    ) -> usize {
        let chosen = strategy.choose_in(group, &Point { choices, current, ..*point });
        if strategy.resumes_at(group).is_some_and(|nodes| nodes > self.branches.len()) {
            self.offered.extend_from_slice(choices);
            let (at, end, mover) = (self.at, self.offered.len(), self.mover);
            self.branches.push(Branch { at, end, current, mover });
        }
        chosen
    }

    /// Leaves the choice among the agents of `closed` to the strategy. Steps made without the
    /// strategy are no switches, so the choices are ordered as if those steps had not happened.
    fn choose_among(
        &mut self,
        closed: u64,
        group: usize,
        strategy: &mut impl Strategy,
        point: &Point<'_>,
    ) -> usize {
        let mover = self.mover;
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        order.extend(point.choices.iter().filter(|choice| closed & bit(choice.agent()) != 0));
        order.sort_by_key(|choice| {
            let flushes = matches!(choice, Choice::Flush(_));
            (flushes, Some(choice.agent()) != mover, choice.agent())
        });
        let current = mover.filter(|agent| order[0] == Choice::Run(*agent));
        let chosen = match order.len() {
            1 => 0,
            _ => self.choose_at_node(group, strategy, &order, current, point),
        };
        let chosen = *order.get(chosen).unwrap_or(&order[0]);
        self.order = order;
        point.choices.iter().position(|choice| *choice == chosen).unwrap_or(0)
    }
}

/// A machine whose state is the state of one group of agents.
pub(crate) struct Group<'a> {
    pub(crate) all: &'a dyn Agents,
    pub(crate) agents: u64,
}

impl Agents for Group<'_> {
    fn state(&self) -> u64 {
        self.all.state_of(self.agents)
    }

    fn state_of(&self, agents: u64) -> u64 {
        self.all.state_of(agents)
    }

    fn count(&self) -> usize {
        self.all.count()
    }

    fn step(&self, choice: Choice) -> (OpKind, Object) {
        self.all.step(choice)
    }

    fn site(&self, choice: Choice) -> Site {
        self.all.site(choice)
    }

    fn waits_for(&self, agent: AgentIx) -> WaitsFor {
        self.all.waits_for(agent)
    }
}
