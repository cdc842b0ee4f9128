//! Interrupts, in the two halves of WDDM, and the driver's way back into the kernel.
//!
//! 1. The line goes up: the interrupt routine runs at DIRQL (`isr`); the driver reports data, which
//!    is queued (`report`), and asks for the DPC.
//! 2. The DPC (`dpc`): the driver calls DxgkCbNotifyDpc, and the kernel takes the reports in order:
//!    completed packets, signalled fences (`signal_report`), faults (`page_fault`).
//!
//! `worker` says where both run; `port` is what the rooms above do about reports.

mod callbacks;
mod dpc;
mod isr;
mod page_fault;
mod port;
mod report;
mod signal_report;
mod worker;

pub(crate) use callbacks::KernelCallbacks;
pub(crate) use dpc::{flush, serve_reports, take_overdue};
pub(crate) use isr::{count_again, ignore};
pub(crate) use page_fault::fault_report;
pub(crate) use port::InterruptPort;
pub(crate) use report::DpcQueue;
pub(crate) use worker::connect;
