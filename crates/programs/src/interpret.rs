//! `interpret(code, instructions, input, input_words, data, words, n, a, b)`: interprets a small
//! program in a buffer with `n` threads, like a shader that can be stopped at any instruction.
//!
//! - Thread `i` starts with register 0 = `i`, 1 = `n`, 2 = `a`, 3 = `b` and the others 0. It loads
//!   from `input` and from its own `words` words of `data` at `i * words`, and stores only to the
//!   latter.
//! - A thread ends after [`MAX_STEPS`] instructions. Code with an unknown operation, a register
//!   above 15 or a jump beyond its end is refused before it runs; an access beyond a buffer is
//!   refused when it occurs.
//! - A group has 64 threads. It reads data and code first and stores the data last, so it can be
//!   run again after a fault. [`Operation`] describes the encoding.

use super::lanes::{read_u32, write_u32};
use super::part::{Cursor, Grain, Part};
use super::signature::{Argument, Arguments, Signature, Spans};
use super::thread_state::ThreadState;
use super::{MAX_GROUPS_PER_DIMENSION, ProgramFault, ProgramId, ProgramMemory};

pub use super::thread_state::{MAX_INSTRUCTIONS, MAX_STEPS, REGISTERS};

/// Threads per group.
const THREADS: usize = 64;
/// Maximum number of words of `data` per thread.
pub const MAX_WORDS: u32 = 16;

pub(super) static SIGNATURE: Signature = Signature {
    id: ProgramId::INTERPRET,
    name: "interpret",
    summary: "a program in a buffer, one instruction after the other",
    arguments: &[
        Argument::read("code"),
        Argument::u32("instructions"),
        Argument::read("input").optional(),
        Argument::u32("input_words").optional(),
        Argument::read_write("data"),
        Argument::u32("words"),
        Argument::u32("n"),
        Argument::u32("a").optional(),
        Argument::u32("b").optional(),
    ],
    threads_per_group: [THREADS as u32, 1, 1],
    grid: |args| [args.u32(6).div_ceil(THREADS as u32), 1, 1],
    spans,
    run,
};

fn spans(args: &Arguments<'_>) -> Result<Spans, ProgramFault> {
    let (instructions, words, n) = (args.u32(1), args.u32(5), args.u64(6));
    if instructions > MAX_INSTRUCTIONS {
        return Err(ProgramFault::bad("the code has more than 256 instructions"));
    }
    if !(1..=MAX_WORDS).contains(&words) {
        return Err(ProgramFault::bad("the words per thread are not 1 to 16"));
    }
    if n > u64::from(MAX_GROUPS_PER_DIMENSION) * THREADS as u64 {
        return Err(ProgramFault::bad("more than 65,535 groups of 64 threads"));
    }
    let code = 8 * u64::from(instructions);
    let data = 4 * u64::from(words) * n;
    Ok(args.span(0, code).with(args, 2, 4 * args.u64(3)).with(args, 4, data))
}

/// The operation of an instruction.
///
/// An instruction is two 32-bit words. The first has one byte each for operation, destination and
/// two sources, from the lowest byte. The second is the number `k`. Arithmetic wraps; that on `f32`
/// is IEEE single precision.
///
/// | | operation | |
/// |---|---|---|
/// | 0 | `end` | ends the thread, like the end of the code |
/// | 1 | `set` | `d = k` |
/// | 2, 3, 4 | `add`, `sub`, `mul` | `d = x + y + k`, `x - y + k`, `x * y + k` |
/// | 5, 6, 7 | `and`, `or`, `xor` | of `x` and `y` |
/// | 8, 9 | `shl`, `shr` | `x` by the low five bits of `y + k` |
/// | 10, 11, 12 | `float`, `fadd`, `fmul` | `d = x` as `f32`; `x + y`; `x * y` |
/// | 13 | `input` | `d = input[x + k]` |
/// | 14, 15 | `load`, `store` | `d = data[x + k]`; `data[x + k] = y`, of the thread's own words |
/// | 16 | `jump` | to instruction `k` if `x` is not 0 |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the table above describes them")]
pub enum Operation {
    End = 0,
    Set = 1,
    Add = 2,
    Sub = 3,
    Mul = 4,
    And = 5,
    Or = 6,
    Xor = 7,
    Shl = 8,
    Shr = 9,
    Float = 10,
    FAdd = 11,
    FMul = 12,
    Input = 13,
    Load = 14,
    Store = 15,
    Jump = 16,
}

impl Operation {
    const ALL: [Operation; 17] = {
        use Operation::{
            Add, And, End, FAdd, FMul, Float, Input, Jump, Load, Mul, Or, Set, Shl, Shr, Store,
            Sub, Xor,
        };
        [
            End, Set, Add, Sub, Mul, And, Or, Xor, Shl, Shr, Float, FAdd, FMul, Input, Load, Store,
            Jump,
        ]
    };
}

/// One instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    /// The operation.
    pub operation: Operation,
    /// Register of the result.
    pub d: u8,
    /// Register of the first source.
    pub x: u8,
    /// Register of the second source.
    pub y: u8,
    /// The constant `k`.
    pub k: u32,
}

impl Instruction {
    /// Creates an instruction.
    #[must_use]
    pub const fn new(operation: Operation, d: u8, x: u8, y: u8, k: u32) -> Instruction {
        Instruction { operation, d, x, y, k }
    }

    /// Returns its two words.
    #[must_use]
    pub fn words(self) -> [u32; 2] {
        [u32::from_le_bytes([self.operation as u8, self.d, self.x, self.y]), self.k]
    }

