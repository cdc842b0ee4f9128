//! Fences of every kind: storage, signals, waits that latch, sharing between devices and adapters.

mod coherency;
mod cross_adapter;
mod latching_waits;
mod monitored;
mod monitored_progress;
mod narrow_atomics;
mod native;
mod random_signals_and_waits;
mod sharing;
mod signals;
mod storage;
