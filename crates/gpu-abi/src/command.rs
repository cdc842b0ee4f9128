//! Command buffers: a stream of 64-bit words. The first word of each command holds its opcode and
//! its length.
//!
//! Command buffers are written by untrusted processes and may change while they are read. The
//! engine therefore copies each command once and decodes the copy.

use crate::{GpuVa, SignalPacket};

/// The maximum number of words in one command, its head included.
pub const MAX_COMMAND_WORDS: usize = 64;

/// One command of a command buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Copy bytes.
    Copy {
        /// The source address.
        source: GpuVa,
        /// The destination address.
        destination: GpuVa,
        /// The length in bytes; not 0.
        bytes: u64,
    },
    /// Fill with a repeated 32-bit value.
    Fill {
        /// The destination address.
        destination: GpuVa,
        /// The length in bytes; a multiple of 4, not 0.
        bytes: u64,
        /// The value.
        value: u32,
    },
    /// Run a built-in compute program.
    Dispatch {
        /// The program's number.
        program: u32,
        /// Thread groups in x, y, z.
        groups: [u32; 3],
        /// The program's arguments.
        args: Vec<u64>,
    },
    /// Run a built-in compute program over a grid that is read from memory when the command begins.
    /// The command does nothing if the number at `count_at` is not above `index`, or if a dimension
    /// of the grid is 0.
    DispatchIndirect {
        /// The program's number.
        program: u32,
        /// The address of the thread groups in x, y, z, 32 bits each; a multiple of 4.
        groups_at: GpuVa,
        /// The address of a 32-bit number of commands, a multiple of 4; 0 for none.
        count_at: GpuVa,
        /// The number of the command among those that `count_at` counts.
        index: u32,
        /// The program's arguments.
        args: Vec<u64>,
    },
    /// Run the rasteriser (3D engine only).
    Draw {
        /// The rasteriser program's number.
        program: u32,
        /// Tiles in x, y, z.
        groups: [u32; 3],
        /// The program's arguments.
        args: Vec<u64>,
    },
    /// Keep the engine busy for a given time: modelled work.
    Timed {
        /// The duration in nanoseconds.
        ns: u64,
    },
    /// Keep the engine idle for a given time: a gap in a replayed recording.
    Gap {
        /// The duration in nanoseconds.
        ns: u64,
    },
    /// Stop responding, as when a program hangs. Preemption cannot end it, only a reset of
    /// the engine.
    Hang,
    /// Store a 64-bit value, which is how an engine signals a monitored fence.
    WriteValue {
        /// The destination address.
        destination: GpuVa,
        /// The value.
        value: u64,
    },
    /// Copy results of queries. As `Copy`, but no predicate skips it.
    Resolve {
        /// The source address.
        source: GpuVa,
        /// The destination address.
        destination: GpuVa,
        /// The length in bytes; not 0.
        bytes: u64,
    },
    /// Store the time of the GPU's clock in nanoseconds, 64 bits.
    Timestamp {
        /// The destination address.
        destination: GpuVa,
    },
    /// Read a 64-bit value, and skip the following copies, fills, dispatches and draws, as far as
    /// the next predicate, if the value is 0 or, with `unless_zero`, if it is another. Each
    /// command buffer begins without a predicate.
    Predicate {
        /// The address of the value; 0 skips nothing.
        value_at: GpuVa,
        /// Whether a value other than 0 skips.
        unless_zero: bool,
    },
    /// Begin no later command before every earlier one of the command buffer is complete. Without
    /// it an engine may run commands beside each other.
    Barrier,
    /// As [`crate::RingPacket::Wait`], in the middle of a command buffer of a hardware queue: the
    /// queue stays at the command, and its engine runs other queues. A packet of a node's ring
    /// cannot wait, because every other context of the node would wait with it.
    WaitFence {
        /// The address of CurrentValue.
        current_value: GpuVa,
        /// The value to wait for.
        value: u64,
        /// The epoch of the fence's cell when the wait was issued; 0 if only the value decides.
        epoch: u64,
        /// The process's handle of the fence, for the log.
        fence_handle: u32,
        /// The number of the log entry to write, or [`crate::ring::NO_LOG_ENTRY`].
        log_entry: u32,
    },
    /// As [`crate::RingPacket::Signal`], after every earlier command of the command buffer.
    SignalFence(SignalPacket),
    /// Set the label of the following commands on a timeline.
    Label {
        /// The interned name's number plus one, 0 for none.
        name: u32,
    },
}

