//! Owns command lists: recording, the rules of what a list takes, and closing, which puts the
//! commands into GPU memory.
//!
//! A [`CommandList`] is open until [`CommandList::close`] consumes it; only the [`ClosedList`] that
//! it returns can be executed. A closed list can be executed any number of times, on any queue of
//! its type, also while it is running. It may be dropped at once after `execute`: the queue keeps
//! its memory until the GPU is done with it.
//!
//! Ranges are checked against their buffers while recording. The `_unchecked` calls take any
//! address. An address that is not mapped is a page fault of the GPU, which removes the device.

use crate::error::{Error, Result};
use crate::model::CommandListType;
use crate::resource::Buffer;
use crate::shared_device::SharedDevice;
use crate::umd::buffer::BufferMemory;
use crate::umd::command_memory::CommandMemory;
use crate::umd::encode::JOINED_EXTRA_BYTES;
use std::fmt;
use std::sync::Arc;
use tidegate_gpu_abi::command::MAX_ARGS;
use tidegate_gpu_abi::ring::MAX_COMMAND_BYTES;
use tidegate_gpu_abi::{Command, CommandWriter, GpuVa};
use tidegate_platform::Step;

pub use crate::umd::command_memory::ClosedList;

/// Most bytes of commands in one list.
const MAX_LIST_BYTES: u32 = MAX_COMMAND_BYTES - JOINED_EXTRA_BYTES;

/// One argument of a dispatch or a draw.
#[derive(Clone, Copy, Debug)]
pub enum Arg<'a> {
    /// The address of a buffer plus an offset in bytes.
    Buffer(&'a Buffer, u64),
    /// A 32-bit number.
    U32(u32),
    /// A 64-bit number, or a raw GPU address.
    U64(u64),
    /// A 32-bit float.
    F32(f32),
}

/// A list that is being recorded.
pub struct CommandList {
    device: Arc<SharedDevice>,
    list_type: CommandListType,
    writer: CommandWriter,
    commands: u32,
    label: Option<String>,
    trace_name: u32,
    buffers: Vec<Arc<BufferMemory>>,
}

impl CommandList {
    pub(crate) fn new(device: &Arc<SharedDevice>, list_type: CommandListType) -> CommandList {
        CommandList {
            device: Arc::clone(device),
            list_type,
            writer: CommandWriter::new(),
            commands: 0,
            label: None,
            trace_name: 0,
            buffers: Vec::new(),
        }
    }

    /// Its type.
    pub fn list_type(&self) -> CommandListType {
        self.list_type
    }

    /// How many commands were recorded, labels not counted.
    pub fn commands(&self) -> u32 {
        self.commands
    }

    /// Copies `bytes` from `source` to `destination`. Every list takes it.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::BadValue`] for 0 bytes, [`Error::Foreign`].
    #[doc(alias = "CopyBufferRegion")]
    pub fn copy(
        &mut self,
        destination: &Buffer,
        destination_offset: u64,
        source: &Buffer,
        source_offset: u64,
        bytes: u64,
    ) -> Result<()> {
        destination.check("a copy's destination", destination_offset, bytes)?;
        source.check("a copy's source", source_offset, bytes)?;
        self.name(destination)?;
        self.name(source)?;
        self.copy_unchecked(
            destination.gpu_va() + destination_offset,
            source.gpu_va() + source_offset,
            bytes,
        )
    }

    /// Copies `bytes` between any two GPU addresses.
    ///
    /// # Errors
    /// [`Error::BadValue`] for 0 bytes.
    pub fn copy_unchecked(
        &mut self,
        destination_va: u64,
        source_va: u64,
        bytes: u64,
    ) -> Result<()> {
        if bytes == 0 {
            return Err(bad("a copy", "it copies 0 bytes; give a length or leave the copy out"));
        }
        self.push(&Command::Copy {
            source: GpuVa(source_va),
            destination: GpuVa(destination_va),
            bytes,
        })
    }

    /// Fills `bytes` of `destination` with a repeated 32-bit value. Every list takes it.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::BadValue`] for a length that is 0 or not a multiple of 4,
    /// [`Error::Foreign`].
    pub fn fill(
        &mut self,
        destination: &Buffer,
        offset: u64,
        bytes: u64,
        value: u32,
    ) -> Result<()> {
        destination.check("a fill", offset, bytes)?;
        self.name(destination)?;
        self.fill_unchecked(destination.gpu_va() + offset, bytes, value)
    }

    /// Fills `bytes` from any GPU address on.
    ///
    /// # Errors
    /// [`Error::BadValue`] for a length that is 0 or not a multiple of 4.
    pub fn fill_unchecked(&mut self, destination_va: u64, bytes: u64, value: u32) -> Result<()> {
        if bytes == 0 || !bytes.is_multiple_of(4) {
            return Err(bad(
                "a fill",
                "its length is no multiple of 4 above 0; fill whole 32-bit words",
            ));
        }
        self.push(&Command::Fill { destination: GpuVa(destination_va), bytes, value })
    }

