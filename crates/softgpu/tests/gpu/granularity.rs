//! How finely work is preempted: for each granularity where a packet may be stopped, where a
//! hardware queue may be left, and that what goes on ends in the same bytes wherever it was
//! stopped.

use crate::packets::{dma, program};
use tidegate_programs::interpret::{Instruction, Operation};
use tidegate_testbed::prelude::gpu::*;

/// One 3D node, on which a grain takes 10 ns, a group 100 ns besides, and a KiB of copying 100 ns.
fn config(graphics: GraphicsPreemption, compute: ComputePreemption) -> Config {
    let preemption = NodePreemption { graphics, compute };
    Config {
        nodes: vec![NodeConfig { preemption, ..NodeConfig::new("3D", EngineKind::ThreeD) }],
        grains_per_turn: 1,
        groups_per_turn: 1,
        rates: WorkRates { byte_ps: 100_000 / 1_024, group_ns: 100, grain_ns: 10 },
        ..Config::default()
    }
}

fn coarse(grain: u32) -> Config {
    let graphics = GraphicsPreemption::from_number(grain).expect("a granularity");
    config(graphics, ComputePreemption::from_number(grain).expect("a granularity"))
}

/// The commands of a test, and the buffer in which what they do shows.
type Work = (Vec<Command>, Buffer);

fn words(buffer: &Buffer, words: impl IntoIterator<Item = u32>) {
    buffer.put(0, &words.into_iter().flat_map(u32::to_le_bytes).collect::<Vec<_>>());
}

/// `y += a x` over two groups.
fn saxpy(process: &Process) -> Work {
    let (x, y) = (process.buffer(4_500), process.buffer(4_500));
    words(&x, (0..1_125).map(|i| (i as f32 * 0.37).to_bits()));
    words(&y, (0..1_125).map(|i| (i as f32 * 1.91).to_bits()));
    let args = vec![x.va.0, y.va.0, 1_100, u64::from(1.5f32.to_bits())];
    (vec![program(ProgramId::SAXPY, args)], y)
}

/// A loop of a few threads that changes its own words in place.
fn interpret(process: &Process) -> Work {
    use Operation::{Add, Jump, Load, Mul, Set, Store, Sub, Xor};
    let op = Instruction::new;
    let code = [
        op(Set, 4, 0, 0, 3),
        op(Load, 5, 15, 0, 0),
        op(Mul, 5, 5, 2, 1),
        op(Xor, 5, 5, 0, 0),
        op(Store, 0, 15, 5, 0),
        op(Sub, 4, 4, 15, u32::MAX),
        op(Jump, 0, 4, 0, 1),
        op(Add, 6, 5, 4, 9),
        op(Store, 0, 15, 6, 1),
    ];
    let instructions = process.buffer(code.len() * 8);
    words(&instructions, code.iter().flat_map(|instruction| instruction.words()));
    let data = process.buffer(2 * 4 * 4);
    words(&data, 100..108);
    let args = vec![instructions.va.0, code.len() as u64, 0, 0, data.va.0, 2, 4, 1_103_515_245, 0];
    (vec![program(ProgramId::INTERPRET, args)], data)
}

/// Two squares of two triangles each, the nearer one last.
fn draw(process: &Process) -> Work {
    let corner = |x: f32, y: f32, z: f32, colour| Vertex {
        position: [x, y, z, 1.0],
        normal: [0.0, 0.0, 1.0],
        uv: [0.0; 2],
        colour,
    };
    let square = |z: f32, colour: [u8; 4]| {
        let at = |x, y| corner(x, y, z, colour);
        [at(-0.9, 0.8), at(0.7, 0.8), at(-0.9, -0.7), at(-0.9, -0.7), at(0.7, 0.8), at(0.7, -0.7)]
    };
    let mesh: Vec<_> = square(0.75, [9, 200, 30, 255])
        .into_iter()
        .chain(square(0.25, [200, 9, 30, 255]))
        .collect();
    let bytes = vertex_bytes(&mesh);
    let (vertices, target, depth) =
        (process.buffer(bytes.len()), process.buffer(224), process.buffer(224));
    vertices.put(0, &bytes);
    words(&depth, (0..56).map(|_| 1.0f32.to_bits()));
    let mut args = vec![0; 16];
    (args[0], args[1], args[4]) = (vertices.va.0, 12, 4);
    (args[6], args[7], args[8], args[9]) = (target.va.0, depth.va.0, 8, 7);
    (vec![program(ProgramId::DRAW, args)], target)
}

