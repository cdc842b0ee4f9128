//! Schedulers, engines, preemption and priorities. A file for each race.

pub(crate) mod backlog_against_submit;
pub(crate) mod completion_against_preemption;
pub(crate) mod engine_hand_over;
pub(crate) mod packet_against_higher_band;
pub(crate) mod preemption_against_wait;
pub(crate) mod priority_against_create;
pub(crate) mod priority_against_dispatch;
pub(crate) mod seven_stations;
pub(crate) mod seven_stations_hardware;
pub(crate) mod seven_stations_packet;
pub(crate) mod suspend_against_signal;
