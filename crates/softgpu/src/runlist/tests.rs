//! The guarantees of the run list in virtual time: an engine that always takes the queue that the
//! list names, and queues that always want more.

use super::floor::FLOOR_WINDOW_NS;
use super::*;

/// A queue with endless work: packets of `packet_ns`, in parts of `part_ns`.
#[derive(Clone, Copy)]
struct Load {
    place: Place,
    packet_ns: u64,
    part_ns: u64,
    /// The rest of its current packet.
    left_ns: u64,
    had_ns: u64,
}

struct Engine {
    list: RunList,
    loads: Vec<Load>,
    now: CpuTime,
    order: Vec<u32>,
}

fn place(process: u32, context: u64, band: u32) -> Place {
    Place { process, context, band, realtime_level: 0, in_process: 0, quantum_ns: 0 }
}

fn load(place: Place, packet_ns: u64, part_ns: u64) -> Load {
    Load { place, packet_ns, part_ns, left_ns: 0, had_ns: 0 }
}

impl Engine {
    fn new(bands: Bands, loads: Vec<Load>) -> Engine {
        let mut list = RunList::default();
        list.set_bands(bands);
        for (queue, load) in (0..).zip(&loads) {
            list.push(QueueId(queue), load.place, false, || CpuTime(0));
        }
        Engine { list, loads, now: CpuTime(0), order: Vec::new() }
    }

    /// Runs one turn, a part of a packet.
    fn turn(&mut self) {
        let queue = self.list.pop(|| self.now).expect("there is always work");
        self.order.push(queue.0);
        let load = &mut self.loads[queue.0 as usize];
        if load.left_ns == 0 {
            load.left_ns = load.packet_ns;
        }
        let part = load.left_ns.min(load.part_ns);
        load.left_ns -= part;
        load.had_ns += part;
        self.now = self.now.after(part);
        let (place, in_packet) = (load.place, load.left_ns > 0);
        self.list.turn_ended(in_packet, true, || self.now);
        self.list.push(queue, place, in_packet, || self.now);
        self.list.left(|| self.now);
    }

    fn run_for(&mut self, ns: u64) {
        let end = self.now.after(ns);
        while self.now < end {
            self.turn();
        }
    }

    fn had_by(&self, which: impl Fn(&Place) -> bool) -> u64 {
        self.loads.iter().filter(|l| which(&l.place)).map(|l| l.had_ns).sum()
    }
}

/// Reproducible pseudo-random numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

const MS: u64 = 1_000_000;

// spec: HS-006
#[test]
fn a_process_with_ten_queues_gets_no_more_than_one_with_one() {
    for quantum in [0, MS] {
        let mut loads = vec![load(place(1, 1, 1), 100_000, 100_000)];
        loads.extend((0..10).map(|n| load(place(2, 2 + n, 1), 100_000, 100_000)));
        let bands = Bands { process_quantum_ns: [quantum; 4], normal_percent: 10 };
        let mut engine = Engine::new(bands, loads);
        engine.run_for(1_000 * MS);
        let (one, ten) = (engine.had_by(|p| p.process == 1), engine.had_by(|p| p.process == 2));
        assert!(one.abs_diff(ten) <= 2 * (quantum + 100_000), "{one} {ten}");
        // Its ten contexts share their process's half.
        assert!(engine.loads[1..].iter().all(|l| l.had_ns.abs_diff(ten / 10) <= MS + 100_000));
    }
}

// spec: HS-006
#[test]
fn processes_of_a_band_share_it_evenly_whatever_their_packets() {
    let mut numbers = Numbers(7);
    for _ in 0..60 {
        let quantum = numbers.below(3) * MS;
        let mut loads = Vec::new();
        for queue in 0..2 + numbers.below(12) {
            let packet = 1 + numbers.below(50 * MS);
            let process = numbers.below(4) as u32;
            loads.push(load(
                place(process, queue / 2, 2),
                packet,
                1 + numbers.below(packet.min(2 * MS)),
            ));
        }
        let longest = loads.iter().map(|l| l.part_ns).max().unwrap();
        let bands = Bands { process_quantum_ns: [quantum; 4], normal_percent: 10 };
        let mut engine = Engine::new(bands, loads);
        for _ in 0..4 {
            let before: Vec<u64> = (0..4).map(|p| engine.had_by(|l| l.process == p)).collect();
            engine.run_for(200 * MS);
            let there: Vec<u64> = (0..4)
                .filter(|p| engine.loads.iter().any(|l| l.place.process == *p))
                .map(|p| engine.had_by(|l| l.process == p) - before[p as usize])
                .collect();
            let (least, most) = (there.iter().min().unwrap(), there.iter().max().unwrap());
            assert!(most - least <= 2 * (quantum.max(SLICE_NS) + longest), "{there:?}");
        }
    }
}

