//! Arguments of the built-in programs that a dispatch or a draw names. `tidegate_programs` has the
//! signatures.

use super::BufferRef;
use crate::expression::Expr;

/// The value of an argument.
#[derive(Debug, Clone, PartialEq)]
pub enum Arg {
    /// A buffer from a byte on.
    Buffer {
        /// The buffer.
        buffer: BufferRef,
        /// First byte.
        offset: Expr,
    },
    /// A whole number.
    Integer(Expr),
    /// A float.
    Float(f32),
}

/// Arguments by name, in the order of the signature. Omitted optional arguments are absent; the
/// engine takes them as 0.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Args(pub Vec<(&'static str, Arg)>);

impl Args {
    /// The argument of that name.
    pub fn get(&self, name: &str) -> Option<&Arg> {
        self.0.iter().find(|(n, _)| *n == name).map(|(_, arg)| arg)
    }
}
