//! Random programs with fixed seeds, and programs that failed once. `tidegate swarm` and
//! `cargo xtask full` run other seeds.

mod clients;
mod corpus;
mod planted;
mod seeds;
mod wrong_drivers;
