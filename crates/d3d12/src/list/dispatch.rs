//! Dispatches and draws: the program, its arguments and its grid.

use super::recording::{CommandList, bad};
use crate::error::Result;
use crate::model::CommandListType;
use crate::resource::Buffer;
use crate::states::flags::ResourceStates;
use crate::states::recording::Subresources;
use tidegate_gpu_abi::Command;
use tidegate_gpu_abi::command::MAX_ARGS;
use tidegate_gpu_abi::program::{
    Access, Argument, ArgumentKind, ComputeProgram, DrawProgram, Program, Value,
};

/// One argument of a program that is identified by number, see [`crate::testing`].
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

/// An offset in a buffer, as a program argument. Converts from `&Buffer` and from a buffer with a
/// byte offset; see also [`Buffer::at`].
#[derive(Clone, Copy, Debug)]
pub struct BufferAt<'a> {
    /// The buffer.
    pub buffer: &'a Buffer,
    /// The offset in bytes.
    pub offset: u64,
}

impl<'a> From<&'a Buffer> for BufferAt<'a> {
    fn from(buffer: &'a Buffer) -> BufferAt<'a> {
        BufferAt { buffer, offset: 0 }
    }
}

impl<'a> From<(&'a Buffer, u64)> for BufferAt<'a> {
    fn from((buffer, offset): (&'a Buffer, u64)) -> BufferAt<'a> {
        BufferAt { buffer, offset }
    }
}

impl Buffer {
    /// Returns the offset of `offset` bytes in this buffer, as a program argument.
    pub fn at(&self, offset: u64) -> BufferAt<'_> {
        BufferAt { buffer: self, offset }
    }
}

impl CommandList {
    /// Runs `program` over `groups` thread groups; [`Program::groups`] returns the number that
    /// covers its work. Compute and direct lists only.
    ///
    /// A program is a type with named arguments: `Saxpy { x: &x, y: &y, n: 1_000, a: 0.5 }`.
    /// [`Buffer::at`] makes an argument at an offset.
    ///
    /// # Errors
    /// [`crate::Error::NotAccepted`], [`crate::Error::BadValue`] for a grid without groups,
    /// [`crate::Error::OutOfRange`] for an argument that begins outside its buffer,
    /// [`crate::Error::Foreign`].
    #[doc(alias = "Dispatch")]
    pub fn dispatch<'b, P>(&mut self, program: &P, groups: [u32; 3]) -> Result<()>
    where
        P: ComputeProgram,
        P::Buffer: Into<BufferAt<'b>>,
    {
        self.accepts_compute("dispatch")?;
        check_grid("a dispatch", groups)?;
        let args = self.words(program, "Dispatch")?;
        let program = program.shader().number;
        self.push(&Command::Dispatch { program, groups, args })
    }

    /// Runs a rasteriser program over `groups` tiles. Direct lists only.
    ///
    /// # Errors
    /// As [`CommandList::dispatch`].
    #[doc(alias = "DrawInstanced")]
    #[doc(alias = "DrawIndexedInstanced")]
    pub fn draw<'b, P>(&mut self, program: &P, groups: [u32; 3]) -> Result<()>
    where
        P: DrawProgram,
        P::Buffer: Into<BufferAt<'b>>,
    {
        self.accepts("draw", "direct", self.list_type() == CommandListType::Direct)?;
        check_grid("a draw", groups)?;
        let args = self.words(program, "Draw")?;
        let program = program.shader().number;
        self.push(&Command::Draw { program, groups, args })
    }