/// A copy that overlaps itself, so that a piece that is copied twice shows, and a fill.
fn copy(process: &Process) -> Work {
    let bytes = 80 << 10;
    let data = process.buffer(bytes + 4_096);
    words(&data, (0..(bytes + 4_096) as u32 / 4).map(|i| i.wrapping_mul(2_654_435_761)));
    let shifted =
        Command::Copy { source: data.va, destination: data.va.plus(4_096), bytes: bytes as u64 };
    let fill =
        Command::Fill { destination: data.va.plus(40_000), bytes: 20_000, value: 0xAB_CD_EF_01 };
    (vec![shifted, fill], data)
}

/// Timed work between two fills.
fn timed(process: &Process) -> Work {
    let data = process.buffer(4_096);
    let fill = |value| Command::Fill { destination: data.va, bytes: 4_096, value };
    (vec![fill(1), Command::Timed { ns: 1_000 }, fill(2)], data)
}

struct Ring<'a> {
    machine: &'a Arc<Machine>,
    queue: Queue,
    process: Process,
    save: GpuVa,
    next_id: u32,
}

impl<'a> Ring<'a> {
    fn new(machine: &'a Arc<Machine>) -> Ring<'a> {
        let system = machine.system_process();
        let queue = machine.kernel_queue(0, QueueKind::Node, &system);
        let save = system.buffer(SAVE_AREA_BYTES as usize).va;
        Ring { machine, queue, process: machine.process(), save, next_id: 1 }
    }

    fn id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// Submits the commands under the next id; returns it.
    fn submit(&mut self, commands: (GpuVa, u32), flags: DmaFlags) -> u32 {
        let id = self.id();
        self.queue.submit(&[dma(&self.process, commands, id, self.save, flags)]);
        id
    }

    /// Asks for the ring, and returns what was complete when it came back.
    fn preempt(&mut self) -> u32 {
        let id = self.id();
        let ask = AdminCommand::PreemptNode { engine: 0, preemption_fence_id: id };
        self.machine.run_command(ask).expect("no request stands");
        self.machine.await_preempted(0, u64::from(id)) as u32
    }
}

/// Runs work undisturbed and returns what it leaves and how long it takes.
fn undisturbed(work: fn(&Process) -> Work, config: &Config) -> (Vec<u8>, u64) {
    let platform = Platform::virtual_time(StepCosts::free());
    let result = Arc::new(platform.mutex("result", (Vec::new(), 0)));
    let inner = Arc::clone(&result);
    on(&platform, config.clone(), move |machine| {
        let mut ring = Ring::new(machine);
        let (commands, shown) = work(&ring.process);
        let start = machine.platform.now();
        let commands = ring.process.commands(&commands);
        let id = ring.submit(commands, DmaFlags::empty());
        machine.await_completed(0, u64::from(id));
        *inner.lock() = (shown.bytes(), machine.platform.now().since(start));
    });
    result.lock().clone()
}

/// Stops the work at every so many nanoseconds of its time, each time in a machine of its own, with
/// another packet in between; returns at how many of these the packet went back, and the longest
/// time that a request took.
fn stopped_everywhere(work: fn(&Process) -> Work, config: Config, every_ns: usize) -> (usize, u64) {
    let (expected, ns) = undisturbed(work, &config);
    let (mut stopped, mut longest) = (0, 0);
    for at in (5..ns).step_by(every_ns) {
        let platform = Platform::virtual_time(StepCosts::free());
        let result = Arc::new(platform.mutex("result", (false, 0)));
        let (inner, expected) = (Arc::clone(&result), expected.clone());
        on(&platform, config.clone(), move |machine| {
            let mut ring = Ring::new(machine);
            let (commands, shown) = work(&ring.process);
            let start = machine.platform.now();
            let commands = ring.process.commands(&commands);
            let id = ring.submit(commands, DmaFlags::empty());
            machine.platform.sleep_until(start.after(at));
            let asked = machine.platform.now();
            let went_back = ring.preempt() != id;
            let took = machine.platform.now().since(asked);
            let (other, _) = timed(&ring.process);
            let other = ring.process.commands(&other);
            let mut last = ring.submit_plain(other);
            if went_back {
                last = ring.submit(commands, DmaFlags::RESUME);
            }
            machine.await_completed(0, u64::from(last));
            assert_eq!(shown.bytes(), expected, "stopped at {at} of {ns}");
            assert!(!machine.seen().iter().any(|s| matches!(s, Seen::Fault { .. })));
            *inner.lock() = (went_back, took);
        });
        let (went_back, took) = *result.lock();
        stopped += usize::from(went_back);
        longest = longest.max(took);
    }
    (stopped, longest)
}

impl Ring<'_> {
    /// A packet of another context, without a save area.
    fn submit_plain(&mut self, commands: (GpuVa, u32)) -> u32 {
        let save = std::mem::replace(&mut self.save, GpuVa(0));
        let id = self.submit(commands, DmaFlags::empty());
        self.save = save;
        id
    }
}

