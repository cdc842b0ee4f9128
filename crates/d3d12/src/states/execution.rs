//! The second stage of the check: checks executed lists against the states of the resources at that
//! time.
//!
//! Submissions are applied in an order in which they can run: a queue stops at a wait until a
//! satisfying signal has been applied. A fence orders two submissions if the earlier one is known
//! at the signal and the signal is the first that satisfies the wait. A fence value seen by a CPU
//! thread orders later submissions. All CPU threads count as one.

use crate::states::aliasing::{AliasEvent, HeapOwners};
use crate::states::facts::{ResourceFacts, key};
use crate::states::flags::ResourceStates;
use crate::states::order::{Clock, FenceSignals, Stamp};
use crate::states::policy::TypeClass;
use crate::states::recording::{ListStates, RecordedSubresource};
use crate::states::subresource::Held;
use crate::states::violation::{CommandSite, MissingFence, StateRule, StateViolation};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Weak};

/// Number of violations kept until they are taken. Further ones are only counted.
const MOST_VIOLATIONS: usize = 1024;

/// A call of a queue.
enum Work {
    Execute(Vec<Arc<ListStates>>),
    Signal(u32, u64),
    Wait { fence: u32, value: u64, mark: u64 },
    Present(Arc<ResourceFacts>),
}

struct QueueWork {
    name: Arc<str>,
    /// Pending calls, each with the CPU's clock at the time of the call.
    waiting: VecDeque<(Work, Clock)>,
    known: Clock,
    units: u64,
}

/// The last access of a queue to a subresource.
struct Access {
    stamp: Stamp,
    exclusive: bool,
    site: CommandSite,
}

struct Subresource {
    held: Held,
    accesses: Vec<Access>,
}

struct Resource {
    facts: Weak<ResourceFacts>,
    subresources: Vec<Subresource>,
}

/// The resources that queues have used. Destroyed ones are dropped periodically.
#[derive(Default)]
struct Resources {
    by_key: BTreeMap<usize, Resource>,
    sweep_at: usize,
}

impl Resources {
    fn of(&mut self, facts: &Arc<ResourceFacts>) -> &mut Resource {
        if self.by_key.len() >= self.sweep_at {
            self.by_key.retain(|_, resource| resource.facts.strong_count() > 0);
            self.sweep_at = 64.max(2 * self.by_key.len());
        }
        self.by_key.entry(key(facts)).or_insert_with(|| {
            let new = || Subresource { held: Held::initial(facts.initial), accesses: Vec::new() };
            let subresources = (0..facts.subresources).map(|_| new()).collect();
            Resource { facts: Arc::downgrade(facts), subresources }
        })
    }
}

/// An event armed for a fence value.
struct Armed {
    fence: u32,
    value: u64,
    is_reached: Box<dyn Fn() -> bool + Send>,
}

/// The resource states of a device, in the order of its queues.
#[derive(Default)]
pub(crate) struct DeviceStates {
    /// Queue numbers by key, see [`DeviceStates::queue`].
    numbers: BTreeMap<u64, usize>,
    queues: Vec<QueueWork>,
    fences: BTreeMap<u32, FenceSignals>,
    resources: Resources,
    heaps: HeapOwners,
    /// The submissions that the CPU knows to be complete.
    host: Clock,
    armed: Vec<Armed>,
    violations: Vec<StateViolation>,
    left_out: u64,
}

impl DeviceStates {
    /// Returns the number of the queue with this key.
    fn queue(&mut self, key: u64, name: &str) -> usize {
        *self.numbers.entry(key).or_insert_with(|| {
            let queue = QueueWork {
                name: Arc::from(name),
                waiting: VecDeque::new(),
                known: Clock::default(),
                units: 0,
            };
            self.queues.push(queue);
            self.queues.len() - 1
        })
    }

    fn give(&mut self, (key, name): (u64, &str), work: Work) {
        self.collect_armed();
        let number = self.queue(key, name);
        self.queues[number].waiting.push_back((work, self.host.clone()));
        self.advance();
    }

    pub(crate) fn execute(&mut self, queue: (u64, &str), lists: Vec<Arc<ListStates>>) {
        self.give(queue, Work::Execute(lists));
    }

