//! The software GPU through its registers, rings and memory.

mod display;
mod engines;
mod fence_commands;
mod fences;
mod granularity;
mod latching;
mod packets;
mod preemption;
mod queues;
mod races;
mod shadow;
mod timeline;

use tidegate_testbed::bare_gpu as machine;
