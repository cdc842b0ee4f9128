//! User-mode and kernel-mode submission: doorbells, rings, backlogs and the queues behind them.

mod doorbell_progress;
mod doorbells;
mod many_queues;
mod queued_work;
mod recreated_queues;
mod replays;
mod ring_space;
mod shared_doorbell;
mod user_mode;
