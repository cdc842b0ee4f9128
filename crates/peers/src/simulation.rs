//! Simulators of discrete events: simcore and nexosim, with components that set themselves a timer
//! again and again.

use crate::timing::{Measured, ns, pin};
use crate::{Request, Trouble};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

const EVENTS: u64 = 300_000;

/// Measures what this room has for a request: `batch` components.
pub(crate) fn measure(request: &Request) -> Result<Option<Measured>, Trouble> {
    pin(request.client_cpu)?;
    let run = match request.row.as_str() {
        "simcore_timers" => simcore_timers,
        "nexosim_timers" => nexosim_timers::run,
        _ => return Ok(None),
    };
    let samples: Result<Vec<f64>, Trouble> =
        (0..request.batches).map(|_| run(request.batch)).collect();
    Ok(Some(Measured::of(samples?)))
}

/// The next delay, from 1 to 1,000.
fn draw(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random % 1_000 + 1
}

fn seed(number: u64) -> u64 {
    77 + number * 7_919
}

#[derive(Clone, serde::Serialize)]
struct Tick;

struct Component {
    context: simcore::SimulationContext,
    random: u64,
}

impl simcore::EventHandler for Component {
    fn on(&mut self, _: simcore::Event) {
        let delay = draw(&mut self.random) as f64;
        self.context.emit_self(Tick, delay);
    }
}

fn simcore_timers(components: u64) -> Result<f64, Trouble> {
    let mut simulation = simcore::Simulation::new(1);
    for number in 0..components {
        let name = format!("component {number}");
        let context = simulation.create_context(&name);
        context.emit_self(Tick, (number % 1_000) as f64 + 1.0);
        let component = Component { context, random: seed(number) };
        simulation.add_handler(&name, Rc::new(RefCell::new(component)));
    }
    let start = Instant::now();
    simulation.steps(EVENTS);
    Ok(ns(start) / EVENTS as f64)
}

mod nexosim_timers {
    use super::{EVENTS, Instant, Trouble, draw, ns, seed};
    use nexosim::model::{Context, Model, schedulable};
    use nexosim::ports::EventSource;
    use nexosim::simulation::{Mailbox, SimInit};
    use nexosim::time::MonotonicTime;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    #[derive(Default, serde::Serialize, serde::Deserialize)]
    struct Timer {
        random: u64,
        #[serde(skip)]
        events: Arc<AtomicU64>,
    }

    #[Model]
    impl Timer {
        fn start(&mut self, _: u64, context: &Context<Self>) {
            let delay = Duration::from_micros(draw(&mut self.random));
            // The delay is positive, which is all that is asked of it.
            let _ = context.schedule_event(delay, schedulable!(Self::fire), 0u64);
        }

        #[nexosim(schedulable)]
        async fn fire(&mut self, value: u64, context: &Context<Self>) {
            self.events.fetch_add(1, Ordering::Relaxed);
            self.start(value, context);
        }
    }

    pub(super) fn run(models: u64) -> Result<f64, Trouble> {
        let failed = |what: &str, e: &dyn std::fmt::Debug| format!("nexosim: {what}: {e:?}");
        let mut bench = SimInit::with_num_threads(1);
        let events = Arc::new(AtomicU64::new(0));
        let mut sources = Vec::new();
        for number in 0..models {
            let mailbox: Mailbox<Timer> = Mailbox::new();
            sources.push(EventSource::new().connect(Timer::start, &mailbox).register(&mut bench));
            let timer = Timer { random: seed(number), events: Arc::clone(&events) };
            bench = bench.add_model(timer, mailbox, &format!("timer {number}"));
        }
        let mut simulation = bench.init(MonotonicTime::EPOCH).map_err(|e| failed("init", &e))?;
        for source in &sources {
            simulation.process_event(source, 0u64).map_err(|e| failed("process_event", &e))?;
        }
        // A delay is 500 µs in the mean.
        let span = Duration::from_micros(EVENTS * 500 / models.max(1));
        let start = Instant::now();
        simulation.step_until(span).map_err(|e| failed("step_until", &e))?;
        Ok(ns(start) / events.load(Ordering::Relaxed).max(1) as f64)
    }
}
