//! The race of CurrentValue and MonitoredValue as a scenario: the smallest code in which a missing
//! barrier loses a wake-up. It runs on all three platforms.
//!
//! The engine: 1. stores CurrentValue; 2. full barrier; 3. loads MonitoredValue; 4. raises the
//! interrupt if the value has passed it. The waiter: 1. stores MonitoredValue = value - 1; 2. full
//! barrier; 3. loads CurrentValue again; 4. sleeps until the interrupt, then loads it again.
//! If a barrier is missing, each load can miss the store of the other agent. Without the second load
//! of CurrentValue, the value may arrive before the waiter is armed.
//!
//! `litmus` has one fence and one value. `litmus-FxV` has F fences, each with an engine that
//! signals 1 to V and a waiter that waits for 1 to V in turn.

use crate::probe::Probe;
use crate::property::Verdict;
use crate::scenario::{PlantedBug, Prepared, Scenario};
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

    fn prepare(&self, platform: &Platform) -> Prepared {
        let probe = Probe::new();
        let side = |fence: Fence| Side {
            platform: platform.clone(),
            fence,
            values: self.values,
            missing: self.missing,
            probe: probe.clone(),
        };
        let first = Fence::new(platform);
        let last = first.current.clone();
        let (engine, waiter) = (side(first.clone()), side(first));
        let others: Vec<(Side, Side)> = (1..self.fences)
            .map(|_| {
                let fence = Fence::new(platform);
                (side(fence.clone()), side(fence))
            })
            .collect();
        let spawner = platform.clone();
        let main = move || {
            spawner.spawn("engine", move || engine.signal_all());
            for (engine, waiter) in others {
                spawner.spawn("engine", move || engine.signal_all());
                spawner.spawn("waiter", move || waiter.wait_for_all());
            }
            waiter.wait_for_all();
        };
        let values = self.values;
        Prepared::new(main, move |end: &mut Verdict<'_>| {
            end.eventually(
                "CurrentValue is the last value that was signalled",
                last.load() == values,
            );
            end.sometimes(INTERRUPTED, probe.seen(0).is_some());
            end.sometimes(RESAMPLED, probe.seen(1).is_some());
            end.sometimes(SUPPRESSED, probe.seen(2).is_some());
        })
    }
}

#[derive(Clone)]
struct Fence {
    current: Word,
    monitored: Word,
    interrupt: Event,
}

impl Fence {
    fn new(platform: &Platform) -> Fence {
        let page = platform.page(2);
        let (current, monitored) =
            (page.word(0).named("CurrentValue"), page.word(1).named("MonitoredValue"));
        monitored.store(u64::MAX);
        Fence { current, monitored, interrupt: platform.event(false) }
    }
}

/// State of one engine or waiter.
struct Side {
    platform: Platform,
    fence: Fence,
    values: u64,
    missing: Option<Missing>,
    probe: Probe,
}

impl Side {
    fn signal_all(&self) {
        for value in 1..=self.values {
            self.platform.busy(ENGINE_NS);
            self.signal(value);
        }
    }

    fn signal(&self, value: u64) {
        self.fence.current.store(value);
        if self.missing != Some(Missing::GpuBarrier) {
            self.platform.fence();
        }
        if value > self.fence.monitored.load() {
            self.probe.note(0, value);
            self.fence.interrupt.set(Step::InterruptDelivery);
        } else {
            self.probe.note(2, value);
        }
    }

    fn wait_for_all(&self) {
        for value in 1..=self.values {
            if self.wait(value) == WaitEnd::Stopped {
                return;
            }
        }
    }

    fn wait(&self, value: u64) -> WaitEnd {
        self.fence.monitored.store(value - 1);
        if self.missing != Some(Missing::CpuBarrier) {
            self.platform.fence();
        }
        if self.missing != Some(Missing::Resample) && self.fence.current.load() >= value {
            self.probe.note(1, value);
            return WaitEnd::Woken;
        }
        loop {
            let end = self.fence.interrupt.wait_for(None, "the fence's next value");
            // The event may still be set for an earlier value.
            if end == WaitEnd::Stopped || self.fence.current.load() >= value {
                return end;
            }
        }
    }
}
