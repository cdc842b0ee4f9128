//! Reports of packets: how many, and those in flight.

use crate::engine::{Packet, PreemptionRequest};
use crate::queue::{Command, Payload, SoftwareQueue};
use crate::scheduler::VidSch;
use tidegate_ddi::{EngineId, OsHandle};
use tidegate_platform::CpuTime;

/// A packet in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketInFlight<F> {
    /// The context.
    pub context: OsHandle,
    /// The fence ID.
    pub id: u32,
    /// The command buffer.
    pub command: Command,
    /// Time of submission.
    pub submitted: CpuTime,
    /// Fences of the signals queued on its context.
    pub signals: Vec<F>,
}

/// The state of one engine.
pub struct PacketsInFlight<F> {
    /// The packets in flight, in order of submission.
    pub packets: Vec<PacketInFlight<F>>,
    /// The open preemption request.
    pub request: Option<PreemptionRequest>,
    /// Fence ID of the last completed packet.
    pub last_completed: u32,
}

impl<P: Payload> VidSch<P> {
    /// Returns the number of packets queued on a packet context so far, and of those completed.
    pub fn packets_of(&self, context: OsHandle) -> (u64, u64) {
        let state = self.queues.get(&context).and_then(SoftwareQueue::context);
        state.map_or((0, 0), |state| state.packets)
    }

    /// Returns the packets in flight on an engine, or `None` if the engine does not exist.
    pub fn packets_in_flight(&self, engine: EngineId) -> Option<PacketsInFlight<P::Fence>> {
        let engine = self.engines.get(engine)?;
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
