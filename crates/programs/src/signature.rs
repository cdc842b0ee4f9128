//! Signatures of programs: names and kinds of arguments, thread group, grid, and the resulting
//! buffer ranges. Also the checked argument words of one dispatch.
//!
//! Invariant: a written range overlaps no other range of the dispatch. Otherwise groups would see
//! each other's stores, and a resumed dispatch would differ from an uninterrupted one.

use super::part::Part;
use super::{MAX_ARGUMENTS, ProgramFault, ProgramId, ProgramMemory};
use tidegate_gpu_abi::program::Shader;
pub use tidegate_gpu_abi::program::{Access, Argument, ArgumentKind};

/// Runs a group from the start of its part until it ends or must stop.
pub(super) type GroupBody =
    fn(&Arguments<'_>, [u32; 3], &mut Part<'_>, &mut dyn ProgramMemory) -> Result<(), ProgramFault>;

/// The public description of a program.
pub struct Signature {
    /// The number of the program.
    pub id: ProgramId,
    /// The name of the program, in snake case.
    pub name: &'static str,
    /// One-line description.
    pub summary: &'static str,
    /// Its arguments. A dispatch carries exactly these, in this order.
    pub arguments: &'static [Argument],
    /// Threads per group in x, y and z.
    pub threads_per_group: [u32; 3],
    pub(super) grid: fn(&Arguments<'_>) -> [u32; 3],
    pub(super) spans: fn(&Arguments<'_>) -> Result<Spans, ProgramFault>,
    pub(super) run: GroupBody,
}

impl Signature {
    /// Returns what user mode knows of the program.
    #[must_use]
    pub const fn shader(&self) -> Shader {
        let draws = self.id.0 == ProgramId::DRAW.0;
        Shader { number: self.id.0, name: self.name, draws, arguments: self.arguments }
    }

    /// Returns the groups that cover the work of `args`, or `[0, 0, 0]` for arguments that
    /// [`validate`](super::validate) refuses.
    #[must_use]
    pub fn groups_for(&'static self, args: &[u64]) -> [u32; 3] {
        let Ok(args) = Arguments::new(self, args) else { return [0; 3] };
        if (self.spans)(&args).is_err() { [0; 3] } else { (self.grid)(&args) }
    }

    /// Returns the index of the argument `name`.
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

/// Words that match their signature in number and kind.
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
            return Err(ProgramFault::bad(
                "the number of arguments differs from that of the program",
            ));
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

    /// Returns the low half. `new` has checked that the high half is zero.
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

    /// Starts a list of buffer ranges.
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

/// A range of GPU memory that a dispatch may access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferSpan {
    /// Index of the buffer's argument.
    pub argument: usize,
    /// GPU virtual address of the first byte.
    pub va: u64,
    /// Length in bytes.
    pub len: u64,
    /// The use of the range.
    pub access: Access,
}

impl BufferSpan {
    fn meets(&self, other: &Self) -> bool {
        // Ends cannot overflow: `Spans::check` checks every end before it compares two spans.
        self.len != 0
            && other.len != 0
            && self.va < other.va + other.len
            && other.va < self.va + self.len
    }
}

const MAX_SPANS: usize = 8;

/// The ranges of one dispatch. A fixed array, because it is created once per group.
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

    /// Adds the buffer at `argument`, unless it is optional and omitted.
    pub(super) fn with(mut self, args: &Arguments<'_>, argument: usize, len: u64) -> Self {
        let va = args.va(argument);
        if va != 0 {
            let access = args.access(argument);
            self.list[self.count] = BufferSpan { argument, va, len, access };
            self.count += 1;
        }
        self
    }

    /// Allows two arguments with the same range. For programs in which each group reads exactly the
    /// elements that it writes.
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
                        "two buffers overlap, and one of them is written",
                    ));
                }
            }
        }
        Ok(())
    }
}
