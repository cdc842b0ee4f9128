//! Target `library`: calls of the C library with its kernel in this process. Handles are live, old,
//! of another kind or of nothing; addresses are NULL or misaligned; reserved bits are set.
//!
//! Invariants
//! - A structure and an array end where their memory ends, so the library reads and writes no byte
//!   more.
//! - A call that fails leaves no object. After an input every object of it has ended, and machine
//!   and
//!   open files are as before it.
//! - The library has one machine for as long as the process lives. Its engines are threads, so a
//!   failure
//!   may need its input again.

use crate::c_library::calls::{CALLS, Call, Outputs, named};
use crate::c_library::field::{Field, Kind, Which, lay_out};
use crate::c_library::memory::{BLOCK_BYTES, Memory};
use crate::c_library::objects;
use crate::input::Input;
use crate::series::Series;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsRawFd, OwnedFd};
use tidegate::calls::Status;

/// Calls of one input.
const MOST_STEPS: usize = 100;
const EVENTS: usize = 4;
/// Numbers of elements. The last two are beyond each limit of the library.
const COUNTS: [u32; 10] = [1, 2, 3, 0, 32, 33, 64, 65, 4097, u32::MAX];
/// Most elements that an array has.
const MOST_ELEMENTS: u32 = 65;
const SIZES: [u32; 14] = [16, 0, 4, 8, 12, 15, 17, 24, 40, 64, 142, 4160, 16384, u32::MAX];
/// A descriptor that no process has open.
const NO_DESCRIPTOR: u64 = 1 << 20;
/// Engines of the machine.
const NODES: u8 = 3;
/// Choices of a step that are no call.
const CLOSES: u8 = 250;

pub(crate) fn run(series: &mut Series, data: &[u8]) {
    let act = |memory: &mut Memory| {
        let (mut input, mut program) = (Input::new(data), Program::new());
        let (steps, node) = (input.byte(), input.byte() % NODES);
        program.set_up(memory, steps, node);
        for _ in 0..MOST_STEPS {
            if input.is_over() {
                break;
            }
            program.step(memory, &mut input);
        }
        program.end(memory);
        program.handles.iter().filter(|(kind, _)| *kind == Kind::Sync).count()
    };
    let warm_up = |memory: &mut Memory| {
        for node in 0..NODES {
            let mut program = Program::new();
            program.set_up(memory, u8::MAX, node);
            program.end(memory);
        }
    };
    series.in_process(warm_up, act);
}

/// What a C program has: the handles that it was given, with those of ended objects, and
/// descriptors.
struct Program {
    handles: Vec<(Kind, u32)>,
    nt_handles: Vec<OwnedFd>,
    events: Vec<OwnedFd>,
    gpu_addresses: Vec<u64>,
    /// Numbers of elements of the present call.
    counts: [u32; 2],
    /// Bytes of its buffer.
    size: u32,
}

const HW_CONTEXT: &str = "D3DKMTCreateHwContext";

/// What is made first, in this order, by an input whose first byte is large enough: each call, and
/// the bytes that choose its arguments where they are not 0.
const SET_UP: [(&str, &[(usize, u8)]); 17] = [
    ("D3DKMTOpenAdapterFromLuid", &[]),
    ("D3DKMTCreateDevice", &[]),
    ("D3DKMTCreatePagingQueue", &[]),
    ("D3DKMTCreateContextVirtual", &[]),
    (HW_CONTEXT, &[]),
    // For user-mode submission.
    ("D3DKMTCreateHwQueue", &[(5, 4)]),
    // A ring, and its control area.
    ("D3DKMTCreateAllocation2", &[]),
    ("D3DKMTCreateAllocation2", &[(25, 1), (26, 1)]),
    ("D3DKMTCreateDoorbell", &[(5, 1)]),
    ("D3DKMTConnectDoorbell", &[]),
    // A fence that can be shared, and its NT handle.
    ("D3DKMTCreateSynchronizationObject2", &[(6, 128), (7, 1)]),
    ("D3DKMTShareObjects", &[]),
    ("D3DKMTCreateNativeFence", &[]),
    ("D3DKMTCreateSynchronizationObject", &[]),
    // A resource with a global handle, and another instance of it. Its private data of both kinds
    // have as many bytes, which the call that opens it names exactly.
    ("D3DKMTCreateAllocation2", &[(3, 7), (37, 128), (38, 1)]),
    ("D3DKMTQueryResourceInfo", &[(3, 7)]),
    ("D3DKMTOpenResource2", &[(3, 7)]),
];

