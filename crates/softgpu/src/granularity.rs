//! Preemption granularity: where an engine may switch queues, and where a ring may be preempted.
//! Stateless policy.
//!
//! A packet may hold draws and dispatches, so it is preempted in its middle only where both
//! granularities of its node allow it. The running command's own kind then decides. Timed work,
//! copies and fills count as one compute command each. They have no groups, and stop anywhere with
//! THREAD_GROUP or finer. A wait of a ring or of a command buffer can always be left, since nothing
//! runs.
//!
//! The programs' `Grain` defines which parts of a group can be left. Programs with cooperating
//! threads are left between groups, and only interpreted programs between two instructions.

use crate::config::NodeConfig;
use crate::queue::{Execution, Packet, Run};
use crate::running_command::Running;
use tidegate_d3dukmdt::{ComputePreemption, GraphicsPreemption};
use tidegate_gpu_abi::abilities;
use tidegate_programs::Grain;

/// How much must complete before a preemption, the finest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PacketGrain {
    /// All packets of the ring.
    Ring,
    /// The current packet.
    Packet,
    /// The current command or a part of it.
    Command,
}

/// Returns the coarser of the node's granularities. That for graphics matters only if the
/// node draws.
fn packet_grain(node: &NodeConfig) -> PacketGrain {
    let compute = match node.preemption.compute {
        ComputePreemption::None => PacketGrain::Ring,
        ComputePreemption::DmaBuffer => PacketGrain::Packet,
        _ => PacketGrain::Command,
    };
    let graphics = match node.preemption.graphics {
        _ if !abilities::draws(node.class) => PacketGrain::Command,
        GraphicsPreemption::None => PacketGrain::Ring,
        GraphicsPreemption::DmaBuffer => PacketGrain::Packet,
        _ => PacketGrain::Command,
    };
    compute.min(graphics)
}

/// Returns whether an engine may switch from this queue to another one after a turn on it, and
/// whether a ring may be preempted now. A DMA packet that was started needs a save area: without
/// one, a reset for the other queue would lose what the packet did.
// spec: PRE-042
pub(crate) fn may_switch(run: &Run, node: &NodeConfig) -> bool {
    let grain = packet_grain(node);
    match &run.packet {
        Some(Packet::Wait(_)) => true,
        Some(Packet::Execute(work)) if work.wait.is_some() => true,
        None => grain > PacketGrain::Ring || !run.has_work(),
        Some(Packet::Execute(work)) => {
            grain == PacketGrain::Command && work.can_be_kept() && command_may_stop(work, node)
        }
    }
}

/// Returns whether a copy, a fill, a dispatch or a draw may stop between its parts.
pub(crate) fn parts_may_stop(draw: bool, node: &NodeConfig) -> bool {
    match draw {
        true => node.preemption.graphics >= GraphicsPreemption::Triangle,
        false => node.preemption.compute >= ComputePreemption::ThreadGroup,
    }
}

/// Returns the granularity inside a group of a dispatch or a tile of a draw.
pub(crate) fn grain(draw: bool, node: &NodeConfig) -> Grain {
    match (draw, node.preemption.graphics, node.preemption.compute) {
        (true, GraphicsPreemption::Triangle, _) => Grain::Triangle,
        (true, GraphicsPreemption::Pixel | GraphicsPreemption::Shader, _) => Grain::Pixel,
        (false, _, ComputePreemption::Thread) => Grain::Thread,
        (false, _, ComputePreemption::Shader) => Grain::Instruction,
        _ => Grain::Group,
    }
}

/// Returns whether the current command may stop where a turn left it.
fn command_may_stop(work: &Execution, node: &NodeConfig) -> bool {
    match &work.running {
        // A save area holds one command.
        _ if !work.beside.is_empty() => false,
        None => true,
        Some(Running::Hang) => false,
        Some(running) => parts_may_stop(running.is_draw(), node),
    }
}
