//! Doorbells and rings. A file for each race.

use crate::prelude::*;
use tidegate::calls::CreateDoorbell;

pub(crate) mod connect_against_connect;
pub(crate) mod destroy_against_victimise;
pub(crate) mod doorbell_against_destroy;
pub(crate) mod doorbell_order;
pub(crate) mod leaf_ring_against_scan;
pub(crate) mod ring_against_connect;
pub(crate) mod ring_against_disconnect;
pub(crate) mod ring_against_park;
pub(crate) mod ring_against_victimise;
pub(crate) mod stored_ring_against_trap;
pub(crate) mod suspend_against_destroy;

/// Describes a doorbell for a new user-mode queue of `client`, with a new ring.
fn of_new_queue(client: &Client) -> CreateDoorbell {
    CreateDoorbell {
        ring: client.allocate(4 * SLOT_BYTES, AllocationKind::Bulk).handle,
        control: client.allocate(CONTROL_WORDS as u64 * 8, AllocationKind::Protocol).handle,
        hw_queue: client.try_hw_queue(0, true).expect("a queue").handle,
        flags: CreateDoorbellFlags::empty(),
        private_data: Vec::new(),
    }
}
