//! What is on the screen: flips from the call that queues them to the vertical sync that latches
//! them.
//!
//! A present, in order:
//! 1. the call pins the surface and queues the flip behind what its queue holds, as a software
//!    command;
//! 2. when everything before it is complete the flip is ready (`flip`);
//! 3. when no other flip is under way and its interval is over, the driver is told (`scanout`): a
//!    memory-mapped flip;
//! 4. a vertical sync reports that it was latched (`vsync`): what was shown before is free, and the
//!    flip's fence says so.
//!
//! Preemption takes packets away from engines and touches neither a flip that waits behind them,
//! which is no packet, nor one that the display was told of, which is in its registers. So flips
//! are not lost, not overtaken, and not shown half.
//!
//! A surface keeps its place from 1 on: it is pinned, and held with its process's address space,
//! until another one is latched or the screen is dark. A device that is lost leaves its last
//! picture; one that ends leaves the dark.
//!
//! Decisions are `tidegate_vidsch::FlipQueue`'s (pure).
//! Rooms: `state` · `flip`, `vsync` (what happens) · `scanout` (what the driver is told) · `port`.

mod flip;
mod port;
mod scanout;
mod state;
mod vsync;

pub(crate) use state::Display;
