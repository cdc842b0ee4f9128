//! Dispatches and draws: the program, its arguments and its grid.

use super::recording::{CommandList, bad};
use crate::error::Result;
use crate::model::CommandListType;
use crate::resource::Buffer;
use crate::states::flags::ResourceStates;
use crate::states::recording::Subresources;
use tidegate_gpu_abi::Command;
use tidegate_gpu_abi::command::MAX_ARGS;

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

impl CommandList {
    /// Appends the dispatch of a program that is named by its number.
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

    /// Appends the draw of a program that is named by its number.
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

/// The states in which a program's argument is used. Programs write through their arguments, but
/// for those of an upload heap, which the GPU only reads.
fn argument_states(buffer: &Buffer) -> ResourceStates {
    match buffer.facts.initial {
        ResourceStates::GENERIC_READ => ResourceStates::NON_PIXEL_SHADER_RESOURCE,
        _ => ResourceStates::UNORDERED_ACCESS,
    }
}
