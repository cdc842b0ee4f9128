//! The guaranteed shares of the bands, on one engine that answers preemption requests after a fixed
//! time and contexts that always have another packet.

use super::*;

const QUANTUM_NS: u64 = 1_000;
const GRANULARITY_NS: u64 = 100;
const STEP_NS: u64 = 10;

struct Engine {
    sched: Sched,
    now_ns: u64,
    packet_ns: u64,
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
        let config = Config { packet_cap: 2, quantum_ns: QUANTUM_NS, timeout_ns: None, ..CONFIG };
        let mut sched = with_contexts(priorities, config);
        for context in (1..=priorities.len() as u64).map(OsHandle) {
            (0..3).for_each(|_| _ = sched.push_command(context, command(0), NOW));
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
        at(self.now_ns)
    }

    fn decide(&mut self) {
        let now = self.now();
        while let Some(effect) = self.sched.next_effect(now) {
            match effect {
                Effect::Submit { context, fence_id, flags, .. } => {
                    let kept = self.kept.remove(&context);
                    let resumed =
                        flags.contains(SubmitCommandFlags::RESUBMISSION).then_some(kept).flatten();
                    self.ring.push_back((fence_id, context, resumed.unwrap_or(self.packet_ns)));
                }
                Effect::Preempt { fence_id, .. } => {
                    self.request = Some((fence_id, self.now_ns + GRANULARITY_NS));
                }
                _ => panic!("no signal is queued"),
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
                self.sched.push_command(context, command(0), now);
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
                self.sched.preempted(ENGINE, (request, self.completed), now),
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
