//! Power of the device and of its engines. No call reaches an unpowered device.
//!
//! D0 to D3 (`device`): 1. all hardware contexts are suspended; 2. all doorbells are disconnected,
//! with status RETRY; 3. an idle device with work rung in between stays in D0; 4. unless the device
//! was called or paging is in progress, its memory is evicted; 5. power is removed. D3 to D0: 1.
//! power; 2. memory is paged in; 3. the caller continues; 4. the contexts are resumed.
//!
//! Rooms: `state` (counted calls) · `transitions` (what changes the power) · `device` (D-states) ·
//! `engine` (F-states) · `progress`, `progress_watch` (idle user-mode engines). Inactive if power
//! is not managed.

mod device;
mod engine;
mod progress;
mod progress_watch;
mod state;
mod transitions;

pub(crate) use progress_watch::ProgressWatch;
pub(crate) use state::Power;
pub(crate) use transitions::PowerTransitions;
