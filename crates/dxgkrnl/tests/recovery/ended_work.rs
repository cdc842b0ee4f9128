//! What ends while its engine hangs: the call that ends it returns, the hang is found within the
//! documented time, the engine is reset, and other processes lose nothing.
//!
//! The table has each kind of work beside each way in which it can end.

use tidegate::dxgkrnl::Process;
use tidegate_testbed::prelude::*;

const S: u64 = 1_000_000_000;
/// Longer than an engine needs to begin the work of the tests.
const BEGUN_NS: u64 = 1_000_000;
/// Three delays: the documented time.
const FOUND_WITHIN: u64 = 6 * S;
/// A call that ends an object waits for two preemptions at most, and a reset ends each.
const RETURNS_WITHIN: u64 = 4 * S + BEGUN_NS;

/// A process whose work hangs.
struct Guilty {
    process: Arc<Process>,
    client: Client,
    work: Work,
}

/// The work that hangs, and what has it.
enum Work {
    Packet(Handle),
    HwQueue { context: Handle, queue: HwQueue },
    UserQueue { context: Handle, queue: Box<UserQueue> },
}

/// Begins work that hangs.
type Begin = fn(&Client) -> Work;

/// Ends something of the process. What it returns is kept until the end of the test.
type End = fn(&World, &Guilty) -> Option<Box<dyn std::any::Any>>;

fn packet(of: &Client) -> Work {
    let context = of.context(0);
    of.submit_packet(context, &[Command::Hang]);
    Work::Packet(context)
}

fn hw_queue(of: &Client) -> Work {
    let context = of.hw_context(0);
    let queue = of.hw_queue_in(context, false).unwrap();
    of.on_queue(&queue).run(1, &[Command::Hang]).run(2, &[Command::Hang]);
    Work::HwQueue { context, queue }
}

fn ring(of: &Client, announced: u64) -> Work {
    let context = of.hw_context(0);
    let queue = of.with_ring(of.hw_queue_in(context, true).unwrap());
    queue.connect().unwrap();
    queue.doorbell.last_queued.store(announced);
    queue.push(&of.execute_packet(&[Command::Hang], 1));
    Work::UserQueue { context, queue: Box::new(queue) }
}

fn announced_ring(of: &Client) -> Work {
    ring(of, 1)
}

fn silent_ring(of: &Client) -> Work {
    ring(of, 0)
}

const BEGINS: [(&str, Begin); 4] = [
    ("a packet", packet),
    ("a hardware queue", hw_queue),
    ("an announced ring", announced_ring),
    ("a ring without an announcement", silent_ring),
];

impl Guilty {
    fn new(w: &World, begin: Begin) -> Guilty {
        let process = w.machine.process_on(0, "guilty").unwrap();
        let kernel: Arc<dyn Kernel> = process.clone();
        let device = kernel.create_device().unwrap();
        let client = Client::of(&w.platform, kernel, device);
        let work = begin(&client);
        Guilty { process, client, work }
    }

    /// Destroys the queue of the work, or the context of a packet.
    fn destroy_queue(&self) {
        let kernel = &self.client.kernel;
        match &self.work {
            Work::Packet(context) => kernel.destroy_context(*context),
            Work::HwQueue { queue, .. } => kernel.destroy_hw_queue(queue.handle),
            Work::UserQueue { queue, .. } => {
                kernel.destroy_doorbell(queue.doorbell.handle).unwrap();
                kernel.destroy_hw_queue(queue.queue.handle)
            }
        }
        .unwrap();
    }
}

