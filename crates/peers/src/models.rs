//! Explorers: stateright, loom and shuttle, on the protocol of CurrentValue and MonitoredValue.
//!
//! Per fence an engine stores CurrentValue 1 to V and then tests MonitoredValue. A thread waits for
//! 1 to V in turn: it stores MonitoredValue, a barrier, loads CurrentValue again, and sleeps until
//! the interrupt. stateright gets a model with store buffers of one entry, loom its C11 atomics,
//! shuttle sequentially consistent ones.

use crate::timing::{Measured, ns, pin};
use crate::{Request, Trouble};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Measures what this room has for a request.
pub(crate) fn measure(request: &Request) -> Result<Option<Measured>, Trouble> {
    pin(request.client_cpu)?;
    let measured = match (request.peer.as_str(), request.row.as_str()) {
        ("stateright", "verdict") => protocol::verdicts(request)?,
        ("loom", "executions") => repeated(request, || {
            let runs = count(|| loom_pair(true));
            Ok(runs)
        })?,
        ("loom", "missing_barrier") => missing_barrier(request)?,
        ("shuttle", "schedules") => repeated(request, || {
            shuttle::check_random(shuttle_pair, request.batch as usize);
            Ok(request.batch)
        })?,
        _ => return Ok(None),
    };
    Ok(Some(measured))
}

/// Takes `batches` samples of `run`, each the time of one of the schedules that it says it ran.
fn repeated(
    request: &Request,
    run: impl Fn() -> Result<u64, Trouble>,
) -> Result<Measured, Trouble> {
    let mut samples = Vec::new();
    for _ in 0..request.batches {
        let start = Instant::now();
        let runs = run()?;
        samples.push(ns(start) / runs.max(1) as f64);
    }
    Ok(Measured::of(samples))
}

static EXECUTIONS: AtomicU64 = AtomicU64::new(0);

/// Executions of a model that loom explores until it has seen all.
fn count(model: fn()) -> u64 {
    EXECUTIONS.store(0, Ordering::Relaxed);
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 100_000;
    builder.check(move || {
        EXECUTIONS.fetch_add(1, Ordering::Relaxed);
        model();
    });
    EXECUTIONS.load(Ordering::Relaxed)
}

/// The signals of one execution for loom.
const LOOM_VALUES: usize = 3;

fn loom_pair(has_barriers: bool) {
    use loom::sync::Arc;
    use loom::sync::atomic::Ordering::{AcqRel, Acquire, Release, SeqCst};
    use loom::sync::atomic::{AtomicUsize, fence};
    let barrier = move || {
        if has_barriers {
            fence(SeqCst);
        }
    };
    let words =
        || Arc::new((AtomicUsize::new(0), AtomicUsize::new(usize::MAX), AtomicUsize::new(0)));
    let words = words();
    let engines = Arc::clone(&words);
    let engine = loom::thread::spawn(move || {
        let (current, monitored, interrupts) = &*engines;
        for value in 1..=LOOM_VALUES {
            current.store(value, Release);
            barrier();
            if value > monitored.load(Acquire) {
                interrupts.fetch_add(1, AcqRel);
            }
        }
    });
    let (current, monitored, interrupts) = &*words;
    monitored.store(LOOM_VALUES - 1, Release);
    barrier();
    let seen = current.load(Acquire);
    // The engine does not panic.
    let _ = engine.join();
    let is_lost = seen < LOOM_VALUES && interrupts.load(Acquire) == 0;
    assert!(!is_lost, "lost interrupt");
}

/// The time until loom finds that both barriers are missing, and after how many executions.
fn missing_barrier(request: &Request) -> Result<Measured, Trouble> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let (mut samples, mut executions) = (Vec::new(), 0);
    for _ in 0..request.batches {
        EXECUTIONS.store(0, Ordering::Relaxed);
        let start = Instant::now();
        let found = catch_unwind(AssertUnwindSafe(|| {
            loom::model(|| {
                EXECUTIONS.fetch_add(1, Ordering::Relaxed);
                loom_pair(false);
            });
        }));
        samples.push(ns(start));
        executions = EXECUTIONS.load(Ordering::Relaxed);
        if found.is_ok() {
            std::panic::set_hook(hook);
            return Err("loom does not find the missing barriers".to_owned());
        }
    }
    std::panic::set_hook(hook);
    let note = Some(format!("found by execution {executions}"));
    Ok(Measured { note, ..Measured::of(samples) })
}

fn shuttle_pair() {
    use shuttle::sync::atomic::AtomicUsize;
    use shuttle::sync::atomic::Ordering::SeqCst;
    use std::sync::Arc;
    let words = Arc::new((AtomicUsize::new(0), AtomicUsize::new(usize::MAX), AtomicUsize::new(0)));
    let engines = Arc::clone(&words);
    let engine = shuttle::thread::spawn(move || {
        let (current, monitored, interrupts) = &*engines;
        current.store(1, SeqCst);
        if 1 > monitored.load(SeqCst) {
            interrupts.fetch_add(1, SeqCst);
        }
    });
    let (current, monitored, interrupts) = &*words;
    monitored.store(0, SeqCst);
    let seen = current.load(SeqCst);
    // The engine does not panic.
    let _ = engine.join();
    assert!(seen == 1 || interrupts.load(SeqCst) > 0, "lost interrupt");
}

