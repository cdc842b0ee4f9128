//! Programs as user mode names them: a number, a name, and the kinds of the argument words.
//!
//! The programs and their named types are a crate of their own. A user-mode driver records any
//! [`Program`], so the two never name each other. Entry points: [`Program`], [`Shader`].

/// How a program uses a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Loads only.
    Read,
    /// Stores only. The previous content does not matter.
    Write,
    /// Loads and stores.
    ReadWrite,
    /// Atomic loads and stores, also beside atomics of other dispatches.
    Atomic,
}

impl Access {
    /// Whether the program may store to the buffer.
    #[must_use]
    pub const fn writes(self) -> bool {
        !matches!(self, Self::Read)
    }
}

/// The content of an argument word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentKind {
    /// GPU virtual address of a buffer, a multiple of 4 bytes.
    Buffer {
        /// How the buffer is used.
        access: Access,
    },
    /// A 32-bit number; the high half of the word is zero.
    U32,
    /// A 64-bit number.
    U64,
    /// The bits of an `f32` in the low half; the high half of the word is zero.
    F32,
}

/// One argument of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Argument {
    /// Its name in the program's documentation.
    pub name: &'static str,
    /// The content of its word.
    pub kind: ArgumentKind,
    /// Whether the argument may be omitted by passing 0.
    pub optional: bool,
}

impl Argument {
    /// Describes a buffer.
    #[must_use]
    pub const fn buffer(name: &'static str, access: Access) -> Self {
        Self { name, kind: ArgumentKind::Buffer { access }, optional: false }
    }

    /// Describes a buffer that is read.
    #[must_use]
    pub const fn read(name: &'static str) -> Self {
        Self::buffer(name, Access::Read)
    }

    /// Describes a buffer that is written.
    #[must_use]
    pub const fn write(name: &'static str) -> Self {
        Self::buffer(name, Access::Write)
    }

    /// Describes a buffer that is read and written.
    #[must_use]
    pub const fn read_write(name: &'static str) -> Self {
        Self::buffer(name, Access::ReadWrite)
    }

    /// Describes a buffer that is accessed atomically.
    #[must_use]
    pub const fn atomic(name: &'static str) -> Self {
        Self::buffer(name, Access::Atomic)
    }

    /// Returns the argument as one that may be omitted.
    #[must_use]
    pub const fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    /// Describes a 32-bit number.
    #[must_use]
    pub const fn u32(name: &'static str) -> Self {
        Self { name, kind: ArgumentKind::U32, optional: false }
    }

    /// Describes a 32-bit float.
    #[must_use]
    pub const fn f32(name: &'static str) -> Self {
        Self { name, kind: ArgumentKind::F32, optional: false }
    }
}

/// The description of a program for user mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shader {
    /// Its number in a dispatch or a draw.
    pub number: u32,
    /// Its name, in snake case.
    pub name: &'static str,
    /// Whether it is a rasteriser program, which draws run.
    pub draws: bool,
    /// Its arguments, one word each, in this order.
    pub arguments: &'static [Argument],
}

/// The value of one argument.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<B> {
    /// A place in a buffer.
    Buffer(B),
    /// An optional argument that is omitted.
    Omitted,
    /// A 32-bit number.
    U32(u32),
    /// A 32-bit float.
    F32(f32),
}

/// A program with its arguments. `Buffer` is the type that names a place in a buffer.
pub trait Program {
    /// The type that names a place in a buffer.
    type Buffer;

    /// Returns the program's description.
    fn shader(&self) -> Shader;

    /// Returns the arguments in the order of the description.
    fn values(&self) -> Vec<Value<Self::Buffer>>;

    /// Returns the thread groups that cover its work.
    fn groups(&self) -> [u32; 3];
}

/// A program that dispatches run.
pub trait ComputeProgram: Program {}

/// A program that draws run.
pub trait DrawProgram: Program {}