impl Program {
    fn new() -> Program {
        let event = |_| eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
        Program {
            handles: Vec::new(),
            nt_handles: Vec::new(),
            events: (0..EVENTS).map(event).collect(),
            gpu_addresses: Vec::new(),
            counts: [0; 2],
            size: 0,
        }
    }

    /// Makes the first objects of [`SET_UP`], with the queue on an engine.
    fn set_up(&mut self, memory: &mut Memory, steps: u8, node: u8) {
        for (name, chosen) in SET_UP.iter().take(usize::from(steps)) {
            let mut bytes = [0; 40];
            chosen.iter().for_each(|(at, byte)| bytes[*at] = *byte);
            if *name == HW_CONTEXT {
                bytes[5] = node;
            }
            let status = self.call(memory, named(name), &mut Input::new(&bytes));
            assert_eq!(status, Status::SUCCESS, "{name} of the set-up");
        }
    }

    fn step(&mut self, memory: &mut Memory, input: &mut Input<'_>) {
        let choice = input.byte();
        if choice >= CLOSES {
            self.nt_handles.pop();
            return;
        }
        self.call(memory, &CALLS[usize::from(choice) % CALLS.len()], input);
    }

    /// Ends every object that may be left, and closes every descriptor.
    fn end(&mut self, memory: &mut Memory) {
        self.nt_handles.clear();
        // Its end has the library look for NT handles that are closed.
        self.call(memory, named("D3DKMTOpenAdapterFromLuid"), &mut Input::new(&[]));
        let ends = [
            (Kind::Sync, "D3DKMTDestroySynchronizationObject"),
            // Of no device, or of one that ends below.
            (Kind::KeyedMutex, "D3DKMTDestroyKeyedMutex"),
            (Kind::Device, "D3DKMTDestroyDevice"),
            (Kind::Adapter, "D3DKMTCloseAdapter"),
        ];
        for (kind, name) in ends {
            for (_, handle) in self.handles.iter().filter(|(known, _)| *known == kind) {
                memory.clear();
                let argument = memory.place(&handle.to_ne_bytes());
                let _ended_already = named(name).enter(memory, argument, &Outputs::default());
            }
        }
    }

    /// Makes a call. Keeps what it returns.
    fn call(&mut self, memory: &mut Memory, call: &Call, input: &mut Input<'_>) -> Status {
        memory.clear();
        let pointer = Pointer::choose(input, call.layout.align() > 1);
        self.counts = [0; 2].map(|_: u32| input.one_of(&COUNTS));
        self.size = input.one_of(&SIZES);
        let mut outputs = Outputs::default();
        let placed = self.structure(memory, call.fields, input, &mut outputs);
        let argument = pointer.of(placed);
        if argument != placed {
            outputs = Outputs::default();
        }
        let before = objects();
        let (status, descriptors) = call.enter(memory, argument, &outputs);
        let name = call.name;
        assert_ne!(status, Status::INTERNAL_ERROR, "{name} has panicked");
        let is_refused = argument == placed || status == Status::INVALID_PARAMETER;
        assert!(is_refused, "{name} with the argument {argument:#x} returned {status:?}");
        if status.0 < 0 {
            let after = objects();
            assert!(after <= before, "{name} returned {status:?} and left an object");
            return status;
        }
        self.nt_handles.extend(descriptors);
        for (at, kind) in outputs.handles {
            match u32::from_ne_bytes(memory.read(at)) {
                0 => {}
                handle => self.handles.push((kind, handle)),
            }
        }
        let addresses = outputs.gpu_addresses.iter();
        self.gpu_addresses.extend(addresses.map(|at| u64::from_ne_bytes(memory.read(*at))));
        status
    }

