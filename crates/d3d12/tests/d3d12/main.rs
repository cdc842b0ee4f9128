//! The queue API and its user-mode driver on a machine whose kernel calls are recorded: what is
//! called, what is stored, in which order.

mod allocators;
mod arena;
mod bench;
mod descriptions;
mod errors;
mod fences;
mod futures;
mod kernel_mode;
mod lost_ring;
mod states;
mod textures;
mod timeline;
mod user_mode;
