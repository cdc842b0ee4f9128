//! Programs written against the queue API, and the hazard check of them: silent while they are
//! whole. Each of their edges is left out, once in a single place and once everywhere. Then each
//! finding names that edge.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use tidegate::platform::hazard::Report;
use tidegate_testbed::prelude::*;

const BYTES: u64 = 4096;
const MAIN: &str = "main";

/// An edge: the timeline that signals, the one that waits, the fence.
type Edge = (&'static str, &'static str, &'static str);

/// Which edges of a program are left out.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Left {
    None,
    /// Only the edge of this number.
    One(usize),
    /// All that are equal.
    All(Edge),
}

/// The edges of a run.
struct Edges {
    left: Left,
    made: Vec<Edge>,
}

impl Edges {
    /// Makes the wait of an edge, unless it is left out.
    fn edge(
        &mut self,
        from: &'static str,
        to: &'static str,
        fence: &'static str,
        wait: impl FnOnce(),
    ) {
        let edge = (from, to, fence);
        if self.left != Left::One(self.made.len()) && self.left != Left::All(edge) {
            wait();
        }
        self.made.push(edge);
    }
}

type Program = fn(&App, Submission, &mut Edges);

fn app() -> App {
    App::new(DeviceOptions::default(), |config| {
        config.gpu.display =
            Some(DisplayConfig { refresh_period_ns: 50_000, ..Default::default() });
    })
}

fn run(program: Program, submission: Submission, left: Left) -> (Report, Vec<Edge>) {
    let app = app().case(format!("{submission} {left:?}")).racing();
    let platform = app.platform().clone();
    let made = std::sync::Arc::new(platform.mutex("edges", Vec::new()));
    let own = made.clone();
    let app = app.run(move |app| {
        let mut edges = Edges { left, made: Vec::new() };
        program(app, submission, &mut edges);
        *own.lock() = edges.made;
    });
    let report = app.device.hazards().expect("the check is on");
    let made = made.lock().clone();
    (report, made)
}