    /// Fills and places a structure. Returns its address, and adds the addresses of what it
    /// returns.
    fn structure(
        &mut self,
        memory: &mut Memory,
        fields: &[Field],
        input: &mut Input<'_>,
        outputs: &mut Outputs,
    ) -> u64 {
        self.array(memory, fields, 1, input, outputs)
    }

    fn array(
        &mut self,
        memory: &mut Memory,
        fields: &[Field],
        count: u32,
        input: &mut Input<'_>,
        outputs: &mut Outputs,
    ) -> u64 {
        let (offsets, bytes) = lay_out(fields);
        let mut all = vec![0; bytes * count as usize];
        let mut returned = Vec::new();
        for (element, start) in all.chunks_exact_mut(bytes).zip((0..).step_by(bytes)) {
            for (field, at) in fields.iter().zip(&offsets) {
                let value = self.field(memory, *field, input, outputs);
                element[*at..*at + value.len()].copy_from_slice(&value);
                returned.push((*field, start + *at as u64));
            }
        }
        let address = memory.place(&all);
        if address != 0 {
            returned.into_iter().for_each(|(field, at)| outputs.add(field, address + at));
        }
        address
    }

    /// Returns the bytes of a field.
    fn field(
        &mut self,
        memory: &mut Memory,
        field: Field,
        input: &mut Input<'_>,
        outputs: &mut Outputs,
    ) -> Vec<u8> {
        let wide = |number: u64| number.to_ne_bytes().to_vec();
        let narrow = |number: u32| number.to_ne_bytes().to_vec();
        match field {
            Field::Takes(kind) => narrow(self.handle(kind, input)),
            Field::Makes(kind) if input.byte() & 0x80 != 0 => narrow(self.handle(kind, input)),
            Field::Makes(_) => narrow(0),
            Field::Flags => narrow(flags(input)),
            Field::FlagsWithout(bits) => narrow(flags(input) & !bits),
            Field::FlagsWith(bits) => narrow(flags(input) | bits),
            Field::OneOf(choices) => narrow(input.one_of(choices)),
            Field::OneOfWide(choices) => wide(input.one_of(choices)),
            Field::Number => narrow(input.number() as u32),
            Field::Wide | Field::NewWord | Field::NewDescriptor | Field::NewGpuAddress => {
                wide(input.number())
            }
            Field::Numbers(count) => {
                let is_zero = input.byte() == 0;
                let number = |_| if is_zero { 0 } else { input.number() as u32 };
                (0..count).map(number).flat_map(u32::to_ne_bytes).collect()
            }
            Field::Handles(kind, count) => {
                let few = [0; 2].map(|_: u32| self.handle(kind, input));
                (0..count).flat_map(|n| few[n.min(1)].to_ne_bytes()).collect()
            }
            Field::Count(which) => narrow(self.counts[which]),
            Field::List(which, fields) => {
                let pointer = Pointer::choose(input, true);
                wide(pointer.of(self.list(memory, which, fields, input, outputs)))
            }
            Field::ListOrOdd(which) => {
                let pointer = Pointer::choose(input, true);
                match input.byte() {
                    odd if odd & 0x80 != 0 => wide(u64::from(odd | 1)),
                    _ => wide(pointer.of(self.list(memory, which, &[Field::Wide], input, outputs))),
                }
            }
            Field::At(fields) => {
                let pointer = Pointer::choose(input, true);
                wide(pointer.of(self.structure(memory, fields, input, outputs)))
            }
            Field::Size => narrow(self.size),
            Field::Buffer => {
                let pointer = Pointer::choose(input, false);
                let mut bytes = input.take(8).to_vec();
                // An answer is shorter than a block.
                bytes.resize((self.size as usize).min(BLOCK_BYTES), 0);
                wide(pointer.of(memory.place(&bytes)))
            }
            Field::Name => wide(self.name(memory, input)),
            Field::Descriptor => wide(self.descriptor(input)),
            Field::Event => wide(self.event(input.byte())),
            Field::GpuAddress => {
                let (at, offset) = (input.below(self.gpu_addresses.len()), input.byte());
                let known = self.gpu_addresses.iter().rev().nth(at).copied().unwrap_or_default();
                wide(known + u64::from(offset) * 4096)
            }
            Field::Align => Vec::new(),
        }
    }