// spec: HS-004, HS-005
#[test]
fn focus_leaves_normal_its_percentage_and_realtime_leaves_nothing() {
    let mut numbers = Numbers(11);
    for round in 0..60 {
        let percent = numbers.below(51) as u32;
        let mut part = || 1 + numbers.below(2 * MS);
        let loads = vec![
            load(place(1, 1, 2), 5 * MS, part()),
            load(place(2, 2, 2), 3 * MS, part()),
            load(place(1, 3, 1), 4 * MS, part()),
            load(place(3, 4, 1), MS, part().min(MS)),
            load(place(3, 5, 0), MS, MS),
        ];
        let longest = loads.iter().map(|l| l.part_ns).max().unwrap();
        let bands = Bands { process_quantum_ns: [0; 4], normal_percent: percent };
        let mut engine = Engine::new(bands, loads.clone());
        for _ in 0..3 {
            let (had, from) = (engine.had_by(|p| p.band == 1), engine.now);
            engine.run_for(1_000 * MS);
            let (normal, all) = (engine.had_by(|p| p.band == 1) - had, engine.now.since(from));
            let p = u64::from(percent);
            let bound = p * (100 - p) * FLOOR_WINDOW_NS / 10_000 + longest;
            let share = all * p / 100;
            assert!(normal + bound >= share, "{round}: {normal} of {share}, bound {bound}");
            assert!(normal <= share + bound, "{round}: no more than that: {normal} of {share}");
        }
        assert_eq!(engine.had_by(|p| p.band == 0), 0, "nothing for IDLE");
        let realtime = load(Place { realtime_level: 3, ..place(4, 9, 3) }, MS, MS);
        engine.loads.push(realtime);
        engine.list.push(QueueId(5), realtime.place, false, || engine.now);
        let before = engine.had_by(|p| p.band < 3);
        engine.run_for(1_000 * MS);
        assert_eq!(engine.had_by(|p| p.band < 3), before, "REALTIME gives way to no band");
    }
}

// spec: HS-003
#[test]
fn a_higher_band_comes_first_and_between_the_parts_of_a_packet() {
    let bands = Bands { normal_percent: 0, ..Bands::default() };
    let mut engine =
        Engine::new(bands, vec![load(place(1, 1, 1), 100, 10), load(place(2, 2, 1), 100, 10)]);
    engine.turn();
    engine.turn();
    assert_eq!(engine.order, [0, 0], "equals do not come between the parts of a packet");
    for (band, level) in [(2, 0), (3, 0), (3, 31), (3, 7)] {
        let number = engine.loads.len() as u32;
        let above = load(Place { realtime_level: level, ..place(3, 7, band) }, 10, 10);
        engine.loads.push(above);
        engine.list.push(QueueId(number), above.place, false, || engine.now);
    }
    let mut order = Vec::new();
    while let Some(queue) = engine.list.pop(|| engine.now) {
        order.push(queue.0);
        engine.list.turn_ended(false, true, || engine.now);
        engine.list.left(|| engine.now);
    }
    assert_eq!(order, [4, 5, 3, 2, 0, 1], "then the packet goes on");
    assert!(engine.list.is_empty() && engine.list.next().is_none());
}

// spec: HS-007
#[test]
fn a_higher_in_process_priority_matters_inside_its_process_alone() {
    let above = |p: Place, in_process| Place { in_process, ..p };
    let loads = vec![
        load(above(place(1, 1, 1), 0), MS, MS),
        load(above(place(1, 2, 1), 1), MS, MS),
        load(above(place(2, 3, 1), -7), MS, MS),
    ];
    let mut engine = Engine::new(Bands::default(), loads);
    engine.run_for(100 * MS);
    assert_eq!(engine.loads[0].had_ns, 0, "the other context of its process comes first");
    assert!(engine.loads[1].had_ns.abs_diff(engine.loads[2].had_ns) <= 2 * MS);
}