    pub(crate) fn signal(&mut self, queue: (u64, &str), fence: u32, value: u64) {
        self.give(queue, Work::Signal(fence, value));
    }

    pub(crate) fn wait(&mut self, queue: (u64, &str), fence: u32, value: u64) {
        let mark = self.fences.get(&fence).map_or(0, FenceSignals::mark);
        self.give(queue, Work::Wait { fence, value, mark });
    }

    pub(crate) fn present(&mut self, queue: (u64, &str), back_buffer: &Arc<ResourceFacts>) {
        self.give(queue, Work::Present(Arc::clone(back_buffer)));
    }

    /// Adds a fence. `external`: other devices may signal it.
    pub(crate) fn add_fence(&mut self, fence: u32, initial: u64, external: bool) {
        self.fences.insert(fence, FenceSignals::new(initial, external));
    }

    /// Applies a signal by a CPU thread.
    pub(crate) fn cpu_signal(&mut self, fence: u32, value: u64) {
        self.collect_armed();
        let host = self.host.clone();
        if let Some(fence) = self.fences.get_mut(&fence) {
            fence.signal(value, host);
        }
        self.advance();
    }

    /// Records that a CPU thread has seen `value` of a fence.
    pub(crate) fn cpu_reached(&mut self, fence: u32, value: u64) {
        let Some(known) = self.known_at(fence, value, self.mark_of(fence)) else { return };
        self.host.join(&known);
    }

    /// Records that a CPU thread has seen an idle queue.
    pub(crate) fn cpu_idle(&mut self, key: u64) {
        if let Some(number) = self.numbers.get(&key) {
            self.host.join(&self.queues[*number].known);
        }
    }

    /// Records that an event is armed for a fence value.
    pub(crate) fn arm(&mut self, fence: u32, value: u64, is_reached: Box<dyn Fn() -> bool + Send>) {
        self.armed.push(Armed { fence, value, is_reached });
    }

    /// Applies the armed events whose value is reached, as values seen by the CPU.
    fn collect_armed(&mut self) {
        for armed in std::mem::take(&mut self.armed) {
            if (armed.is_reached)() {
                self.cpu_reached(armed.fence, armed.value);
            } else {
                self.armed.push(armed);
            }
        }
    }

    /// Takes the violations found, and returns how many more were only counted.
    pub(crate) fn take(&mut self) -> (Vec<StateViolation>, u64) {
        (std::mem::take(&mut self.violations), std::mem::take(&mut self.left_out))
    }

    /// Returns the violations found and not yet taken.
    pub(crate) fn violations(&self) -> &[StateViolation] {
        &self.violations
    }

    pub(crate) fn report(&mut self, violation: StateViolation) {
        if self.violations.len() < MOST_VIOLATIONS {
            self.violations.push(violation);
        } else {
            self.left_out += 1;
        }
    }

    fn mark_of(&self, fence: u32) -> u64 {
        self.fences.get(&fence).map_or(0, FenceSignals::mark)
    }

    /// Returns the clock of a wait when it is satisfied; `None` while it is not. For external and
    /// unknown fences everything counts as known, because their signals cannot be checked.
    fn known_at(&self, fence: u32, value: u64, mark: u64) -> Option<Clock> {
        match self.fences.get(&fence) {
            Some(signals) if !signals.external => signals.reached(value, mark).cloned(),
            Some(_) | None => {
                let mut all = Clock::default();
                self.queues.iter().for_each(|queue| all.join(&queue.known));
                Some(all)
            }
        }
    }

    /// Applies all calls that can run.
    fn advance(&mut self) {
        let mut ran = true;
        while ran {
            ran = false;
            for number in 0..self.queues.len() {
                while self.run_next(number) {
                    ran = true;
                }
            }
        }
    }

