//! Programs of the swarm that failed once.

mod corpus;
