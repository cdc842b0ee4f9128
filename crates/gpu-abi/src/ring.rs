//! The ring: 64-byte slots that an engine takes in order, and the control area with its two
//! pointers.
//!
//! Pointers count slots since the queue was created and never wrap in practice. Slot `n` is at
//! index `n % slots`. Software fills slots, stores the write pointer, and rings the doorbell with
//! the same number. The engine stores the read pointer when a slot is no longer needed. A ring's
//! size is a power of two.

use crate::{AddressSpaceId, GpuVa};

/// Bytes in one ring slot: a cache line.
pub const SLOT_BYTES: u64 = 64;
/// Words in one ring slot.
pub const SLOT_WORDS: usize = SLOT_BYTES as usize / 8;
/// Words in the control area.
pub const CONTROL_WORDS: usize = 16;
/// Word of the control area that software stores: slots published.
pub const CONTROL_WRITE_WORD: usize = 0;
/// Word of the control area that the engine stores: slots taken. It has its own cache line.
pub const CONTROL_READ_WORD: usize = 8;
/// Word of the control area that the hardware stores when a process's queue is destroyed in the
/// middle of a command buffer: the number of its slot plus one. Software that resubmits the rest of
/// the ring to another queue must skip that command buffer.
pub const CONTROL_INTERRUPTED_WORD: usize = 9;
/// The maximum number of slots in a ring.
pub const MAX_RING_SLOTS: u64 = 1 << 20;
/// The log entry number for no entry.
pub const NO_LOG_ENTRY: u32 = u32::MAX;

bitflags::bitflags! {
    /// Flags of a DMA packet.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct DmaFlags: u32 {
        /// The packet was preempted: continue from the state in the save area, if there is one. A
        /// packet that was not started has none.
        const RESUME = 1;
        /// The packet has no commands and only makes the engine switch to its context (lazy
        /// context switch).
        const CONTEXT_SWITCH = 1 << 1;
        /// The packet's addresses are physical. The driver has patched them.
        const PHYSICAL = 1 << 2;
    }
}

/// Bytes of a save area: a page.
pub const SAVE_AREA_BYTES: u64 = 4096;
/// The first word of a save area that holds a state. The format is private to the hardware. 0 means
/// that there is no state: the initial value, and the value after the state was loaded.
pub const SAVED_STATE: u64 = 0x3145_5441_5453_4754;

/// One ring slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingPacket {
    /// Do nothing.
    Nop,
    /// Run a command buffer, then store `progress` to the queue's progress fence. If there is a log
    /// entry, write the start and end time of the commands to it.
    Execute {
        /// The address of the commands.
        commands: GpuVa,
        /// The length in bytes (a multiple of 8).
        bytes: u32,
        /// The value of the progress fence on completion; 0 for none.
        progress: u64,
        /// The number of the entry in the verbose log of command buffers, modulo the log's entries.
        log_entry: Option<u32>,
    },
    /// Run a DMA buffer of another process's context, then report `submission_fence_id`. Only in
    /// kernel-owned rings.
    ExecuteDma {
        /// The address of the commands.
        commands: GpuVa,
        /// The length in bytes (a multiple of 8).
        bytes: u32,
        /// The address space of the context.
        address_space: AddressSpaceId,
        /// The id reported with the completion interrupt.
        submission_fence_id: u32,
        /// The kernel's handle of the context, to which the work is attributed.
        os_handle: u64,
        /// The page for the packet's state when it is preempted in the middle, in the system
        /// process's address space. With 0 the state cannot be saved, and the packet ends before
        /// its ring is preempted.
        save_area: GpuVa,
        /// The flags.
        flags: DmaFlags,
    },
    /// Hold the queue until the fence's CurrentValue is at least `value`, or has been since
    /// `epoch`.
    Wait {
        /// The address of CurrentValue.
        current_value: GpuVa,
        /// The value to wait for.
        value: u64,
        /// The epoch of the fence's cell when the wait was issued (see `fence_cell`). The wait
        /// latches from that epoch, even while it is queued behind other packets. With 0, only the
        /// value decides when the engine evaluates the wait.
        epoch: u64,
        /// The process's handle of the fence, for the log.
        fence_handle: u32,
        /// The number of the log entry to write (modulo the log's entries), or [`NO_LOG_ENTRY`].
        log_entry: u32,
    },
    /// Store `value` to CurrentValue, write the log entry, then interrupt if the value is above
    /// MonitoredValue.
    Signal {
        /// The address of CurrentValue.
        current_value: GpuVa,
        /// The address of MonitoredValue.
        monitored_value: GpuVa,
        /// The value to store.
        value: u64,
        /// The process's handle of the fence, for the log.
        fence_handle: u32,
        /// The number of the log entry to write (modulo the log's entries), or [`NO_LOG_ENTRY`].
        log_entry: u32,
    },
}