    /// Applies the next call of a queue. Returns `false` if none can run.
    fn run_next(&mut self, number: usize) -> bool {
        let reached = match self.queues[number].waiting.front() {
            None => return false,
            Some((Work::Wait { fence, value, mark }, _)) => {
                match self.known_at(*fence, *value, *mark) {
                    Some(known) => Some(known),
                    None => return false,
                }
            }
            Some(_) => None,
        };
        let queue = &mut self.queues[number];
        let (work, host) = queue.waiting.pop_front().expect("the front was there");
        queue.known.join(&host);
        if let Some(known) = reached {
            queue.known.join(&known);
        }
        match work {
            Work::Wait { .. } => {}
            Work::Signal(fence, value) => {
                let known = queue.known.clone();
                if let Some(fence) = self.fences.get_mut(&fence) {
                    fence.signal(value, known);
                }
            }
            Work::Execute(lists) => self.run_lists(number, &lists),
            Work::Present(facts) => self.run_present(number, &facts),
        }
        true
    }

    fn run_lists(&mut self, number: usize, lists: &[Arc<ListStates>]) {
        let queue = &mut self.queues[number];
        queue.units += 1;
        let stamp = Stamp { queue: number, unit: queue.units };
        queue.known.reach(stamp);
        let mut touched = BTreeSet::new();
        for list in lists {
            self.run_aliasing(number, list);
            for recorded in &list.resources {
                let facts = &recorded.facts;
                let subresources = recorded.subresources.iter().enumerate();
                // Of the subresources that a command uses wrongly, only the first is reported.
                let mut reported: Vec<(StateRule, u32)> = Vec::new();
                for (at, sub) in subresources.filter(|(_, sub)| sub.is_touched()) {
                    touched.insert((key(facts), at));
                    let found = self.run_subresource(stamp, facts, at, sub, list.class);
                    let Some(violation) = found else { continue };
                    let what = (violation.rule, violation.command.command);
                    if !reported.contains(&what) {
                        reported.push(what);
                        self.report(violation);
                    }
                }
            }
        }
        let Some(class) = lists.first().map(|list| list.class) else { return };
        for (id, at) in touched {
            let resource = self.resources.by_key.get_mut(&id).expect("it was used just now");
            if let Some(facts) = resource.facts.upgrade() {
                resource.subresources[at].held.complete(&facts, class);
            }
        }
    }

    fn run_aliasing(&mut self, number: usize, list: &ListStates) {
        let name = Arc::clone(&self.queues[number].name);
        for (event, site) in &list.aliasing {
            let site = on_queue(site, &name);
            let Some((owner, earlier)) = self.heaps.apply(event, &site) else { continue };
            let AliasEvent::Use(facts) = event else { continue };
            self.report(StateViolation {
                rule: StateRule::Aliased,
                resource: facts.name.clone(),
                kind: facts.kind,
                subresource: 0,
                needed: facts.initial,
                found: facts.initial,
                class: list.class,
                command: site,
                earlier: Some(earlier),
                other: Some(owner.name.clone()),
                missing_fence: None,
            });
        }
    }

    /// Applies a list's uses of a subresource. Returns the first violation.
    fn run_subresource(
        &mut self,
        stamp: Stamp,
        facts: &Arc<ResourceFacts>,
        at: usize,
        recorded: &RecordedSubresource,
        class: TypeClass,
    ) -> Option<StateViolation> {
        let DeviceStates { queues, resources, .. } = self;
        let (name, known) = (&queues[stamp.queue].name, &queues[stamp.queue].known);
        let sub = &mut resources.of(facts).subresources[at];
        let mut broken: Option<Broken> = None;
        let exclusive = recorded.exclusive.is_some();
        let unordered = sub.unordered(facts, known, exclusive);

        for (need, site) in &recorded.uses {
            let (site, before) = (on_queue(site, name), sub.held.clone());
            if let Err(rule) = sub.held.use_in(facts, *need, class, &site) {
                broken.get_or_insert(Broken::new(rule, *need, before, site));
            }
        }
        if let Some((transition, site)) = &recorded.first_barrier {
            let (site, before) = (on_queue(site, name), sub.held.clone());
            if let Err(rule) = sub.held.transition(*transition, class, &site) {
                broken.get_or_insert(Broken::new(rule, transition.before, before, site));
            }
        }
        if let Some(held) = &recorded.held {
            sub.held = held.clone();
            sub.held.by = held.by.as_ref().map(|site| on_queue(site, name));
        }

        let missing = unordered.as_ref().map(|(from, _)| MissingFence {
            signal: Arc::clone(&queues[from.queue].name),
            wait: Arc::clone(name),
        });
        if let (None, Some((_, earlier))) = (&broken, &unordered) {
            let first = recorded.exclusive.as_ref().or(recorded.first.as_ref());
            let site = on_queue(first.expect("the subresource is touched"), name);
            let need = recorded.uses.first().map(|(need, _)| *need);
            let need = need.or(recorded.first_barrier.as_ref().map(|(t, _)| t.before));
            let mut of =
                Broken::new(StateRule::Unordered, need.unwrap_or_default(), sub.held.clone(), site);
            of.found.by = Some(earlier.clone());
            broken = Some(of);
        }
        sub.note_access(stamp, known, recorded, name);
        let Broken { rule, needed, found, site } = broken?;
        Some(StateViolation {
            rule,
            resource: facts.name.clone(),
            kind: facts.kind,
            subresource: at as u32,
            needed,
            found: found.states,
            class: found.class,
            command: site,
            earlier: found.by,
            other: None,
            missing_fence: missing,
        })
    }

