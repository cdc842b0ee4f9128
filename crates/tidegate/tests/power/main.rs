//! Power of engines and of the adapter.

mod idle;
mod states;
