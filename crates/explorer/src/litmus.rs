//! The race of CurrentValue and MonitoredValue as a scenario: the smallest code in which a missing
//! barrier loses a wake-up. It runs on all three platforms.
//!
//! The engine: 1. stores CurrentValue; 2. full barrier; 3. loads MonitoredValue; 4. raises the
//! interrupt if the value has passed it. The waiter: 1. stores MonitoredValue = value - 1; 2. full
//! barrier; 3. loads CurrentValue again; 4. sleeps until the interrupt, then loads it again. If a
//! barrier is missing, each load can miss the store of the other agent. Without the second load of
//! CurrentValue, the value may arrive before the waiter is armed.
//!
//! Between two values an engine and a waiter depend only on the value and on the fence's words, so
//! they forget their histories there: states of the two fences merge.
//!
//! `litmus` has one fence and one value. `litmus-FxV` has F fences, each with an engine that
//! signals 1 to V and a waiter that waits for 1 to V in turn.

use crate::probe::Probe;
use crate::property::Verdict;
use crate::scenario::{PlantedBug, Prepared, Scenario};
use std::sync::Arc;
use tidegate_platform::{Event, Platform, Step, WaitEnd, Word};

/// The bugs that can be planted.
const PLANTED: &[PlantedBug] = &[
    PlantedBug {
        name: "no-resample",
        about: "the waiter sleeps without a second load: a value from before it was armed raises no interrupt",
    },
    PlantedBug {
        name: "no-gpu-barrier",
        about: "the engine tests MonitoredValue while its CurrentValue is still in its store buffer",
    },
    PlantedBug {
        name: "no-cpu-barrier",
        about: "the waiter loads CurrentValue while its MonitoredValue is still in its store buffer",
    },
];

const INTERRUPTED: &str = "an interrupt was raised for a waiter";
const RESAMPLED: &str = "the second load found the value";
const SUPPRESSED: &str = "a signal raised no interrupt, because no waiter was armed";

/// Time between two signals of the engine in nanoseconds; not used under exploration.
const ENGINE_NS: u64 = 500;

/// The omission of a planted bug, in the order of [`PLANTED`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Resample,
    GpuBarrier,
    CpuBarrier,
}

/// The race of CurrentValue and MonitoredValue.
#[derive(Clone)]
pub struct Litmus {
    name: String,
    fences: usize,
    values: u64,
    missing: Option<Missing>,
}

impl Litmus {
    /// Creates the race with one fence and one value.
    pub fn pair() -> Litmus {
        Litmus { name: "litmus".to_owned(), ..Litmus::new(1, 1) }
    }

    /// Creates the race with `fences` fences and `values` values each, both at least 1.
    pub fn new(fences: usize, values: u64) -> Litmus {
        let (fences, values) = (fences.max(1), values.max(1));
        Litmus { name: format!("litmus-{fences}x{values}"), fences, values, missing: None }
    }

    /// Returns [`Litmus::pair`] as a scenario.
    pub fn boxed() -> Box<dyn Scenario> {
        Box::new(Litmus::pair())
    }

    /// Returns the litmus scenario of this name: `litmus` or `litmus-FxV` with up to 100 fences.
    pub fn named(name: &str) -> Option<Box<dyn Scenario>> {
        if name == "litmus" {
            return Some(Litmus::boxed());
        }
        let (fences, values) = name.strip_prefix("litmus-")?.split_once('x')?;
        let (fences, values) = (fences.parse().ok()?, values.parse().ok()?);
        let named = Litmus::new(fences, values);
        (named.name == name && fences <= 100).then(|| Box::new(named) as Box<dyn Scenario>)
    }
}

impl Scenario for Litmus {
    fn name(&self) -> &str {
        &self.name
    }

    fn about(&self) -> &str {
        "an engine signals a fence while a CPU waiter arms MonitoredValue and checks again: no wake-up may be lost"
    }

    fn marks(&self) -> &[&'static str] {
        &[INTERRUPTED, RESAMPLED, SUPPRESSED]
    }

    fn planted(&self) -> Vec<PlantedBug> {
        PLANTED.to_vec()
    }

    fn with_bug(&self, bug: &str) -> Option<Box<dyn Scenario>> {
        let missing = match bug {
            "no-resample" => Missing::Resample,
            "no-gpu-barrier" => Missing::GpuBarrier,
            "no-cpu-barrier" => Missing::CpuBarrier,
            _ => return None,
        };
        Some(Box::new(Litmus { missing: Some(missing), ..self.clone() }))
    }

