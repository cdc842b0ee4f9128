//! The explorer: litmus programs, pruning, schedules and replay.

mod events;
mod litmus_book;
mod pair;
mod pruning;
mod schedules;
mod worlds;
