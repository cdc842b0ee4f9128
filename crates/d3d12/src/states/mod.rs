//! Resource states: checks that each command finds its resources in a state that permits the use,
//! and that fences order the uses. Pure: no lock, no platform, no kernel.
//!
//! Rooms, each above the ones that it uses: `execution` (stage 2: across queues, in an order in
//! which submissions can run) · `recording` (stage 1: within a list, from an unknown state) ·
//! `order` (the order by fences) · `aliasing` · `subresource` (one subresource's state and
//! its changes) · `policy` (the rules as tables) · `violation` · `facts` · `flags`.
//!
//! The check does not affect execution; it only reports violations.

pub(crate) mod aliasing;
pub(crate) mod execution;
pub(crate) mod facts;
pub mod flags;
pub(crate) mod order;
pub mod policy;
pub(crate) mod recording;
pub mod subresource;
#[cfg(test)]
mod tests;
pub mod violation;