/// Why a ring slot is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// The opcode is unknown.
    #[error("ring slot with unknown opcode {0:#04x}")]
    UnknownOpcode(u8),
    /// The format version is unknown.
    #[error("ring slot of format version {0}, expected 1")]
    Version(u8),
    /// A command buffer's length is not a multiple of 8, or is 0 or too large.
    #[error("command buffer of {0} bytes: must be a multiple of 8, from 8 to 16 MiB")]
    Length(u32),
    /// A DMA packet has unknown flags.
    #[error("a DMA packet with unknown flags {0:#x}")]
    DmaFlags(u32),
    /// A user-mode ring holds a packet that only kernel-owned rings may hold.
    #[error("a kernel packet in a user-mode ring")]
    KernelOnly,
}

/// The maximum number of bytes in one command buffer.
pub const MAX_COMMAND_BYTES: u32 = 16 << 20;

const VERSION: u64 = 1;
const NOP: u8 = 0;
const EXECUTE: u8 = 1;
const EXECUTE_DMA: u8 = 2;
const WAIT: u8 = 3;
const SIGNAL: u8 = 4;
const EXECUTE_LOGGED: u8 = 5;

impl RingPacket {
    /// Returns an [`RingPacket::Execute`] without a log entry.
    pub fn execute(commands: GpuVa, bytes: u32, progress: u64) -> RingPacket {
        RingPacket::Execute { commands, bytes, progress, log_entry: None }
    }

    /// Encodes the slot.
    pub fn encode(&self) -> [u8; SLOT_BYTES as usize] {
        let mut bytes = [0; SLOT_BYTES as usize];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(self.words()) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Returns the slot's little-endian words.
    #[inline]
    pub fn words(&self) -> [u64; SLOT_WORDS] {
        let mut w = [0u64; SLOT_WORDS];
        let head = |opcode: u8| u64::from(opcode) | VERSION << 8;
        match *self {
            RingPacket::Nop => w[0] = head(NOP),
            RingPacket::Execute { commands, bytes, progress, log_entry } => {
                w[..5].copy_from_slice(&[
                    head(log_entry.map_or(EXECUTE, |_| EXECUTE_LOGGED)),
                    commands.0,
                    u64::from(bytes),
                    progress,
                    log_entry.map_or(0, u64::from),
                ]);
            }
            RingPacket::ExecuteDma {
                commands,
                bytes,
                address_space,
                submission_fence_id,
                os_handle,
                save_area,
                flags,
            } => {
                w[..6].copy_from_slice(&[
                    head(EXECUTE_DMA) | u64::from(submission_fence_id) << 32,
                    commands.0,
                    u64::from(bytes) | u64::from(address_space.0) << 32,
                    u64::from(flags.bits()) << 32,
                    save_area.0,
                    os_handle,
                ]);
            }
            RingPacket::Wait { current_value, value, epoch, fence_handle, log_entry } => {
                w[..5].copy_from_slice(&[
                    head(WAIT) | u64::from(fence_handle) << 32,
                    current_value.0,
                    epoch,
                    value,
                    u64::from(log_entry),
                ]);
            }
            RingPacket::Signal {
                current_value,
                monitored_value,
                value,
                fence_handle,
                log_entry,
            } => {
                w[..5].copy_from_slice(&[
                    head(SIGNAL) | u64::from(fence_handle) << 32,
                    current_value.0,
                    monitored_value.0,
                    value,
                    u64::from(log_entry),
                ]);
            }
        }
        w
    }

    /// Decodes a slot that an untrusted process may have written.
    #[inline]
    pub fn decode(bytes: &[u8; SLOT_BYTES as usize]) -> Result<RingPacket, PacketError> {
        let w = words_of(bytes);
        let [low, version, ..] = w[0].to_le_bytes();
        if u64::from(version) != VERSION {
            return Err(PacketError::Version(version));
        }
        let upper = (w[0] >> 32) as u32;
        Ok(match low {
            NOP => RingPacket::Nop,
            EXECUTE | EXECUTE_LOGGED => RingPacket::Execute {
                commands: GpuVa(w[1]),
                bytes: length(w[2] as u32)?,
                progress: w[3],
                log_entry: (low == EXECUTE_LOGGED).then_some(w[4] as u32),
            },
            EXECUTE_DMA => {
                let bits = (w[3] >> 32) as u32;
                let flags = DmaFlags::from_bits(bits).ok_or(PacketError::DmaFlags(bits))?;
                let bytes = match w[2] as u32 {
                    0 if flags.contains(DmaFlags::CONTEXT_SWITCH) => 0,
                    bytes => length(bytes)?,
                };
                RingPacket::ExecuteDma {
                    commands: GpuVa(w[1]),
                    bytes,
                    address_space: AddressSpaceId((w[2] >> 32) as u32),
                    submission_fence_id: upper,
                    os_handle: w[5],
                    save_area: GpuVa(w[4]),
                    flags,
                }
            }
            WAIT => RingPacket::Wait {
                current_value: GpuVa(w[1]),
                value: w[3],
                epoch: w[2],
                fence_handle: upper,
                log_entry: w[4] as u32,
            },
            SIGNAL => SignalPacket::of_words(&w).into(),
            other => return Err(PacketError::UnknownOpcode(other)),
        })
    }
}

/// A signal, as [`RingPacket::Signal`] has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalPacket {
    /// The address of CurrentValue.
    pub current_value: GpuVa,
    /// The address of MonitoredValue; 0 for a signal that is compared with none.
    pub monitored_value: GpuVa,
    /// The value to store.
    pub value: u64,
    /// The process's handle of the fence, for the log.
    pub fence_handle: u32,
    /// The number of the log entry to write, or [`NO_LOG_ENTRY`].
    pub log_entry: u32,
}

