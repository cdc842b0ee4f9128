//! Engines: one agent per node of each physical GPU.
//!
//! From the bottom up: `accesses` (the record of a command's) · `port` (memory access) · `window`
//! (commands copied out) · `random_order` · `busy_time` (busy time and slices) · `executor` (the
//! state of an executing engine) · `copy` and `grid` (commands that take time) · `fence` (waits and
//! signals) · `moderation` (of interrupts) · `overlap` (several commands in flight) · `commands`
//! (command buffers) ·
//! `ring` (ring slots) · `preemption_latency` · `preemption` (queue selection, ring preemption) ·
//! `turn` (the agent).

mod accesses;
mod busy_time;
mod commands;
mod copy;
mod executor;
mod fence;
mod grid;
mod moderation;
mod overlap;
mod port;
mod preemption;
mod preemption_latency;
mod random_order;
mod ring;
mod turn;
mod window;

pub(crate) use turn::Engine;
