//! Compute pipeline states, root parameters, and the dispatches that use both.
//!
//! A typed dispatch ([`CommandList::dispatch`]) needs neither. These calls are for code that sets
//! state separately, as Direct3D 12 does.

use super::dispatch::{BufferAt, check_grid};
use super::recording::CommandList;
use super::root_state::{RootState, is_constant};
use crate::error::{Error, Result};
use crate::resource::Buffer;
use crate::states::flags::ResourceStates;
use crate::states::recording::Subresources;
use tidegate_gpu_abi::program::{ArgumentKind, Shader};
use tidegate_gpu_abi::{Command, GpuVa};

/// Size of the arguments of one indirect dispatch in bytes: thread groups in x, y, z
/// (D3D12_DISPATCH_ARGUMENTS).
pub const INDIRECT_BYTES: u64 = 12;

/// Maximum number of dispatches of one [`CommandList::execute_indirect`].
pub const MAX_INDIRECT: u32 = 4096;

/// A pipeline state: a program and its root signature. Root parameter `i` is the program's argument
/// `i`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipelineState {
    shader: Shader,
}

impl PipelineState {
    /// Creates a pipeline state from a program, such as `Saxpy::SHADER`.
    #[doc(alias = "CreateComputePipelineState")]
    #[doc(alias = "CreateGraphicsPipelineState")]
    pub fn new(shader: Shader) -> PipelineState {
        PipelineState { shader }
    }

    /// Returns the program.
    pub fn shader(&self) -> Shader {
        self.shader
    }

    /// Returns whether the program is for draws.
    pub fn is_graphics(&self) -> bool {
        self.shader.draws
    }
}

/// The kind of a root view.
#[derive(Clone, Copy, PartialEq, Eq)]
enum View {
    UnorderedAccess,
    Read,
}

impl CommandList {
    // spec: ME-055
    /// Sets the pipeline state of the following dispatches. Compute and direct lists accept the
    /// state of a compute program. Draws take their program directly, see [`CommandList::draw`].
    ///
    /// # Errors
    /// [`Error::NotAccepted`] in copy lists; [`Error::BadValue`] for a graphics pipeline state.
    #[doc(alias = "SetPipelineState")]
    pub fn set_pipeline_state(&mut self, pipeline: &PipelineState) -> Result<()> {
        self.accepts_compute("pipeline state")?;
        if pipeline.is_graphics() {
            return Err(Error::BadValue {
                what: format!("graphics pipeline state '{}'", pipeline.shader.name),
                why: "a list sets compute pipeline states; record a draw with its typed program",
            });
        }
        self.root.set(pipeline.shader);
        Ok(())
    }

    /// Sets a root parameter to a 32-bit number. A float is passed as its bits.
    ///
    /// # Errors
    /// [`Error::NotAccepted`]; [`Error::BadValue`] without a pipeline state, for a parameter that
    /// the program does not have, and for a buffer parameter.
    #[doc(alias = "SetComputeRoot32BitConstant")]
    pub fn set_compute_root_constant(&mut self, parameter: usize, value: u32) -> Result<()> {
        self.accepts_compute("root constant")?;
        let argument = self.root.parameter(parameter)?;
        if !is_constant(argument.kind) {
            return Err(Error::BadValue {
                what: format!("root parameter {parameter}, '{}'", argument.name),
                why: "it is a buffer; set a root view",
            });
        }
        self.root.set_word(parameter, u64::from(value));
        Ok(())
    }

    /// Sets consecutive root parameters to 32-bit numbers.
    ///
    /// # Errors
    /// As [`CommandList::set_compute_root_constant`]. Parameters before the refused one are set.
    #[doc(alias = "SetComputeRoot32BitConstants")]
    pub fn set_compute_root_constants(&mut self, first: usize, values: &[u32]) -> Result<()> {
        let mut numbered = (first..).zip(values);
        numbered.try_for_each(|(at, value)| self.set_compute_root_constant(at, *value))
    }

