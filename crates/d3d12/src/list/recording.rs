//! Owns the recording of a command list: its commands, the buffers that it names, its name, and
//! closing, which puts the commands into GPU memory.
//!
//! Invariant: a buffer is named before a command with its address is appended, so that the list
//! keeps it alive. Entry points: `accepts`, `name` and `push`, used by the files of the commands.

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
use tidegate_gpu_abi::{Command, CommandWriter, EngineClass, GpuVa};
use tidegate_platform::Step;

/// Most bytes of commands in one list.
const MAX_LIST_BYTES: u32 = MAX_COMMAND_BYTES - JOINED_EXTRA_BYTES;

/// Buffers named last that a command is compared with. Commands that follow each other name the
/// same few, and closing removes what is named twice.
const RECENT: usize = 4;

/// A list that is being recorded.
#[doc(alias = "ID3D12GraphicsCommandList")]
pub struct CommandList {
    device: Arc<SharedDevice>,
    list_type: CommandListType,
    writer: CommandWriter,
    commands: u32,
    /// The engine class that the commands so far are made for.
    made_for: Option<EngineClass>,
    label: Option<String>,
    trace_name: u32,
    buffers: Vec<Arc<BufferMemory>>,
    /// The allocator that it records from, for this list alone; `None` for one of its own.
    recording: Option<Recording>,
    /// What the commands use, where states are checked.
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

    /// Its name, else its first label, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// How many commands were recorded, labels not counted.
    pub fn commands(&self) -> u32 {
        self.commands
    }

    /// Names the list in messages and on the queue's lane of the timeline. It adds no command.
    #[doc(alias = "ID3D12Object::SetName")]
    pub fn set_name(&mut self, text: &str) {
        self.label = Some(text.to_owned());
        self.trace_name = self.traced_name(text);
    }

    fn traced_name(&self, text: &str) -> u32 {
        let platform = &self.device.umd.platform;
        if platform.tracing() { platform.trace_name(text).0 + 1 } else { 0 }
    }

    /// What the following commands are called on the timeline. The first label also names a list
    /// that has no name yet. While tracing is off it leaves no command.
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

    /// Ends the recording and puts the commands into GPU memory. An allocator can then record
    /// another list; it can also when the open list is dropped.
    ///
    /// # Errors
    /// [`Error::State`] with [`crate::Validation::STATE_ERRORS`]; what the kernel refuses when more
    /// command memory is needed.
    #[doc(alias = "ID3D12GraphicsCommandList::Close")]
    pub fn close(mut self) -> Result<ClosedList> {
        if self.is_predicated {
            // Lists can be joined into one command buffer.
            self.write(&Command::Predicate { value_at: GpuVa(0), unless_zero: false })?;
        }
        if self.writer.is_empty() {
            // A command buffer has at least one command.
            self.write(&Command::Label { name: 0 })?;
        }
        let states = self.close_states()?;
        let what = self.label.as_deref().unwrap_or("a command list");
        let memory = CommandMemory::upload(&self.device.umd.arena, &self.writer.to_bytes());
        let mut memory =
            memory.map_err(|s| self.device.error("D3DKMTCreateAllocation2", what, s))?;
        // In the order of recording, which is the same in each run: residency is managed and memory
        // freed in this order.
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

    /// Ends the check of the list alone.
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
    /// Refuses a command that lists of this type do not take.
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

    /// Notes that the list names `buffer`.
    pub(crate) fn name_buffer(&mut self, buffer: &Buffer) -> Result<()> {
        self.name_resource(Resource::Buffer(buffer))
    }

    /// Notes that the list names `resource`.
    pub(super) fn name_resource(&mut self, resource: Resource<'_>) -> Result<()> {
        let memory = resource.memory();
        self.device.check_owner(memory.device(), || resource.what())?;
        let mut recent = self.buffers.iter().rev().take(RECENT);
        if !recent.any(|named| Arc::ptr_eq(named, memory)) {
            self.buffers.push(Arc::clone(memory));
        }
        Ok(())
    }

    /// What the commands use, where states are checked.
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

    /// Bytes of commands that the list has room for.
    pub(super) fn room_bytes(&self) -> u64 {
        // The longest command has 64 words.
        u64::from(MAX_LIST_BYTES).saturating_sub(self.writer.bytes() + 512)
    }

    /// Appends a command, or a part of one, that is counted elsewhere.
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
        self.made_for = EngineClass::made_for_both(self.made_for, command);
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
