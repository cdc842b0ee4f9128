//! The first stage of the check: a list while it is recorded. The initial state of a resource is
//! unknown, so the list's first barrier is trusted. Uses before that barrier are kept for the
//! second stage, which knows the state.

use crate::model::CommandListType;
use crate::states::aliasing::AliasEvent;
use crate::states::facts::{ResourceFacts, key};
use crate::states::flags::ResourceStates;
use crate::states::policy::TypeClass;
use crate::states::subresource::{BarrierPhase, Held, Transition};
use crate::states::violation::{CommandSite, StateRule, StateViolation};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A closed list, for the second stage.
#[derive(Debug)]
pub(crate) struct ListStates {
    pub(crate) class: TypeClass,
    pub(crate) resources: Vec<RecordedResource>,
    pub(crate) aliasing: Vec<(AliasEvent, CommandSite)>,
}

/// The uses of a resource in a list.
#[derive(Debug)]
pub(crate) struct RecordedResource {
    pub(crate) facts: Arc<ResourceFacts>,
    pub(crate) subresources: Vec<RecordedSubresource>,
}

/// The uses of a subresource in a list.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordedSubresource {
    /// The uses before the first barrier: each set of states once, with its first command.
    pub(crate) uses: Vec<(ResourceStates, CommandSite)>,
    pub(crate) first_barrier: Option<(Transition, CommandSite)>,
    /// The state at the end, if the list has a barrier.
    pub(crate) held: Option<Held>,
    /// The first command that touches it.
    pub(crate) first: Option<CommandSite>,
    /// The first command that writes it or changes its state.
    pub(crate) exclusive: Option<CommandSite>,
}

/// Every subresource, or a range of them.
#[derive(Clone, Debug)]
pub(crate) enum Subresources {
    All,
    One(u32),
}

/// A list that is being recorded.
#[derive(Debug)]
pub(crate) struct StateRecording {
    class: TypeClass,
    /// In the order of their first use.
    resources: Vec<RecordedResource>,
    /// The index of each resource in `resources`, by key.
    numbers: BTreeMap<usize, usize>,
    aliasing: Vec<(AliasEvent, CommandSite)>,
    /// Placed resources used since the last aliasing barrier.
    placed_uses: Vec<usize>,
    violations: Vec<StateViolation>,
}

impl StateRecording {
    pub(crate) fn new(list_type: CommandListType) -> StateRecording {
        StateRecording {
            class: TypeClass::of(list_type),
            resources: Vec::new(),
            numbers: BTreeMap::new(),
            aliasing: Vec::new(),
            placed_uses: Vec::new(),
            violations: Vec::new(),
        }
    }

    /// Records that a command uses subresources in the states `need`.
    pub(crate) fn use_in(
        &mut self,
        facts: &Arc<ResourceFacts>,
        which: &Subresources,
        need: ResourceStates,
        site: &CommandSite,
    ) {
        if facts.place.is_some() && !self.placed_uses.contains(&key(facts)) {
            self.placed_uses.push(key(facts));
            self.aliasing.push((AliasEvent::Use(Arc::clone(facts)), site.clone()));
        }
        let class = self.class;
        self.each(
            facts,
            which,
            |sub| {
                sub.touch(site, need.writes());
                sub.use_in(facts, need, class, site).map_err(|(rule, found)| (rule, need, found))
            },
            site,
        );
    }

    /// Records a transition barrier.
    pub(crate) fn transition(
        &mut self,
        facts: &Arc<ResourceFacts>,
        which: &Subresources,
        transition: Transition,
        site: &CommandSite,
    ) {
        let class = self.class;
        self.each(
            facts,
            which,
            |sub| {
                sub.touch(site, true);
                let done = sub.transition(transition, class, site);
                done.map_err(|(rule, found)| (rule, transition.before, found))
            },
            site,
        );
    }

    /// Records an aliasing barrier.
    pub(crate) fn alias(
        &mut self,
        before: Option<&Arc<ResourceFacts>>,
        after: Option<&Arc<ResourceFacts>>,
        site: &CommandSite,
    ) {
        self.placed_uses.clear();
        let event = AliasEvent::Barrier(before.cloned(), after.cloned());
        self.aliasing.push((event, site.clone()));
    }

