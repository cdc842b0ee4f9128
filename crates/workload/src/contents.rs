//! What a reader finds in a file, before it is a workload.

use crate::recording::Recording;

/// The contents of a readable file.
pub enum Contents {
    /// The text of a TOML workload.
    Toml(String),
    /// A recorded run.
    #[cfg_attr(
        not(feature = "import"),
        expect(dead_code, reason = "without the feature no reader of recordings is built")
    )]
    Recording(Box<Recording>),
}
