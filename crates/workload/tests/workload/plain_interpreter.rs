//! The project's workloads, walked by a plain interpreter: one step of one thread or queue at a
//! time, chosen at random.
//!
//! This shows that the programs themselves are right, whatever carries them: in every order that
//! their fences allow they end, every fence has its value, and memory holds what is expected.
//! Programs of the engines are left out, but for `fill_pattern`, by which the workloads mark their
//! data; time is left out altogether.

use std::collections::VecDeque;
use std::path::Path;

use tidegate_programs::ProgramId;
use tidegate_workload::content::{SceneLibrary, initial_bytes};
use tidegate_workload::expect::Expectation;
use tidegate_workload::expression::{ArithmeticError, Expr, Scope, Slot};
use tidegate_workload::model::{
    Arg, BufferRef, CommandKind, Content, Data, FenceId, Op, OpKind, QueueRef, Workload,
};
use tidegate_workload::{LoadOptions, load, load_bytes};

fn read(name: &str) -> Workload {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads").join(name);
    load(&path, &LoadOptions::default()).unwrap_or_else(|error| panic!("{error}")).0
}

/// Scenes are any bytes here.
struct AnyBytes;
impl SceneLibrary for AnyBytes {
    fn part(&self, content: &Content) -> Option<Vec<u8>> {
        Some(content.name.bytes().collect())
    }
}

/// The same choices for the same seed.
struct Choices(u64);
impl Choices {
    fn below(&mut self, n: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % n as u64).unwrap()
    }
}

/// What lies in a queue, all numbers computed.
enum Queued {
    Copy { src: (usize, usize), dst: (usize, usize), bytes: usize },
    Words { dst: (usize, usize), words: Vec<u32> },
    Signal(FenceId, u64),
    Wait(FenceId, u64),
    Nothing,
}

/// One level of a thread's program.
struct Level<'w> {
    ops: &'w [Op],
    next: usize,
    round: Option<(Slot, i128, i128)>,
}

struct Running<'w> {
    levels: Vec<Level<'w>>,
    variables: Vec<i128>,
}

struct Machine<'w> {
    workload: &'w Workload,
    memory: Vec<Vec<u8>>,
    fences: Vec<u64>,
    queues: Vec<VecDeque<Queued>>,
    threads: Vec<Running<'w>>,
}

struct Seen<'a>(&'a [i128], &'a [u64]);
impl Scope for Seen<'_> {
    fn variable(&self, slot: Slot) -> Result<i128, ArithmeticError> {
        Ok(self.0[usize::from(slot.0)])
    }
    fn completed(&self, fence: FenceId) -> Result<u64, ArithmeticError> {
        Ok(self.1[fence.0 as usize])
    }
}

impl<'w> Machine<'w> {
    fn new(workload: &'w Workload) -> Self {
        let content = |buffer| {
            let bytes = initial_bytes(buffer, &AnyBytes).unwrap();
            bytes.unwrap_or_else(|| vec![0; usize::try_from(buffer.bytes).unwrap()])
        };
        Self {
            workload,
            memory: workload.buffers.iter().map(content).collect(),
            fences: workload.fences.iter().map(|fence| fence.initial).collect(),
            queues: workload.queues.iter().map(|_| VecDeque::new()).collect(),
            threads: workload
                .threads
                .iter()
                .map(|thread| Running {
                    levels: vec![Level { ops: &thread.body, next: 0, round: None }],
                    variables: thread.variables.clone(),
                })
                .collect(),
        }
    }

    fn number(&self, expr: &Expr, thread: usize) -> u64 {
        expr.evaluate_u64(&Seen(&self.threads[thread].variables, &self.fences)).unwrap()
    }

    fn place(&self, buffer: &BufferRef, offset: &Expr, thread: usize) -> (usize, usize) {
        let id = buffer.resolve(&Seen(&self.threads[thread].variables, &self.fences)).unwrap();
        (id.0 as usize, usize::try_from(self.number(offset, thread)).unwrap())
    }

