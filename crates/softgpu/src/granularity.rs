//! Preemption granularity: where an engine may stop, for switching queues and for giving packets
//! back to the kernel.
//!
//! A packet may hold draws and dispatches, so it is stopped in its middle only where both
//! granularities of its node allow it; then the command that runs decides by its own kind. Timed
//! work, copies and fills count as one compute command each; they have no groups, and are stopped
//! anywhere from THREAD_GROUP on. A wait at the head of a queue is always a place to stop: nothing
//! runs.
//!
//! Which pieces of a group may be left is the programs' (`Grain`): the table stands there. Programs
//! whose threads work together are left between groups, and only a program that is interpreted
//! between two instructions.
//!
//! Pure policy of numbers.

use crate::config::NodeConfig;
use crate::queue::{Execution, Packet, Run};
use crate::running_command::Running;
use tidegate_d3dukmdt::{ComputePreemption, GraphicsPreemption};
use tidegate_programs::Grain;

/// What of a packet may be left where it is, the finest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PacketGrain {
    /// Nothing, and the packets behind it run, too.
    Ring,
    /// It ends.
    Packet,
    /// The command that runs ends, or less.
    Command,
}

/// The coarser one of the node's granularities; the one for graphics matters where there are draws.
fn packet_grain(node: &NodeConfig) -> PacketGrain {
    let compute = match node.preemption.compute {
        ComputePreemption::None => PacketGrain::Ring,
        ComputePreemption::DmaBuffer => PacketGrain::Packet,
        _ => PacketGrain::Command,
    };
    let graphics = match node.preemption.graphics {
        _ if !node.class.draws() => PacketGrain::Command,
        GraphicsPreemption::None => PacketGrain::Ring,
        GraphicsPreemption::DmaBuffer => PacketGrain::Packet,
        _ => PacketGrain::Command,
    };
    compute.min(graphics)
}

/// Whether an engine may turn from this queue to another one, now that a turn on it is over.
// spec: PRE-042
pub(crate) fn may_switch(run: &Run, node: &NodeConfig) -> bool {
    let grain = packet_grain(node);
    match &run.packet {
        Some(Packet::Wait(_)) => true,
        None => grain > PacketGrain::Ring || !run.has_work(),
        Some(Packet::Execute(work)) => {
            grain == PacketGrain::Command && command_may_stop(work, node)
        }
    }
}

/// Whether a copy, a fill, a dispatch or a draw may stop between its parts.
pub(crate) fn parts_may_stop(draw: bool, node: &NodeConfig) -> bool {
    match draw {
        true => node.preemption.graphics >= GraphicsPreemption::Triangle,
        false => node.preemption.compute >= ComputePreemption::ThreadGroup,
    }
}

/// How finely a group of a dispatch or a tile of a draw may be left: groups are left in their
/// middle where the granularity is finer.
pub(crate) fn grain(draw: bool, node: &NodeConfig) -> Grain {
    match (draw, node.preemption.graphics, node.preemption.compute) {
        (true, GraphicsPreemption::Triangle, _) => Grain::Triangle,
        (true, GraphicsPreemption::Pixel | GraphicsPreemption::Shader, _) => Grain::Pixel,
        (false, _, ComputePreemption::Thread) => Grain::Thread,
        (false, _, ComputePreemption::Shader) => Grain::Instruction,
        _ => Grain::Group,
    }
}

/// Whether the command that runs may stop where a turn left it.
fn command_may_stop(work: &Execution, node: &NodeConfig) -> bool {
    match &work.running {
        None => true,
        Some(Running::Hang) => false,
        Some(running) => parts_may_stop(running.is_draw(), node),
    }
}

/// Whether a node's ring can go back to the kernel now: a packet that was begun needs a place for
/// its state.
pub(crate) fn may_give_back(run: &Run, node: &NodeConfig) -> bool {
    let kept = match &run.packet {
        Some(Packet::Execute(work)) => !work.is_begun() || work.save_area.0 != 0,
        _ => true,
    };
    kept && may_switch(run, node)
}
