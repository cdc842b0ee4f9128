//! Power of engines and of the adapter.

#[path = "../world/mod.rs"]
mod world;

mod idle;
mod states;
