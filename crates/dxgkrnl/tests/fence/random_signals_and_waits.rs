//! Thousands of signals and waits in seeded random order, in every form of the signalled interrupt:
//! every waiter is released, none of them early, and interrupts that release no waiter are counted
//! and harmless. The same work in every form shows what each costs in fences read.

use tidegate::explorer::random_numbers::Numbers;
use tidegate_testbed::prelude::*;

/// Numbers by remainder, as the seeds below were chosen for.
struct Remainders(Numbers);

impl Remainders {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.draw() % bound
    }
}

/// One machine of the many.
#[derive(Clone, Copy, Debug)]
struct Form {
    mode: InterruptMode,
    /// Whether the hardware tells native from monitored signals.
    tells_fence_kinds: bool,
    /// Entries of the hardware's list: with one, interrupts collapse.
    list: usize,
    log_entries: u32,
    /// Whether the copy engine interrupts for its writes to monitored fences.
    advanced: bool,
    /// Whether there are monitored fences at all.
    monitored: bool,
    /// Copies of MonitoredValue that the hardware keeps; with any, it posts its stores of fence
    /// values too.
    shadows: u32,
}

const PLAIN: Form = Form {
    mode: InterruptMode::FenceArray,
    tells_fence_kinds: true,
    list: 64,
    log_entries: 84,
    advanced: false,
    monitored: false,
    shadows: 0,
};

/// Slots that a queue may have before its engine is given time.
const BATCH: u64 = 48;
const STEPS: u64 = 4_000;
const QUEUES: usize = 4;
const FENCES: usize = 12;

fn machine(form: Form) -> World {
    let costs = StepCosts::free()
        .with(Step::FenceStore, 7)
        .with(Step::InterruptDelivery, 150)
        .with(Step::Dpc, 90)
        .with(Step::DmaCompletion, 40);
    let change = |config: &mut MachineConfig| {
        config.driver.interrupt = form.mode;
        config.gpu.signaled_list_entries = form.list;
        config.gpu.tells_fence_kinds = form.tells_fence_kinds;
        config.gpu.nodes[2].notifies_fence_writes = form.advanced;
        config.gpu.shadow_entries = form.shadows;
        config.gpu.posted_fence_writes = form.shadows > 0;
        config.kernel.log_entries = form.log_entries;
    };
    setup(change).costs(costs).start()
}

/// A fence with all its waiters and the value that it was last signalled to.
struct Awaited {
    fence: FenceInstance,
    queued: u64,
    waits: Vec<(u64, Event)>,
}

impl Awaited {
    fn new(fence: FenceInstance) -> Awaited {
        Awaited { fence, queued: 0, waits: Vec::new() }
    }

    /// Whether a wait is for more than the signals that are queued.
    fn has_unqueued_wait(&self) -> bool {
        self.waits.iter().any(|(wanted, _)| *wanted > self.queued)
    }

    /// Asserts, when all work is done, that exactly the satisfied waiters are released.
    fn check(&mut self, form: Form) {
        let value = self.fence.value.load();
        assert_eq!(value, self.queued, "{form:?}");
        for (wanted, event) in &self.waits {
            let satisfied = *wanted <= value;
            assert_eq!(event.is_set(), satisfied, "a wait for {wanted} at {value}: {form:?}");
        }
        self.waits.retain(|(wanted, _)| *wanted > value);
    }
}

struct Signaller {
    queue: UserQueue,
    pushed: u64,
    since_rest: u64,
}

struct Work<'a> {
    w: &'a World,
    form: Form,
    numbers: Remainders,
    signallers: Vec<Signaller>,
    /// Each is signalled by one queue, the monitored ones by packets.
    native: Vec<Awaited>,
    monitored: Vec<Awaited>,
    packets: Handle,
}

