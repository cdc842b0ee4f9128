//! The contract between software and the software GPU.
//!
//! Rooms: [`address`] (GPU addresses, page table entries) · [`ring`] (ring slots, control area) ·
//! [`command`] (command buffers) · [`doorbell`] (doorbell page, summary, wake word) · [`hint`] (of
//! a doorbell) · [`abilities`] (commands of each kind of engine) · [`regs`] (registers, interrupt
//! causes) · [`admin`] (mailbox commands to the context management processor) · [`log`] (the
//! published layout of fence logs) · [`display`] (scan-out) · [`device`] (the trait of a GPU) ·
//! [`peer`] (the common doorbell, for signals between GPUs).
//!
//! The published documents leave these formats to the vendor. These are version 1. Every format is
//! checked when read, because rings and command buffers are written by untrusted processes.

pub mod abilities;
pub mod address;
pub mod admin;
pub mod command;
pub mod device;
pub mod display;
pub mod doorbell;
pub mod hint;
pub mod peer;
pub mod program;
pub mod regs;
pub mod ring;

pub use address::{AddressSpaceId, GpuTime, GpuVa, PAGE_BYTES, Pte};
pub use admin::{AdminCommand, AdminError, QueueId, QueueKind, QueueShape, QueueState};
pub use command::{Command, CommandError, CommandReader, CommandWriter};
pub use device::{Device, InterruptSink};
pub use doorbell::{DOORBELL_VALUE_WORD, Ringer, Summary, SummaryPlace, global_base, global_parts};
pub use hint::SummaryHint;
pub use program::{ComputeProgram, DrawProgram, Program, Shader};
pub use regs::{Cause, Register};
pub use ring::{
    CONTROL_INTERRUPTED_WORD, CONTROL_READ_WORD, CONTROL_WORDS, CONTROL_WRITE_WORD, PacketError,
    RingPacket, SLOT_BYTES, SignalPacket,
};
pub use tidegate_d3dukmdt::EngineKind;
pub use tidegate_d3dukmdt::log;
