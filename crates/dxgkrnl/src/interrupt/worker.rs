//! Where interrupts run: on the raising agent, or on an agent of their own.
//!
//! Inline delivery runs the interrupt routine at once and the DPC at the end of the agent's turn. The
//! worker runs both, as another processor does.
//!
//! Entry point: [`connect`].

use super::dpc::deferred_routine;
use super::isr::interrupt_routine;
use crate::adapter::Adapter;
use crate::config::InterruptDelivery;
use std::sync::{Arc, Weak};
use tidegate_ddi::{InterruptService, Passive};
use tidegate_platform::{Agent, ServiceHandle, Step, Turn, WakeWord, Word};

struct Inline(Weak<Adapter>);

impl InterruptService for Inline {
    fn raise(&self) {
        if let Some(adapter) = self.0.upgrade() {
            interrupt_routine(&adapter);
        }
    }

    fn turn_ended(&self) {
        if let Some(adapter) = self.0.upgrade() {
            while deferred_routine(&adapter) {}
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
    adapter: Weak<Adapter>,
}

impl Agent for WorkerAgent {
    fn turn(&mut self) -> Turn {
        let Some(adapter) = self.adapter.upgrade() else { return Turn::Park };
        if self.line.load() != 0 {
            self.line.exchange(0);
            interrupt_routine(&adapter);
        } else if adapter.dpc.wanted.load() == 0 {
            return Turn::Park;
        }
        adapter.platform.spend(Step::Dpc);
        while deferred_routine(&adapter) {}
        Turn::Again
    }
}

/// Connects the adapter's line; returns the worker, if there is one.
pub(crate) fn connect(adapter: &Arc<Adapter>) -> Option<ServiceHandle> {
    let level = Passive::enter();
    match adapter.config.interrupts {
        InterruptDelivery::Inline => {
            adapter.driver().connect_interrupt(&level, Arc::new(Inline(Arc::downgrade(adapter))));
            None
        }
        InterruptDelivery::Worker => {
            let platform = &adapter.platform;
            let line = platform.page(1).word(0).named("the interrupt line");
            let wake = WakeWord::new(platform);
            let service = Worker { line: line.clone(), wake: wake.clone() };
            // Set once: an adapter is connected once.
            let _ = adapter.dpc.worker.set(wake.clone());
            let agent = WorkerAgent { line, adapter: Arc::downgrade(adapter) };
            adapter.driver().connect_interrupt(&level, Arc::new(service));
            Some(platform.spawn_service("interrupts", wake, vec![Box::new(agent)]))
        }
    }
}
