//! Deadlocks: circles of waits, and waits that no signal ends, each with its chain.
//!
//! The search takes the parties that wait, and the signals that each would make behind its wait.
//! It knows of no queue, file or clock: the caller names the parties and the places.
//!
//! Invariant: each waiter has one release, so the graph falls into parts with one root each: a
//! circle, or a wait without a signal. There is one finding for each root.
//!
//! Entry points: [`find`] with the rule of [`Match`]; [`Deadlock`], the finding.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// Links of a chain that are shown. A longer chain is shown without its middle.
const SHOWN_LINKS: usize = 8;
/// Waits beside the chain that are shown.
const SHOWN_OTHERS: usize = 5;

/// A fence of the search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FenceState<P> {
    /// Its name.
    pub name: String,
    /// Its value, if the caller knows it.
    pub current: Option<u64>,
    /// The highest value of all signals, those queued included, and where that signal stands.
    pub highest: Option<(u64, P)>,
}

/// A party that waits: a queue at a wait, or a thread.
#[derive(Clone, Debug)]
pub struct Waiter<P> {
    /// What it is: `queue`, `thread`.
    pub noun: &'static str,
    /// Its name.
    pub name: String,
    /// Where its wait stands.
    pub at: P,
    /// What ends its wait.
    pub awaits: Awaits,
    /// The signals behind its wait, in order.
    pub signals: Vec<QueuedSignal<P>>,
}

/// What ends a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Awaits {
    /// The fence of this index reaches the value.
    Fence(usize, u64),
    /// Progress of a queue.
    Progress {
        /// What the progress gives, in words.
        what: String,
        /// The index of the queue among the waiters, if it waits.
        queue: Option<usize>,
    },
    /// Something that is no wait for a fence.
    Other(String),
}

/// A signal behind a wait.
#[derive(Clone, Debug)]
pub struct QueuedSignal<P> {
    /// The index of its fence.
    pub fence: usize,
    /// Its value.
    pub value: u64,
    /// Where it stands.
    pub at: P,
    /// Whether the wait is one for room to queue this signal.
    pub is_the_wait: bool,
}

/// Which signals count as the release of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// Those of the wait's value or a higher one: for parties that cannot move any more.
    Reaches,
    /// Those of the wait's value alone: for a program that still submits.
    Exact,
}

/// What a finding says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadlockKind {
    /// Each wait of the chain is released by a signal behind the next wait, the last by one behind
    /// the first.
    Circle,
    /// No signal ends the last wait of the chain.
    Unsignalled,
}

/// Waits that hold each other up, or that wait for a signal which is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// Circle or missing signal.
    pub kind: DeadlockKind,
    /// The waits; each is released by the party of the next link.
    pub chain: Vec<WaitLink>,
    /// Waits that lead to the chain from beside it.
    pub others: Vec<WaitLink>,
}

/// A wait of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitLink {
    /// What waits: `queue`, `thread`.
    pub noun: &'static str,
    /// Its name.
    pub waiter: String,
    /// Where the wait stands.
    pub place: Place,
    /// What it waits for.
    pub awaits: Awaited,
    /// What would end it.
    pub release: Release,
}

/// Where a call stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Place {
    /// Not known.
    #[default]
    Unknown,
    /// A line of a file.
    Line(String),
    /// On a queue, behind the submission of this number; 0 is before the first.
    Submission(u32),
}

/// What a party waits for, with names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// A fence and a value.
    Fence {
        /// The fence.
        fence: String,
        /// The value that it must reach.
        value: u64,
        /// Its value now, if it is known.
        current: Option<u64>,
    },
    /// Something else, in words.
    Other(String),
}

/// What would end a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Release {
    /// A signal that stands behind the wait of another party.
    Signal {
        /// What that party is.
        noun: &'static str,
        /// Its name.
        signaller: String,
        /// Where the signal stands.
        place: Place,
        /// Its value.
        value: u64,
        /// Whether it stands behind a wait, and is not itself what waits for room.
        behind_wait: bool,
    },
    /// Progress of a queue that waits.
    Progress(String),
    /// No signal; the highest one of the fence, if there is any.
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
    /// A waiter goes on.
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

/// The first release of each waiter.
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

/// The parts of the graph: for each its kind, its chain, and the waiters beside the chain.
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

/// For each waiter a waiter of its part's root: one of the circle, or the last of the chain.
fn roots(next: &[Next]) -> Vec<usize> {
    const NEW: usize = usize::MAX;
    const OPEN: usize = usize::MAX - 1;
    let mut roots = vec![NEW; next.len()];
    for start in 0..next.len() {
        let (mut path, mut at) = (Vec::new(), start);
        let root = loop {
            match roots[at] {
                NEW => roots[at] = OPEN,
                // It is on this path, so the path runs into a circle.
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

/// The longest chain that ends at the root of a part without a circle.
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
    /// Returns the sentence that says what would end the wait.
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
    /// Returns the lines of the chain, of the waits beside it, and of the next step.
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
