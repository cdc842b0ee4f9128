//! Power of engines and of the adapter.

mod dpcs;
mod idle;
mod states;
mod suspension;