    /// Returns the argument words of a program and names its buffers.
    fn words<'b, P>(&mut self, program: &P, kind: &'static str) -> Result<Vec<u64>>
    where
        P: Program,
        P::Buffer: Into<BufferAt<'b>>,
    {
        let arguments = program.shader().arguments.iter();
        let word = |(value, argument): (Value<P::Buffer>, &Argument)| match value {
            Value::Buffer(place) => {
                let place = place.into();
                let address = self.name_place(place)?;
                self.use_argument(place.buffer, argument, kind);
                Ok(address)
            }
            Value::Omitted => Ok(0),
            Value::U32(number) => Ok(u64::from(number)),
            Value::F32(number) => Ok(u64::from(number.to_bits())),
        };
        program.values().into_iter().zip(arguments).map(word).collect()
    }

    /// Names the buffer of an argument and returns its address.
    pub(super) fn name_place(&mut self, BufferAt { buffer, offset }: BufferAt<'_>) -> Result<u64> {
        buffer.check("an argument", offset, 0)?;
        self.name_buffer(buffer)?;
        Ok(buffer.gpu_va() + offset)
    }

    /// Records the states in which a command uses an argument of its program.
    pub(super) fn use_argument(
        &mut self,
        buffer: &Buffer,
        argument: &Argument,
        kind: &'static str,
    ) {
        let states = if kind == "Draw" { draw_states(argument) } else { compute_states(argument) };
        self.access(buffer.into(), &Subresources::All, states, kind);
    }

    /// Appends the dispatch of a program by number.
    pub(crate) fn push_dispatch(
        &mut self,
        program: u32,
        groups: [u32; 3],
        args: &[Arg<'_>],
    ) -> Result<()> {
        self.accepts_compute("dispatch")?;
        let args = self.arguments("a dispatch", "Dispatch", groups, args)?;
        self.push(&Command::Dispatch { program, groups, args })
    }

    /// Appends the draw of a program by number.
    pub(crate) fn push_draw(
        &mut self,
        program: u32,
        groups: [u32; 3],
        args: &[Arg<'_>],
    ) -> Result<()> {
        self.accepts("draw", "direct", self.list_type() == CommandListType::Direct)?;
        let args = self.arguments("a draw", "Draw", groups, args)?;
        self.push(&Command::Draw { program, groups, args })
    }

    fn arguments(
        &mut self,
        what: &'static str,
        kind: &'static str,
        groups: [u32; 3],
        args: &[Arg<'_>],
    ) -> Result<Vec<u64>> {
        check_grid(what, groups)?;
        if args.len() > MAX_ARGS {
            return Err(bad(what, "it has more than 59 arguments; put them into a buffer"));
        }
        let mut words = Vec::with_capacity(args.len());
        for arg in args {
            words.push(match *arg {
                Arg::Buffer(buffer, offset) => {
                    buffer.check("an argument", offset, 0)?;
                    self.name_buffer(buffer)?;
                    self.access(buffer.into(), &Subresources::All, argument_states(buffer), kind);
                    buffer.gpu_va() + offset
                }
                Arg::U32(value) => u64::from(value),
                Arg::U64(value) => value,
                Arg::F32(value) => u64::from(value.to_bits()),
            });
        }
        Ok(words)
    }
}

pub(super) fn check_grid(what: &'static str, groups: [u32; 3]) -> Result<()> {
    match groups.contains(&0) {
        true => Err(bad(what, "a dimension of its grid has 0 groups; give at least one in each")),
        false => Ok(()),
    }
}

fn compute_states(argument: &Argument) -> ResourceStates {
    match argument.kind {
        ArgumentKind::Buffer { access: Access::Read } => ResourceStates::NON_PIXEL_SHADER_RESOURCE,
        _ => ResourceStates::UNORDERED_ACCESS,
    }
}

/// Returns the states in which a draw uses an argument. Depth values are in a buffer, which has no
/// depth states.
fn draw_states(argument: &Argument) -> ResourceStates {
    match argument.name {
        "vertices" | "constants" => ResourceStates::VERTEX_AND_CONSTANT_BUFFER,
        "indices" => ResourceStates::INDEX_BUFFER,
        "texture" => ResourceStates::PIXEL_SHADER_RESOURCE,
        "target" => ResourceStates::RENDER_TARGET,
        _ => compute_states(argument),
    }
}

/// Returns the states in which a program's argument is used. All arguments count as written, except
/// those in an upload heap, which the GPU only reads.
fn argument_states(buffer: &Buffer) -> ResourceStates {
    match buffer.facts.initial {
        ResourceStates::GENERIC_READ => ResourceStates::NON_PIXEL_SHADER_RESOURCE,
        _ => ResourceStates::UNORDERED_ACCESS,
    }
}
