//! Handles by which a process names kernel objects.

use serde::{Deserialize, Serialize};
use std::fmt;

/// D3DKMT_HANDLE: names an object of a process. Values are not reused soon after their object ends.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Handle(pub u32);

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}