// spec: PRE-020, PRE-033
#[test]
fn compute_ends_in_the_same_bytes_wherever_it_is_stopped() {
    // Grains cost 10 ns where there are some, groups 100 ns.
    let at = |compute| config(GraphicsPreemption::Triangle, compute);
    for (compute, longest) in [
        (ComputePreemption::DmaBuffer, 200),
        (ComputePreemption::Dispatch, 200),
        (ComputePreemption::ThreadGroup, 100),
        (ComputePreemption::Thread, 110),
        (ComputePreemption::Shader, 110),
    ] {
        let (stopped, took) = stopped_everywhere(saxpy, at(compute), 10);
        assert_eq!(stopped > 0, compute >= ComputePreemption::ThreadGroup, "{compute}");
        assert!(took <= longest, "{compute}: {took}");
    }
    for compute in
        [ComputePreemption::ThreadGroup, ComputePreemption::Thread, ComputePreemption::Shader]
    {
        let (stopped, took) = stopped_everywhere(interpret, at(compute), 10);
        assert_eq!(stopped > 0, compute >= ComputePreemption::Thread, "{compute}");
        assert!(took <= 110, "{compute}: {took}");
    }
}

// spec: PRE-020, PRE-033
#[test]
fn draws_end_in_the_same_bytes_wherever_they_are_stopped() {
    let at = |graphics| config(graphics, ComputePreemption::ThreadGroup);
    for (graphics, places) in [
        (GraphicsPreemption::DmaBuffer, 0..1),
        (GraphicsPreemption::Primitive, 0..1),
        (GraphicsPreemption::Triangle, 1..5),
        (GraphicsPreemption::Pixel, 40..200),
        (GraphicsPreemption::Shader, 40..200),
    ] {
        let (stopped, took) = stopped_everywhere(draw, at(graphics), 10);
        assert!(places.contains(&stopped), "{graphics}: {stopped}");
        assert!(took <= 110, "{graphics}: {took}");
    }
}

#[test]
fn copies_and_timed_work_end_in_the_same_bytes_wherever_they_are_stopped() {
    let at = |compute| config(GraphicsPreemption::Triangle, compute);
    let any = usize::MAX;
    for (what, work, compute, every_ns, places, longest_ns) in [
        // The engine checks at every 16 KiB.
        (
            "copy",
            copy as fn(&Process) -> Work,
            ComputePreemption::ThreadGroup,
            130,
            51..=any,
            0..=1_700,
        ),
        ("timed", timed, ComputePreemption::ThreadGroup, 10, 101..=any, 0..=400),
        // Coarser, a command ends, then its packet.
        ("timed", timed, ComputePreemption::Dispatch, 10, 101..=any, 901..=1_000),
        ("timed", timed, ComputePreemption::DmaBuffer, 10, 0..=0, 1_401..=u64::MAX),
    ] {
        let (stopped, took) = stopped_everywhere(work, at(compute), every_ns);
        let fits = places.contains(&stopped) && longest_ns.contains(&took);
        assert!(fits, "{what}, {compute}: {stopped}, {took}");
    }
}

const LONG: Command = Command::Timed { ns: 10_000 };