// spec: HS-008
#[test]
fn contexts_of_a_process_take_turns_of_their_quantum() {
    let quantum = |context, quantum_ns| Place { quantum_ns, ..place(1, context, 1) };
    let loads = vec![
        load(quantum(1, 0), 10, 10),
        load(quantum(2, 30), 10, 10),
        load(quantum(2, 30), 10, 10),
        load(quantum(3, 0), 10, 10),
    ];
    let mut engine = Engine::new(Bands::default(), loads);
    (0..10).for_each(|_| engine.turn());
    assert_eq!(engine.order, [0, 1, 2, 1, 3, 0, 2, 1, 2, 3]);
}

#[test]
fn equals_of_one_process_take_turns_in_the_order_in_which_they_came() {
    let loads = (0..5).map(|n| load(place(1, n, 1), 20, 10)).collect();
    let mut engine = Engine::new(Bands::default(), loads);
    (0..20).for_each(|_| engine.turn());
    assert_eq!(engine.order, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4]);
}

#[test]
fn a_process_that_was_away_is_owed_nothing_and_still_owes() {
    let loads = vec![load(place(1, 1, 1), MS, MS), load(place(2, 2, 1), 10 * MS, 10 * MS)];
    let mut engine = Engine::new(Bands::default(), loads);
    let away = QueueId(1);
    engine.list.remove(away);
    engine.run_for(100 * MS);
    // It returns: for every 10 ms of it, the other one gets 10 ms, and none of the 100.
    engine.list.push(away, engine.loads[1].place, false, || engine.now);
    engine.run_for(100 * MS);
    let (back, other) = (engine.loads[1].had_ns, engine.loads[0].had_ns);
    assert!((40 * MS..=60 * MS).contains(&back), "{back}");
    // A queue that leaves after each long packet and returns immediately gains nothing.
    for _ in 0..10 {
        engine.list.remove(away);
        engine.turn();
        engine.list.push(away, engine.loads[1].place, false, || engine.now);
        engine.run_for(10 * MS);
    }
    let (one, other) = (engine.loads[1].had_ns - back, engine.loads[0].had_ns - other);
    assert!(one <= other + 20 * MS, "{one} {other}");
}

/// Two processes shared the engine while a third was away. It starts level with them, whether it
/// comes for the first time or comes back.
// spec: HS-006
#[test]
fn a_process_that_comes_among_two_others_gets_a_third_from_then_on() {
    for quantum in [0, 2 * MS] {
        let mut loads: Vec<_> = (1..=3).map(|n| load(place(n, n.into(), 1), MS, MS)).collect();
        loads.push(load(place(4, 4, 0), MS, MS));
        let bands = Bands { process_quantum_ns: [quantum; 4], normal_percent: 10 };
        let mut engine = Engine::new(bands, loads);
        let third = QueueId(2);
        for away in 1..=3 {
            engine.list.remove(third);
            engine.run_for(away * 100 * MS);
            engine.list.push(third, engine.loads[2].place, false, || engine.now);
            let before: Vec<u64> = engine.loads.iter().map(|l| l.had_ns).collect();
            engine.run_for(60 * MS);
            let had: Vec<u64> =
                engine.loads.iter().zip(before).map(|(l, before)| l.had_ns - before).collect();
            let even = 20 * MS - 2 * quantum.max(MS)..=20 * MS + 2 * quantum.max(MS);
            assert!(had[..3].iter().all(|had| even.contains(had)), "{quantum} {away}: {had:?}");
        }
    }
}

/// Time is counted only while processes compete, so it takes two that stay for a third to be owed
/// something.
// spec: HS-006
#[test]
fn a_third_process_that_was_away_gets_no_more_than_its_third() {
    let loads = (0..3).map(|n| load(place(n, u64::from(n), 1), MS, MS)).collect();
    let mut engine = Engine::new(Bands::default(), loads);
    let away = QueueId(2);
    engine.list.remove(away);
    engine.run_for(100 * MS);
    assert_eq!(engine.loads[2].had_ns, 0);
    engine.list.push(away, engine.loads[2].place, false, || engine.now);
    let before: Vec<u64> = engine.loads.iter().map(|l| l.had_ns).collect();
    engine.run_for(30 * MS);
    for (load, before) in engine.loads.iter().zip(before) {
        let had = load.had_ns - before;
        assert!((8 * MS..=12 * MS).contains(&had), "{had} of 30 ms");
    }
    // It leaves after each of its turns and returns at once, and still gets no more.
    let before = engine.loads[2].had_ns;
    let end = engine.now.after(60 * MS);
    while engine.now < end {
        engine.turn();
        if engine.order.last() == Some(&away.0) {
            engine.list.remove(away);
            engine.turn();
            engine.list.push(away, engine.loads[2].place, false, || engine.now);
        }
    }
    let had = engine.loads[2].had_ns - before;
    assert!(had <= 24 * MS, "{had} of 60 ms");
}