impl SignalPacket {
    /// Decodes a slot that an untrusted process may have written; `None` if it holds no signal.
    #[inline]
    pub fn in_slot(bytes: &[u8; SLOT_BYTES as usize]) -> Option<SignalPacket> {
        let w = words_of(bytes);
        let is_signal = w[0] & 0xFFFF == u64::from(SIGNAL) | VERSION << 8;
        is_signal.then(|| SignalPacket::of_words(&w))
    }

    #[inline]
    fn of_words(w: &[u64; SLOT_WORDS]) -> SignalPacket {
        SignalPacket {
            current_value: GpuVa(w[1]),
            monitored_value: GpuVa(w[2]),
            value: w[3],
            fence_handle: (w[0] >> 32) as u32,
            log_entry: w[4] as u32,
        }
    }
}

impl From<SignalPacket> for RingPacket {
    #[inline]
    fn from(signal: SignalPacket) -> RingPacket {
        let SignalPacket { current_value, monitored_value, value, fence_handle, log_entry } =
            signal;
        RingPacket::Signal { current_value, monitored_value, value, fence_handle, log_entry }
    }
}

#[inline]
fn words_of(bytes: &[u8; SLOT_BYTES as usize]) -> [u64; SLOT_WORDS] {
    let mut words = [0; SLOT_WORDS];
    for (word, raw) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*raw);
    }
    words
}

fn length(bytes: u32) -> Result<u32, PacketError> {
    if bytes == 0 || !bytes.is_multiple_of(8) || bytes > MAX_COMMAND_BYTES {
        return Err(PacketError::Length(bytes));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_reads_back_as_written() {
        let packets = [
            RingPacket::Nop,
            RingPacket::execute(GpuVa(0x1000), 64, 7),
            RingPacket::Execute {
                commands: GpuVa(8),
                bytes: 8,
                progress: 1,
                log_entry: Some(1_343),
            },
            RingPacket::ExecuteDma {
                commands: GpuVa(0x2000),
                bytes: 8,
                address_space: AddressSpaceId(5),
                submission_fence_id: u32::MAX,
                os_handle: 1 << 40,
                save_area: GpuVa(0x3000),
                flags: DmaFlags::RESUME,
            },
            RingPacket::Wait {
                current_value: GpuVa(8),
                value: u64::MAX,
                epoch: 6,
                fence_handle: 0x40,
                log_entry: 83,
            },
            RingPacket::Signal {
                current_value: GpuVa(8),
                monitored_value: GpuVa(16),
                value: 42,
                fence_handle: 0x80,
                log_entry: NO_LOG_ENTRY,
            },
        ];
        for packet in packets {
            assert_eq!(RingPacket::decode(&packet.encode()), Ok(packet));
            let signal = SignalPacket::in_slot(&packet.encode()).map(RingPacket::from);
            assert_eq!(signal, matches!(packet, RingPacket::Signal { .. }).then_some(packet));
        }
    }

    #[test]
    fn hostile_slots_are_refused() {
        assert_eq!(RingPacket::decode(&[0; 64]), Err(PacketError::Version(0)));
        let mut slot = RingPacket::Nop.encode();
        slot[0] = 77;
        assert_eq!(SignalPacket::in_slot(&slot), None);
        assert_eq!(RingPacket::decode(&slot), Err(PacketError::UnknownOpcode(77)));
        for bytes in [0, 7, MAX_COMMAND_BYTES + 8] {
            let slot = RingPacket::execute(GpuVa(0), bytes, 0).encode();
            assert_eq!(RingPacket::decode(&slot), Err(PacketError::Length(bytes)));
        }
    }
}
