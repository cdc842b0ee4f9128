//! The software GPU through its registers, rings and memory.

mod display;
mod engines;
mod fences;
mod granularity;
mod latching;
mod machine;
mod preemption;
mod queues;
mod races;
mod shadow;
mod timeline;