/// The model of the protocol for stateright.
mod protocol {
    use super::{Measured, Request, Trouble, ns};
    use stateright::{Checker, Model, Property};
    use std::time::Instant;

    const FENCES: usize = 2;
    /// MonitoredValue without a waiter.
    const UNARMED: u8 = u8::MAX;

    /// One fence with its engine and its waiter.
    #[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq)]
    pub(super) struct Side {
        current: u8,
        monitored: u8,
        /// Store buffers of one entry.
        engine_buffer: Option<u8>,
        waiter_buffer: Option<u8>,
        engine_step: u8,
        /// The value that the engine stores next.
        engine_value: u8,
        waiter_step: u8,
        /// The value that the waiter waits for.
        waiter_value: u8,
        is_interrupted: bool,
    }

    type State = [Side; FENCES];

    struct Protocol {
        values: u8,
    }

    impl Protocol {
        /// Every side after each step that one of its agents or store buffers can take.
        fn steps(&self, side: Side, mut step: impl FnMut(Side)) {
            if let Some(current) = side.engine_buffer {
                step(Side { current, engine_buffer: None, ..side });
            }
            if let Some(monitored) = side.waiter_buffer {
                step(Side { monitored, waiter_buffer: None, ..side });
            }
            match side.engine_step {
                0 if side.engine_value <= self.values && side.engine_buffer.is_none() => {
                    step(Side { engine_buffer: Some(side.engine_value), engine_step: 1, ..side });
                }
                1 if side.engine_buffer.is_none() => step(Side { engine_step: 2, ..side }),
                2 => step(Side {
                    is_interrupted: side.is_interrupted || side.engine_value > side.monitored,
                    engine_value: side.engine_value + 1,
                    engine_step: 0,
                    ..side
                }),
                _ => {}
            }
            match side.waiter_step {
                0 if side.waiter_value <= self.values && side.waiter_buffer.is_none() => {
                    step(Side {
                        waiter_buffer: Some(side.waiter_value - 1),
                        waiter_step: 1,
                        ..side
                    });
                }
                1 if side.waiter_buffer.is_none() => step(Side { waiter_step: 2, ..side }),
                2 if side.current >= side.waiter_value => {
                    step(Side { waiter_value: side.waiter_value + 1, waiter_step: 0, ..side });
                }
                2 => step(Side { waiter_step: 3, ..side }),
                3 if side.is_interrupted => {
                    step(Side { is_interrupted: false, waiter_step: 2, ..side });
                }
                _ => {}
            }
        }

        /// Whether a waiter sleeps for ever.
        fn is_lost(&self, state: &State) -> bool {
            state.iter().any(|side| {
                side.engine_value > self.values
                    && side.engine_buffer.is_none()
                    && side.waiter_buffer.is_none()
                    && side.waiter_step == 3
                    && !side.is_interrupted
            })
        }
    }

    impl Model for Protocol {
        type State = State;
        type Action = State;

        fn init_states(&self) -> Vec<State> {
            let side =
                Side { monitored: UNARMED, engine_value: 1, waiter_value: 1, ..Side::default() };
            vec![[side; FENCES]]
        }

        fn actions(&self, state: &State, actions: &mut Vec<State>) {
            for fence in 0..FENCES {
                self.steps(state[fence], |stepped| {
                    let mut next = *state;
                    next[fence] = stepped;
                    actions.push(next);
                });
            }
        }

        fn next_state(&self, _: &State, next: State) -> Option<State> {
            Some(next)
        }

        fn properties(&self) -> Vec<Property<Self>> {
            let holds = |protocol: &Protocol, state: &State| !protocol.is_lost(state);
            vec![Property::<Self>::always("no interrupt is lost", holds)]
        }
    }

    /// The time of a depth-first search of every state; `batch` values of each fence.
    pub(super) fn verdicts(request: &Request) -> Result<Measured, Trouble> {
        let values = u8::try_from(request.batch).map_err(|e| format!("values: {e}"))?;
        let (mut samples, mut states) = (Vec::new(), 0);
        for _ in 0..request.batches {
            let start = Instant::now();
            let checker = Protocol { values }.checker().threads(1).spawn_dfs().join();
            samples.push(ns(start));
            states = checker.unique_state_count();
            if !checker.discoveries().is_empty() {
                return Err("stateright finds a lost interrupt: the model is wrong".to_owned());
            }
        }
        let note = Some(format!("{states} states"));
        Ok(Measured { note, ..Measured::of(samples) })
    }
}
