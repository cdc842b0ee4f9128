//! Delivery of interrupts, on the raising agent or on a dedicated agent.
//!
//! Inline delivery runs the interrupt routine immediately and the DPC at the end of the agent's
//! turn. The worker runs both, as another processor would.
//!
//! Entry point: [`connect`].

use super::dpc::deferred_routine;
use super::interrupts::Interrupts;
use super::isr::interrupt_routine;
use crate::config::InterruptDelivery;
use std::sync::{Arc, Weak};
use tidegate_ddi::{InterruptService, Passive};
use tidegate_platform::{Agent, Step, Turn, WakeWord, Word};

struct Inline(Weak<Interrupts>);

impl InterruptService for Inline {
    fn raise(&self) {
        if let Some(interrupts) = self.0.upgrade() {
            interrupt_routine(&interrupts.port);
        }
    }

    fn turn_ended(&self) {
        if let Some(interrupts) = self.0.upgrade() {
            while deferred_routine(&interrupts) {}
        }
    }
}

struct Worker {
    line: Word,
    wake: WakeWord,
}

impl InterruptService for Worker {
    fn raise(&self) {
        self.line.store(1);
        self.wake.ring(Step::InterruptDelivery);
    }

    fn turn_ended(&self) {}
}

struct WorkerAgent {
    line: Word,
    interrupts: Weak<Interrupts>,
}

impl Agent for WorkerAgent {
    fn turn(&mut self) -> Turn {
        let Some(interrupts) = self.interrupts.upgrade() else { return Turn::Park };
        if self.line.load() != 0 {
            self.line.exchange(0);
            interrupt_routine(&interrupts.port);
        } else if interrupts.dpc.wanted.load() == 0 {
            return Turn::Park;
        }
        interrupts.port.platform.spend(Step::Dpc);
        while deferred_routine(&interrupts) {}
        Turn::Again
    }
}

/// Connects the adapter's interrupt line, and starts the worker if one is configured.
pub(crate) fn connect(interrupts: &Arc<Interrupts>, level: &Passive) {
    let port = &interrupts.port;
    match port.config.interrupts {
        InterruptDelivery::Inline => {
            let service = Inline(Arc::downgrade(interrupts));
            port.driver(level).connect_interrupt(level, Arc::new(service));
        }
        InterruptDelivery::Worker => {
            let platform = &port.platform;
            let line = platform.page(1).word(0).named("the interrupt line");
            let wake = WakeWord::new(platform);
            let service = Worker { line: line.clone(), wake: wake.clone() };
            // Set once: an adapter is connected once.
            let _ = interrupts.dpc.worker.set(wake.clone());
            let agent = WorkerAgent { line, interrupts: Arc::downgrade(interrupts) };
            port.driver(level).connect_interrupt(level, Arc::new(service));
            let worker = platform.spawn_service("interrupts", wake, vec![Box::new(agent)]);
            *interrupts.worker.lock() = Some(worker);
        }
    }
}