impl Work<'_> {
    fn rest(&mut self) {
        self.w.pass(1_000_000);
        let form = self.form;
        self.native.iter_mut().chain(&mut self.monitored).for_each(|f| f.check(form));
        self.signallers.iter_mut().for_each(|s| s.since_rest = 0);
    }

    fn signal(&mut self, index: usize) {
        let (awaited, signaller) = (&mut self.native[index], &mut self.signallers[index % QUEUES]);
        awaited.queued += 1;
        let entry = (signaller.pushed % u64::from(self.form.log_entries)) as u32;
        signaller.queue.push(&signal_packet(&awaited.fence, awaited.queued, entry));
        (signaller.pushed, signaller.since_rest) = (signaller.pushed + 1, signaller.since_rest + 1);
        if signaller.since_rest == BATCH {
            self.rest();
        }
    }

    fn wait(&mut self) {
        // The last three fences are never signalled in the middle, so they have waiters all the
        // time.
        let index = self.numbers.below((self.native.len() + self.monitored.len()) as u64) as usize;
        let ahead = self.numbers.below(6);
        let awaited = self.native.iter_mut().chain(&mut self.monitored).nth(index).unwrap();
        let value = awaited.queued + ahead;
        awaited.waits.push((value, self.w.wait_event(&awaited.fence, value)));
    }

    fn write_monitored(&mut self) {
        if self.form.monitored {
            let index = self.numbers.below(self.monitored.len() as u64) as usize;
            let awaited = &mut self.monitored[index];
            awaited.queued += 1;
            let command = store(awaited.fence.current_value_gpu_va, awaited.queued);
            self.w.submit_packet(self.packets, &[command]);
        }
    }

    fn step(&mut self) {
        match self.numbers.below(20) {
            0..=10 => {
                let index = self.numbers.below((FENCES - 3) as u64) as usize;
                self.signal(index);
            }
            11..=15 => self.wait(),
            16 => self.write_monitored(),
            17 | 18 => {
                let ns = self.numbers.below(400);
                self.w.pass(ns);
            }
            _ if self.numbers.below(10) == 0 => self.rest(),
            _ => self.w.pass(1),
        }
    }
}

fn run(form: Form, seed: u64) -> KernelStats {
    let w = machine(form).run(move |w| {
        let nodes = [0, 0, 1, 1];
        let signallers = nodes.map(|node| Signaller {
            queue: w.connected_queue(node),
            pushed: 0,
            since_rest: 0,
        });
        let mut work = Work {
            w,
            form,
            numbers: Remainders(Numbers::new(seed)),
            signallers: signallers.into(),
            native: (0..FENCES).map(|_| Awaited::new(w.native(0))).collect(),
            monitored: (0..2).map(|_| Awaited::new(w.monitored(0))).collect(),
            packets: w.context(2),
        };
        for _ in 0..STEPS {
            work.step();
        }
        work.rest();
        // The remaining waiters.
        for index in 0..FENCES {
            while work.native[index].has_unqueued_wait() {
                work.signal(index);
            }
        }
        work.rest();
        assert!(work.native.iter().all(|f| f.waits.is_empty()));
    });
    w.stats()
}

const MODES: [InterruptMode; 4] = [
    InterruptMode::FenceArray,
    InterruptMode::NullArray,
    InterruptMode::HwQueue,
    InterruptMode::HwQueueArray,
];

// spec: NF-053, NF-126, NF-203
#[test]
fn every_waiter_is_released_in_every_form() {
    for mode in MODES {
        for (seed, list, log_entries) in [(1, 64, 84), (2, 1, 84), (3, 64, 3), (4, 1, 2)] {
            for advanced in [false, true] {
                let form = Form { mode, list, log_entries, advanced, monitored: true, ..PLAIN };
                let stats = run(form, seed);
                let (interrupts, spurious) =
                    (stats.fence_interrupts, stats.spurious_fence_interrupts);
                assert!(spurious < interrupts && interrupts > 100, "{form:?} {stats:?}");
                assert!(stats.cpu_wakes > 500, "{form:?} {stats:?}");
            }
        }
    }
}

