//! The cell of a fence, without engines and without the kernel: rewinds, raises and a wait.
//! The waiter calls and parks as a queue does (announce, check again). Each agent checks the wait
//! after its stores: the first as the kernel does, the second as an engine does.
//!
//! The check is on the history. All stored values differ, and the waiter records the value just
//! before and just after its call. Some order of the stores must explain the outcome: a satisfied
//! wait had its value reached after the call began, an unsatisfied one not after the call returned.
//!
//! The planted bugs reorder the cell's public steps. The peak may be recorded before or after the
//! value falls, because peaks are not read while the epoch is odd.

use crate::prelude::*;
use tidegate::d3dukmdt::FenceWait;
use tidegate::d3dukmdt::fence_cell::{REACHED, VALUE_WORDS};

const LATCHED: &str = "the value was reached and had been rewound before a check";
const MISSED: &str = "the value had been rewound before the wait was called";
const BY_VALUE: &str = "the value was reached before the wait was called";

const LABEL_BEFORE_PEAK: &str = "label-before-peak";
const VALUE_BEFORE_EPOCH: &str = "value-before-epoch";
const EVEN_BEFORE_FALL: &str = "even-before-fall";

const PLANTED: &[Bug] = bugs! {
    LABEL_BEFORE_PEAK => Scenario,
        "a rewind takes its label before it loads the peak: the peak may follow a wait that read the label";
    VALUE_BEFORE_EPOCH => Scenario,
        "a wait loads the value before the epoch: a pulse in between is missed";
    EVEN_BEFORE_FALL => Scenario,
        "a rewind makes the epoch even before the value falls: a wait of the new epoch is checked against the old value";
};

pub(crate) const TWO_REWINDERS: Race = Race {
    name: "two-rewinders",
    about: "two agents raise a fence's cell and rewind it while a third waits: exactly the waits for reached values end",
    marks: &[LATCHED, MISSED, BY_VALUE],
    planted: PLANTED,
    shape: Shape::Model,
    plans: Plans::of(bounded(2, 5_000_000), exhaustive(50_000_000), bounded(3, 5_000_000)),
    prepare: |run| prepare(run, &Storers { initial: 2, first: &[7, 0], second: &[1] }, Past::None),
};

pub(crate) const RAISE_AGAINST_REWIND: Race = Race {
    name: "raise-against-rewind",
    about: "an agent raises a fence's cell while another rewinds it and a third begins to wait: the wait latches",
    marks: &[LATCHED, MISSED, BY_VALUE],
    planted: PLANTED,
    shape: Shape::Model,
    plans: Plans::of(exhaustive(5_000_000), exhaustive(5_000_000), bounded(3, 5_000_000)),
    prepare: |run| prepare(run, &Storers { initial: 3, first: &[7], second: &[1] }, Past::None),
};

pub(crate) const RAISE_AGAINST_DEEP_REWIND: Race = Race {
    name: "raise-against-deep-rewind",
    about: "as above with a full page of peaks, so that those of the run go into the annex",
    marks: &[LATCHED, MISSED, BY_VALUE],
    planted: PLANTED,
    shape: Shape::Model,
    plans: Plans::of(bounded(2, 5_000_000), exhaustive(5_000_000), bounded(3, 5_000_000)),
    prepare: |run| prepare(run, &Storers { initial: 3, first: &[7], second: &[1] }, Past::FullPage),
};

/// History of a cell before the run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Past {
    None,
    /// The smallest history, already holding two larger peaks.
    FullPage,
}

pub(crate) const RENEW_AGAINST_PARK: Race = Race {
    name: "renew-against-park",
    about: "a fence is destroyed and its cell reused while a queue reaches a wait for it: the wait passes",
    marks: &[PASSED, RELEASED],
    planted: bugs! {
        NO_CHECK => Scenario,
            "the kernel does not have the hardware check when a fence is destroyed: a parked queue stays parked";
    },
    shape: Shape::Model,
    plans: Plans::all(exhaustive(1_000_000)),
    prepare: prepare_renewal,
};

const PASSED: &str = "the queue found its fence destroyed";
const RELEASED: &str = "the queue was parked when the fence was destroyed";
const NO_CHECK: &str = "no-check-at-end";