#[test]
fn the_ring_comes_back_after_what_its_granularity_says() {
    for (grain, completed, ns) in
        [(0, 3, 60_000), (100, 1, 20_000), (200, 0, 10_000), (300, 0, 4_000)]
    {
        on(&Platform::virtual_time(StepCosts::free()), coarse(grain), move |machine| {
            assert_eq!(machine.gpu.read_register(Register::NODE_PREEMPTION) as u32, grain);
            let mut ring = Ring::new(machine);
            let start = machine.platform.now();
            let commands = ring.process.commands(&[LONG, LONG]);
            for _ in 0..3 {
                ring.submit(commands, DmaFlags::empty());
            }
            machine.platform.sleep_until(start.after(4_000));
            assert_eq!(ring.preempt(), completed, "granularity {grain}");
            assert_eq!(machine.platform.now(), CpuTime(start.0 + ns), "granularity {grain}");
        });
    }
}

// spec: PRE-003
#[test]
fn a_higher_queue_waits_for_the_granularity_and_no_longer() {
    for (grain, ns) in [(0, 30_000), (100, 20_000), (200, 10_000), (300, 4_000), (500, 4_000)] {
        on(&Platform::virtual_time(StepCosts::free()), coarse(grain), move |machine| {
            let process = machine.process();
            let [low_done, high_done] = process.fences([0, 0]);
            let options = |priority| QueueOptions { priority, ..Default::default() };
            let (mut low, mut high) =
                (process.queue_with(0, options(1)), process.queue_with(0, options(3)));
            let start = machine.platform.now();
            let two = process.execute(&[LONG, LONG], 0);
            low.submit(&[two, process.execute(&[LONG], 0), low_done.signal(1)]);
            machine.platform.sleep_until(start.after(4_000));
            high.run_until(
                &[process.execute(&[Command::Timed { ns: 500 }], 0), high_done.signal(1)],
                &high_done,
                1,
            );
            assert_eq!(machine.platform.now(), CpuTime(start.0 + ns + 500), "granularity {grain}");
            machine.await_signals(&low_done, 1);
            assert_eq!(machine.platform.now(), CpuTime(start.0 + 30_500), "granularity {grain}");
        });
    }
}

#[test]
fn a_queue_is_suspended_when_it_may_be_left_and_says_so() {
    on(&Platform::virtual_time(StepCosts::free()), coarse(200), |machine| {
        let process = machine.process();
        let done = process.fence(0, 0);
        let mut queue = process.queue(0);
        let start = machine.platform.now();
        queue.submit(&[process.execute(&[LONG, LONG], 0), done.signal(1)]);
        let suspend = AdminCommand::SuspendQueue { queue: queue.id };
        machine.platform.sleep_until(start.after(4_000));
        assert_eq!(machine.run_command(suspend), Err(AdminError::Busy));
        assert_eq!(machine.state(queue.id), QueueState::Ready);
        machine.await_seen(|seen| seen.contains(&Seen::Suspended(queue.id)));
        assert_eq!(machine.platform.now(), CpuTime(start.0 + 10_000));
        assert_eq!(machine.state(queue.id), QueueState::Suspended);
        machine.run_command(AdminCommand::ResumeQueue { queue: queue.id }).expect("a queue");
        machine.platform.sleep_until(start.after(14_000));
        // Taken back before it came to it.
        assert_eq!(machine.run_command(suspend), Err(AdminError::Busy));
        machine.run_command(AdminCommand::ResumeQueue { queue: queue.id }).expect("a queue");
        machine.await_signals(&done, 1);
        assert_eq!(machine.platform.now(), CpuTime(start.0 + 20_000));
        assert_eq!(machine.seen().iter().filter(|s| matches!(s, Seen::Suspended(_))).count(), 1);
    });
}

#[test]
fn a_wait_is_left_whatever_the_granularity() {
    on(&Platform::virtual_time(StepCosts::free()), coarse(0), |machine| {
        let mut ring = Ring::new(machine);
        let [gate, done] = ring.process.fences([u64::MAX, 0]);
        let mut low = ring.process.queue(0);
        low.submit(&[gate.wait(1), ring.process.execute(&[LONG], 0)]);
        let mut high = ring.process.queue(0);
        high.run_until(&[done.signal(1)], &done, 1);
        let behind = ring.process.commands(&[LONG]);
        let system = machine.gpu.read_register(Register::PREEMPTED_ENGINES);
        assert_eq!(system, 0);
        assert_eq!(ring.preempt(), 0);
        assert_eq!(ring.submit(behind, DmaFlags::empty()), 2);
        machine.await_completed(0, 2);
    });
}
