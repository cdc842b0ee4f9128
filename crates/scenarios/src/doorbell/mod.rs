//! Doorbells and rings. A file for each race.

pub(crate) mod connect_against_connect;
pub(crate) mod destroy_against_victimise;
pub(crate) mod doorbell_against_destroy;
pub(crate) mod doorbell_order;
pub(crate) mod leaf_ring_against_scan;
pub(crate) mod ring_against_connect;
pub(crate) mod ring_against_disconnect;
pub(crate) mod ring_against_park;
pub(crate) mod ring_against_victimise;
pub(crate) mod suspend_against_destroy;