/// The kernel's side: the fence is destroyed, which makes the hardware check, and the new fence
/// starts at 0, which does not.
fn prepare_renewal(run: &Run<'_>) -> Prepared {
    let side = Side::new(run, 0, Past::None);
    let (queue, kernel, spawner) = (side.clone(), side.clone(), run.platform.clone());
    let wait = side.cell.wait_for(AWAITED);
    let main = move || {
        spawner.spawn("kernel", move || {
            kernel.cell.condemn();
            if kernel.bug != Some(NO_CHECK) && kernel.check_as_engine() {
                kernel.probe.note(AFTER, 1);
            }
            kernel.cell.renew(0, 64, MAX_ANNEX_PEAKS);
        });
        queue.parked_epoch.store(wait.epoch);
        if queue.cell.satisfies(wait) {
            return queue.probe.note(SATISFIED, 1);
        }
        queue.parked.exchange(1);
        if queue.cell.satisfies(wait) {
            queue.probe.note(SATISFIED, 1);
        }
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let passed = side.probe.seen(SATISFIED).is_some();
        let released = side.probe.seen(AFTER).is_some();
        end.eventually("the wait for the destroyed fence passes", passed || released);
        end.always("the new fence has its initial value", side.cell.load() == 0);
        end.sometimes(PASSED, passed && !released);
        end.sometimes(RELEASED, released);
    })
}

/// The awaited value. Only the store of 7 reaches it.
const AWAITED: u64 = 5;

/// Note numbers. Those of the stores follow.
const BEFORE: usize = 0;
const AFTER: usize = 1;
const SATISFIED: usize = 2;
const STORES: usize = 3;

/// The values that each agent stores, in order. All of them differ.
#[derive(Clone, Copy)]
struct Storers {
    initial: u64,
    first: &'static [u64],
    second: &'static [u64],
}

#[derive(Clone)]
struct Side {
    cell: FenceCell,
    parked: Word,
    parked_epoch: Word,
    probe: Probe,
    bug: Option<&'static str>,
}

impl Side {
    fn new(run: &Run<'_>, initial: u64, past: Past) -> Side {
        let platform = run.platform;
        let page = platform.page(VALUE_WORDS + 64).named("the fence page");
        let cell = FenceCell::in_fence_page(page.word(0).named("CurrentValue"), 0);
        if past == Past::FullPage {
            cell.renew(90, 8, MAX_ANNEX_PEAKS);
            for value in [0, 80, initial] {
                cell.store(value);
            }
        } else {
            cell.renew(initial, 64, MAX_ANNEX_PEAKS);
        }
        let words = platform.page(2);
        let (parked, parked_epoch) =
            (words.word(0).named("the parked wait"), words.word(1).named("its epoch"));
        let bug = run.bug.map(|bug| bug.name);
        Side { cell, parked, parked_epoch, probe: Probe::new(), bug }
    }

    fn wait(&self) {
        self.probe.note(BEFORE, self.cell.load());
        let wait = self.call();
        self.probe.note(AFTER, self.cell.load());
        if wait.epoch == REACHED {
            return self.probe.note(SATISFIED, 1);
        }
        self.parked_epoch.store(wait.epoch);
        self.parked.exchange(1);
        if self.cell.satisfies(wait) {
            self.probe.note(SATISFIED, 1);
        }
    }

    fn call(&self) -> FenceWait {
        if self.bug != Some(VALUE_BEFORE_EPOCH) {
            return self.cell.wait_for(AWAITED);
        }
        let reached = self.cell.load() >= AWAITED;
        let epoch = self.cell.epoch_word().map_or(0, |word| word.load());
        FenceWait { value: AWAITED, epoch: if reached { REACHED } else { epoch } }
    }

    /// Stores the values, of which the first is store `number`, then checks the wait.
    fn store_all(&self, number: usize, values: &[u64], kernel: bool) {
        for (index, value) in values.iter().enumerate() {
            let fell = self.store(*value);
            self.probe.note(STORES + number + index, fell.map_or(0, |peak| peak + 1));
        }
        let satisfied = if kernel { self.check_as_kernel() } else { self.check_as_engine() };
        if satisfied {
            self.probe.note(SATISFIED, 1);
        }
    }

    fn store(&self, value: u64) -> Option<u64> {
        match self.bug {
            Some(LABEL_BEFORE_PEAK | EVEN_BEFORE_FALL) if value < self.cell.load() => {
                self.rewind_wrongly(value)
            }
            _ => self.cell.store(value),
        }
    }

