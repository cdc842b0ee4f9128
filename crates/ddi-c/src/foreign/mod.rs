//! Everything between this crate and the machine code of a driver or a device model: the library,
//! the tables of functions that each side gives to the other, and addresses of its memory.
//!
//! The driver is trusted as a kernel trusts a driver: a wild pointer of it ends the process. What
//! the code here relies on, beside the ABI:
//!
//! - a driver calls the functions of a table with the arguments that their types say, and only
//!   while its library is loaded; the host lives longer than the library;
//! - a driver's table has functions of the published types at the published places;
//! - a device model calls the host's functions from inside of its own, with memory of its own.
//!
//! Functions that cross have the ABI `C-unwind`: an agent that panics in a wait below the driver's
//! code unwinds through it.

#![allow(unsafe_code)]

mod device;
mod entries;
mod features;
mod interface;
mod library;
mod routines;
mod table;

pub(crate) use device::open_model;
pub(crate) use entries::{DxgkStartInfo, Entries, place};
pub(crate) use features::DriverFeatures;
pub(crate) use interface::{Interface, resources};
pub(crate) use library::Library;
pub(crate) use routines::ROUTINES;
pub(crate) use table::{HostContext, HostTable};