    /// Runs a built-in program, by number, over `groups` thread groups. Compute and direct lists
    /// take it.
    ///
    /// # Errors
    /// [`Error::NotAccepted`], [`Error::BadValue`] for too many arguments or a grid without groups,
    /// [`Error::OutOfRange`] for an argument that begins outside its buffer, [`Error::Foreign`].
    pub fn dispatch(&mut self, program: u32, groups: [u32; 3], args: &[Arg<'_>]) -> Result<()> {
        self.accepts("dispatch", "compute or direct", self.list_type != CommandListType::Copy)?;
        let args = self.arguments("a dispatch", groups, args)?;
        self.push(&Command::Dispatch { program, groups, args })
    }

    /// Runs a rasteriser program over `groups` tiles. Direct lists take it.
    ///
    /// # Errors
    /// As [`CommandList::dispatch`].
    pub fn draw(&mut self, program: u32, groups: [u32; 3], args: &[Arg<'_>]) -> Result<()> {
        self.accepts("draw", "direct", self.list_type == CommandListType::Direct)?;
        let args = self.arguments("a draw", groups, args)?;
        self.push(&Command::Draw { program, groups, args })
    }

    /// Declares that the list uses `buffer`, whose address a call that takes any address has. The
    /// list keeps it alive, and resident where submissions manage residency.
    ///
    /// # Errors
    /// [`Error::Foreign`].
    pub fn uses(&mut self, buffer: &Buffer) -> Result<()> {
        self.name(buffer)
    }

    /// Keeps the engine busy for `ns` nanoseconds: modelled work. Every list takes it.
    ///
    /// # Errors
    /// [`Error::BadValue`] when the list is full.
    pub fn timed(&mut self, ns: u64) -> Result<()> {
        self.push(&Command::Timed { ns })
    }

    /// Keeps the engine without work for `ns` nanoseconds: a gap of a recording that is replayed.
    /// It is not counted as busy time. Every list takes it.
    ///
    /// # Errors
    /// [`Error::BadValue`] when the list is full.
    pub fn gap(&mut self, ns: u64) -> Result<()> {
        self.push(&Command::Gap { ns })
    }

    /// Has the engine stop answering, as a program that hangs does: only a reset ends it, and the
    /// device is lost. For tests of recovery. Every list takes it.
    ///
    /// # Errors
    /// [`Error::BadValue`] when the list is full.
    pub fn hang(&mut self) -> Result<()> {
        self.push(&Command::Hang)
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

    /// Ends the recording and puts the commands into GPU memory.
    ///
    /// # Errors
    /// What the kernel refuses when more command memory is needed.
    pub fn close(mut self) -> Result<ClosedList> {
        if self.writer.is_empty() {
            // A command buffer has at least one command.
            self.write(&Command::Label { name: 0 })?;
        }
        let what = self.label.as_deref().unwrap_or("a command list");
        let memory = CommandMemory::upload(&self.device.umd.arena, &self.writer.to_bytes());
        let mut memory =
            memory.map_err(|s| self.device.error("D3DKMTCreateAllocation2", what, s))?;
        self.buffers.sort_by_key(Arc::as_ptr);
        self.buffers.dedup_by(|a, b| Arc::ptr_eq(a, b));
        memory.buffers = self.buffers;
        memory.label = self.label;
        memory.trace_name = self.trace_name;
        let (list_type, commands) = (self.list_type, self.commands);
        Ok(ClosedList { memory: Arc::new(memory), list_type, commands })
    }

    // spec: ME-052
    fn accepts(&self, command: &'static str, takes: &'static str, accepted: bool) -> Result<()> {
        match accepted {
            true => Ok(()),
            false => Err(Error::NotAccepted { list_type: self.list_type, command, takes }),
        }
    }

    fn arguments(
        &mut self,
        what: &'static str,
        groups: [u32; 3],
        args: &[Arg<'_>],
    ) -> Result<Vec<u64>> {
        if groups.contains(&0) {
            return Err(bad(
                what,
                "a dimension of its grid has 0 groups; give at least one in each",
            ));
        }
        if args.len() > MAX_ARGS {
            return Err(bad(what, "it has more than 60 arguments; put them into a buffer"));
        }
        let mut words = Vec::with_capacity(args.len());
        for arg in args {
            words.push(match *arg {
                Arg::Buffer(buffer, offset) => {
                    buffer.check("an argument", offset, 0)?;
                    self.name(buffer)?;
                    buffer.gpu_va() + offset
                }
                Arg::U32(value) => u64::from(value),
                Arg::U64(value) => value,
                Arg::F32(value) => u64::from(value.to_bits()),
            });
        }
        Ok(words)
    }

    /// Notes that the list names `buffer`.
    fn name(&mut self, buffer: &Buffer) -> Result<()> {
        self.device
            .check_owner(buffer.memory.device(), || format!("buffer '{}'", buffer.name()))?;
        if self.buffers.last().is_none_or(|last| !Arc::ptr_eq(last, &buffer.memory)) {
            self.buffers.push(Arc::clone(&buffer.memory));
        }
        Ok(())
    }

    fn push(&mut self, command: &Command) -> Result<()> {
        self.write(command)?;
        self.commands += 1;
        self.device.umd.platform.spend(Step::UmdEncode);
        Ok(())
    }

    fn write(&mut self, command: &Command) -> Result<()> {
        // The longest command has 64 words.
        if self.writer.bytes() + 512 > u64::from(MAX_LIST_BYTES) {
            return Err(bad(
                "a command list",
                "it holds 16 MiB of commands; close it and record another",
            ));
        }
        self.writer.push(command);
        Ok(())
    }
}

fn bad(what: &'static str, why: &'static str) -> Error {
    Error::BadValue { what: what.to_owned(), why }
}

impl fmt::Debug for CommandList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CommandList({}, {} commands)", self.list_type, self.commands)
    }
}
