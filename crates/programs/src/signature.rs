//! Signatures of programs: names and kinds of arguments, thread group, grid, and the buffer ranges
//! that follow from the arguments; and the argument words of one dispatch, checked once.
//!
//! Invariant: a written range overlaps no other range of the same dispatch. Otherwise groups would
//! see each other's stores, and a resumed dispatch would differ from an uninterrupted one.

use super::part::Part;
use super::{MAX_ARGUMENTS, ProgramFault, ProgramId, ProgramMemory};

/// How a program uses a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Loads only.
    Read,
    /// Stores only; what was there before does not matter.
    Write,
    /// Loads and stores.
    ReadWrite,
}

impl Access {
    /// True when the program may store to the buffer.
    #[must_use]
    pub const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::ReadWrite)
    }
}

/// What an argument word holds.
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
    /// Its name, as in the documentation of the program.
    pub name: &'static str,
    /// What the word holds.
    pub kind: ArgumentKind,
    /// True for an argument that may be left out by giving 0.
    pub optional: bool,
}

impl Argument {
    pub(super) const fn buffer(name: &'static str, access: Access) -> Self {
        Self { name, kind: ArgumentKind::Buffer { access }, optional: false }
    }

    pub(super) const fn read(name: &'static str) -> Self {
        Self::buffer(name, Access::Read)
    }

    pub(super) const fn write(name: &'static str) -> Self {
        Self::buffer(name, Access::Write)
    }

    pub(super) const fn read_write(name: &'static str) -> Self {
        Self::buffer(name, Access::ReadWrite)
    }

    pub(super) const fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    pub(super) const fn u32(name: &'static str) -> Self {
        Self { name, kind: ArgumentKind::U32, optional: false }
    }

    pub(super) const fn f32(name: &'static str) -> Self {
        Self { name, kind: ArgumentKind::F32, optional: false }
    }
}

/// Runs a group from where its part begins, until it ends or is to be left.
pub(super) type GroupBody =
    fn(&Arguments<'_>, [u32; 3], &mut Part<'_>, &mut dyn ProgramMemory) -> Result<(), ProgramFault>;

/// A program as its callers see it.
pub struct Signature {
    /// The number of the program.
    pub id: ProgramId,
    /// The name of the program, in snake case.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Its arguments, in order. A dispatch carries exactly these.
    pub arguments: &'static [Argument],
    /// Threads of one group in x, y and z.
    pub threads_per_group: [u32; 3],
    pub(super) grid: fn(&Arguments<'_>) -> [u32; 3],
    pub(super) spans: fn(&Arguments<'_>) -> Result<Spans, ProgramFault>,
    pub(super) run: GroupBody,
}

impl Signature {
    /// The groups that cover all the work that `args` describe, or `[0, 0, 0]` for arguments that
    /// [`validate`](super::validate) would refuse.
    #[must_use]
    pub fn groups_for(&'static self, args: &[u64]) -> [u32; 3] {
        let Ok(args) = Arguments::new(self, args) else { return [0; 3] };
        if (self.spans)(&args).is_err() { [0; 3] } else { (self.grid)(&args) }
    }

    /// The place of the argument called `name`.
    #[must_use]
    pub fn argument(&self, name: &str) -> Option<usize> {
        self.arguments.iter().position(|argument| argument.name == name)
    }
}

impl std::fmt::Debug for Signature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signature")
            .field("id", &self.id)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Words that agree with their signature in number and kind.
pub(super) struct Arguments<'a> {
    signature: &'static Signature,
    words: &'a [u64],
}

impl<'a> Arguments<'a> {
    pub(super) fn new(
        signature: &'static Signature,
        words: &'a [u64],
    ) -> Result<Self, ProgramFault> {
        if words.len() > MAX_ARGUMENTS || words.len() != signature.arguments.len() {
            return Err(ProgramFault::bad("the number of arguments is not that of the program"));
        }
        for (&word, argument) in words.iter().zip(signature.arguments) {
            match argument.kind {
                ArgumentKind::Buffer { .. } => check_address(word, argument.optional)?,
                ArgumentKind::U32 | ArgumentKind::F32 if word >> 32 != 0 => {
                    return Err(ProgramFault::bad("a 32-bit argument has bits in its high half"));
                }
                ArgumentKind::U32 | ArgumentKind::F32 | ArgumentKind::U64 => {}
            }
        }
        Ok(Self { signature, words })
    }