/// Why a command is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The opcode names no command.
    #[error("unknown command {0}")]
    UnknownOpcode(u16),
    /// The head's length does not fit the command or the buffer.
    #[error("command {opcode} has an invalid length of {words} words")]
    Length {
        /// The opcode.
        opcode: u16,
        /// The length in its head.
        words: u16,
    },
    /// An operand is out of range.
    #[error("command {opcode}: {what}")]
    Operand {
        /// The opcode.
        opcode: u16,
        /// The operand and the reason.
        what: &'static str,
    },
}

const COPY: u16 = 1;
const FILL: u16 = 2;
const DISPATCH: u16 = 3;
const DRAW: u16 = 4;
const TIMED: u16 = 5;
const WRITE_VALUE: u16 = 6;
const LABEL: u16 = 7;
const HANG: u16 = 8;
const GAP: u16 = 9;
const DISPATCH_INDIRECT: u16 = 10;
const RESOLVE: u16 = 11;
const TIMESTAMP: u16 = 12;
const PREDICATE: u16 = 13;
const BARRIER: u16 = 14;
const WAIT_FENCE: u16 = 15;
const SIGNAL_FENCE: u16 = 16;

/// The maximum number of arguments of a dispatch or a draw.
pub const MAX_ARGS: usize = MAX_COMMAND_WORDS - 5;

/// Appends commands to a buffer.
#[derive(Clone, Debug, Default)]
pub struct CommandWriter {
    /// The little-endian words, as they are in memory.
    words: Vec<[u8; 8]>,
}

impl CommandWriter {
    /// Returns an empty buffer.
    pub fn new() -> CommandWriter {
        CommandWriter::default()
    }

    /// Appends `command`.
    ///
    /// # Panics
    ///
    /// The command has more than [`MAX_ARGS`] arguments.
    pub fn push(&mut self, command: &Command) {
        let start = self.words.len();
        self.words.push([0; 8]);
        let opcode = match command {
            Command::Copy { source, destination, bytes } => {
                self.extend([source.0, destination.0, *bytes]);
                COPY
            }
            Command::Fill { destination, bytes, value } => {
                self.extend([destination.0, *bytes, u64::from(*value)]);
                FILL
            }
            Command::Dispatch { program, groups, args } => {
                self.grid(*program, *groups, args);
                DISPATCH
            }
            Command::DispatchIndirect { program, groups_at, count_at, index, args } => {
                let head = u64::from(*program) | u64::from(*index) << 32;
                self.extend([head, groups_at.0, count_at.0]);
                self.arguments(args);
                DISPATCH_INDIRECT
            }
            Command::Draw { program, groups, args } => {
                self.grid(*program, *groups, args);
                DRAW
            }
            Command::Timed { ns } => {
                self.extend([*ns]);
                TIMED
            }
            Command::Gap { ns } => {
                self.extend([*ns]);
                GAP
            }
            Command::Hang => HANG,
            Command::Barrier => BARRIER,
            Command::WaitFence { current_value, value, epoch, fence_handle, log_entry } => {
                let numbers = u64::from(*fence_handle) | u64::from(*log_entry) << 32;
                self.extend([current_value.0, *value, *epoch, numbers]);
                WAIT_FENCE
            }
            Command::SignalFence(signal) => {
                let numbers = u64::from(signal.fence_handle) | u64::from(signal.log_entry) << 32;
                let (current, monitored) = (signal.current_value.0, signal.monitored_value.0);
                self.extend([current, monitored, signal.value, numbers]);
                SIGNAL_FENCE
            }
            Command::WriteValue { destination, value } => {
                self.extend([destination.0, *value]);
                WRITE_VALUE
            }
            Command::Resolve { source, destination, bytes } => {
                self.extend([source.0, destination.0, *bytes]);
                RESOLVE
            }
            Command::Timestamp { destination } => {
                self.extend([destination.0]);
                TIMESTAMP
            }
            Command::Predicate { value_at, unless_zero } => {
                self.extend([value_at.0, u64::from(*unless_zero)]);
                PREDICATE
            }
            Command::Label { name } => {
                self.extend([u64::from(*name)]);
                LABEL
            }
        };
        let words = self.words.len() - start;
        assert!(
            words <= MAX_COMMAND_WORDS,
            "a command of {words} words: at most {MAX_ARGS} arguments"
        );
        self.words[start] = (u64::from(opcode) | (words as u64) << 16).to_le_bytes();
    }

    #[inline]
    fn extend<const WORDS: usize>(&mut self, words: [u64; WORDS]) {
        self.words.extend_from_slice(&words.map(u64::to_le_bytes));
    }

