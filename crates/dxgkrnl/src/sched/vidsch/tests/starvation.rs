//! The shares of an engine that the bands are promised, in virtual time: one engine that gives up
//! what it runs within a granularity, and contexts that always have a packet more.

use super::*;

const QUANTUM_NS: u64 = 1_000;
const GRANULARITY_NS: u64 = 100;
const STEP_NS: u64 = 10;

struct Engine {
    sched: VidSch<&'static str>,
    now_ns: u64,
    packet_ns: u64,
    /// Packets on the engine: number, context, what is left of it.
    ring: VecDeque<(u32, OsHandle, u64)>,
    /// What is left of packets that were preempted in the middle.
    kept: BTreeMap<OsHandle, u64>,
    /// The request, and when it will be answered.
    request: Option<(u32, u64)>,
    completed: u32,
    /// For how long each context ran, when it ran last, and for how long it ever waited.
    ran: BTreeMap<OsHandle, (u64, u64, u64)>,
}

impl Engine {
    /// Contexts 1, 2, ... of these priorities, all saturated with packets that take so long.
    fn saturated(priorities: &[Priority], packet_ns: u64) -> Engine {
        let limits = Limits { preempts: true, quantum_ns: QUANTUM_NS, timeout_ns: None };
        let mut sched = VidSch::new(&AdapterCaps { hw_queue_packet_cap: 2, ..caps() }, limits);
        for (context, priority) in (1..).map(OsHandle).zip(priorities) {
            sched.add_context(context, 0, *priority, 0, 0);
            (0..3).for_each(|_| _ = sched.push(context, command(0), NOW));
        }
        Engine {
            sched,
            now_ns: 0,
            packet_ns,
            ring: VecDeque::new(),
            kept: BTreeMap::new(),
            request: None,
            completed: 0,
            ran: BTreeMap::new(),
        }
    }

    fn now(&self) -> Now {
        Now { stamp_ns: self.now_ns, at: CpuTime(self.now_ns) }
    }

    fn decide(&mut self) {
        let now = self.now();
        while let Some(decision) = self.sched.next_decision(now) {
            match decision {
                Decision::Submit { context, fence_id, flags, .. } => {
                    let kept = self.kept.remove(&context);
                    let resumed =
                        flags.contains(SubmitCommandFlags::RESUBMISSION).then_some(kept).flatten();
                    self.ring.push_back((fence_id, context, resumed.unwrap_or(self.packet_ns)));
                }
                Decision::Preempt { fence_id, .. } => {
                    self.request = Some((fence_id, self.now_ns + GRANULARITY_NS));
                }
                Decision::Signal { .. } => panic!("nobody signals"),
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
                assert!(self.sched.completed(0, id, now).is_some());
                self.sched.push(context, command(0), now);
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
                self.sched.preempted(0, (request, self.completed), now),
                Preempted::Answered { .. }
            ));
        }
        // The supervisor asks when a deadline has come; everybody else when something happened.
        self.decide();
    }

    /// Runs for so many quanta; the share of each context in percent, and for how many quanta it
    /// waited at most.
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
    assert_eq!(shares[0].0, 100, "nobody else has run: {shares:?}");
    assert_eq!(shares.len(), 1);
}
