//! What a process may do with memory that it is handed.

use serde::{Deserialize, Serialize};

/// What a process may do with memory that it is handed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ClientAccess {
    /// Load. Its mapping is read-only, and the system lets it make no other.
    ReadOnly,
    /// Load and store.
    ReadWrite,
}