    fn queued(&self, command: &CommandKind, thread: usize) -> Queued {
        match command {
            CommandKind::Copy(copy) => Queued::Copy {
                src: self.place(&copy.src, &copy.src_offset, thread),
                dst: self.place(&copy.dst, &copy.dst_offset, thread),
                bytes: usize::try_from(self.number(&copy.bytes, thread)).unwrap(),
            },
            CommandKind::Fill(fill) => {
                let words = vec![
                    self.number(&fill.value, thread) as u32;
                    self.number(&fill.bytes, thread) as usize / 4
                ];
                Queued::Words { dst: self.place(&fill.dst, &fill.offset, thread), words }
            }
            CommandKind::Dispatch { program: ProgramId::FILL_PATTERN, args, .. } => {
                let Some(Arg::Buffer { buffer, offset }) = args.get("dst") else { panic!() };
                let number = |name| match args.get(name) {
                    Some(Arg::Integer(number)) => self.number(number, thread) as u32,
                    _ => panic!("{name}"),
                };
                let (first, step) = (number("first"), number("step"));
                let words =
                    (0..number("n")).map(|k| first.wrapping_add(step.wrapping_mul(k))).collect();
                Queued::Words { dst: self.place(buffer, offset, thread), words }
            }
            _ => Queued::Nothing,
        }
    }

    fn store(&mut self, (buffer, offset): (usize, usize), words: &[u32]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.memory[buffer][offset..offset + bytes.len()].copy_from_slice(&bytes);
    }

    /// One step of a queue; false when it has to wait or has nothing to do.
    fn step_queue(&mut self, queue: usize) -> bool {
        match self.queues[queue].front() {
            None => return false,
            Some(Queued::Wait(fence, value)) if self.fences[fence.0 as usize] < *value => {
                return false;
            }
            Some(_) => {}
        }
        match self.queues[queue].pop_front().unwrap() {
            Queued::Copy { src, dst, bytes } => {
                let data = self.memory[src.0][src.1..src.1 + bytes].to_vec();
                self.memory[dst.0][dst.1..dst.1 + bytes].copy_from_slice(&data);
            }
            Queued::Words { dst, words } => self.store(dst, &words),
            Queued::Signal(fence, value) => self.fences[fence.0 as usize] = value,
            Queued::Wait(..) | Queued::Nothing => {}
        }
        true
    }