#[test]
fn nothing_is_kept_of_processes_that_come_and_go() {
    let mut engine = Engine::new(Bands::default(), vec![load(place(0, 0, 1), 10, 10)]);
    for process in 1..1_000 {
        let guest = place(process, u64::from(process), 1);
        engine.loads.push(load(guest, 10, 10));
        engine.list.push(QueueId(process), guest, false, || engine.now);
        (0..4).for_each(|_| engine.turn());
        engine.list.remove(QueueId(process));
    }
    (0..40).for_each(|_| engine.turn());
    assert!(engine.list.tiers[1].had_ns.len() < 30, "{}", engine.list.tiers[1].had_ns.len());
    assert_eq!(engine.list.places.iter().flatten().count(), 1);
    let spare = engine.list.spare_processes.len() + engine.list.spare_queues.len();
    assert!(spare < 10, "{spare}");
}

// spec: HS-021
#[test]
fn a_packet_keeps_its_equals_waiting_for_a_slice_and_not_where_the_engine_may_not_leave_it() {
    let bands = Bands { process_quantum_ns: [2 * MS; 4], normal_percent: 0 };
    let rivals = [(place(2, 9, 1), 2 * MS), (place(1, 9, 1), 2 * MS), (place(1, 1, 1), 2 * MS)];
    let unset =
        [(place(2, 9, 1), SLICE_NS), (place(1, 9, 1), SLICE_NS), (place(1, 1, 1), SLICE_NS)];
    for (bands, rivals) in [(bands, rivals), (Bands::default(), unset)] {
        for (rival, slice_ns) in rivals {
            let mut list = RunList::default();
            list.set_bands(bands);
            let (long, own) = (QueueId(0), place(1, 1, 1));
            let at = |ns: u64| move || CpuTime(ns);
            list.push(long, own, false, at(0));
            assert_eq!(list.pop(at(0)), Some(long));
            // Alone in the middle of a packet: the clock is not read.
            let never = || -> CpuTime { panic!("the clock was read") };
            for _ in 0..3 {
                list.turn_ended(true, true, never);
                list.push(long, own, true, never);
                assert_eq!(list.gives_way_at(), None);
                assert_eq!(list.pop(never), Some(long));
            }
            // Time counts from the arrival of an equal.
            list.turn_ended(true, true, never);
            list.push(long, own, true, never);
            list.push(QueueId(1), rival, false, at(MS));
            let end = MS + slice_ns;
            assert_eq!(list.gives_way_at(), Some(CpuTime(end)), "{rival:?}");
            for (now, may_leave, next) in
                [(end - 10, true, 0), (end + 5, false, 0), (end + 6, true, 1)]
            {
                assert_eq!(list.pop(at(now)), Some(long));
                list.turn_ended(true, may_leave, at(now));
                list.push(long, own, true, at(now));
                assert_eq!(list.next(), Some(QueueId(next)), "{rival:?} {now}");
            }
        }
    }
}

/// Two processes share an engine. The process of the simulator is stopped for seconds: once while
/// the engine rests in timed work, and once while it is in a turn.
// spec: HS-027
#[test]
fn a_queue_does_not_pay_for_the_time_in_which_the_process_is_stopped() {
    let stop_ns = 4_000 * MS;
    for in_timed_work in [true, false] {
        let loads = vec![load(place(1, 1, 1), MS, MS), load(place(2, 2, 1), MS, MS)];
        let mut engine = Engine::new(Bands::default(), loads);
        engine.run_for(4 * MS);
        let stopped = engine.list.pop(|| engine.now).unwrap();
        let until = engine.now.after(MS);
        engine.now = until.after(stop_ns);
        if in_timed_work {
            engine.list.timed_work_ended(until, || engine.now);
        }
        engine.list.turn_ended(false, true, || engine.now);
        engine.list.push(stopped, engine.loads[stopped.0 as usize].place, false, || engine.now);
        engine.list.left(|| engine.now);
        engine.order.clear();
        engine.run_for(40 * MS);
        let turns = |queue: u32| engine.order.iter().filter(|q| **q == queue).count();
        let least = if in_timed_work { 19 } else { 15 };
        assert!(turns(stopped.0) >= least, "{in_timed_work}: {} of 40 turns", turns(stopped.0));
    }
}

