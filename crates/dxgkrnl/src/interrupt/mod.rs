//! Interrupts, in the two halves of WDDM, and the driver's callbacks into the kernel.
//!
//! 1. The line is asserted: the interrupt routine runs at DIRQL (`isr`). The driver reports data,
//!    which is queued (`report`), and requests the DPC.
//! 2. The DPC (`dpc`): the driver calls DxgkCbNotifyDpc, and the kernel takes the reports in order:
//!    completed packets, signalled fences (`signal_report`), faults (`page_fault`).
//!
//! `worker` decides which agent runs both.

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