/// Runs a program whole and without each of its edges. Those of `nothing` order no access.
fn each_edge_is_named(program: Program, models: &[Submission], nothing: &[Edge]) {
    let mut wrong = Vec::new();
    for submission in models {
        let (report, edges) = run(program, *submission, Left::None);
        assert!(report.is_clean(), "{submission}:\n{report}");
        let kinds: BTreeSet<Edge> = edges.iter().copied().collect();
        let one = edges.iter().enumerate().map(|(at, edge)| (Left::One(at), *edge));
        let all = kinds.into_iter().map(|edge| (Left::All(edge), edge));
        for (left, edge) in one.chain(all) {
            let (report, _) = run(program, *submission, left);
            let names_it = report.hazards.iter().all(|hazard| {
                let signal = hazard.signal.as_ref();
                signal.is_some_and(|signal| {
                    (&*signal.timeline, &*hazard.second.timeline, &*signal.fence) == edge
                })
            });
            if !names_it || report.is_clean() != nothing.contains(&edge) {
                wrong.push(format!("{submission} without {left:?} {edge:?}:\n{report}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn queue(app: &App, name: &str, of: CommandListType, submission: Submission) -> Queue {
    let desc = QueueDesc { name: name.to_owned(), ..QueueDesc::new(of).submission(submission) };
    app.create_queue(desc).unwrap()
}

fn fence(app: &App, name: &str) -> Fence {
    app.create_fence(name, 0).unwrap()
}

fn buffer(app: &App, name: &str, bytes: u64) -> Buffer {
    app.create_buffer(BufferDesc::readback(name, bytes)).unwrap()
}

fn copy(app: &App, queue: &Queue, target: (&Buffer, u64), source: (&Buffer, u64)) {
    app.execute(queue, |list| list.copy(target.0, target.1, source.0, source.1, BYTES));
}

fn read(buffer: &Buffer, offset: u64) {
    buffer.read(offset, &mut [0; BYTES as usize]).unwrap();
}

/// The CPU writes the constants of a frame while the GPU reads the constants of the frame before.
fn double_buffered_frames(app: &App, submission: Submission, edges: &mut Edges) {
    const FRAMES: u64 = 6;
    let graphics = queue(app, "graphics", CommandListType::Direct, submission);
    let drawn = fence(app, "drawn");
    let constants = app.create_buffer(BufferDesc::upload("constants", 2 * BYTES)).unwrap();
    let picture = buffer(app, "picture", BYTES);
    for frame in 1..=FRAMES {
        let slot = frame % 2 * BYTES;
        if frame > 2 {
            edges.edge("graphics", MAIN, "drawn", || drawn.wait(frame - 2).unwrap());
        }
        constants.write(slot, &[frame as u8; BYTES as usize]).unwrap();
        copy(app, &graphics, (&picture, 0), (&constants, slot));
        graphics.signal(&drawn, frame).unwrap();
    }
    edges.edge("graphics", MAIN, "drawn", || drawn.wait(FRAMES).unwrap());
    read(&picture, 0);
    // The next user of the machine waits for all of it.
    app.wait_idle().unwrap();
}

/// A copy queue uploads for a compute queue, whose results the CPU reads.
fn producer_and_consumer(app: &App, submission: Submission, edges: &mut Edges) {
    const ROUNDS: u64 = 5;
    let upload = queue(app, "upload", CommandListType::Copy, submission);
    let compute = queue(app, "compute", CommandListType::Compute, submission);
    let (uploaded, computed) = (fence(app, "uploaded"), fence(app, "computed"));
    let staging = app.create_buffer(BufferDesc::upload("staging", ROUNDS * BYTES)).unwrap();
    let (data, results) = (buffer(app, "data", BYTES), buffer(app, "results", ROUNDS * BYTES));
    for round in 1..=ROUNDS {
        let at = (round - 1) * BYTES;
        staging.write(at, &[round as u8; BYTES as usize]).unwrap();
        if round > 1 {
            edges.edge("compute", "upload", "computed", || {
                upload.wait(&computed, round - 1).unwrap();
            });
        }
        copy(app, &upload, (&data, 0), (&staging, at));
        upload.signal(&uploaded, round).unwrap();
        edges.edge("upload", "compute", "uploaded", || compute.wait(&uploaded, round).unwrap());
        copy(app, &compute, (&results, at), (&data, 0));
        compute.signal(&computed, round).unwrap();
    }
    edges.edge("compute", MAIN, "computed", || computed.wait(ROUNDS).unwrap());
    read(&results, (ROUNDS - 1) * BYTES);
    app.wait_idle().unwrap();
}

/// The consumer is submitted first.
fn waits_before_signals(app: &App, submission: Submission, edges: &mut Edges) {
    let names = ["third", "second", "first"];
    let queues = names.map(|name| queue(app, name, CommandListType::Copy, submission));
    let fences = ["of third", "of second", "of first"].map(|name| fence(app, name));
    let steps: Vec<Buffer> =
        (0..4).map(|step| buffer(app, &format!("step {step}"), BYTES)).collect();
    for at in 0..3 {
        if let Some((from, on)) = names.get(at + 1).zip(fences.get(at + 1)) {
            let on_name = ["of third", "of second", "of first"][at + 1];
            edges.edge(from, names[at], on_name, || queues[at].wait(on, 1).unwrap());
        }
        copy(app, &queues[at], (&steps[3 - at], 0), (&steps[2 - at], 0));
        queues[at].signal(&fences[at], 1).unwrap();
    }
    edges.edge("third", MAIN, "of third", || fences[0].wait(1).unwrap());
    read(&steps[3], 0);
    app.wait_idle().unwrap();
}

/// Three back buffers. An overlay is computed while the frame before is drawn.
fn triple_buffering(app: &App, submission: Submission, edges: &mut Edges) {
    const FRAMES: u64 = 7;
    let graphics = queue(app, "graphics", CommandListType::Direct, submission);
    let compute = queue(app, "compute", CommandListType::Compute, submission);
    let desc = SwapChainDesc::new("screen", 32, 32).buffers(3).frame_latency(2);
    let chain = app.create_swap_chain(&graphics, desc).unwrap();
    let (drawn, computed) = (fence(app, "drawn"), fence(app, "computed"));
    let overlays = buffer(app, "overlays", 2 * BYTES);
    for frame in 1..=FRAMES {
        let overlay = frame % 2 * BYTES;
        if frame > 2 {
            edges.edge("graphics", "compute", "drawn", || compute.wait(&drawn, frame - 2).unwrap());
        }
        app.execute(&compute, |list| list.clear_uint(&overlays, overlay, BYTES, frame as u32));
        compute.signal(&computed, frame).unwrap();
        edges.edge("compute", "graphics", "computed", || graphics.wait(&computed, frame).unwrap());
        let back = &chain.buffers()[chain.current_index()];
        copy(app, &graphics, (back, 0), (&overlays, overlay));
        graphics.signal(&drawn, frame).unwrap();
        chain.present(1).unwrap();
    }
    chain.wait_shown().unwrap();
    app.wait_idle().unwrap();
}

/// A thread for each of two queues, which hand a buffer to and fro over fences.
fn two_threads(app: &App, submission: Submission, edges: &mut Edges) {
    const ROUNDS: u64 = 6;
    let (produced, consumed) = (fence(app, "produced"), fence(app, "consumed"));
    let sources = buffer(app, "sources", ROUNDS * BYTES);
    let (data, results) = (buffer(app, "data", BYTES), buffer(app, "results", ROUNDS * BYTES));
    let producer = queue(app, "producer", CommandListType::Copy, submission);
    let consumer = queue(app, "consumer", CommandListType::Copy, submission);
    // The edges are counted on the main thread; the threads get those that they make.
    let mut made = Vec::new();
    for round in 1..=ROUNDS {
        let mut makes = [false; 2];
        if round > 1 {
            edges.edge("consumer", "producer", "consumed", || makes[0] = true);
        }
        edges.edge("producer", "consumer", "produced", || makes[1] = true);
        made.push(makes);
    }
    let list = |queue: &Queue, target: (&Buffer, u64), source: (&Buffer, u64)| {
        app.list(queue.list_type(), |list| list.copy(target.0, target.1, source.0, source.1, BYTES))
    };
    let lists: Vec<_> = (0..ROUNDS)
        .map(|round| {
            let fill = list(&producer, (&data, 0), (&sources, round * BYTES));
            (fill, list(&consumer, (&results, round * BYTES), (&data, 0)))
        })
        .collect();
    let (fills, takes): (Vec<_>, Vec<_>) = lists.into_iter().unzip();
    let makes = made.clone();
    // A queue that is dropped drops its work: the main thread keeps both.
    let queues = (producer.clone(), consumer.clone());
    let (on_produced, on_consumed) = (produced.clone(), consumed.clone());
    let one = app.platform().spawn("producing", move || {
        for (round, fill) in (1..).zip(&fills) {
            if makes[round as usize - 1][0] {
                producer.wait(&on_consumed, round - 1).unwrap();
            }
            producer.execute(&[fill]).unwrap();
            producer.signal(&on_produced, round).unwrap();
        }
    });
    let (on_produced, on_consumed) = (produced, consumed.clone());
    let other = app.platform().spawn("consuming", move || {
        for (round, take) in (1..).zip(&takes) {
            if made[round as usize - 1][1] {
                consumer.wait(&on_produced, round).unwrap();
            }
            consumer.execute(&[take]).unwrap();
            consumer.signal(&on_consumed, round).unwrap();
        }
    });
    one.join();
    other.join();
    edges.edge("consumer", MAIN, "consumed", || consumed.wait(ROUNDS).unwrap());
    read(&results, 0);
    app.wait_idle().unwrap();
    drop(queues);
}

/// Two devices and a shared fence. The second device's queue passes on what it waits for.
fn shared_fence(app: &App, submission: Submission, edges: &mut Edges) {
    let other = app.machine.device(DeviceOptions::new("other")).unwrap();
    let flags = FenceFlags::SHARED | FenceFlags::SHARED_CROSS_ADAPTER;
    let shared = app.create_fence_with(FenceDesc::new("shared").flags(flags)).unwrap();
    let handle = app.create_shared_handle(&shared).unwrap();
    let opened = other.open_shared_handle("shared", &handle).unwrap();
    let relayed = other.create_fence("relayed", 0).unwrap();
    let left = queue(app, "left", CommandListType::Copy, submission);
    let desc = QueueDesc::new(CommandListType::Copy).submission(submission);
    let right = other.create_queue(QueueDesc { name: "right".to_owned(), ..desc }).unwrap();
    let (source, target) = (buffer(app, "source", BYTES), buffer(app, "target", BYTES));
    copy(app, &left, (&target, 0), (&source, 0));
    left.signal(&shared, 1).unwrap();
    edges.edge("left", MAIN, "shared", || right.wait(&opened, 1).unwrap());
    right.signal(&relayed, 1).unwrap();
    edges.edge("right", MAIN, "relayed", || relayed.wait(1).unwrap());
    read(&target, 0);
    right.wait_idle().unwrap();
    app.wait_idle().unwrap();
}

/// Results that the CPU reads behind an event, a future, and a value that it polls.
fn readback(app: &App, submission: Submission, edges: &mut Edges) {
    let copies = queue(app, "copies", CommandListType::Copy, submission);
    let done = fence(app, "done");
    let source = buffer(app, "source", BYTES);
    let results: Vec<Buffer> =
        (0..4).map(|number| buffer(app, &format!("result {number}"), BYTES)).collect();
    for (number, result) in (1..).zip(&results) {
        copy(app, &copies, (result, 0), (&source, 0));
        copies.signal(&done, number).unwrap();
    }
    edges.edge("copies", MAIN, "done", || {
        let event = app.create_event(EventDesc::auto_reset());
        done.set_event_on_completion(1, &event).unwrap();
        event.wait().unwrap();
    });
    read(&results[0], 0);
    edges.edge("copies", MAIN, "done", || {
        let mut future = pin!(done.reached(2));
        while future.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Pending {
            app.pass(1_000);
        }
    });
    read(&results[1], 0);
    // All are done by now, and only a value that was seen is an edge.
    app.pass(10_000_000);
    edges.edge("copies", MAIN, "done", || assert_eq!(done.completed_value(), 4));
    read(&results[2], 0);
    read(&results[3], 0);
    app.wait_idle().unwrap();
}

#[test]
fn double_buffered_frames_name_the_wait_that_is_left_out() {
    each_edge_is_named(double_buffered_frames, &Submission::ALL, &[]);
}

#[test]
fn a_producer_and_a_consumer_name_the_wait_that_is_left_out() {
    each_edge_is_named(producer_and_consumer, &Submission::ALL, &[]);
}

#[test]
fn waits_before_their_signals_name_the_wait_that_is_left_out() {
    each_edge_is_named(waits_before_signals, &Submission::ALL, &[]);
}

// Presents and swap chains (validation layers' #7455). The user model has none.
#[test]
fn triple_buffering_with_presents_names_the_wait_that_is_left_out() {
    let models = [Submission::Packet, Submission::Hardware];
    each_edge_is_named(triple_buffering, &models, &[]);
}

// Several threads (validation layers' #7250).
#[test]
fn two_threads_name_the_wait_that_is_left_out() {
    each_edge_is_named(two_threads, &Submission::ALL, &[]);
}

#[test]
fn a_shared_fence_names_the_wait_that_is_left_out() {
    each_edge_is_named(shared_fence, &Submission::ALL, &[]);
}

// A counter that the CPU has read (validation layers' #7457), and host accesses.
#[test]
fn reads_of_the_cpu_name_the_wait_that_is_left_out() {
    each_edge_is_named(readback, &Submission::ALL, &[]);
}
