//! Recovery: timeouts, page faults, resets of an engine and of the adapter, removal.

mod adapter_reset;
mod blame;
mod ended_work;
mod engine_reset;
mod lost_calls;
mod named_work;
mod page_faults;
mod removal;
mod rest;
mod stopped_process;
mod timeouts;
