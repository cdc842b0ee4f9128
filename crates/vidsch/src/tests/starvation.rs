//! The guaranteed shares of the bands, on one engine that answers preemption requests after a fixed
//! time and contexts that always have another packet. A signal behind each packet leaves a gap in
//! which the engine takes a packet of another context, before the signal has been made.

use super::*;

const QUANTUM_NS: u64 = 1_000;
const GRANULARITY_NS: u64 = 100;
const STEP_NS: u64 = 10;

struct Engine {
    sched: Sched,
    now_ns: u64,
    packet_ns: u64,
    /// Number of the contexts that always have another packet.
    saturated: usize,
    /// The contexts with a signal behind each packet.
    signalling: Vec<OsHandle>,
    /// Packets on the engine: fence ID, context, remaining time in nanoseconds.
    ring: VecDeque<(u32, OsHandle, u64)>,
    /// Remaining times of packets that were preempted while running, in nanoseconds.
    kept: BTreeMap<OsHandle, u64>,
    /// The open request and the time at which it will be answered.
    request: Option<(u32, u64)>,
    completed: u32,
    /// Per context: total time run, time it ran last, longest wait (all in nanoseconds).
    ran: BTreeMap<OsHandle, (u64, u64, u64)>,
}

impl Engine {
    /// Creates contexts 1, 2, ... with these priorities, all saturated with packets of `packet_ns`.
    fn saturated(priorities: &[Priority], packet_ns: u64) -> Engine {
        Engine::signalling(priorities, |_| false, packet_ns)
    }

    /// As [`Engine::saturated`]. The contexts of these priorities have a signal behind each packet.
    fn signalling(
        priorities: &[Priority],
        signals: impl Fn(Priority) -> bool,
        packet_ns: u64,
    ) -> Engine {
        let config = Config { packet_cap: 2, quantum_ns: QUANTUM_NS, timeout_ns: None, ..CONFIG };
        let sched = with_contexts(priorities, config);
        let contexts = || (1..).map(OsHandle).zip(priorities);
        let signalling = contexts().filter(|(_, of)| signals(**of)).map(|(c, _)| c).collect();
        let mut engine = Engine {
            sched,
            saturated: priorities.len(),
            signalling,
            now_ns: 0,
            packet_ns,
            ring: VecDeque::new(),
            kept: BTreeMap::new(),
            request: None,
            completed: 0,
            ran: BTreeMap::new(),
        };
        contexts().for_each(|(context, _)| (0..3).for_each(|_| engine.push(context)));
        engine
    }

    fn push(&mut self, context: OsHandle) {
        let now = self.now();
        self.sched.push_command(context, command(0), now);
        if self.signalling.contains(&context) {
            assert!(self.sched.push_signal(&[context], signal("done", NONE), now).is_none());
        }
    }

    fn now(&self) -> Now {
        at(self.now_ns)
    }

    fn decide(&mut self) {
        let now = self.now();
        while let Some(effect) = self.sched.next_effect(now) {
            match effect {
                Effect::Submit(DuePacket { context, fence_id, flags, .. }) => {
                    let kept = self.kept.remove(&context);
                    let resumed =
                        flags.contains(SubmitCommandFlags::RESUBMISSION).then_some(kept).flatten();
                    self.ring.push_back((fence_id, context, resumed.unwrap_or(self.packet_ns)));
                }
                Effect::Preempt { fence_id, .. } => {
                    self.request = Some((fence_id, self.now_ns + GRANULARITY_NS));
                }
                Effect::Signal { queues, .. } => {
                    self.sched.signalled(&queues, now);
                }
            }
        }
    }

    fn step(&mut self) {
        self.now_ns += STEP_NS;
        let now = self.now();
        if let Some((id, context, left)) = self.ring.front_mut() {
            *left = left.saturating_sub(STEP_NS);
            let (ran, last, waited) = self.ran.entry(*context).or_default();
            (*ran, *waited) = (*ran + STEP_NS, (*waited).max(self.now_ns - *last));
            *last = self.now_ns;
            if *left == 0 {
                let (id, context) = (*id, *context);
                self.ring.pop_front();
                self.completed = id;
                assert!(self.sched.completed(ENGINE, id, now).is_some());
                if context.0 <= self.saturated as u64 {
                    self.push(context);
                }
            }
        }
        if let Some((request, _)) = self.request.take_if(|(_, at)| *at <= self.now_ns) {
            if let Some((_, context, left)) = self.ring.front()
                && *left < self.packet_ns
            {
                self.kept.insert(*context, *left);
            }
            self.ring.clear();
            assert!(matches!(
                self.sched.preempted(ENGINE, report(request, self.completed), now),
                Preempted::Answered { .. }
            ));
        }
        self.decide();
    }

    /// Runs for `quanta`. Returns each context's share in percent and longest wait in quanta.
    fn run(mut self, quanta: u64) -> Vec<(u64, u64)> {
        self.decide();
        while self.now_ns < quanta * QUANTUM_NS {
            self.step();
        }
        let of = |(_, (ran, last, waited)): (OsHandle, (u64, u64, u64))| {
            let waited = waited.max(self.now_ns - last);
            (ran * 100 / self.now_ns, waited / QUANTUM_NS)
        };
        self.ran.into_iter().map(of).collect()
    }
}

