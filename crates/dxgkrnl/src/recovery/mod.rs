//! Timeout detection and recovery (TDR) of an adapter, in one direction:
//! 1. `detect` finds that the GPU makes no progress, for packets and for hardware queues;
//! 2. `decide` (pure) chooses the response from configuration and recovery window;
//! 3. `engine_reset` or `adapter_reset` carries that out, and `device_loss` ends the work at fault;
//! 4. `report` records findings and actions as typed facts (`collect`).
//!
//! Lock order: `one_at_a_time` comes before every lock except the locks of a power transition.
//!
//! Entry points: [`TimeoutWatch`] (the timer's agent, `watch`), `recover`, [`report_finding`].

mod adapter_reset;
mod blame;
mod collect;
mod decide;
mod detect;
mod detector;
mod device_loss;
mod engine_reset;
mod recover;
mod report;
mod state;
mod watch;

pub(crate) use detect::report_finding;
pub(crate) use device_loss::{fault_report, lose_device, lose_devices_later};
pub use report::{
    HeldBack, Promotion, RecoveryOutcome, RecoveryReason, RecoveryReport, TimeoutCause, WorkAtReset,
};
pub(crate) use state::Recovery;
pub use state::RecoveryHook;
pub(crate) use watch::{TimeoutWatch, TimeoutWatchAtRest};