    fn arguments(&mut self, args: &[u64]) {
        self.words.extend(args.iter().map(|arg| arg.to_le_bytes()));
    }

    fn grid(&mut self, program: u32, groups: [u32; 3], args: &[u64]) {
        let [x, y, z] = groups.map(u64::from);
        self.extend([u64::from(program) | z << 32, x | y << 32]);
        self.arguments(args);
    }

    /// Returns the length in bytes.
    pub fn bytes(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    /// Returns whether the buffer is empty.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the buffer's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.words.as_flattened()
    }

    /// Returns a copy of the buffer's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.as_bytes().to_vec()
    }
}

/// Decodes single commands from words that were copied out of a buffer.
#[derive(Clone, Copy, Debug)]
pub struct CommandReader;

impl CommandReader {
    /// Returns the length in words of the command with this head. `left` is the number of words
    /// left in the buffer.
    pub fn words(head: u64, left: u64) -> Result<usize, CommandError> {
        let (opcode, words) = (head as u16, (head >> 16) as u16);
        if words == 0 || usize::from(words) > MAX_COMMAND_WORDS || u64::from(words) > left {
            return Err(CommandError::Length { opcode, words });
        }
        Ok(usize::from(words))
    }

    /// Returns the name's number plus one of a label; `None` for any other command. Every list
    /// begins with a label, so it has a decoder of its own.
    #[inline]
    pub fn label(words: &[u64]) -> Option<u32> {
        match words {
            &[head, name] if head as u16 == LABEL => Some(name as u32),
            _ => None,
        }
    }

