//! More queues than doorbells, and processes that know only the published contract. Each takes a
//! while between a connect and its ring, so that another one takes its doorbell in between, every
//! time.

use tidegate_testbed::prelude::*;

const SUBMISSIONS: u64 = 5;

/// The time between a connect and the ring that follows it.
const SLOW_NS: u64 = 20_000;

/// The most connects of one submission: eight that are lost, and one that needs no doorbell.
const MOST_CONNECTS: u32 = 9;

/// A thread of a process that knows only the published contract.
struct Submitter {
    platform: Platform,
    kernel: Arc<dyn Kernel>,
    queue: UserQueue,
    packets: Vec<RingPacket>,
    /// Whether the packets have progress values, which the process announces.
    announces: bool,
    /// The fence of the last packet.
    done: Handle,
}

impl Submitter {
    fn new(w: &World, announces: bool) -> Submitter {
        let (queue, fence) = (w.user_queue(0), w.native(0));
        let packet = |value| match announces {
            true => w.execute_packet(&[Command::Timed { ns: 10 }], value),
            false => signal_packet(&fence, value, u32::MAX),
        };
        let done = if announces { queue.queue.progress_fence } else { fence.handle };
        let packets = (1..=SUBMISSIONS).map(packet).collect();
        let (platform, kernel) = (w.platform.clone(), w.kernel.clone());
        Submitter { platform, kernel, queue, packets, announces, done }
    }

    /// Returns `false` when a submission takes more than [`MOST_CONNECTS`].
    fn run(&self) -> bool {
        for (value, packet) in (1..).zip(&self.packets) {
            if self.announces {
                self.queue.doorbell.last_queued.store(value);
            }
            self.queue.put(packet);
            if !self.ring() {
                return false;
            }
        }
        let last = [FenceValue { fence: self.done, value: SUBMISSIONS }];
        self.kernel.wait_from_cpu(&last, WaitMode::All, None).unwrap();
        true
    }

    /// Rings in the published order.
    fn ring(&self) -> bool {
        for _ in 0..=MOST_CONNECTS {
            self.queue.ring();
            self.platform.fence();
            match self.queue.status() {
                DoorbellStatus::Connected => return true,
                DoorbellStatus::ConnectedNotify => {
                    let doorbell = self.queue.doorbell.handle;
                    return self.kernel.notify_work_submission(doorbell).is_ok();
                }
                DoorbellStatus::DisconnectedRetry => self.queue.connect().unwrap(),
                DoorbellStatus::DisconnectedAbort => panic!("the doorbell is lost"),
            }
            self.platform.sleep_until(self.platform.now().after(SLOW_NS));
        }
        false
    }
}

/// Runs `queues` submitters on `physical` doorbells. Returns how many have gone on to the end.
fn submitters_that_end(
    physical: u32,
    queues: u64,
    announces: bool,
    fault: Option<PlantedFault>,
) -> u64 {
    let model = DoorbellModel::Dedicated { physical };
    let w = world_with(|config| config.driver.doorbells = model);
    fault.into_iter().for_each(|fault| w.platform.plant(fault));
    let ended = w.platform.page(1).word(0);
    let counted = ended.clone();
    w.run(move |w| {
        let begin = w.platform.now();
        let threads: Vec<_> = (0..queues)
            .map(|n| {
                let submitter = Submitter::new(w, announces);
                // The connects are spread over the time that each thread takes.
                let since = CpuTime(begin.0 + n * SLOW_NS / queues);
                let ended = counted.clone();
                w.platform.spawn("submitter", move || {
                    submitter.platform.sleep_until(since);
                    ended.fetch_add(u64::from(submitter.run()));
                })
            })
            .collect();
        threads.iter().for_each(|thread| _ = thread.join());
    });
    ended.load()
}

// spec: UMS-201
#[test]
fn each_of_many_queues_goes_on_whatever_the_number_of_doorbells() {
    for (physical, queues) in [(1, 2), (1, 3), (1, 7), (2, 4), (2, 5), (3, 11)] {
        for announces in [false, true] {
            let what = format!("{queues} queues, {physical} doorbells");
            let ended = |fault| submitters_that_end(physical, queues, announces, fault);
            assert_eq!(ended(None), queues, "{what}");
            // Without the rule some queue is kept from its doorbell.
            assert!(ended(Some(PlantedFault::DoorbellsWithoutEnd)) < queues, "{what}");
        }
    }
}
