//! A command list while it records: its commands, the buffers that it names, its name, and closing,
//! which writes the commands to GPU memory.
//!
//! Invariant: a buffer is named before a command with its address is appended, so the list keeps it
//! alive. Entry points: `accepts`, `name` and `push`, used by the command files.

use super::root_state::RootState;
use crate::error::{Error, Result};
use crate::model::CommandListType;
use crate::resource::{Buffer, Resource};
use crate::shared_device::SharedDevice;
use crate::states::recording::{ListStates, StateRecording};
use crate::umd::allocator::Recording;
use crate::umd::buffer::BufferMemory;
use crate::umd::closed_list::ClosedList;
use crate::umd::command_memory::CommandMemory;
use crate::umd::encode::JOINED_EXTRA_BYTES;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use tidegate_gpu_abi::ring::MAX_COMMAND_BYTES;
use tidegate_gpu_abi::{Command, CommandWriter, EngineKind, GpuVa, abilities};
use tidegate_platform::Step;

/// Maximum size of a list's commands in bytes.
const MAX_LIST_BYTES: u32 = MAX_COMMAND_BYTES - JOINED_EXTRA_BYTES;

/// Number of recently named buffers that a new name is compared with. Consecutive commands name the
/// same few buffers; closing removes the remaining duplicates.
const RECENT: usize = 4;

/// A list that is being recorded.
#[doc(alias = "ID3D12GraphicsCommandList")]
pub struct CommandList {
    device: Arc<SharedDevice>,
    list_type: CommandListType,
    writer: CommandWriter,
    commands: u32,
    /// The engine class that the commands so far require.
    made_for: Option<EngineKind>,
    label: Option<String>,
    trace_name: u32,
    buffers: Vec<Arc<BufferMemory>>,
    /// The exclusive right to record from an allocator; `None` with its own command memory.
    recording: Option<Recording>,
    /// The recording for the state check, if states are checked.
    states: Option<StateRecording>,
    pub(super) root: RootState,
    /// The last predicate may skip commands.
    is_predicated: bool,
}

impl CommandList {
    pub(crate) fn new(
        device: &Arc<SharedDevice>,
        list_type: CommandListType,
        recording: Option<Recording>,
    ) -> CommandList {
        CommandList {
            device: Arc::clone(device),
            list_type,
            writer: CommandWriter::new(),
            commands: 0,
            made_for: None,
            label: None,
            trace_name: 0,
            buffers: Vec::new(),
            recording,
            states: device.states.is_some().then(|| StateRecording::new(list_type)),
            root: RootState::default(),
            is_predicated: false,
        }
    }

    /// Its type.
    pub fn list_type(&self) -> CommandListType {
        self.list_type
    }