#[test]
fn every_waiter_is_released_by_hardware_that_keeps_shadows() {
    for mode in MODES {
        // With room for all fences, and for some.
        for (seed, shadows, list) in [(31, 64, 64), (32, 4, 1)] {
            let form = Form { mode, shadows, list, advanced: true, monitored: true, ..PLAIN };
            let stats = run(form, seed);
            assert!(stats.spurious_fence_interrupts < stats.fence_interrupts, "{form:?} {stats:?}");
            assert!(stats.cpu_wakes > 500, "{form:?} {stats:?}");
        }
        let alike = Form { mode, shadows: 64, tells_fence_kinds: false, monitored: true, ..PLAIN };
        run(alike, 33);
    }
}

// spec: NF-129
#[test]
fn every_waiter_is_released_by_hardware_that_does_not_know_fence_kinds() {
    for mode in MODES {
        for seed in 10..12 {
            let form =
                Form { mode, tells_fence_kinds: false, advanced: true, monitored: true, ..PLAIN };
            run(form, seed);
        }
    }
}

/// What the same work costs. Where logs are read, a fence that several interrupts of one DPC report
/// is read once for all of them. Where fences are named, it is read once for each interrupt. But a
/// log also has signals without an interrupt, on fences with a waiter for a greater value. Those
/// fences are read as well.
// spec: NF-231
#[test]
fn an_array_of_queues_has_fewer_fences_read_than_a_scan() {
    for seed in [21, 22, 23] {
        let [array, scan, queue, queues] = MODES.map(|mode| run(Form { mode, ..PLAIN }, seed));
        for (mode, stats) in MODES.iter().zip([array, scan, queue, queues]) {
            let (reads, interrupts) = (stats.fence_reads, stats.fence_interrupts);
            let (spurious, released) = (stats.spurious_fence_interrupts, stats.cpu_wakes);
            println!(
                "{mode:?}: {reads} reads, {interrupts} interrupts ({spurious} spurious), {released} released: {:.2} reads each",
                reads as f64 / interrupts as f64
            );
        }
        assert_eq!(array.cpu_wakes, queues.cpu_wakes, "the same waiters in every form");
        assert!(queues.fence_reads.max(queue.fence_reads) < scan.fence_reads / 3);
        // The difference is the signals that were logged below the awaited value.
        assert!(queues.fence_reads < array.fence_reads * 5 / 4);
    }
}

/// Where every signal has a waiter, only the signalled fences are read, in each form that names
/// fences or queues.
#[test]
fn what_is_named_is_read_once_whether_fences_or_queues_are_named() {
    let run = |mode| {
        let w = machine(Form { mode, ..PLAIN }).run(|w| {
            let queues = [0, 0, 1].map(|node| w.connected_queue(node));
            let fences: Vec<FenceInstance> = (0..9).map(|_| w.native(0)).collect();
            let _waiting_elsewhere: Vec<Event> =
                (0..20).map(|_| w.wait_event(&w.native(0), 1)).collect();
            for round in 1..=50 {
                let events: Vec<Event> = fences.iter().map(|f| w.wait_event(f, round)).collect();
                for (index, fence) in fences.iter().enumerate() {
                    let entry = ((round - 1) * 3 + index as u64 / 3) % 84;
                    queues[index % 3].push(&signal_packet(fence, round, entry as u32));
                }
                w.pass(100_000);
                assert!(events.iter().all(Event::is_set));
            }
        });
        w.stats()
    };
    let [array, scan, queue, queues] = MODES.map(run);
    for (mode, stats) in MODES.iter().zip([array, scan, queue, queues]) {
        let (reads, interrupts) = (stats.fence_reads, stats.fence_interrupts);
        println!("{mode:?}: {reads} reads, {interrupts} interrupts");
    }
    assert!(queues.fence_reads <= array.fence_reads && queue.fence_reads <= array.fence_reads);
    assert_eq!(array.fence_reads, 9 * 50);
    assert!(scan.fence_reads > 3 * array.fence_reads);
}
