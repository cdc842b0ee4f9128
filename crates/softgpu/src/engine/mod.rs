//! Engines: one agent per node of each physical GPU.
//!
//! From the bottom up: `port` (an engine's way to memory) · `window` (commands copied out) ·
//! `busy_time` (busy time and slices) · `executor` (what an engine keeps while it executes packets)
//! · `copy` and `grid` (commands that take time) · `fence` (waits and signals) · `commands` (command
//! buffers) · `ring` (ring slots) · `preemption_latency` · `preemption` (the next queue; a ring that
//! goes back) · `turn` (the agent).

mod busy_time;
mod commands;
mod copy;
mod executor;
mod fence;
mod grid;
mod port;
mod preemption;
mod preemption_latency;
mod ring;
mod turn;
mod window;

pub(crate) use turn::Engine;
