//! Owns power: of one engine, and of the device as a whole; and which engines say that they are
//! idle.
//!
//! Without power an engine takes no queue. Doorbells, run lists and waits keep what they hold, so
//! that nothing is lost over it: when power is back the engine looks at everything anew. Power is
//! taken between two turns and never inside one.

use super::admin::{Answer, NOTHING};
use super::{Cmp, Shared};
use tidegate_gpu_abi::AdminError;

impl Shared {
    pub(super) fn power_engine(&self, engine: u32, on: bool, if_idle: bool) -> Answer {
        let index = self.checked_engine(engine)?;
        let cmp = self.awake()?;
        let mut cmp = self.await_turns(cmp, |cmp| cmp.nodes[index].turns.is_multiple_of(2));
        if !on && if_idle && !cmp.is_idle(index) {
            return Err(AdminError::Busy);
        }
        cmp.nodes[index].unpowered = !on;
        self.recall(cmp, engine);
        NOTHING
    }

    pub(super) fn power_device(&self, on: bool, if_idle: bool) -> Answer {
        let cmp = self.cmp.lock();
        let between_turns = |cmp: &mut Cmp| cmp.nodes.iter().all(|n| n.turns.is_multiple_of(2));
        let mut cmp = self.await_turns(cmp, between_turns);
        if !on && if_idle && cmp.has_work(0..self.nodes.len(), true) {
            return Err(AdminError::Busy);
        }
        cmp.asleep = !on;
        self.recall_all(cmp);
        // Values may have changed while nobody looked.
        if on {
            self.platform.fence();
            self.unblock(None, None);
        }
        NOTHING
    }

    pub(super) fn report_idle(&self, engine: u32, after_ns: u64) -> Answer {
        let index = self.checked_engine(engine)?;
        let mut cmp = self.awake()?;
        cmp.nodes[index].report_idle_ns = after_ns;
        self.recall(cmp, engine);
        NOTHING
    }

    pub(super) fn checked_engine(&self, engine: u32) -> Result<usize, AdminError> {
        let index = engine as usize;
        if index < self.nodes.len() { Ok(index) } else { Err(AdminError::NoSuchEngine) }
    }
}
