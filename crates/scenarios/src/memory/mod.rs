//! Memory: eviction, mappings, page tables. A file for each race.

pub(crate) mod demote_against_destroy;
pub(crate) mod demote_against_signal;
pub(crate) mod evict_against_submit;
pub(crate) mod store_against_rotation;
pub(crate) mod unmap_against_dpc;
pub(crate) mod unmap_against_store;
