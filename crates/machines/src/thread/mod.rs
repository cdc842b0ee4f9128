//! What belongs to a thread, and to the agent that runs on it: the one place that knows the caller.
//!
//! Invariants: a cooperative machine switches the belongings of `agent` together with the fiber.
//! The rest stays with the thread. A thread-local that is read at each lock or access has no
//! destructor, so the access needs no check.
//!
//! Rooms: `agent` (name, level, held locks) · `recorder` · `machine` (the machine of the thread) ·
//! `places` (what the process keeps for each living thread). Values of a type that only one room
//! knows are in that room: the running fiber, the world, spare memory (decisions/0170).

mod agent;
mod machine;
mod places;
mod recorder;

pub use agent::*;
pub use machine::*;
pub use places::*;
pub use recorder::*;