    fn bug(&self) -> Option<&str> {
        let missing = self.missing?;
        Some(PLANTED[missing as usize].name)
    }

    /// Each property is about one fence, and each mark needs one fence to reach it.
    fn judges_groups_apart(&self) -> bool {
        true
    }

    fn prepare(&self, platform: &Platform) -> Prepared {
        let side = |fence: &Arc<Fence>| Side {
            fence: Arc::clone(fence),
            values: self.values,
            missing: self.missing,
        };
        let probe = Probe::new();
        let first = Arc::new(Fence::new(platform, &probe));
        let (engine, waiter) = (side(&first), side(&first));
        let others: Vec<(Side, Side)> = (1..self.fences)
            .map(|_| {
                let fence = Arc::new(Fence::new(platform, &probe));
                (side(&fence), side(&fence))
            })
            .collect();
        let main = move || {
            let platform = waiter.fence.platform().clone();
            platform.spawn("engine", move || engine.signal_all());
            for (engine, waiter) in others {
                platform.spawn("engine", move || engine.signal_all());
                platform.spawn("waiter", move || waiter.wait_for_all());
            }
            waiter.wait_for_all();
        };
        let values = self.values;
        Prepared::new(main, move |end: &mut Verdict<'_>| {
            end.eventually(
                "CurrentValue is the last value that was signalled",
                first.current.load() == values,
            );
            end.sometimes(INTERRUPTED, probe.seen(0).is_some());
            end.sometimes(RESAMPLED, probe.seen(1).is_some());
            end.sometimes(SUPPRESSED, probe.seen(2).is_some());
        })
    }
}

struct Fence {
    current: Word,
    monitored: Word,
    interrupt: Event,
    probe: Probe,
}

impl Fence {
    fn new(platform: &Platform, probe: &Probe) -> Fence {
        let page = platform.page(2);
        let (current, monitored) =
            (page.word(0).named("CurrentValue"), page.word(1).named("MonitoredValue"));
        monitored.store(u64::MAX);
        Fence { current, monitored, interrupt: platform.event(false), probe: probe.clone() }
    }

    fn platform(&self) -> &Platform {
        self.current.platform()
    }
}

/// State of one engine or waiter.
struct Side {
    fence: Arc<Fence>,
    values: u64,
    missing: Option<Missing>,
}

impl Side {
    /// Begins part `part` of the work for `value`, which depends on nothing that was read before.
    fn arrive_at(&self, value: u64, part: u64) {
        let position = u32::try_from(value << 16 | part).unwrap_or(u32::MAX);
        self.fence.platform().forget_history(position);
    }

    fn signal_all(&self) {
        for value in 1..=self.values {
            self.arrive_at(value, 0);
            self.fence.platform().busy(ENGINE_NS);
            self.signal(value);
        }
        self.arrive_at(self.values + 1, 0);
    }

    fn signal(&self, value: u64) {
        self.fence.current.store(value);
        if self.missing != Some(Missing::GpuBarrier) {
            self.fence.platform().fence();
        }
        if value > self.fence.monitored.load() {
            self.fence.probe.note(0, value);
            self.arrive_at(value, 1);
            self.fence.interrupt.set(Step::InterruptDelivery);
        } else {
            self.fence.probe.note(2, value);
        }
    }

    fn wait_for_all(&self) {
        for value in 1..=self.values {
            self.arrive_at(value, 0);
            if self.wait(value) == WaitEnd::Stopped {
                return;
            }
        }
        self.arrive_at(self.values + 1, 0);
    }

    fn wait(&self, value: u64) -> WaitEnd {
        self.fence.monitored.store(value - 1);
        if self.missing != Some(Missing::CpuBarrier) {
            self.fence.platform().fence();
        }
        if self.missing != Some(Missing::Resample) && self.fence.current.load() >= value {
            self.fence.probe.note(1, value);
            return WaitEnd::Woken;
        }
        let mut part = 0;
        loop {
            part += 1;
            self.arrive_at(value, part);
            let end = self.fence.interrupt.wait_for(None, "the fence's next value");
            // The event may still be set for an earlier value.
            if end == WaitEnd::Stopped || self.fence.current.load() >= value {
                return end;
            }
        }
    }
}
