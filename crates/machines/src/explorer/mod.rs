//! What only an explorer uses: its decisions ([`controller`]), the places and the log of steps
//! ([`site`], [`steps`]), and zeroed blocks between two machines of a search (`spare`).

pub mod controller;
pub mod site;
pub(crate) mod spare;
pub mod steps;

pub use controller::*;
pub use site::Site;
pub use steps::*;
