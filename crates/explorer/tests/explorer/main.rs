//! The explorer: litmus programs, pruning, brute force, schedules and replay.

mod brute_force;
mod dice;
mod events;
mod litmus_book;
mod pair;
mod pruning;
mod reference;
mod schedules;
mod state_lists;
mod statements;
mod worlds;