    // spec: ME-075
    fn run_present(&mut self, number: usize, facts: &Arc<ResourceFacts>) {
        let name = Arc::clone(&self.queues[number].name);
        let sub = &self.resources.of(facts).subresources[0];
        let (mut held, mut rule) = (sub.held.clone(), StateRule::PresentState);
        let unordered = sub.unordered(facts, &self.queues[number].known, false);
        let missing_fence = unordered.as_ref().map(|(from, _)| MissingFence {
            signal: Arc::clone(&self.queues[from.queue].name),
            wait: Arc::clone(&name),
        });
        if held.states.is_empty() && held.pending.is_none() {
            let Some((_, earlier)) = unordered else { return };
            (rule, held.by) = (StateRule::Unordered, Some(earlier));
        }
        let command = CommandSite { queue: Some(name), list: None, command: 0, kind: "Present" };
        self.report(StateViolation {
            rule,
            resource: facts.name.clone(),
            kind: facts.kind,
            subresource: 0,
            needed: ResourceStates::PRESENT,
            found: held.states,
            class: held.class,
            command,
            earlier: held.by,
            other: None,
            missing_fence,
        });
    }
}

struct Broken {
    rule: StateRule,
    needed: ResourceStates,
    found: Held,
    site: CommandSite,
}

impl Broken {
    fn new(rule: StateRule, needed: ResourceStates, found: Held, site: CommandSite) -> Broken {
        Broken { rule, needed, found, site }
    }
}

impl Subresource {
    /// Returns an access of another queue that no fence orders before this one, where one of the
    /// two writes or changes the state. Several queues may use parts of buffers and
    /// simultaneous-access textures; the state rules do not cover whether those parts overlap.
    fn unordered(
        &self,
        facts: &ResourceFacts,
        known: &Clock,
        exclusive: bool,
    ) -> Option<(Stamp, CommandSite)> {
        if facts.kind.is_simultaneous() {
            return None;
        }
        let conflict =
            |access: &&Access| (access.exclusive || exclusive) && !known.covers(access.stamp);
        self.accesses.iter().find(conflict).map(|access| (access.stamp, access.site.clone()))
    }

    fn note_access(
        &mut self,
        stamp: Stamp,
        known: &Clock,
        recorded: &RecordedSubresource,
        queue: &Arc<str>,
    ) {
        let exclusive = recorded.exclusive.is_some();
        self.accesses.retain(|access| match exclusive {
            true => !known.covers(access.stamp),
            false => access.exclusive || access.stamp.queue != stamp.queue,
        });
        let site = recorded.exclusive.as_ref().or(recorded.first.as_ref());
        let site = on_queue(site.expect("the subresource is touched"), queue);
        self.accesses.push(Access { stamp, exclusive, site });
    }
}

fn on_queue(site: &CommandSite, queue: &Arc<str>) -> CommandSite {
    CommandSite { queue: Some(Arc::clone(queue)), ..site.clone() }
}
