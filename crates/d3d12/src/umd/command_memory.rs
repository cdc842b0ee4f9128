//! Commands in GPU memory and references to the buffers that they name.
//!
//! The contents do not depend on a submission.

use crate::umd::arena::{Arena, Block};
use crate::umd::buffer::BufferMemory;
use crate::umd::kernel_object::KernelDevice;
use std::sync::Arc;
use tidegate_calls::Status;
use tidegate_gpu_abi::{Command, CommandReader, EngineKind, GpuVa};

/// The command buffer named in a kernel report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReportedBuffer {
    /// Its progress value, for hardware and user-mode queues.
    pub(crate) progress: u64,
    /// Its GPU address, for packet queues; 0 if unknown.
    pub(crate) gpu_va: u64,
}

/// A command and its list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundCommand {
    pub(crate) list: Option<String>,
    /// From 0, without labels.
    pub(crate) number: u64,
    pub(crate) kind: &'static str,
}

/// Commands in GPU memory and the buffers that they name.
pub(crate) struct CommandMemory {
    pub(crate) block: Block,
    pub(crate) bytes: u32,
    /// The name's number on the timeline plus one; 0 for none.
    pub(crate) trace_name: u32,
    /// The name, else the first label.
    pub(crate) label: Option<String>,
    /// The engine class that the commands require; `None` if any queue can run them.
    pub(crate) made_for: Option<EngineKind>,
    /// The named buffers, kept alive while the commands may run.
    pub(crate) buffers: Vec<Arc<BufferMemory>>,
    /// The lists, if several were joined: the end offset and label of each.
    pub(crate) joined: Vec<(usize, Option<String>)>,
    /// Lists joined into these commands whose allocators must see that they are in use.
    pub(crate) parts: Vec<Arc<CommandMemory>>,
    arena: Arc<Arena>,
}

impl CommandMemory {
    /// Writes commands to GPU memory. `commands` is at most as long as the largest command buffer.
    pub(crate) fn upload(arena: &Arc<Arena>, commands: &[u8]) -> Result<CommandMemory, Status> {
        let block = arena.take(commands.len() as u64)?;
        block.write(0, commands);
        Ok(CommandMemory {
            block,
            bytes: commands.len() as u32,
            trace_name: 0,
            label: None,
            made_for: None,
            buffers: Vec::new(),
            joined: Vec::new(),
            parts: Vec::new(),
            arena: Arc::clone(arena),
        })
    }

    /// Returns the command with this number, from 1 without labels and fence commands, as engines
    /// count.
    pub(crate) fn command(&self, number: u64) -> Option<FoundCommand> {
        if number == 0 {
            return None;
        }
        let mut bytes = vec![0; self.bytes as usize];
        self.block.read(&mut bytes);
        let words: Vec<u64> =
            bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let (mut at, mut list, mut before, mut count) = (0, 0, 0, 0);
        while let Some(head) = words.get(at) {
            if self.joined.get(list).is_some_and(|(end, _)| 8 * at >= *end) {
                (list, before) = (list + 1, count);
            }
            let length = CommandReader::words(*head, (words.len() - at) as u64).ok()?;
            let command = CommandReader::decode(&words[at..at + length]).ok()?;
            let is_counted = !matches!(
                command,
                Command::Label { .. } | Command::WaitFence { .. } | Command::SignalFence(_)
            );
            count += u64::from(is_counted);
            if is_counted && count == number {
                let label = self.joined.get(list).map_or(&self.label, |(_, label)| label);
                let (number, kind) = (count - 1 - before, kind_of(&command));
                return Some(FoundCommand { list: label.clone(), number, kind });
            }
            at += length;
        }
        None
    }

    pub(crate) fn gpu_va(&self) -> GpuVa {
        self.block.gpu_va
    }

    pub(crate) fn device(&self) -> &Arc<KernelDevice> {
        self.arena.device()
    }
}

impl Drop for CommandMemory {
    fn drop(&mut self) {
        self.arena.give_back(&self.block);
    }
}

/// Returns the name of a kind of command for reports.
fn kind_of(command: &Command) -> &'static str {
    match command {
        Command::Copy { .. } => "copy",
        Command::Fill { .. } => "fill",
        Command::Dispatch { .. } => "dispatch",
        Command::DispatchIndirect { .. } => "indirect dispatch",
        Command::Draw { .. } => "draw",
        Command::Resolve { .. } => "resolve",
        Command::Timestamp { .. } => "timestamp",
        Command::Predicate { .. } => "predication",
        Command::WriteValue { .. } => "write of a value",
        Command::Timed { .. } => "timed work",
        Command::Gap { .. } => "gap",
        Command::Hang => "hang",
        Command::Barrier => "barrier",
        Command::WaitFence { .. } => "wait",
        Command::SignalFence(_) => "signal",
        Command::Label { .. } => "label",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A report of a fault names the command by its kind.
    #[test]
    fn each_kind_of_command_has_a_name() {
        let (at, groups, args) = (GpuVa(8), [1; 3], Vec::new());
        let commands = [
            Command::Copy { source: at, destination: at, bytes: 8 },
            Command::Fill { destination: at, bytes: 8, value: 0 },
            Command::Dispatch { program: 0, groups, args: args.clone() },
            Command::DispatchIndirect {
                program: 0,
                groups_at: at,
                count_at: at,
                index: 0,
                args: args.clone(),
            },
            Command::Draw { program: 0, groups, args },
            Command::Resolve { source: at, destination: at, bytes: 8 },
            Command::Timestamp { destination: at },
            Command::Predicate { value_at: at, unless_zero: false },
            Command::WriteValue { destination: at, value: 1 },
            Command::Timed { ns: 1 },
            Command::Gap { ns: 1 },
            Command::Hang,
            Command::Barrier,
            Command::Label { name: 0 },
        ];
        let names: BTreeSet<&str> = commands.iter().map(kind_of).collect();
        assert_eq!(names.len(), commands.len(), "{names:?}");
        assert!(names.iter().all(|name| !name.is_empty()), "{names:?}");
        assert_eq!(kind_of(&commands[8]), "write of a value");
    }
}
