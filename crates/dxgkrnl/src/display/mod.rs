//! The display: flips from the call that queues them to the vertical sync that latches them.
//!
//! A present, in order:
//! 1. the call pins the surface and queues the flip as a software command;
//! 2. when all earlier work of the queue is complete, the flip is ready (`flip`);
//! 3. when no other flip is in flight and the interval has passed, the driver is called (`scanout`)
//!    for a memory-mapped flip;
//! 4. a vertical sync reports the latch (`vsync`): the previous surface is free, and the flip's
//!    fence is signalled.
//!
//! Preemption affects only packets on engines. A queued flip is not a packet, and a flip in flight
//! is in display registers, so flips are never lost, reordered or torn.
//!
//! From step 1 a surface is pinned, and held with its process's address space, until another one is
//! latched or the screen is blanked. A lost device leaves its last picture. The end of a device
//! blanks the screen.
//!
//! `tidegate_vidsch::FlipQueue` (pure) decides. Rooms: `state` · `flip`, `vsync` (events) ·
//! `scanout` (driver calls) · `port`.

mod flip;
mod port;
mod scanout;
mod state;
mod vsync;

pub(crate) use state::Display;