    fn list(
        &mut self,
        memory: &mut Memory,
        which: Which,
        fields: &[Field],
        input: &mut Input<'_>,
        outputs: &mut Outputs,
    ) -> u64 {
        let count = self.counts[which];
        let elements = if count > MOST_ELEMENTS { 0 } else { count };
        self.array(memory, fields, elements, input, outputs)
    }

    /// Chooses a handle: mostly one of the last of the kind.
    fn handle(&self, kind: Kind, input: &mut Input<'_>) -> u32 {
        let of_kind = || self.handles.iter().rev().filter(|(known, _)| *known == kind);
        let choice = input.byte();
        let found = match choice {
            0..=215 => of_kind().nth(usize::from(choice) % of_kind().count().clamp(1, 4)),
            216..=239 => self.handles.get(input.below(self.handles.len())),
            240..=247 => None,
            _ => return input.number() as u32,
        };
        found.map_or(0, |(_, handle)| *handle)
    }

    fn event(&self, choice: u8) -> u64 {
        match choice {
            0..=239 => self.events[usize::from(choice) % EVENTS].as_raw_fd() as u64,
            _ => NO_DESCRIPTOR + u64::from(choice),
        }
    }

    fn descriptor(&self, input: &mut Input<'_>) -> u64 {
        match input.byte() {
            0..=127 => self.nt_handles.last().map_or(0, |handle| handle.as_raw_fd() as u64),
            choice @ 128..=239 => self.event(choice),
            _ => input.number(),
        }
    }

    /// Places a UNICODE_STRING.
    fn name(&self, memory: &mut Memory, input: &mut Input<'_>) -> u64 {
        let (pointer, text) = (Pointer::choose(input, true), Pointer::choose(input, true));
        let name: &[u32] = match input.byte() {
            0..=127 => return 0,
            128..=159 => &[0x61],
            160..=191 => &[0x62, 0x1F30A],
            192..=223 => &[0xD800],
            _ => &[],
        };
        let bytes: Vec<u8> = name.iter().flat_map(|character| character.to_ne_bytes()).collect();
        let len = bytes.len() as u16;
        let length = [len, len, len, 2, 1044].map(u16::to_ne_bytes)[input.below(5)];
        // A length beyond the text is one that the library refuses.
        let buffer = text.of(memory.place(&bytes));
        let string = [&length[..], &length, &[0; 4], &buffer.to_ne_bytes()].concat();
        pointer.of(memory.place(&string))
    }
}

fn flags(input: &mut Input<'_>) -> u32 {
    match input.byte() {
        0 => 0,
        bit @ 1..=127 => 1 << (bit % 32),
        bit @ 128..=253 => 1 << (bit % 32) | 1 << (input.byte() % 32),
        _ => u32::MAX,
    }
}

/// How an address is passed.
#[derive(Clone, Copy)]
enum Pointer {
    Right,
    Null,
    Misaligned,
}

impl Pointer {
    /// Chooses; mostly the right one. An address of bytes has no alignment.
    fn choose(input: &mut Input<'_>, is_aligned: bool) -> Pointer {
        match input.byte() {
            0..=239 => Pointer::Right,
            248.. if is_aligned => Pointer::Misaligned,
            _ => Pointer::Null,
        }
    }

    fn of(self, address: u64) -> u64 {
        match self {
            Pointer::Right => address,
            Pointer::Null => 0,
            Pointer::Misaligned => address + 1,
        }
    }
}
