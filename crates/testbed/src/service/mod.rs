//! A service on a socket for tests of its clients.
//!
//! [`Service`] is served by a thread of this process, [`ServiceProcess`] by another process that
//! can be killed and whose descriptors and memory can be counted. Both have a folder for the
//! socket, which is removed with them. A [`VirtualMachine`] is a guest of one.

mod process;
mod thread;
mod virtual_machine;

pub use process::{Held, ServiceProcess};
pub use thread::Service;
pub use virtual_machine::VirtualMachine;
