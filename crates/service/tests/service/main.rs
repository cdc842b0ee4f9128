//! The service: a machine for several clients. The processes of these tests are sockets of one
//! process; the clients of `crates/cli/tests` are processes.

#![allow(
    clippy::disallowed_methods,
    reason = "the service has a thread beside those of the machine"
)]

mod clients;
mod fences;
mod work;
