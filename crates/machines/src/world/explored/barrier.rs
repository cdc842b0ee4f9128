//! The barrier of all agents, and what its caller may know of them.
//!
//! Invariants: the barrier completes when each store buffer has been empty since the call. To
//! complete it later only removes behaviour, and flushes are choices, so it is none. The agents
//! that it awaits are part of the state, since the same buffers may or may not have been empty
//! meanwhile.

use super::visible_unless;
use crate::explorer::{AgentIx, Object, OpKind};
use crate::world::machine::{World, with};

impl World {
    /// Notes for the barriers of all agents that the buffer of `agent` is empty.
    #[cold]
    pub(crate) fn end_barriers(&mut self, agent: AgentIx) {
        let mut ended = 0;
        for slot in &mut self.agents {
            let awaited = &mut slot.explored.awaited;
            if !awaited.is_empty() {
                awaited.retain(|other| *other != agent);
                ended += usize::from(awaited.is_empty());
            }
        }
        self.explored_mut().barriers -= ended;
    }
}

/// Has every agent execute a full barrier. It completes when each buffer has been empty since the
/// call.
pub fn fence_of_agents() {
    let drained = |w: &mut World| {
        let filled = (0u16..).zip(&w.agents).filter(|(_, slot)| !slot.explored.has_drained());
        let awaited: Vec<AgentIx> = filled.map(|(index, _)| AgentIx(index)).collect();
        w.relate_all();
        w.absorb(0xFD);
        if awaited.is_empty() {
            return Some(());
        }
        let me = w.current?;
        w.slot(me).explored.awaited = awaited;
        w.explored_mut().barriers += 1;
        None
    };
    visible_unless(OpKind::FenceOfAgents, Object::None, drained, |_| ());
}

/// Returns the calling agent's index in its machine; `None` outside of a run.
pub fn agent_index() -> Option<usize> {
    with(|w| w.current).map(|me| usize::from(me.0))
}

/// Returns the number of agents so far.
pub fn agents() -> usize {
    with(|w| {
        let agents = w.agents.len();
        w.absorb(agents as u64);
        agents
    })
}
