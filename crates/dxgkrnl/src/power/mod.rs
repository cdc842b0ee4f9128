//! Power of the device and of its engines, and that no call reaches a device without power.
//!
//! D0 to D3 (`device`): 1. all hardware contexts are suspended; 2. all doorbells are disconnected, to
//! be connected again; 3. an idle device with work that was rung in between stays; 4. unless the
//! device was called meanwhile, or memory is being paged, the device's memory is moved out; 5. the
//! power goes. D3 to D0: 1. power; 2. memory comes back; 3. the caller goes on; 4. the contexts are
//! resumed.
//!
//! Rooms: `state` (counted calls) · `transitions` (what changes the power) · `device` (D-states) · `engine` (F-states) · `progress`,
//! `progress_watch` (engines that stand still). Where power is not managed nothing here takes a step.

mod device;
mod engine;
mod progress;
mod progress_watch;
mod state;
mod transitions;

pub(crate) use progress_watch::ProgressWatch;
pub(crate) use state::Power;
pub(crate) use transitions::PowerTransitions;
