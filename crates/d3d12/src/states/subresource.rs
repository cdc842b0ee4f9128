//! The state of one subresource and its changes by uses and barriers.
//!
//! Each change returns the rule that it breaks. The state is then set as the command requires, so
//! one mistake is reported once.

use crate::states::facts::ResourceFacts;
use crate::states::flags::ResourceStates;
use crate::states::policy::{self, TypeClass};
use crate::states::violation::{CommandSite, StateRule};

/// The part of a transition that a barrier performs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BarrierPhase {
    /// The whole transition.
    #[default]
    Whole,
    /// BEGIN_ONLY: the subresource must not be used until END_ONLY.
    Begin,
    /// END_ONLY: the transition is complete.
    End,
}

/// A transition barrier of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transition {
    pub(crate) before: ResourceStates,
    pub(crate) after: ResourceStates,
    pub(crate) phase: BarrierPhase,
}

/// The state of a subresource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) states: ResourceStates,
    /// The queue type class that the states belong to.
    pub(crate) class: TypeClass,
    /// Set by promotion, not by a barrier.
    pub(crate) promoted: bool,
    /// The states after a split transition that has begun and not ended.
    pub(crate) pending: Option<ResourceStates>,
    /// The command that set the states.
    pub(crate) by: Option<CommandSite>,
}

impl Held {
    // spec: ME-068
    /// Returns the state of a new resource. A copy state at creation belongs to the compute/3D
    /// class.
    pub(crate) fn initial(states: ResourceStates) -> Held {
        Held { states, class: TypeClass::ComputeAnd3D, promoted: false, pending: None, by: None }
    }

    /// Returns whether a use in the states `need` breaks no rule and changes nothing.
    #[inline]
    pub(crate) fn permits(
        &self,
        facts: &ResourceFacts,
        need: ResourceStates,
        class: TypeClass,
    ) -> bool {
        let applies = self.pending.is_none() && !self.states.is_empty() && self.class == class;
        (facts.fixed || applies) && self.states.contains(need)
    }

    /// Applies a use in the states `need` by a command on a queue of `class`.
    // spec: ME-066, ME-070
    pub(crate) fn use_in(
        &mut self,
        facts: &ResourceFacts,
        need: ResourceStates,
        class: TypeClass,
        site: &CommandSite,
    ) -> Result<(), StateRule> {
        if self.permits(facts, need, class) {
            return Ok(());
        }
        if facts.fixed {
            return Err(StateRule::FixedState);
        }
        if self.pending.is_some() {
            return Err(StateRule::SplitPending);
        }
        if self.states.is_empty() {
            let known = policy::promotable(facts.kind).contains(need);
            self.promote(need, class, site);
            return if known { Ok(()) } else { Err(StateRule::NotPromoted) };
        }
        // Copy queues and compute/3D queues share only the state COMMON.
        // spec: ME-067, ME-069
        if self.class != class {
            self.promote(need, class, site);
            return Err(StateRule::WrongClass);
        }
        let more_reads = self.promoted && !self.states.writes() && !need.writes();
        if more_reads && policy::promotable(facts.kind).contains(need) {
            self.states |= need;
            return Ok(());
        }
        let rule = if self.promoted { StateRule::NeedsBarrier } else { StateRule::WrongState };
        Err(rule)
    }

    fn promote(&mut self, to: ResourceStates, class: TypeClass, site: &CommandSite) {
        *self = Held { states: to, class, promoted: true, pending: None, by: Some(site.clone()) };
    }

    /// Applies a barrier on a queue of `class`.
    pub(crate) fn transition(
        &mut self,
        transition: Transition,
        class: TypeClass,
        site: &CommandSite,
    ) -> Result<(), StateRule> {
        let Transition { before, after, phase } = transition;
        let found = match (phase, self.pending) {
            (BarrierPhase::End, Some(begun)) if begun == after && self.states == before => Ok(()),
            (BarrierPhase::End, _) => Err(StateRule::SplitUnmatched),
            (_, Some(_)) => Err(StateRule::SplitPending),
            (_, None) if !self.states.is_empty() && self.class != class => {
                Err(StateRule::WrongClass)
            }
            (_, None) if self.states != before => Err(StateRule::WrongStateBefore),
            (_, None) => Ok(()),
        };
        *self = Held::after(transition, class, site);
        found
    }

    /// Returns the state after a barrier.
    pub(crate) fn after(transition: Transition, class: TypeClass, site: &CommandSite) -> Held {
        let Transition { before, after, phase } = transition;
        let begins = phase == BarrierPhase::Begin;
        Held {
            states: if begins { before } else { after },
            class,
            promoted: false,
            pending: begins.then_some(after),
            by: Some(site.clone()),
        }
    }

    /// Applies the end of an ExecuteCommandLists call that used the subresource on a queue of
    /// `class`.
    pub(crate) fn complete(&mut self, facts: &ResourceFacts, class: TypeClass) {
        let decays = policy::decays(facts.kind, class, self.states, self.promoted);
        if decays && !facts.fixed && self.pending.is_none() {
            self.states = ResourceStates::COMMON;
            self.promoted = false;
        }
    }
}