    /// Decodes a whole command.
    pub fn decode(words: &[u64]) -> Result<Command, CommandError> {
        let head = words.first().copied().unwrap_or(0);
        let (opcode, claimed) = (head as u16, (head >> 16) as u16);
        let operand = |what| CommandError::Operand { opcode, what };
        let body = words.get(1..).unwrap_or(&[]);
        Ok(match (opcode, body) {
            (COPY, &[source, destination, bytes]) => match bytes {
                0 => return Err(operand("copies 0 bytes")),
                _ => {
                    Command::Copy { source: GpuVa(source), destination: GpuVa(destination), bytes }
                }
            },
            (FILL, &[destination, bytes, value]) => match bytes {
                0 => return Err(operand("fills 0 bytes")),
                b if b % 4 != 0 => return Err(operand("length is not a multiple of 4")),
                _ => Command::Fill { destination: GpuVa(destination), bytes, value: value as u32 },
            },
            (DISPATCH | DRAW, [a, b, args @ ..]) => {
                let (program, groups) =
                    (*a as u32, [*b as u32, (*b >> 32) as u32, (*a >> 32) as u32]);
                if groups.contains(&0) {
                    return Err(operand("has no thread groups"));
                }
                let args = args.to_vec();
                if opcode == DISPATCH {
                    Command::Dispatch { program, groups, args }
                } else {
                    Command::Draw { program, groups, args }
                }
            }
            (DISPATCH_INDIRECT, [head, groups_at, count_at, args @ ..]) => {
                if !groups_at.is_multiple_of(4) || !count_at.is_multiple_of(4) {
                    return Err(operand(
                        "reads a number at an address that is not a multiple of 4",
                    ));
                }
                Command::DispatchIndirect {
                    program: *head as u32,
                    groups_at: GpuVa(*groups_at),
                    count_at: GpuVa(*count_at),
                    index: (*head >> 32) as u32,
                    args: args.to_vec(),
                }
            }
            (RESOLVE, &[_, _, 0]) => return Err(operand("copies 0 bytes")),
            (RESOLVE, &[source, destination, bytes]) => {
                Command::Resolve { source: GpuVa(source), destination: GpuVa(destination), bytes }
            }
            (TIMESTAMP, &[destination]) => Command::Timestamp { destination: GpuVa(destination) },
            (PREDICATE, &[value_at, unless_zero @ (0 | 1)]) => {
                Command::Predicate { value_at: GpuVa(value_at), unless_zero: unless_zero == 1 }
            }
            (PREDICATE, &[_, _]) => return Err(operand("has an unknown condition")),
            (TIMED, &[ns]) => Command::Timed { ns },
            (GAP, &[ns]) => Command::Gap { ns },
            (HANG, &[]) => Command::Hang,
            (BARRIER, &[]) => Command::Barrier,
            (WRITE_VALUE, &[destination, value]) => {
                Command::WriteValue { destination: GpuVa(destination), value }
            }
            (WAIT_FENCE, &[current_value, value, epoch, numbers]) => Command::WaitFence {
                current_value: GpuVa(current_value),
                value,
                epoch,
                fence_handle: numbers as u32,
                log_entry: (numbers >> 32) as u32,
            },
            (SIGNAL_FENCE, &[current_value, monitored_value, value, numbers]) => {
                Command::SignalFence(SignalPacket {
                    current_value: GpuVa(current_value),
                    monitored_value: GpuVa(monitored_value),
                    value,
                    fence_handle: numbers as u32,
                    log_entry: (numbers >> 32) as u32,
                })
            }
            // A label, or a command of another length than its opcode has.
            (COPY..=SIGNAL_FENCE, _) => match Self::label(words) {
                Some(name) => Command::Label { name },
                None => return Err(CommandError::Length { opcode, words: claimed }),
            },
            _ => return Err(CommandError::UnknownOpcode(opcode)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_reads_back_as_written() {
        let commands = [
            Command::Copy { source: GpuVa(1), destination: GpuVa(2), bytes: 3 },
            Command::Fill { destination: GpuVa(4), bytes: 8, value: 0xDEAD_BEEF },
            Command::Dispatch { program: 9, groups: [1, 2, 3], args: vec![5, 6] },
            Command::Draw { program: 10, groups: [u32::MAX, 1, 1], args: vec![] },
            Command::DispatchIndirect {
                program: 14,
                groups_at: GpuVa(16),
                count_at: GpuVa(20),
                index: 3,
                args: vec![7],
            },
            Command::Resolve { source: GpuVa(1), destination: GpuVa(2), bytes: 3 },
            Command::Timestamp { destination: GpuVa(24) },
            Command::Predicate { value_at: GpuVa(32), unless_zero: true },
            Command::Timed { ns: 1_000 },
            Command::Gap { ns: 7 },
            Command::WriteValue { destination: GpuVa(8), value: u64::MAX },
            Command::Label { name: 12 },
            Command::Barrier,
            Command::WaitFence {
                current_value: GpuVa(40),
                value: u64::MAX,
                epoch: 3,
                fence_handle: 0x80,
                log_entry: u32::MAX,
            },
            Command::SignalFence(SignalPacket {
                current_value: GpuVa(48),
                monitored_value: GpuVa(56),
                value: 9,
                fence_handle: u32::MAX,
                log_entry: 4,
            }),
            Command::Hang,
        ];
        let mut writer = CommandWriter::new();
        commands.iter().for_each(|c| writer.push(c));
        let written: Vec<u64> =
            writer.as_bytes().as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let (mut at, mut read) = (0, Vec::new());
        while at < written.len() {
            let left = (written.len() - at) as u64;
            let words = CommandReader::words(written[at], left).unwrap();
            let command = CommandReader::decode(&written[at..at + words]).unwrap();
            let label = CommandReader::label(&written[at..at + words]);
            assert_eq!(
                label.map(|name| Command::Label { name }).as_ref().unwrap_or(&command),
                &command
            );
            assert_eq!(label.is_some(), matches!(command, Command::Label { .. }));
            read.push(command);
            at += words;
        }
        assert_eq!(read, commands);
    }

    #[test]
    fn hostile_commands_are_refused() {
        assert!(CommandReader::words(u64::from(COPY), 100).is_err());
        assert!(CommandReader::words(u64::from(COPY) | 5 << 16, 4).is_err());
        assert!(CommandReader::decode(&[]).is_err());
        assert!(CommandReader::decode(&[u64::from(COPY) | 2 << 16, 1]).is_err());
        assert!(CommandReader::decode(&[u64::from(FILL) | 4 << 16, 0, 3, 0]).is_err());
        assert!(CommandReader::decode(&[u64::from(DISPATCH) | 3 << 16, 0, 0]).is_err());
        assert!(CommandReader::decode(&[u64::from(DISPATCH_INDIRECT) | 4 << 16, 1, 2, 0]).is_err());
        assert!(CommandReader::decode(&[u64::from(RESOLVE) | 4 << 16, 8, 8, 0]).is_err());
        assert!(CommandReader::decode(&[u64::from(PREDICATE) | 3 << 16, 8, 2]).is_err());
        assert!(CommandReader::decode(&[u64::from(WAIT_FENCE) | 4 << 16, 8, 1, 0]).is_err());
        assert!(CommandReader::decode(&[u64::from(SIGNAL_FENCE) | 2 << 16, 8]).is_err());
        assert_eq!(CommandReader::decode(&[500 | 1 << 16]), Err(CommandError::UnknownOpcode(500)));
    }
}
