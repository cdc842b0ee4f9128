//! The compute root state of a list: the pipeline state and the arguments set so far.

use crate::error::{Error, Result};
use crate::resource::Buffer;
use std::sync::Arc;
use tidegate_gpu_abi::program::{Argument, ArgumentKind, Shader};

/// The views of a descriptor heap, each a buffer and an offset.
pub(super) type Views = Arc<Vec<Option<(Buffer, u64)>>>;

/// The root parameters. Parameter `i` is argument `i` of the pipeline's program.
#[derive(Debug, Default)]
pub(super) struct RootState {
    shader: Option<Shader>,
    words: Vec<Option<u64>>,
    /// For each word that is an address, its buffer.
    buffers: Vec<Option<Buffer>>,
    /// The descriptor heap.
    pub(super) views: Option<Views>,
}

impl RootState {
    /// Sets the pipeline. Arguments are kept if its program takes the same ones.
    pub(super) fn set(&mut self, shader: Shader) {
        if self.shader.is_none_or(|before| before.arguments != shader.arguments) {
            self.words = vec![None; shader.arguments.len()];
            self.buffers = vec![None; shader.arguments.len()];
        }
        self.shader = Some(shader);
    }

    /// Returns a parameter of the pipeline's program.
    pub(super) fn parameter(&self, index: usize) -> Result<&'static Argument> {
        let Some(shader) = self.shader else { return Err(no_pipeline()) };
        shader.arguments.get(index).ok_or_else(|| Error::BadValue {
            what: format!("root parameter {index} of {}", shader.name),
            why: "the program has fewer parameters; compare with its type",
        })
    }

    /// Sets a numeric parameter.
    pub(super) fn set_word(&mut self, index: usize, word: u64) {
        self.words[index] = Some(word);
    }

    /// Sets a parameter to an address in a buffer.
    pub(super) fn set_address(&mut self, index: usize, address: u64, buffer: &Buffer) {
        (self.words[index], self.buffers[index]) = (Some(address), Some(buffer.clone()));
    }

    /// Returns the buffer arguments and their buffers.
    pub(super) fn buffers(&self) -> Vec<(&'static Argument, Buffer)> {
        let arguments = self.shader.iter().flat_map(|shader| shader.arguments);
        let bound = arguments.zip(&self.buffers);
        bound.filter_map(|(argument, buffer)| Some((argument, buffer.clone()?))).collect()
    }

    /// Returns the program's number and its argument words.
    pub(super) fn dispatch(&self) -> Result<(u32, Vec<u64>)> {
        let Some(shader) = self.shader else { return Err(no_pipeline()) };
        let word = |(argument, word): (&Argument, &Option<u64>)| match word {
            Some(word) => Ok(*word),
            None if argument.optional => Ok(0),
            None => Err(Error::BadValue {
                what: format!("argument '{}' of {}", argument.name, shader.name),
                why: "it is not set; set the root parameter before the dispatch",
            }),
        };
        let words = shader.arguments.iter().zip(&self.words).map(word);
        Ok((shader.number, words.collect::<Result<_>>()?))
    }
}

fn no_pipeline() -> Error {
    Error::BadValue {
        what: "a dispatch".to_owned(),
        why: "no pipeline state is set; set one before root parameters and dispatches",
    }
}

/// Returns whether a parameter is a 32-bit constant.
pub(super) fn is_constant(kind: ArgumentKind) -> bool {
    matches!(kind, ArgumentKind::U32 | ArgumentKind::F32)
}
