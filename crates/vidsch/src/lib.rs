//! WDDM's scheduler (VidSch) as pure policy: which work runs next, and when an engine is hung.
//!
//! Invariants: no locks, events, clocks or driver calls. Time is an argument and effects are return
//! values. The caller locks a [`VidSch`], takes an effect, drops the lock and carries it out.
//!
//! Entry points: [`VidSch`] (software queues, engines, preemption), [`EngineWatch`] and
//! [`RecoveryWindow`] (timeouts), [`FlipQueue`] (display flips), [`patch_list`] (splitting buffers
//! that contain physical addresses).

mod abandon;
mod broadcast;
mod config;
mod engine;
mod fence_id;
mod flip_queue;
mod hang_watch;
mod hold;
mod hw_queue;
mod packets;
pub mod patch_list;
mod queue;
mod ready;
mod recovery_window;
mod report;
mod reset;
mod save_area;
mod scheduler;
mod share;
mod submission_right;

#[cfg(test)]
mod tests;

pub use abandon::AbandonedWork;
pub use config::{Config, Now};
pub use engine::{PreemptionReason, PreemptionRequest};
pub use flip_queue::{FlipQueue, FlipStep, LatchedFlip, PoweredDisplay};
pub use hang_watch::{EngineSample, EngineWatch, HangVerdict, SampleTimer};
pub use packets::{Preempted, PreemptionReport};
pub use queue::{Command, CommandKind, CommandRange, FinishedItem, Payload, Signal, SignalEffect};
pub use recovery_window::{RecoveryLimits, RecoveryVerdict, RecoveryWindow};
pub use report::{PacketInFlight, PacketsInFlight};
pub use scheduler::{DueCommand, DuePacket, Effect, HwQueueEffect, Submitter, VidSch};
pub use submission_right::WaiterId;
