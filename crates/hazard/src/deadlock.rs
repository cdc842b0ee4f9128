//! Deadlocks: circles of waits, and waits without a signal, each with its chain.
//!
//! The input is the waiters and the signals that each would make after its wait. The search is
//! independent of queues, files and clocks: the caller names the waiters and the places.
//!
//! Invariant: each waiter has one release, so each component of the graph has one root: a circle,
//! or a wait without a signal. There is one finding per root.
//!
//! Entry points: [`find`] with the rule of [`Match`]; [`Deadlock`], the finding.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// Maximum number of chain links shown. The middle of a longer chain is omitted.
const SHOWN_LINKS: usize = 8;
/// Maximum number of waits outside the chain shown.
const SHOWN_OTHERS: usize = 5;

/// A fence of the search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FenceState<P> {
    /// Its name.
    pub name: String,
    /// Its value, if the caller knows it.
    pub current: Option<u64>,
    /// The highest value of all signals, including queued ones, and the place of that signal.
    pub highest: Option<(u64, P)>,
}

/// A waiter: a queue at a wait, or a thread.
#[derive(Clone, Debug)]
pub struct Waiter<P> {
    /// Its kind: `queue`, `thread`.
    pub noun: &'static str,
    /// Its name.
    pub name: String,
    /// The place of its wait.
    pub at: P,
    /// The condition that ends its wait.
    pub awaits: Awaits,
    /// The signals after its wait, in order.
    pub signals: Vec<QueuedSignal<P>>,
}

/// The condition that ends a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Awaits {
    /// The fence of this index reaches the value.
    Fence(usize, u64),
    /// Progress of a queue.
    Progress {
        /// The awaited progress, in words.
        what: String,
        /// The index of the queue among the waiters, if it waits.
        queue: Option<usize>,
    },
    /// Any other condition, in words.
    Other(String),
}

/// A signal after a wait.
#[derive(Clone, Debug)]
pub struct QueuedSignal<P> {
    /// The index of its fence.
    pub fence: usize,
    /// Its value.
    pub value: u64,
    /// Its place.
    pub at: P,
    /// Whether the wait is for room to queue this signal.
    pub is_the_wait: bool,
}

/// The signals that count as the release of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// Signals of the awaited value or a higher one, for waiters that can no longer progress.
    Reaches,
    /// Signals of exactly the awaited value, for a program that still submits.
    Exact,
}

/// The kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadlockKind {
    /// Each wait of the chain is released by a signal after the next wait, and the last by one
    /// after the first.
    Circle,
    /// No signal ends the last wait of the chain.
    Unsignalled,
}

/// Waits that block each other, or that have no signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// Circle or missing signal.
    pub kind: DeadlockKind,
    /// The waits. Each is released by the waiter of the next link.
    pub chain: Vec<WaitLink>,
    /// Waits outside the chain that depend on it.
    pub others: Vec<WaitLink>,
}

/// A wait of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitLink {
    /// The kind of waiter: `queue`, `thread`.
    pub noun: &'static str,
    /// Its name.
    pub waiter: String,
    /// The place of the wait.
    pub place: Place,
    /// The awaited condition.
    pub awaits: Awaited,
    /// The release that would end it.
    pub release: Release,
}

/// The place of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Place {
    /// Not known.
    #[default]
    Unknown,
    /// A line of a file.
    Line(String),
    /// On a queue, after the submission with this number; 0 is before the first.
    Submission(u32),
}

/// The condition that a waiter awaits, with names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// A fence and a value.
    Fence {
        /// The fence.
        fence: String,
        /// The value that it must reach.
        value: u64,
        /// Its present value, if known.
        current: Option<u64>,
    },
    /// Something else, in words.
    Other(String),
}

/// The release that would end a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Release {
    /// A signal after the wait of another waiter.
    Signal {
        /// The kind of that waiter.
        noun: &'static str,
        /// Its name.
        signaller: String,
        /// The place of the signal.
        place: Place,
        /// Its value.
        value: u64,
        /// Whether it is after a wait, rather than itself waiting for room.
        behind_wait: bool,
    },
    /// Progress of a queue that waits.
    Progress(String),
    /// No signal. Holds the highest signal of the fence, if any.
    Missing(Option<(u64, Place)>),
}

/// The release of a waiter, by indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// A signal of a waiter.
    Signal {
        waiter: usize,
        signal: usize,
    },
    /// The progress of a waiter.
    Progress(usize),
    Missing,
}

impl Next {
    fn waiter(self) -> Option<usize> {
        match self {
            Next::Signal { waiter, .. } | Next::Progress(waiter) => Some(waiter),
            Next::Missing => None,
        }
    }
}

