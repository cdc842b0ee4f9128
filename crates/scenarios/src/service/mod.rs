//! Clients of a service. A file for each race.

pub(crate) mod call_against_call;
pub(crate) mod cancel_against_register;
pub(crate) mod cancel_against_signal;
pub(crate) mod connect_against_connect;
pub(crate) mod destroy_against_wait;
pub(crate) mod device_end_against_signal;
pub(crate) mod handle_against_death;
pub(crate) mod hostile_client;
pub(crate) mod kill_against_call;
pub(crate) mod ring_against_connect;
pub(crate) mod ring_against_park;
pub(crate) mod served;
pub(crate) mod slot_against_signal;
pub(crate) mod stop_against_wait;
pub(crate) mod wait_against_signal;
