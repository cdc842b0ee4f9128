//! Tests of the queue API and its user-mode driver against a recording kernel: what is called, what
//! is stored, in which order.

mod arena;
mod double;
mod errors;
mod fences;
mod kernel_mode;
mod lost_ring;
mod timeline;
mod user_mode;
