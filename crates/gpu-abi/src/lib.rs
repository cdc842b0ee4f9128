//! What software and the software GPU agree on, and nothing else: they meet here.
//!
//! Rooms: [`address`] (GPU addresses, page table entries) · [`ring`] (ring slots, control area) ·
//! [`command`] (what a command buffer holds) · [`doorbell`] (doorbell page, summary, wake word) ·
//! [`engine_class`] (what an engine runs) ·
//! [`regs`] (registers, causes of an interrupt) · [`admin`] (what the driver asks of the context
//! management processor through the mailbox registers) · [`log`] (the published layout of fence
//! logs) · [`display`] (what is scanned out) · [`device`] (the trait behind which a GPU stands) ·
//! [`peer`] (the common doorbell, by which GPUs tell each other).
//!
//! The published documents leave these formats to the vendor; ours are version 1 and every one is
//! checked when it is read, because rings and command buffers are written by untrusted processes.

pub mod address;
pub mod admin;
pub mod command;
pub mod device;
pub mod display;
pub mod doorbell;
pub mod engine_class;
pub mod peer;
pub mod regs;
pub mod ring;

pub use address::{AddressSpaceId, GpuTime, GpuVa, PAGE_BYTES, Pte};
pub use admin::{AdminCommand, AdminError, QueueId, QueueKind, QueueShape, QueueState};
pub use command::{Command, CommandError, CommandReader, CommandWriter};
pub use device::{Device, InterruptSink};
pub use doorbell::{DOORBELL_VALUE_WORD, Summary, global_base, global_parts};
pub use engine_class::EngineClass;
pub use regs::{Cause, Register};
pub use ring::{
    CONTROL_INTERRUPTED_WORD, CONTROL_READ_WORD, CONTROL_WORDS, CONTROL_WRITE_WORD, PacketError,
    RingPacket, SLOT_BYTES,
};
pub use tidegate_d3dukmdt::log;
