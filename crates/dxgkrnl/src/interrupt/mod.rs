//! Interrupts, in the two halves of WDDM, and the driver's way back into the kernel.
//!
//! 1. The line goes up: the interrupt routine runs at DIRQL (`isr`); the driver reports data, which
//!    is queued (`report`), and asks for the DPC.
//! 2. The DPC (`dpc`): the driver calls DxgkCbNotifyDpc, and the kernel takes the reports in order:
//!    completed packets, signalled fences (`signal_report`), faults (`page_fault`).
//!
//! `worker` says where both run.

mod callbacks;
mod dpc;
mod interrupts;
mod isr;
mod page_fault;
mod report;
mod signal_report;
mod worker;

pub(crate) use callbacks::KernelCallbacks;
pub(crate) use interrupts::Interrupts;
pub(crate) use worker::connect;
