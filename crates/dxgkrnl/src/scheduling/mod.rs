//! The kernel side of VidSch: locks the policy, takes its effects, drops the lock and carries the
//! effects out.
//!
//! Invariants: no lock is held over a DDI call, a signal or an upper room. One agent at a time
//! carries out packet effects, and one the effects of each hardware queue, so commands reach the
//! driver in the order of decision. All queues of an adapter share the lock "VidSch" (decision 56).
//!
//! Files: `scheduler` (queues) · `submit` (effects) · `completion` (reports of packets) ·
//! `engine_reset` (engines stop and resume) · `render`, `dma_buffer` (physical addresses) ·
//! `save_areas` (held contexts) · `hw_priority` · `payload` (what queues carry) · `port` (what the
//! rooms above do).

mod completion;
mod dma_buffer;
mod engine_reset;
pub(crate) mod hw_priority;
mod payload;
mod port;
pub(crate) mod render;
mod save_areas;
mod scheduler;
mod submit;
mod watch;

pub(crate) use dma_buffer::QueuedPart;
pub(crate) use payload::{Signal, SignalAction, fence_signal};
pub(crate) use port::{KernelModeQueue, PacketContext, ReportPort, SchedulingPort};
pub(crate) use scheduler::{ScheduledQueue, Scheduling};
pub(crate) use tidegate_vidsch::{CommandKind, CommandRange, PreemptionReport};
pub(crate) use watch::SchedulerWatch;
