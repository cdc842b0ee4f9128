//! The packets that engines have, for reports.

use crate::engine::{Packet, PreemptionRequest};
use crate::queue::{Command, Payload};
use crate::scheduler::VidSch;
use tidegate_ddi::{EngineId, OsHandle};
use tidegate_platform::CpuTime;

/// A packet that an engine has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketInFlight<F> {
    /// Its context.
    pub context: OsHandle,
    /// Its fence ID.
    pub id: u32,
    /// Its command buffer.
    pub command: Command,
    /// When it was submitted.
    pub submitted: CpuTime,
    /// The fences of signals that are queued on its context.
    pub signals: Vec<F>,
}

/// What an engine has.
pub struct PacketsInFlight<F> {
    /// The packets, in order of submission.
    pub packets: Vec<PacketInFlight<F>>,
    /// The open preemption request.
    pub request: Option<PreemptionRequest>,
    /// The ID of the last completed packet.
    pub last_completed: u32,
}

impl<P: Payload> VidSch<P> {
    /// The packets of an engine that are not complete.
    pub fn packets_in_flight(&self, engine: EngineId) -> Option<PacketsInFlight<P::Fence>> {
        let engine = self.engine(engine)?;
        let describe = |packet: &Packet| {
            let queue = self.queues.get(&packet.context);
            PacketInFlight {
                context: packet.context,
                id: packet.id,
                command: packet.command,
                submitted: packet.submitted,
                signals: queue.into_iter().flat_map(|q| self.signals_of(q)).cloned().collect(),
            }
        };
        Some(PacketsInFlight {
            packets: engine.in_flight.iter().map(describe).collect(),
            request: engine.request(),
            last_completed: engine.last_completed(),
        })
    }
}