    /// Sets a root parameter to a buffer that the program writes.
    ///
    /// # Errors
    /// [`Error::NotAccepted`]; [`Error::BadValue`] as [`CommandList::set_compute_root_constant`];
    /// [`Error::OutOfRange`], [`Error::Foreign`].
    #[doc(alias = "SetComputeRootUnorderedAccessView")]
    pub fn set_compute_root_unordered_access_view<'b>(
        &mut self,
        parameter: usize,
        place: impl Into<BufferAt<'b>>,
    ) -> Result<()> {
        self.set_root_view(parameter, place.into(), View::UnorderedAccess)
    }

    /// Sets a root parameter to a buffer that the program reads.
    ///
    /// # Errors
    /// As [`CommandList::set_compute_root_unordered_access_view`].
    #[doc(alias = "SetComputeRootShaderResourceView")]
    #[doc(alias = "SetComputeRootConstantBufferView")]
    pub fn set_compute_root_shader_resource_view<'b>(
        &mut self,
        parameter: usize,
        place: impl Into<BufferAt<'b>>,
    ) -> Result<()> {
        self.set_root_view(parameter, place.into(), View::Read)
    }

    fn set_root_view(&mut self, parameter: usize, place: BufferAt<'_>, view: View) -> Result<()> {
        self.accepts_compute("root view")?;
        let argument = self.root.parameter(parameter)?;
        let refused = |why| {
            let what = format!("root parameter {parameter}, '{}'", argument.name);
            Err(Error::BadValue { what, why })
        };
        match (argument.kind, view) {
            (ArgumentKind::Buffer { access }, View::Read) if access.writes() => {
                return refused("the program writes the buffer; set an unordered access view");
            }
            (ArgumentKind::Buffer { .. }, _) => {}
            _ => return refused("it is a number; set a root constant"),
        }
        let address = self.name_place(place)?;
        self.root.set_address(parameter, address, place.buffer);
        Ok(())
    }

    /// Removes the pipeline state and the root parameters.
    ///
    /// # Errors
    /// [`Error::NotAccepted`].
    #[doc(alias = "ClearState")]
    pub fn clear_state(&mut self) -> Result<()> {
        self.accepts_compute("state to clear")?;
        self.root = RootState::default();
        Ok(())
    }

    /// Runs the program of the pipeline state with the root parameters over `groups` thread groups.
    ///
    /// # Errors
    /// [`Error::NotAccepted`]; [`Error::BadValue`] without a pipeline state, for a parameter that
    /// is not set, and for a grid without groups.
    #[doc(alias = "Dispatch")]
    pub fn dispatch_groups(&mut self, groups: [u32; 3]) -> Result<()> {
        self.accepts_compute("dispatch")?;
        check_grid("a dispatch", groups)?;
        let (program, args) = self.root.dispatch()?;
        self.use_root_buffers("Dispatch");
        self.push(&Command::Dispatch { program, groups, args })
    }

    /// Records that a command uses the buffers among the root parameters.
    fn use_root_buffers(&mut self, kind: &'static str) {
        if self.states().is_some() {
            for (argument, buffer) in self.root.buffers() {
                self.use_argument(&buffer, argument, kind);
            }
        }
    }

    /// Runs the program of the pipeline state once for each of `max` entries of `arguments`
    /// ([`INDIRECT_BYTES`] each, thread groups in x, y, z), which the GPU reads when the command
    /// begins. `count`, a 32-bit number in a buffer, limits the number of dispatches. Compute and
    /// direct lists only.
    ///
    /// # Errors
    /// As [`CommandList::dispatch_groups`]; [`Error::BadValue`] for offsets that are not multiples
    /// of 4, and for more than [`MAX_INDIRECT`] dispatches; [`Error::OutOfRange`],
    /// [`Error::Foreign`].
    #[doc(alias = "ExecuteIndirect")]
    pub fn execute_indirect(
        &mut self,
        max: u32,
        arguments: BufferAt<'_>,
        count: Option<BufferAt<'_>>,
    ) -> Result<()> {
        self.accepts_compute("indirect dispatch")?;
        let refused = |why| Error::BadValue { what: "an indirect dispatch".to_owned(), why };
        let (program, args) = self.root.dispatch()?;
        if max > MAX_INDIRECT {
            return Err(refused("it has more than 4096 dispatches; divide it"));
        }
        if !arguments.offset.is_multiple_of(4) || count.is_some_and(|c| !c.offset.is_multiple_of(4))
        {
            return Err(refused("an offset is no multiple of 4; align arguments and count"));
        }
        let kind = "ExecuteIndirect";
        let groups_at = self.indirect_argument(
            arguments.buffer,
            arguments.offset,
            u64::from(max) * INDIRECT_BYTES,
            kind,
        )?;
        let count_at = match count {
            Some(count) => self.indirect_argument(count.buffer, count.offset, 4, kind)?,
            None => 0,
        };
        self.use_root_buffers(kind);
        for index in 0..max {
            self.push(&Command::DispatchIndirect {
                program,
                groups_at: GpuVa(groups_at + u64::from(index) * INDIRECT_BYTES),
                count_at: GpuVa(count_at),
                index,
                args: args.clone(),
            })?;
        }
        Ok(())
    }

    /// Skips the following copies, clears, dispatches and draws if the 64-bit value at `value` is 0
    /// or, with [`PredicationOp::NotEqualZero`], if it is not 0. The GPU reads the value once, when
    /// the command begins. `None` ends predication, as does the end of the list. Compute and direct
    /// lists only.
    ///
    /// # Errors
    /// [`Error::NotAccepted`], [`Error::OutOfRange`], [`Error::Foreign`]; [`Error::BadValue`] for
    /// an offset that is not a multiple of 8.
    #[doc(alias = "SetPredication")]
    pub fn set_predication(
        &mut self,
        value: Option<BufferAt<'_>>,
        op: PredicationOp,
    ) -> Result<()> {
        self.accepts_compute("predication")?;
        let value_at = match value {
            Some(BufferAt { offset, .. }) if !offset.is_multiple_of(8) => {
                return Err(Error::BadValue {
                    what: "a predicate".to_owned(),
                    why: "its offset is no multiple of 8; align the value",
                });
            }
            Some(BufferAt { buffer, offset }) => {
                self.indirect_argument(buffer, offset, 8, "SetPredication")?
            }
            None => 0,
        };
        let unless_zero = op == PredicationOp::NotEqualZero;
        self.push(&Command::Predicate { value_at: GpuVa(value_at), unless_zero })
    }

    /// Names a buffer that the GPU's front end reads and returns its address.
    fn indirect_argument(
        &mut self,
        buffer: &Buffer,
        offset: u64,
        bytes: u64,
        kind: &'static str,
    ) -> Result<u64> {
        buffer.check("indirect arguments", offset, bytes)?;
        self.name_buffer(buffer)?;
        let needed = ResourceStates::INDIRECT_ARGUMENT;
        self.access(buffer.into(), &Subresources::All, needed, kind);
        Ok(buffer.gpu_va() + offset)
    }
}

/// The predicate values that skip commands (D3D12_PREDICATION_OP).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PredicationOp {
    /// The value 0.
    #[default]
    EqualZero,
    /// Any value except 0.
    NotEqualZero,
}
