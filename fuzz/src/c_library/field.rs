//! What is in the structures of C calls: a description of each field, from which a structure is
//! laid out as a C compiler does.

/// Kinds of objects that a handle names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Adapter,
    Device,
    Context,
    HwContext,
    HwQueue,
    Doorbell,
    Sync,
    /// A global handle of an older synchronisation object.
    Global,
    Allocation,
    Resource,
    PagingQueue,
    KeyedMutex,
}

/// Which of the two numbers of elements in a call.
pub(crate) type Which = usize;

/// A field. Those of handles, choices and numbers have 32 bits, all others 64 unless they say so.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Field {
    /// A handle that the call takes.
    Takes(Kind),
    /// A handle that the call returns.
    Makes(Kind),
    /// Any bits.
    Flags,
    /// Any bits but these.
    FlagsWithout(u32),
    /// These bits, and any other.
    FlagsWith(u32),
    /// One of these, or mostly the first one.
    OneOf(&'static [u32]),
    /// A number of 32 bits.
    Number,
    /// 64 bits that are one of these.
    OneOfWide(&'static [u64]),
    /// A number of 64 bits, or an address that the call does not follow.
    Wide,
    /// So many numbers of 32 bits.
    Numbers(usize),
    /// As many handles of an array inside of the structure.
    Handles(Kind, usize),
    /// A number of elements.
    Count(Which),
    /// The address of as many elements as the number says, each with these fields.
    List(Which, &'static [Field]),
    /// As `List` of words, or an odd number: for a union of an address and a value.
    ListOrOdd(Which),
    /// The address of a structure.
    At(&'static [Field]),
    /// A number of bytes.
    Size,
    /// The address of as many bytes.
    Buffer,
    /// The address of a UNICODE_STRING.
    Name,
    /// A descriptor that the call takes: an eventfd, an NT handle, or anything else.
    Descriptor,
    /// An eventfd.
    Event,
    /// A descriptor that the call returns.
    NewDescriptor,
    /// An address of the GPU.
    GpuAddress,
    /// An address of the GPU that the call returns.
    NewGpuAddress,
    /// An address of a word of the CPU's that the call returns.
    NewWord,
    /// Moves on to an address that is a multiple of 8.
    Align,
}

impl Field {
    /// The field's bytes and alignment.
    pub(crate) fn layout(self) -> (usize, usize) {
        use Field::*;
        match self {
            Takes(_) | Makes(_) | Flags | FlagsWithout(_) | FlagsWith(_) | OneOf(_) | Number
            | Count(_) | Size => (4, 4),
            Numbers(count) | Handles(_, count) => (4 * count, 4),
            Align => (0, 8),
            _ => (8, 8),
        }
    }
}

/// Returns the offsets of the fields of a structure, and its bytes.
pub(crate) fn lay_out(fields: &[Field]) -> (Vec<usize>, usize) {
    let (mut end, mut widest, mut offsets) = (0_usize, 1, Vec::with_capacity(fields.len()));
    for field in fields {
        let (bytes, align) = field.layout();
        let at = end.next_multiple_of(align);
        offsets.push(at);
        (end, widest) = (at + bytes, widest.max(align));
    }
    (offsets, end.next_multiple_of(widest))
}