    fn rewind_wrongly(&self, value: u64) -> Option<u64> {
        loop {
            let mut rewind = self.cell.begin_rewind()?;
            if self.bug == Some(LABEL_BEFORE_PEAK) {
                rewind.take_label();
            }
            let peak = rewind.peak();
            if value < peak {
                if self.bug != Some(LABEL_BEFORE_PEAK) {
                    rewind.take_label();
                }
                rewind.push(peak);
            }
            let fell = if self.bug == Some(EVEN_BEFORE_FALL) {
                rewind.end();
                self.cell.word().compare_exchange(peak, value).is_ok()
            } else {
                let fell = rewind.fall(peak, value);
                rewind.end();
                fell
            };
            if fell {
                return (value < peak).then_some(peak);
            }
        }
    }

    fn check_as_engine(&self) -> bool {
        self.parked().is_some_and(|wait| self.cell.satisfies(wait))
    }

    /// Reads the fence before the waiters, as the kernel does.
    fn check_as_kernel(&self) -> bool {
        let latest = self.cell.latest();
        let behind = |wait: FenceWait| {
            self.cell.snapshot_since(wait.epoch).is_some_and(|snapshot| snapshot.satisfies(wait))
        };
        self.parked().is_some_and(|wait| latest.satisfies(wait) || behind(wait))
    }

    fn parked(&self) -> Option<FenceWait> {
        (self.parked.load() == 1)
            .then(|| FenceWait { value: AWAITED, epoch: self.parked_epoch.load() })
    }
}

fn prepare(run: &Run<'_>, storers: &Storers, past: Past) -> Prepared {
    let side = Side::new(run, storers.initial, past);
    let (storers, spawner) = (*storers, run.platform.clone());
    let (waiter, first, second) = (side.clone(), side.clone(), side.clone());
    let main = move || {
        spawner.spawn("first", move || first.store_all(0, storers.first, true));
        spawner
            .spawn("second", move || second.store_all(storers.first.len(), storers.second, false));
        waiter.wait();
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let outcome = Outcome::of(&side, &storers);
        let explained = outcome.explained_by(&mut vec![storers.initial], 0, 0);
        end.always("some order of the stores explains the outcome of the wait", explained);
        let by_value = outcome.before >= AWAITED || outcome.after >= AWAITED;
        end.sometimes(BY_VALUE, by_value && outcome.satisfied);
        end.sometimes(LATCHED, !by_value && outcome.satisfied);
        end.sometimes(MISSED, !outcome.satisfied);
    })
}

/// The outcome of a run.
struct Outcome {
    storers: Storers,
    /// For each store, the value it rewound from plus one; 0 if it was not a rewind.
    fell: Vec<u64>,
    last: u64,
    before: u64,
    after: u64,
    satisfied: bool,
}

impl Outcome {
    fn of(side: &Side, storers: &Storers) -> Outcome {
        let seen = |slot| side.probe.seen(slot).unwrap_or_default();
        let stores = storers.first.len() + storers.second.len();
        Outcome {
            storers: *storers,
            fell: (STORES..STORES + stores).map(seen).collect(),
            last: side.cell.load(),
            before: seen(BEFORE),
            after: seen(AFTER),
            satisfied: seen(SATISFIED) == 1,
        }
    }

    /// Returns whether an order that begins with `values`, the first `first` and `second` stores of
    /// the two agents, explains the outcome.
    fn explained_by(&self, values: &mut Vec<u64>, first: usize, second: usize) -> bool {
        let (of_first, of_second) = (self.storers.first, self.storers.second);
        if first == of_first.len() && second == of_second.len() {
            return self.is_explained(values);
        }
        let mut extend = |value: Option<&u64>, number: usize, next: (usize, usize)| {
            let (Some(&value), Some(&now)) = (value, values.last()) else { return false };
            if self.fell[number] != if value < now { now + 1 } else { 0 } {
                return false;
            }
            values.push(value);
            let explained = self.explained_by(values, next.0, next.1);
            values.pop();
            explained
        };
        extend(of_first.get(first), first, (first + 1, second))
            || extend(of_second.get(second), of_first.len() + second, (first, second + 1))
    }

    /// Returns whether this order of stores explains the outcome.
    fn is_explained(&self, values: &[u64]) -> bool {
        let place = |value: u64| values.iter().position(|v| *v == value);
        let (Some(before), Some(after)) = (place(self.before), place(self.after)) else {
            return false;
        };
        let reached_since = |from: usize| values[from..].iter().any(|v| *v >= AWAITED);
        let right = if self.satisfied { reached_since(before) } else { !reached_since(after) };
        values.last() == Some(&self.last) && before <= after && right
    }
}
