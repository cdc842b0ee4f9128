//! Tests of rooms above a driver that takes packets and nothing else.

mod packet_driver;
mod scheduling;
