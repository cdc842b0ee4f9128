//! The contract with the driver: features, versions, declarations that contradict themselves, wrong
//! entries.

mod failed_calls;
mod feature_negotiation;
mod native_fence_start;
mod wrong_entries;