/// No order of entries and removals loses or duplicates a queue.
#[test]
fn nothing_is_lost_and_nothing_comes_twice() {
    let mut numbers = Numbers(3);
    let (mut list, mut inside, mut now) = (RunList::default(), Vec::new(), CpuTime(0));
    for _ in 0..50_000 {
        now = now.after(numbers.below(100_000));
        let queue = numbers.below(40);
        match numbers.below(4) {
            0 | 1 if !inside.contains(&queue) => {
                let place = Place {
                    process: (queue % 5) as u32,
                    context: queue / 2,
                    band: (queue % 4) as u32,
                    realtime_level: numbers.below(32) as u32,
                    in_process: numbers.below(15) as i32 - 7,
                    quantum_ns: numbers.below(3) * 50_000,
                };
                list.push(QueueId(queue as u32), place, numbers.below(3) == 0, || now);
                inside.push(queue);
            }
            2 => {
                list.remove(QueueId(queue as u32));
                inside.retain(|q| *q != queue);
            }
            _ => {
                let next = list.next();
                let popped = list.pop(|| now).map(|q| u64::from(q.0));
                assert_eq!(popped.is_some(), !inside.is_empty());
                assert!(popped.is_none() || next.is_some());
                if let Some(popped) = popped {
                    assert!(inside.contains(&popped));
                    inside.retain(|q| *q != popped);
                    list.turn_ended(false, true, || now.after(10));
                    list.left(|| now.after(10));
                }
            }
        }
        assert_eq!(list.is_empty(), inside.is_empty());
    }
}

/// The clock is read only where the order of waiting queues depends on it. Among queues of one
/// process it does not.
#[test]
fn a_queue_without_a_rival_costs_no_reading_of_the_clock() {
    let never = || -> CpuTime { panic!("the clock was read") };
    let mut list = RunList::default();
    let bands = Bands { process_quantum_ns: [MS; 4], normal_percent: 10 };
    list.set_bands(bands);
    let places = [place(1, 1, 1), place(1, 1, 1), place(1, 2, 1), place(2, 3, 0), place(3, 4, 3)];
    for (queue, place) in (0..).zip(places) {
        list.push(QueueId(queue), place, false, never);
    }
    let mut order = Vec::new();
    for _ in 0..8 {
        let queue = list.pop(never).unwrap();
        order.push(queue.0);
        list.turn_ended(false, true, never);
        if queue != QueueId(4) {
            list.push(queue, places[queue.0 as usize], false, never);
        }
        list.left(never);
    }
    assert_eq!(order, [4, 0, 2, 1, 2, 0, 2, 1]);
    // Another process of the band arrives while a queue is served: now time counts.
    let served = list.pop(never).unwrap();
    list.push(QueueId(9), place(9, 9, 1), false, || CpuTime(5));
    list.turn_ended(true, true, || CpuTime(7));
    list.push(served, places[served.0 as usize], true, never);
    assert_eq!(list.tiers[1].had_ns.get(1), Some(&2));
}

/// A run list that is driven by hand: a queue for each process, and the time that each turn takes.
#[derive(Default)]
struct Turns {
    list: RunList,
    now: CpuTime,
}

impl Turns {
    fn push(&mut self, process: u32) {
        let now = self.now;
        let place = place(process, process.into(), NORMAL);
        self.list.push(QueueId(process), place, false, || now);
    }

    /// A turn of the process that is next. Its queue leaves the list.
    fn turn(&mut self, ns: u64) -> u32 {
        let now = self.now;
        let queue = self.list.pop(|| now).expect("there is work");
        self.now = now.after(ns);
        let now = self.now;
        self.list.turn_ended(false, true, || now);
        self.list.left(|| now);
        queue.0
    }
}

#[test]
fn even_processes_go_in_the_order_in_which_they_came() {
    let mut t = Turns::default();
    [3, 1, 2].into_iter().for_each(|process| t.push(process));
    assert_eq!([(); 3].map(|()| t.turn(10)), [3, 1, 2]);
}

