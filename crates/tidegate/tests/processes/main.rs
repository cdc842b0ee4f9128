//! Processes: how they end, hostile ones, threads that the platform does not know.

mod foreign_threads;
mod hostile_clients;
mod lifetime;
mod queued_work_limit;
