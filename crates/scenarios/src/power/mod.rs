//! F- and D-states. A file for each race.

pub(crate) mod page_against_d3;
pub(crate) mod resume_against_destroy;
pub(crate) mod resume_against_f1;
pub(crate) mod ring_against_d3;
pub(crate) mod ring_against_f1;