#[test]
fn equals_share_whatever_the_length_of_their_packets() {
    for packet_ns in [QUANTUM_NS / 4, 7 * QUANTUM_NS] {
        let shares = Engine::saturated(&[Priority::Normal; 3], packet_ns).run(600);
        assert!(
            shares.iter().all(|(share, waits)| (32..=34).contains(share) && *waits <= 3),
            "{shares:?}"
        );
    }
}

// spec: PRE-072
#[test]
fn normal_has_a_tenth_of_an_engine_that_high_never_leaves() {
    for packet_ns in [QUANTUM_NS / 4, 3 * QUANTUM_NS, 50 * QUANTUM_NS] {
        let shares =
            Engine::saturated(&[Priority::Normal, Priority::High, Priority::High], packet_ns)
                .run(2_000);
        let (share, waits) = shares[0];
        assert!(share >= 9 && waits <= 11, "packets of {packet_ns} ns: {shares:?}");
        assert!(shares[1].0 >= 42 && shares[2].0 >= 42, "{shares:?}");
    }
}

#[test]
fn idle_has_a_hundredth_and_realtime_all() {
    let shares = Engine::saturated(&[Priority::Idle, Priority::Normal], 20 * QUANTUM_NS).run(5_000);
    assert!(shares[0].0 >= 1 && shares[0].1 <= 101 && shares[1].0 >= 97, "{shares:?}");
    let shares =
        Engine::saturated(&[Priority::High, Priority::Realtime], 20 * QUANTUM_NS).run(1_000);
    assert_eq!(shares[0].0, 100, "no other context has run: {shares:?}");
    assert_eq!(shares.len(), 1);
}

const LENGTHS_NS: [u64; 4] = [STEP_NS, QUANTUM_NS / 4, 3 * QUANTUM_NS, 9_000 * QUANTUM_NS];

/// Only work that was done is counted: a packet of NORMAL that enters the gap behind a packet of
/// HIGH, and is preempted at once, is not the tenth.
// spec: PRE-072
#[test]
fn a_signal_behind_each_packet_takes_no_band_its_share() {
    use Priority::{High, Idle, Normal};
    let which: [fn(Priority) -> bool; 3] = [|of| of == High, |of| of != High, |_| true];
    for (packet_ns, signals) in LENGTHS_NS.into_iter().flat_map(|ns| which.map(|of| (ns, of))) {
        let run =
            |priorities: &[Priority]| Engine::signalling(priorities, signals, packet_ns).run(1_200);
        let two = run(&[Normal, High]);
        assert!(two[0].0 >= 9 && two[0].1 <= 11, "{packet_ns} ns: {two:?}");
        // Each of three contexts has its part of the tenth, also if its packet never ends.
        let four = run(&[Normal, Normal, Normal, High]);
        let each = |(share, waits): &(u64, u64)| *share >= 2 && *waits <= 33;
        assert!(four.len() == 4 && four[..3].iter().all(each), "{packet_ns} ns: {four:?}");
        let bands = run(&[Idle, Normal, High, High]);
        assert!(bands.len() == 4 && bands[0].1 <= 104, "{packet_ns} ns: {bands:?}");
        assert!(bands[1].0 >= 8 && bands[1].1 <= 12, "{packet_ns} ns: {bands:?}");
    }
}

/// HIGH leaves the engine to NORMAL for a moment, time and again, and each time preempts it. What
/// NORMAL did then counts, and its contexts still take turns.
// spec: PRE-072
#[test]
fn preemptions_in_the_middle_of_a_turn_do_not_begin_it_anew() {
    for gap_ns in [STEP_NS, 5 * STEP_NS, QUANTUM_NS / 2] {
        let mut engine = Engine::saturated(&[Priority::Normal; 3], 1_000 * QUANTUM_NS);
        let high = OsHandle(9);
        engine.sched.add_context(high, ENGINE, Priority::High);
        engine.decide();
        let (mut due_ns, mut ran_ns) = (gap_ns, 0);
        while engine.now_ns < 1_200 * QUANTUM_NS {
            engine.step();
            let had_ns = engine.ran.get(&high).map_or(0, |(ran, ..)| *ran);
            if engine.now_ns >= due_ns {
                // One packet of HIGH, `gap_ns` after the last one.
                engine.sched.push_command(high, command(0), engine.now());
                engine.decide();
                due_ns = u64::MAX;
            }
            if had_ns - ran_ns >= QUANTUM_NS {
                // It ends after a quantum.
                ran_ns = had_ns;
                due_ns = engine.now_ns + gap_ns;
                if let Some((_, _, left)) = engine.ring.front_mut().filter(|(_, c, _)| *c == high) {
                    *left = STEP_NS;
                }
            }
        }
        let now_ns = engine.now_ns;
        let of = |c: u64| engine.ran.get(&OsHandle(c)).copied().unwrap_or_default();
        for (ran, last, waited) in [of(1), of(2), of(3)] {
            let waits = waited.max(now_ns - last) / QUANTUM_NS;
            assert!(ran * 100 / now_ns >= 2 && waits <= 40, "gap {gap_ns}: {ran} {waits}");
        }
    }
}
