//! The service and its clients.
//!
//! The clients of `clients`, `fences`, `views` and `work` are sockets of this process, beside a
//! service on a thread. Those of `guests` are virtual machines of this process. The other tests
//! start processes, which are this program again: `process` is the service, `child` and `peers` are
//! clients.

#![allow(
    clippy::disallowed_methods,
    reason = "threads of the tests wait for processes, outside of any machine"
)]

mod calls;
mod child;
mod clients;
mod crowds;
mod ends;
mod fences;
mod guests;
mod hostile;
mod kills;
mod peers;
mod process;
mod stops;
mod twins;
mod views;
mod waits;
mod work;