const ENDS: [(&str, End); 11] = [
    ("its doorbell is destroyed", |_, of| {
        match &of.work {
            Work::UserQueue { queue, .. } => {
                of.client.kernel.destroy_doorbell(queue.doorbell.handle).unwrap();
            }
            Work::Packet(_) | Work::HwQueue { .. } => {}
        }
        None
    }),
    ("its queue is destroyed", |_, of| {
        of.destroy_queue();
        None
    }),
    ("its queue and context are destroyed", |_, of| {
        of.destroy_queue();
        match &of.work {
            Work::Packet(_) => {}
            Work::HwQueue { context, .. } | Work::UserQueue { context, .. } => {
                of.client.kernel.destroy_hw_context(*context).unwrap();
            }
        }
        None
    }),
    ("its context is destroyed before its queue", |_, of| {
        match &of.work {
            Work::Packet(_) => {}
            Work::HwQueue { context, .. } | Work::UserQueue { context, .. } => {
                of.client.kernel.destroy_hw_context(*context).unwrap();
            }
        }
        of.destroy_queue();
        None
    }),
    ("its device is destroyed", |_, of| {
        of.client.kernel.destroy_device(of.client.device).unwrap();
        None
    }),
    ("its device is marked as in error", |_, of| {
        let reason = DeviceErrorReason::Generic;
        of.client.kernel.mark_device_as_error(of.client.device, reason).unwrap();
        None
    }),
    ("its device is marked as in error and destroyed", |_, of| {
        let reason = DeviceErrorReason::Generic;
        of.client.kernel.mark_device_as_error(of.client.device, reason).unwrap();
        of.client.kernel.destroy_device(of.client.device).unwrap();
        None
    }),
    ("its process ends", |_, of| {
        of.process.close();
        None
    }),
    ("its process is killed", |_, of| {
        of.process.terminate();
        None
    }),
    ("all contexts are held off the run list", |w, _| {
        Some(Box::new(w.adapter().suspend_contexts()))
    }),
    ("nothing ends", |_, _| None),
];

/// Submits a short command buffer and a short packet. Returns the queue, and the fence that the
/// packet's context signals.
fn short_work(of: &Client) -> (HwQueue, FenceInstance) {
    let (queue, context, done) = (of.hw_queue_on(0), of.context(0), of.monitored(0));
    of.submit(&queue, 1, &[Command::Timed { ns: 1000 }]);
    of.on(context).run(&[Command::Timed { ns: 1000 }]).signal(&done, 1);
    (queue, done)
}

/// Waits for the work, and asserts that its device is active.
fn finish(of: &Client, (queue, done): &(HwQueue, FenceInstance)) {
    of.finish(queue, 1);
    of.wait(done.handle, 1).unwrap();
    assert_eq!(of.state(), Ok(DeviceState::Active));
}

/// Asserts that the engine is reset once, and that nothing of others is lost.
fn is_found(w: &World, case: &str, other: &Client, from: u64) {
    let reset = |w: &World| {
        let reports = w.adapter().recoveries();
        reports.iter().filter(|r| r.outcome == RecoveryOutcome::EngineReset).count()
    };
    let passed = w.platform.now().0 - from;
    w.pass(FOUND_WITHIN.saturating_sub(passed) + BEGUN_NS);
    assert_eq!(reset(w), 1, "{case}: {:?}", w.adapter().recoveries());
    // Engine and kernel go on.
    finish(other, &short_work(other));
    w.pass(10 * FOUND_WITHIN);
    assert_eq!(reset(w), 1, "{case}: {:?}", w.adapter().recoveries());
}

// spec: PRE-160
#[test]
fn a_hang_is_found_whatever_of_its_process_ends() {
    for (what, begin) in BEGINS {
        for (how, end) in ENDS {
            for has_other_work in [true, false] {
                let case = format!("{what}, {how}, other work: {has_other_work}");
                world().run(move |w| {
                    let other = w.client("other");
                    let guilty = Guilty::new(w, begin);
                    w.pass(BEGUN_NS);
                    let waiting = has_other_work.then(|| short_work(&other));
                    let from = w.platform.now().0;
                    let kept = end(w, &guilty);
                    let took = w.platform.now().0 - from;
                    assert!(took <= RETURNS_WITHIN, "{case}: {took}");
                    drop(kept);
                    if let Some(work) = waiting {
                        finish(&other, &work);
                    }
                    is_found(w, &case, &other, from);
                });
            }
        }
    }
}