    /// Applies a change to subresources and keeps the first violation.
    fn each(
        &mut self,
        facts: &Arc<ResourceFacts>,
        which: &Subresources,
        mut change: impl FnMut(
            &mut RecordedSubresource,
        ) -> Result<(), (StateRule, ResourceStates, Option<Held>)>,
        site: &CommandSite,
    ) {
        let number = *self.numbers.entry(key(facts)).or_insert_with(|| {
            self.resources.push(RecordedResource::new(facts));
            self.resources.len() - 1
        });
        let recorded = &mut self.resources[number];
        let range = match *which {
            Subresources::All => 0..facts.subresources as usize,
            Subresources::One(one) => one as usize..one as usize + 1,
        };
        let mut broken = None;
        for (number, sub) in range.clone().zip(&mut recorded.subresources[range]) {
            if let Err(what) = change(sub) {
                broken.get_or_insert((number as u32, what));
            }
        }
        let Some((subresource, (rule, needed, found))) = broken else { return };
        let class = found.as_ref().map_or(self.class, |held| held.class);
        self.violations.push(StateViolation {
            rule,
            resource: facts.name.clone(),
            kind: facts.kind,
            subresource,
            needed,
            found: found.as_ref().map_or(facts.initial, |held| held.states),
            class,
            command: site.clone(),
            earlier: found.and_then(|held| held.by),
            other: None,
            missing_fence: None,
        });
    }

    /// Ends the recording of a list with this name. Returns its uses for the second stage, and the
    /// violations found by the first.
    pub(crate) fn close(mut self, name: Option<&str>) -> (ListStates, Vec<StateViolation>) {
        let name: Option<Arc<str>> = name.map(Arc::from);
        let label = |site: &mut CommandSite| site.list.clone_from(&name);
        self.aliasing.iter_mut().for_each(|(_, site)| label(site));
        let subresources = self.resources.iter_mut().flat_map(|r| &mut r.subresources);
        subresources.for_each(|sub| sub.sites().for_each(label));
        for violation in &mut self.violations {
            label(&mut violation.command);
            violation.earlier.iter_mut().for_each(label);
        }
        let resources = self.resources.into_iter().filter(|r| !r.facts.fixed).collect();
        (ListStates { class: self.class, resources, aliasing: self.aliasing }, self.violations)
    }
}

impl RecordedResource {
    fn new(facts: &Arc<ResourceFacts>) -> RecordedResource {
        let mut subresource = RecordedSubresource::default();
        if facts.fixed {
            subresource.held = Some(Held::initial(facts.initial));
        }
        let subresources = vec![subresource; facts.subresources as usize];
        RecordedResource { facts: Arc::clone(facts), subresources }
    }
}

impl RecordedSubresource {
    pub(crate) fn is_touched(&self) -> bool {
        self.first.is_some()
    }

    fn touch(&mut self, site: &CommandSite, exclusive: bool) {
        self.first.get_or_insert_with(|| site.clone());
        if exclusive {
            self.exclusive.get_or_insert_with(|| site.clone());
        }
    }

    fn use_in(
        &mut self,
        facts: &ResourceFacts,
        need: ResourceStates,
        class: TypeClass,
        site: &CommandSite,
    ) -> Result<(), (StateRule, Option<Held>)> {
        if let Some(held) = &mut self.held {
            if held.permits(facts, need, class) {
                return Ok(());
            }
            let before = held.clone();
            return held.use_in(facts, need, class, site).map_err(|rule| (rule, Some(before)));
        }
        if self.uses.iter().any(|(states, _)| states.contains(need)) {
            return Ok(());
        }
        let together = self.uses.iter().fold(need, |all, (states, _)| all | *states);
        if !together.combine() {
            // No state from before the list permits both uses.
            let earlier = self.uses.iter().find(|(states, _)| !(*states | need).combine());
            let (states, by) = earlier.cloned().expect("a use that does not combine");
            let mut held = Held::initial(states);
            (held.class, held.by) = (class, Some(by));
            return Err((StateRule::NeedsBarrier, Some(held)));
        }
        self.uses.push((need, site.clone()));
        Ok(())
    }

    fn transition(
        &mut self,
        transition: Transition,
        class: TypeClass,
        site: &CommandSite,
    ) -> Result<(), (StateRule, Option<Held>)> {
        if let Some(held) = &mut self.held {
            let before = held.clone();
            return held.transition(transition, class, site).map_err(|rule| (rule, Some(before)));
        }
        let used = self.uses.iter().find(|(states, _)| !transition.before.contains(*states));
        let broken = used.map(|(states, by)| {
            let mut held = Held::initial(*states);
            (held.class, held.by) = (class, Some(by.clone()));
            let ends = transition.phase == BarrierPhase::End;
            let rule = if ends { StateRule::SplitUnmatched } else { StateRule::WrongStateBefore };
            (rule, Some(held))
        });
        if broken.is_none() {
            self.first_barrier = Some((transition, site.clone()));
        }
        self.held = Some(Held::after(transition, class, site));
        broken.map_or(Ok(()), Err)
    }

    fn sites(&mut self) -> impl Iterator<Item = &mut CommandSite> {
        let uses = self.uses.iter_mut().map(|(_, site)| site);
        let barrier = self.first_barrier.iter_mut().map(|(_, site)| site);
        let held = self.held.iter_mut().flat_map(|held| held.by.iter_mut());
        uses.chain(barrier).chain(held).chain(&mut self.first).chain(&mut self.exclusive)
    }
}