    pub(super) fn signature(&self) -> &'static Signature {
        self.signature
    }

    pub(super) fn va(&self, index: usize) -> u64 {
        self.words[index]
    }

    /// The low half; `new` has seen that the high half is zero.
    pub(super) fn u32(&self, index: usize) -> u32 {
        self.words[index] as u32
    }

    pub(super) fn u64(&self, index: usize) -> u64 {
        self.words[index]
    }

    pub(super) fn f32(&self, index: usize) -> f32 {
        f32::from_bits(self.u32(index))
    }

    pub(super) fn access(&self, index: usize) -> Access {
        match self.signature.arguments[index].kind {
            ArgumentKind::Buffer { access } => access,
            _ => Access::Read,
        }
    }

    /// Starts the list of buffer ranges.
    pub(super) fn span(&self, index: usize, len: u64) -> Spans {
        Spans::new().with(self, index, len)
    }
}

fn check_address(va: u64, optional: bool) -> Result<(), ProgramFault> {
    if va == 0 && !optional {
        return Err(ProgramFault::bad("a buffer that is not optional has address 0"));
    }
    if !va.is_multiple_of(4) {
        return Err(ProgramFault::bad("a buffer address is not a multiple of 4"));
    }
    Ok(())
}

/// A range of GPU memory that a dispatch may touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferSpan {
    /// The place of the buffer among the arguments.
    pub argument: usize,
    /// GPU virtual address of the first byte.
    pub va: u64,
    /// Length in bytes.
    pub len: u64,
    /// How the range is used.
    pub access: Access,
}

impl BufferSpan {
    fn meets(&self, other: &Self) -> bool {
        // Ends cannot overflow: `Spans::check` looks at every end before it compares two spans.
        self.len != 0
            && other.len != 0
            && self.va < other.va + other.len
            && other.va < self.va + self.len
    }
}

const MAX_SPANS: usize = 8;

/// The ranges of one dispatch. A fixed array, because it is made once for each group.
pub(super) struct Spans {
    list: [BufferSpan; MAX_SPANS],
    count: usize,
    same_range_allowed: bool,
}

impl Spans {
    pub(super) fn new() -> Self {
        let nothing = BufferSpan { argument: 0, va: 0, len: 0, access: Access::Read };
        Self { list: [nothing; MAX_SPANS], count: 0, same_range_allowed: false }
    }

    /// Adds the buffer at `argument`, unless it is an optional one that was left out.
    pub(super) fn with(mut self, args: &Arguments<'_>, argument: usize, len: u64) -> Self {
        let va = args.va(argument);
        if va != 0 {
            let access = args.access(argument);
            self.list[self.count] = BufferSpan { argument, va, len, access };
            self.count += 1;
        }
        self
    }

    /// For programs in which each group reads exactly the elements that it writes: two arguments
    /// may name the same range, which then is worked on in place.
    pub(super) fn in_place_allowed(mut self) -> Self {
        self.same_range_allowed = true;
        self
    }

    pub(super) fn as_slice(&self) -> &[BufferSpan] {
        &self.list[..self.count]
    }

    pub(super) fn check(&self) -> Result<(), ProgramFault> {
        let spans = self.as_slice();
        if spans.iter().any(|span| span.va.checked_add(span.len).is_none()) {
            return Err(ProgramFault::bad("a buffer runs past the end of the address space"));
        }
        for (index, one) in spans.iter().enumerate() {
            for other in &spans[index + 1..] {
                let in_place =
                    self.same_range_allowed && one.va == other.va && one.len == other.len;
                if (one.access.writes() || other.access.writes()) && one.meets(other) && !in_place {
                    return Err(ProgramFault::bad(
                        "two buffers overlap and one of them is written",
                    ));
                }
            }
        }
        Ok(())
    }
}