    /// Returns the name, or the first label if there is no name.
    pub fn name(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// Returns the number of recorded commands, without labels.
    pub fn commands(&self) -> u32 {
        self.commands
    }

    /// Names the list in messages and on the queue's timeline lane. Adds no command.
    #[doc(alias = "ID3D12Object::SetName")]
    pub fn set_name(&mut self, text: &str) {
        self.label = Some(text.to_owned());
        self.trace_name = self.traced_name(text);
    }

    fn traced_name(&self, text: &str) -> u32 {
        let platform = &self.device.umd.platform;
        if platform.tracing() { platform.trace_name(text).0 + 1 } else { 0 }
    }

    /// Labels the following commands on the timeline. The first label also names an unnamed list.
    /// Adds no command while tracing is off.
    ///
    /// # Errors
    /// [`Error::BadValue`] when the list is full.
    pub fn label(&mut self, text: &str) -> Result<()> {
        let number = self.traced_name(text);
        if self.label.is_none() {
            (self.label, self.trace_name) = (Some(text.to_owned()), number);
        }
        if number == 0 {
            return Ok(());
        }
        self.write(&Command::Label { name: number })
    }

    /// Ends the recording and writes the commands to GPU memory. The allocator can then record
    /// another list, as it can after the open list is dropped.
    ///
    /// # Errors
    /// [`Error::State`] with [`crate::Validation::STATE_ERRORS`]; the kernel's error if more
    /// command memory is needed and refused.
    #[doc(alias = "ID3D12GraphicsCommandList::Close")]
    pub fn close(mut self) -> Result<ClosedList> {
        if self.is_predicated {
            // A predicate must not affect the next list of a joined command buffer.
            self.write(&Command::Predicate { value_at: GpuVa(0), unless_zero: false })?;
        }
        if self.writer.is_empty() {
            // A command buffer must not be empty.
            self.write(&Command::Label { name: 0 })?;
        }
        let states = self.close_states()?;
        let what = self.label.as_deref().unwrap_or("a command list");
        let memory = CommandMemory::upload(&self.device.umd.arena, self.writer.as_bytes());
        let mut memory =
            memory.map_err(|s| self.device.error("D3DKMTCreateAllocation2", what, s))?;
        // Keep the order of recording, which is the same in each run: residency is managed and
        // memory is freed in this order.
        if self.buffers.len() > 1 {
            let mut named = BTreeSet::new();
            self.buffers.retain(|buffer| named.insert(Arc::as_ptr(buffer)));
        }
        memory.buffers = self.buffers;
        memory.label = self.label;
        memory.trace_name = self.trace_name;
        memory.made_for = self.made_for;
        let (list_type, commands) = (self.list_type, self.commands);
        let memory = Arc::new(memory);
        let allocator = self.recording.map(|recording| recording.close(&memory));
        Ok(ClosedList { memory, list_type, commands, allocator, states })
    }

    /// Ends the first stage of the state check.
    fn close_states(&mut self) -> Result<Option<Arc<ListStates>>> {
        let (Some(recording), Some(tracker)) = (self.states.take(), &self.device.states) else {
            return Ok(None);
        };
        let (states, violations) = recording.close(self.label.as_deref());
        let first = violations.first().filter(|_| tracker.is_strict()).cloned();
        tracker.report(violations);
        match first {
            Some(violation) => Err(Error::State(Box::new(violation))),
            None => Ok(Some(Arc::new(states))),
        }
    }

    // spec: ME-052
    /// Refuses a command that lists of this type do not accept.
    pub(super) fn accepts(
        &self,
        command: &'static str,
        takes: &'static str,
        accepted: bool,
    ) -> Result<()> {
        match accepted {
            true => Ok(()),
            false => Err(Error::NotAccepted { list_type: self.list_type, command, takes }),
        }
    }

    /// Records that the list names `buffer`.
    pub(crate) fn name_buffer(&mut self, buffer: &Buffer) -> Result<()> {
        self.name_resource(Resource::Buffer(buffer))
    }

    /// Records that the list names `resource`.
    pub(super) fn name_resource(&mut self, resource: Resource<'_>) -> Result<()> {
        let memory = resource.memory();
        self.device.check_owner(memory.device(), || resource.what())?;
        let mut recent = self.buffers.iter().rev().take(RECENT);
        if !recent.any(|named| Arc::ptr_eq(named, memory)) {
            self.buffers.push(Arc::clone(memory));
        }
        Ok(())
    }

    /// The recording for the state check, if states are checked.
    pub(super) fn states(&mut self) -> Option<&mut StateRecording> {
        self.states.as_mut()
    }

    /// Counts a command.
    pub(super) fn count_command(&mut self) {
        self.commands += 1;
        self.device.umd.platform.spend(Step::UmdEncode);
    }

    /// Appends a command.
    pub(crate) fn push(&mut self, command: &Command) -> Result<()> {
        self.write(command)?;
        self.count_command();
        Ok(())
    }

    /// Returns how many bytes of commands the list has room for.
    pub(super) fn room_bytes(&self) -> u64 {
        // The longest command has 64 words.
        u64::from(MAX_LIST_BYTES).saturating_sub(self.writer.bytes() + 512)
    }

    /// Appends a command or a part of one without counting it.
    pub(super) fn write(&mut self, command: &Command) -> Result<()> {
        if self.room_bytes() == 0 {
            return Err(bad(
                "a command list",
                "it holds 16 MiB of commands; close it and record another",
            ));
        }
        if let Command::Predicate { value_at, .. } = command {
            self.is_predicated = value_at.0 != 0;
        }
        self.made_for = abilities::made_for_both(self.made_for, command);
        self.writer.push(command);
        Ok(())
    }
}

pub(super) fn bad(what: &'static str, why: &'static str) -> Error {
    Error::BadValue { what: what.to_owned(), why }
}

impl fmt::Debug for CommandList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CommandList({}, {} commands)", self.list_type, self.commands)
    }
}
