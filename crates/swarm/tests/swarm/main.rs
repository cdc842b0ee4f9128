//! Random programs with fixed seeds. `tidegate swarm` and `cargo xtask full` run other seeds.

mod seeds;