    /// Leaves finished levels; the next operation, if there is one.
    fn next_op(&mut self, thread: usize) -> Option<&'w Op> {
        let running = &mut self.threads[thread];
        loop {
            let level = running.levels.last_mut()?;
            if let Some(op) = level.ops.get(level.next) {
                return Some(op);
            }
            match &mut level.round {
                Some((slot, now, last)) if *now < *last => {
                    *now += 1;
                    running.variables[usize::from(slot.0)] = *now;
                    level.next = 0;
                }
                _ => drop(running.levels.pop()),
            }
        }
    }

    /// One step of a thread; false when it has to wait or is done.
    fn step_thread(&mut self, thread: usize) -> bool {
        let Some(op) = self.next_op(thread) else { return false };
        let seen = Seen(&self.threads[thread].variables, &self.fences);
        let queue = |queue: &QueueRef| queue.resolve(&seen).unwrap().0 as usize;
        let mut deeper = None;
        match &op.kind {
            OpKind::Submit { queue: to, commands } => {
                let (to, list) = (queue(to), commands.iter().map(|c| self.queued(&c.kind, thread)));
                let list: Vec<Queued> = list.collect();
                self.queues[to].extend(list);
            }
            OpKind::Signal { queue: to, fence, value } => {
                let queued =
                    Queued::Signal(fence.resolve(&seen).unwrap(), self.number(value, thread));
                let to = queue(to);
                self.queues[to].push_back(queued);
            }
            OpKind::Wait { queue: to, fence, value } => {
                let queued =
                    Queued::Wait(fence.resolve(&seen).unwrap(), self.number(value, thread));
                let to = queue(to);
                self.queues[to].push_back(queued);
            }
            OpKind::CpuSignal { fence, value } => {
                let (fence, value) = (fence.resolve(&seen).unwrap(), self.number(value, thread));
                self.fences[fence.0 as usize] = value;
            }
            OpKind::CpuWait { any, of, chosen } => {
                let met = |wait: &tidegate_workload::model::FenceWait| {
                    let fence = wait.fence.resolve(&seen).unwrap();
                    self.fences[fence.0 as usize] >= self.number(&wait.value, thread)
                };
                let first = of.iter().position(met);
                let goes_on = if *any { first.is_some() } else { of.iter().all(met) };
                if !goes_on {
                    return false;
                }
                if let (Some(slot), Some(first)) = (chosen, first) {
                    self.threads[thread].variables[usize::from(slot.0)] = first as i128;
                }
            }
            OpKind::MapWrite { buffer, offset, data } => {
                let place = self.place(buffer, offset, thread);
                let words: Vec<u32> = match &**data {
                    Data::U32(words) => words.clone(),
                    Data::F32(floats) => floats.iter().map(|float| float.to_bits()).collect(),
                    Data::Each { value, words, word } => (0..self.number(words, thread))
                        .map(|k| {
                            self.threads[thread].variables[usize::from(word.0)] = i128::from(k);
                            self.number(value, thread) as u32
                        })
                        .collect(),
                };
                self.store(place, &words);
            }
            OpKind::Set { variable, value } => {
                let value = value.evaluate(&seen).unwrap();
                self.threads[thread].variables[usize::from(variable.0)] = value;
            }
            OpKind::Loop { variable, from, to, body } => {
                let (from, to) = (from.evaluate(&seen).unwrap(), to.evaluate(&seen).unwrap());
                if from <= to {
                    self.threads[thread].variables[usize::from(variable.0)] = from;
                    deeper = Some(Level { ops: body, next: 0, round: Some((*variable, from, to)) });
                }
            }
            OpKind::When { condition, body, otherwise } => {
                let ops = if condition.holds(&seen).unwrap() { body } else { otherwise };
                deeper = Some(Level { ops, next: 0, round: None });
            }
            OpKind::Sleep { .. } | OpKind::Present { .. } => {}
            other => panic!("no workload file has {other:?}"),
        }
        let levels = &mut self.threads[thread].levels;
        levels.last_mut().unwrap().next += 1;
        levels.extend(deeper);
        true
    }

    /// Runs until nothing moves; whether everything was done then.
    fn run(&mut self, choices: &mut Choices) -> bool {
        let parts = self.threads.len() + self.queues.len();
        loop {
            let start = choices.below(parts);
            let moved = (0..parts).map(|k| (start + k) % parts).any(|part| {
                match part.checked_sub(self.threads.len()) {
                    None => self.step_thread(part),
                    Some(queue) => self.step_queue(queue),
                }
            });
            if !moved {
                let threads_done =
                    (0..self.threads.len()).all(|thread| self.next_op(thread).is_none());
                return threads_done && self.queues.iter().all(VecDeque::is_empty);
            }
        }
    }

    /// The first expectation that is not met.
    fn check(&self) -> Result<(), String> {
        let seen = Seen(&[], &self.fences);
        let number = |expr: &Expr| expr.evaluate_u64(&seen).unwrap();
        let size = |expr: &Expr| usize::try_from(number(expr)).unwrap();
        for expect in &self.workload.expects {
            let met = match &expect.what {
                Expectation::Fence { fence, value } if expect.clock.is_none() => {
                    self.fences[fence.resolve(&seen).unwrap().0 as usize] == number(value)
                }
                Expectation::Condition { condition, .. } => condition.holds(&seen).unwrap(),
                Expectation::SameAs { buffer, offset, other, other_offset, now, bytes } => {
                    let (id, other) =
                        (buffer.resolve(&seen).unwrap(), other.resolve(&seen).unwrap());
                    let found = &self.memory[id.0 as usize][size(offset)..][..size(bytes)];
                    let first = initial_bytes(self.workload.buffer(other), &AnyBytes).unwrap();
                    let first = first.unwrap_or_default();
                    let wanted = if *now { &self.memory[other.0 as usize] } else { &first };
                    found == &wanted[size(other_offset)..][..size(bytes)]
                }
                _ => true,
            };
            if !met {
                return Err(format!(
                    "{}: not met: {}",
                    self.workload.place(expect.span),
                    expect.says
                ));
            }
        }
        Ok(())
    }
}