// spec: ME-051
/// Finds the deadlocks among waiters: the shortest circle first, then the longest chain.
pub fn find<P>(
    waiters: &[Waiter<P>],
    fences: &[FenceState<P>],
    rule: Match,
    place: impl Fn(&P) -> Place,
) -> Vec<Deadlock> {
    let next = releases(waiters, rule);
    let link = |index: &usize| {
        let waiter = &waiters[*index];
        let release = match next[*index] {
            Next::Signal { waiter: by, signal } => {
                let signal = &waiters[by].signals[signal];
                Release::Signal {
                    noun: waiters[by].noun,
                    signaller: waiters[by].name.clone(),
                    place: place(&signal.at),
                    value: signal.value,
                    behind_wait: !signal.is_the_wait,
                }
            }
            Next::Progress(by) => Release::Progress(waiters[by].name.clone()),
            Next::Missing => Release::Missing(match waiter.awaits {
                Awaits::Fence(fence, _) => {
                    fences[fence].highest.as_ref().map(|(value, at)| (*value, place(at)))
                }
                Awaits::Progress { .. } | Awaits::Other(_) => None,
            }),
        };
        let awaits = match &waiter.awaits {
            Awaits::Fence(fence, value) => {
                let FenceState { name, current, .. } = &fences[*fence];
                Awaited::Fence { fence: name.clone(), value: *value, current: *current }
            }
            Awaits::Progress { what, .. } | Awaits::Other(what) => Awaited::Other(what.clone()),
        };
        let (noun, name) = (waiter.noun, waiter.name.clone());
        WaitLink { noun, waiter: name, place: place(&waiter.at), awaits, release }
    };
    let mut found: Vec<(DeadlockKind, Vec<usize>, Vec<usize>)> = parts(&next);
    found.sort_by_key(|(kind, chain, _)| match kind {
        DeadlockKind::Circle => (0, chain.len(), chain[0]),
        DeadlockKind::Unsignalled => (1, usize::MAX - chain.len(), chain[0]),
    });
    let links = |of: &[usize]| of.iter().map(link).collect();
    found
        .iter()
        .map(|(kind, chain, others)| Deadlock {
            kind: *kind,
            chain: links(chain),
            others: links(others),
        })
        .collect()
}

/// Returns the first release of each waiter.
fn releases<P>(waiters: &[Waiter<P>], rule: Match) -> Vec<Next> {
    let mut behind: HashMap<usize, Vec<(u64, usize, usize)>> = HashMap::new();
    for (waiter, of) in waiters.iter().enumerate() {
        for (number, signal) in of.signals.iter().enumerate() {
            behind.entry(signal.fence).or_default().push((signal.value, waiter, number));
        }
    }
    let release = |waiter: &Waiter<P>| match &waiter.awaits {
        Awaits::Fence(fence, value) => {
            let ends = |signal: &&(u64, usize, usize)| match rule {
                Match::Reaches => signal.0 >= *value,
                Match::Exact => signal.0 == *value,
            };
            let found = behind.get(fence).and_then(|all| all.iter().find(ends));
            found.map_or(Next::Missing, |&(_, waiter, signal)| Next::Signal { waiter, signal })
        }
        Awaits::Progress { queue, .. } => queue.map_or(Next::Missing, Next::Progress),
        Awaits::Other(_) => Next::Missing,
    };
    waiters.iter().map(release).collect()
}

/// Returns the components of the graph, each with its kind, its chain, and the waiters outside the
/// chain.
fn parts(next: &[Next]) -> Vec<(DeadlockKind, Vec<usize>, Vec<usize>)> {
    let mut steps = vec![0usize; next.len()];
    let mut in_circle = vec![false; next.len()];
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, root) in roots(next).into_iter().enumerate() {
        members.entry(root).or_default().push(index);
    }
    let mut found = Vec::new();
    for (root, members) in members {
        let mut circle = Vec::new();
        let mut at = next[root].waiter().map(|_| root);
        while let Some(index) = at.filter(|index| !in_circle[*index]) {
            in_circle[index] = true;
            circle.push(index);
            at = next[index].waiter();
        }
        if circle.is_empty() {
            let chain = longest_chain(next, &members, &mut steps);
            let others = members.iter().copied().filter(|m| !chain.contains(m)).collect();
            found.push((DeadlockKind::Unsignalled, chain, others));
        } else {
            let first = (0..circle.len()).min_by_key(|at| circle[*at]).unwrap_or(0);
            circle.rotate_left(first);
            let others = members.iter().copied().filter(|m| !in_circle[*m]).collect();
            found.push((DeadlockKind::Circle, circle, others));
        }
    }
    found
}

/// Returns for each waiter a waiter of its component's root: one of the circle, or the last of the
/// chain.
fn roots(next: &[Next]) -> Vec<usize> {
    const NEW: usize = usize::MAX;
    const OPEN: usize = usize::MAX - 1;
    let mut roots = vec![NEW; next.len()];
    for start in 0..next.len() {
        let (mut path, mut at) = (Vec::new(), start);
        let root = loop {
            match roots[at] {
                NEW => roots[at] = OPEN,
                // It is on this path, so the path ends in a circle.
                OPEN => break at,
                root => break root,
            }
            path.push(at);
            match next[at].waiter() {
                Some(further) => at = further,
                None => break at,
            }
        };
        path.into_iter().for_each(|index| roots[index] = root);
    }
    roots
}