#[test]
fn processes_are_even_again_when_none_has_wanted_the_engine() {
    let mut t = Turns::default();
    [1, 2].into_iter().for_each(|process| t.push(process));
    assert_eq!([t.turn(50), t.turn(10)], [1, 2]);
    [1, 2].into_iter().for_each(|process| t.push(process));
    assert_eq!(t.turn(10), 1, "the band was empty in between");
}

/// The list forgets the accounts of processes that have gone. It keeps the account of a process
/// that has had more than the others.
#[test]
fn many_that_come_and_go_do_not_pay_for_one_that_had_more() {
    let mut t = Turns::default();
    [1, 2].into_iter().for_each(|process| t.push(process));
    assert_eq!(t.turn(500), 1);
    for guest in 10..30 {
        t.push(guest);
        let first = t.turn(1);
        t.push(if first == guest { guest + 100 } else { first });
        t.turn(1);
        t.push(2);
    }
    t.push(1);
    assert_ne!(t.turn(1), 1, "{:?} has had 500", t.list.tiers[1].had_ns.get(1));
    assert!(t.list.tiers[1].had_ns.len() < 20, "most accounts are forgotten");
}

#[test]
fn a_turn_costs_something_where_the_clock_rests() {
    let bands = Bands { process_quantum_ns: [5; 4], normal_percent: 10 };
    let loads = [1, 2, 3].map(|process| load(place(process, process.into(), NORMAL), 0, 0));
    let mut engine = Engine::new(bands, loads.to_vec());
    (0..30).for_each(|_| engine.turn());
    let turns = |queue| engine.order.iter().filter(|of| **of == queue).count();
    assert!([0, 1, 2].map(turns).iter().all(|turns| *turns >= 8), "{:?}", engine.order);
}

#[test]
fn the_next_packet_of_a_queue_has_a_slice_of_its_own() {
    let mut list = RunList::default();
    list.set_bands(Bands { process_quantum_ns: [10 * MS; 4], normal_percent: 10 });
    let own = Place { quantum_ns: 2 * MS, ..place(1, 1, NORMAL) };
    list.push(QueueId(0), own, false, || CpuTime(0));
    list.push(QueueId(1), place(2, 2, NORMAL), false, || CpuTime(0));
    assert_eq!(list.pop(|| CpuTime(0)), Some(QueueId(0)));
    let end = CpuTime(900_000);
    list.turn_ended(false, true, || end);
    list.push(QueueId(0), own, false, || end);
    list.left(|| end);
    assert_eq!(list.pop(|| end), Some(QueueId(0)), "its quantum goes on");
    // Another queue of its context wants the engine, and waits for a slice of the second packet.
    list.push(QueueId(2), own, false, || end);
    assert_eq!(list.gives_way_at(), Some(end.after(2 * MS)));
}

#[test]
fn a_packet_that_was_taken_off_the_list_is_not_gone_on_with() {
    let mut list = RunList::default();
    let [one, other] = [1, 2].map(|process| place(process, process.into(), NORMAL));
    list.push(QueueId(1), one, false, || CpuTime(0));
    list.push(QueueId(2), other, false, || CpuTime(0));
    assert_eq!(list.pop(|| CpuTime(0)), Some(QueueId(1)));
    list.turn_ended(true, true, || CpuTime(50));
    list.push(QueueId(1), one, true, || CpuTime(50));
    list.left(|| CpuTime(50));
    assert_eq!(list.next(), Some(QueueId(1)), "amid its packet");
    // A reset ends the packet while the queue is suspended.
    list.remove(QueueId(1));
    list.push(QueueId(1), one, false, || CpuTime(60));
    assert_eq!(list.next(), Some(QueueId(2)), "the other process has had nothing");
}

#[test]
fn focus_is_outranked_while_normal_is_paid() {
    let mut list = RunList::default();
    let focus = place(1, 1, FOCUS);
    list.push(QueueId(1), focus, false, || CpuTime(0));
    list.push(QueueId(2), place(2, 2, NORMAL), false, || CpuTime(0));
    let mut now = CpuTime(0);
    assert_eq!(list.pop(|| now), Some(QueueId(1)));
    let turns_at = list.gives_way_at().expect("normal is owed its tenth");
    now = CpuTime(turns_at.0 / 2);
    list.turn_ended(true, true, || now);
    assert!(!list.is_outranked());
    now = turns_at;
    list.turn_ended(true, true, || now);
    assert!(list.is_outranked(), "amid its packet");
}