/// Runs a workload in many orders; every one must end well.
fn always_right(name: &str, orders: u64) {
    let workload = read(name);
    for seed in 1..=orders {
        let mut machine = Machine::new(&workload);
        assert!(machine.run(&mut Choices(seed)), "{name}: stuck with seed {seed}");
        machine.check().unwrap_or_else(|wrong| panic!("{wrong} (seed {seed})"));
    }
}

#[test]
fn hello() {
    always_right("hello.toml", 20);
}

#[test]
fn the_frame_graph_ends_in_every_order() {
    always_right("frame-graph.toml", 2);
}

#[test]
fn the_ring_buffer_never_overwrites_a_slot_in_use() {
    always_right("ring-buffer.toml", 100);
}

#[test]
fn the_pipeline_needs_no_more_than_its_three_buffers() {
    always_right("pipelined-compute-graphics.toml", 100);
}

#[test]
fn the_asynchronous_program_never_reads_a_torn_result() {
    always_right("async-compute-graphics.toml", 200);
}

/// Without the right distance the same check finds the torn data: it is the fences that make the
/// programs right.
#[test]
fn a_wait_that_is_one_too_short_is_found_out() {
    for (name, right, wrong) in [
        ("ring-buffer.toml", "value = \"i - length\"", "value = \"i - length - 1\""),
        (
            "async-compute-graphics.toml",
            "queue = \"graphics\", value = \"newest - 1\"",
            "queue = \"graphics\", value = \"newest\"",
        ),
        (
            "pipelined-compute-graphics.toml",
            "queue = \"compute\", value = \"frame - compute_graphics_latency\"",
            "queue = \"compute\", value = \"frame - compute_graphics_latency - 1\"",
        ),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads").join(name);
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains(right), "{name}");
        let text = text.replacen(right, wrong, 1);
        let workload = load_bytes(text.as_bytes(), name, &LoadOptions::default()).unwrap().0;
        let torn = |seed| {
            let mut machine = Machine::new(&workload);
            machine.run(&mut Choices(seed));
            machine.check().is_err()
        };
        assert!((1..2_000).any(torn), "{name}: not detected");
    }
}

#[test]
fn the_scenarios_end_in_every_order() {
    always_right("async-low-priority.toml", 50);
    always_right("high-priority-compute.toml", 50);
    always_right("background-compute.toml", 50);
    always_right("streaming-upload.toml", 50);
    always_right("decode-deep-queues.toml", 20);
}

#[test]
fn waits_before_their_signals_are_met() {
    always_right("wait-before-signal.toml", 100);
}

#[test]
fn three_hundred_queues_pass_the_token_on() {
    always_right("stress-many-queues.toml", 2);
}

#[test]
fn the_deadlocks_are_deadlocks() {
    for name in ["bad/deadlock.toml", "bad/never-signalled.toml"] {
        let workload = read(name);
        for seed in 1..20 {
            assert!(
                !Machine::new(&workload).run(&mut Choices(seed)),
                "{name} ended with seed {seed}"
            );
        }
    }
}