/// Returns the longest chain that ends at the root of a component without a circle.
fn longest_chain(next: &[Next], members: &[usize], steps: &mut [usize]) -> Vec<usize> {
    for member in members {
        let (mut path, mut at) = (Vec::new(), Some(*member));
        while let Some(index) = at.filter(|index| steps[*index] == 0) {
            path.push(index);
            at = next[index].waiter();
        }
        let mut count = at.map_or(0, |index| steps[index]);
        for index in path.into_iter().rev() {
            count += 1;
            steps[index] = count;
        }
    }
    let first = members.iter().max_by_key(|m| (steps[**m], std::cmp::Reverse(**m)));
    let mut chain = Vec::new();
    let mut at = first.copied();
    while let Some(index) = at {
        chain.push(index);
        at = next[index].waiter();
    }
    chain
}

impl Place {
    fn is_unknown(&self) -> bool {
        matches!(self, Place::Unknown)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Unknown => Ok(()),
            Place::Line(line) => f.write_str(line),
            Place::Submission(0) => f.write_str("before its first submission"),
            Place::Submission(number) => write!(f, "behind its submission {number}"),
        }
    }
}

impl WaitLink {
    /// Returns the text for the release of the wait.
    fn release_text(&self) -> String {
        match &self.release {
            Release::Signal { noun, signaller, place, behind_wait, .. } => {
                let place = if place.is_unknown() { String::new() } else { format!(" ({place})") };
                let own = if *behind_wait { ", after its own wait" } else { "" };
                format!("{noun} '{signaller}' would signal it{place}{own}")
            }
            Release::Progress(queue) => format!("queue '{queue}' cannot go on"),
            Release::Missing(highest) => match &self.awaits {
                Awaited::Fence { fence, value, .. } => missing(fence, *value, highest.as_ref()),
                Awaited::Other(_) => "no party is left to do that".to_owned(),
            },
        }
    }
}

fn missing(fence: &str, value: u64, highest: Option<&(u64, Place)>) -> String {
    let at = |place: &Place| match place {
        Place::Unknown => String::new(),
        place => format!(" ({place})"),
    };
    match highest {
        Some((highest, place)) if *highest >= value => {
            format!("it was signalled to {highest}{} and set back since", at(place))
        }
        Some((highest, place)) => format!(
            "no signal takes '{fence}' to {value}; the largest signal is {highest}{}",
            at(place)
        ),
        None => format!("no signal of '{fence}' is left"),
    }
}

impl fmt::Display for WaitLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WaitLink { noun, waiter, place, .. } = self;
        match place {
            Place::Unknown => write!(f, "{noun} '{waiter}'")?,
            Place::Line(line) => write!(f, "{line}: {noun} '{waiter}'")?,
            Place::Submission(_) => write!(f, "{noun} '{waiter}', {place},")?,
        }
        match &self.awaits {
            Awaited::Fence { fence, value, current } => {
                write!(f, " waits for fence '{fence}' to reach {value}")?;
                current.map_or(Ok(()), |current| write!(f, "; it is at {current}"))
            }
            Awaited::Other(what) => write!(f, " waits for {what}"),
        }
    }
}

impl Deadlock {
    /// Returns the lines of the chain, of the waits outside it, and of the next step.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let hidden = self.chain.len().saturating_sub(SHOWN_LINKS);
        for (number, link) in self.chain.iter().enumerate() {
            if hidden > 0 && (SHOWN_LINKS / 2..SHOWN_LINKS / 2 + hidden).contains(&number) {
                if number == SHOWN_LINKS / 2 {
                    lines.push(format!("… {hidden} more in the same way"));
                }
                continue;
            }
            lines.push(link.to_string());
            let closes = self.kind == DeadlockKind::Circle && number + 1 == self.chain.len();
            let closes = if closes { ": the circle is closed" } else { "" };
            lines.push(format!("  {}{closes}", link.release_text()));
        }
        lines.extend(self.others.iter().take(SHOWN_OTHERS).map(|other| format!("also: {other}")));
        if let Some(more) = self.others.len().checked_sub(SHOWN_OTHERS).filter(|more| *more > 0) {
            lines.push(format!("also: {more} more"));
        }
        lines.push(match self.kind {
            DeadlockKind::Circle => {
                "break the circle: let one of them signal before it waits".to_owned()
            }
            DeadlockKind::Unsignalled => {
                "add the signal that is missing, or wait for a value that is signalled".to_owned()
            }
        });
        lines
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            DeadlockKind::Circle => "deadlock: a circle of waits",
            DeadlockKind::Unsignalled => "a wait that no signal ends",
        })?;
        self.lines().iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}
