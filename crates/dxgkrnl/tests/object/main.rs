//! Processes and their objects: lifetimes, limits, doorbells, rings, hardware queues.

mod device_end;
mod doorbell_progress;
mod doorbells;
mod foreign_threads;
mod hostile_clients;
mod keyed_mutexes;
mod lifetime;
mod many_queues;
mod queued_work;
mod queued_work_limit;
mod recreated_queues;
mod refused_arguments;
mod replays;
mod ring_space;
mod shared_doorbell;
mod user_mode;
mod views;
