//! Resource states: which commands may use a resource where, and which order makes that sure. Pure:
//! no lock, no platform, no kernel.
//!
//! Rooms, each above the ones that it uses: [`execution`] (stage 2: over queues, in the order in
//! which submissions can run) · [`recording`] (stage 1: inside a list, from a state that is not
//! known) · [`order`] (what fences order) · [`aliasing`] · [`subresource`] (one subresource's state
//! and what changes it) · [`policy`] (the rules as tables) · [`violation`] · [`facts`] · [`flags`].
//!
//! Nothing here changes what a machine does: a violation is a report.

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