    fn decode([head, k]: [u32; 2], instructions: u32) -> Result<Instruction, ProgramFault> {
        let [operation, d, x, y] = head.to_le_bytes();
        let operation = *Operation::ALL
            .get(usize::from(operation))
            .ok_or(ProgramFault::bad("the code has an unknown operation"))?;
        if [d, x, y].iter().any(|register| usize::from(*register) >= REGISTERS) {
            return Err(ProgramFault::bad("the code names a register above 15"));
        }
        if operation == Operation::Jump && k > instructions {
            return Err(ProgramFault::bad("the code jumps beyond its end"));
        }
        Ok(Instruction { operation, d, x, y, k })
    }
}

/// Returns the initial state of a thread.
fn start(args: &Arguments<'_>, thread: u32) -> ThreadState {
    let mut registers = [0; REGISTERS];
    registers[..4].copy_from_slice(&[thread, args.u32(6), args.u32(7), args.u32(8)]);
    ThreadState { at: 0, steps: 0, registers }
}

/// State shared by the threads of a group.
struct Group<'a> {
    code: Vec<Instruction>,
    input: u64,
    input_words: u32,
    mem: &'a mut dyn ProgramMemory,
}

fn run(
    args: &Arguments<'_>,
    group: [u32; 3],
    part: &mut Part<'_>,
    mem: &mut dyn ProgramMemory,
) -> Result<(), ProgramFault> {
    let first = u64::from(group[0]) * THREADS as u64;
    let (count, words) = ((args.u64(6) - first).min(THREADS as u64) as usize, args.u32(5) as usize);
    let from = part.first(count);
    let code = read_code(args, mem)?;
    let own = args.va(4) + 4 * (words as u64) * (first + from as u64);
    let mut data = vec![0; (count - from) * words];
    read_u32(mem, own, &mut data)?;
    let mut group = Group { code, input: args.va(2), input_words: args.u32(3), mem };
    let mut touched = 0;
    let mut machine = part.cursor.machine.take();
    for (thread, data) in (from..count).zip(data.chunks_exact_mut(words)) {
        if part.grain == Grain::Thread && !part.next() {
            part.stop(Cursor { at: thread as u32, ..Cursor::default() });
            break;
        }
        touched += 1;
        let machine = machine.take().unwrap_or_else(|| start(args, first as u32 + thread as u32));
        if let Some(machine) = group.thread(machine, data, part)? {
            part.stop(Cursor { at: thread as u32, machine: Some(machine), ..Cursor::default() });
            break;
        }
    }
    write_u32(mem, own, &data[..touched * words])
}

/// Reads and checks the code.
fn read_code(
    args: &Arguments<'_>,
    mem: &mut dyn ProgramMemory,
) -> Result<Vec<Instruction>, ProgramFault> {
    let mut words = vec![0; 2 * args.u32(1) as usize];
    read_u32(mem, args.va(0), &mut words)?;
    words.as_chunks::<2>().0.iter().map(|words| Instruction::decode(*words, args.u32(1))).collect()
}

impl Group<'_> {
    /// Runs a thread on its own words of data. Returns its state if it stops.
    fn thread(
        &mut self,
        mut machine: ThreadState,
        data: &mut [u32],
        part: &mut Part<'_>,
    ) -> Result<Option<ThreadState>, ProgramFault> {
        while machine.steps < MAX_STEPS {
            let Some(instruction) = self.code.get(machine.at as usize).copied() else { break };
            if part.grain == Grain::Instruction && !part.next() {
                return Ok(Some(machine));
            }
            if instruction.operation == Operation::End {
                break;
            }
            self.step(instruction, &mut machine, data)?;
        }
        Ok(None)
    }

    fn step(
        &mut self,
        Instruction { operation, d, x, y, k }: Instruction,
        machine: &mut ThreadState,
        data: &mut [u32],
    ) -> Result<(), ProgramFault> {
        let beyond =
            ProgramFault::bad("the code accesses words beyond those of its thread or of its input");
        let registers = &mut machine.registers;
        let (x, y, d) = (registers[usize::from(x)], registers[usize::from(y)], usize::from(d));
        let (float_x, float_y) = (f32::from_bits(x), f32::from_bits(y));
        let place = x.wrapping_add(k) as usize;
        let mut next = machine.at + 1;
        match operation {
            Operation::End => {}
            Operation::Set => registers[d] = k,
            Operation::Add => registers[d] = x.wrapping_add(y).wrapping_add(k),
            Operation::Sub => registers[d] = x.wrapping_sub(y).wrapping_add(k),
            Operation::Mul => registers[d] = x.wrapping_mul(y).wrapping_add(k),
            Operation::And => registers[d] = x & y,
            Operation::Or => registers[d] = x | y,
            Operation::Xor => registers[d] = x ^ y,
            Operation::Shl => registers[d] = x.wrapping_shl(y.wrapping_add(k)),
            Operation::Shr => registers[d] = x.wrapping_shr(y.wrapping_add(k)),
            Operation::Float => registers[d] = (x as f32).to_bits(),
            Operation::FAdd => registers[d] = (float_x + float_y).to_bits(),
            Operation::FMul => registers[d] = (float_x * float_y).to_bits(),
            Operation::Input => {
                if self.input == 0 || place >= self.input_words as usize {
                    return Err(beyond);
                }
                let mut word = [0];
                read_u32(self.mem, self.input + 4 * place as u64, &mut word)?;
                registers[d] = word[0];
            }
            Operation::Load => registers[d] = *data.get(place).ok_or(beyond)?,
            Operation::Store => *data.get_mut(place).ok_or(beyond)? = y,
            Operation::Jump if x != 0 => next = k,
            Operation::Jump => {}
        }
        (machine.at, machine.steps) = (next, machine.steps + 1);
        Ok(())
    }
}
