//! A service on a socket for tests of its clients.
//!
//! [`Service`] is served by a thread of this process, [`ServiceProcess`] by another process that
//! can be killed and whose descriptors and memory can be counted. Both have a folder for the
//! socket, which is removed with them.

mod process;
mod thread;

pub use process::{Held, ServiceProcess};
pub use thread::Service;
