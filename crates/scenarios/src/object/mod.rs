//! Objects of a process against their ends. A file for each race.

pub(crate) mod create_against_destroy;
pub(crate) mod create_against_end;
pub(crate) mod destroy_against_lookup;
pub(crate) mod device_end;
pub(crate) mod keyed_mutex_against_death;
pub(crate) mod terminate_against_ring;
