//! Synthetic traces that tests and the demonstration share: a frame graph, a large one, awkward
//! strings, nothing.
//!
//! They are laid out by hand and by a small generator; no workload runs. Not every user needs every
//! one of them.
#![allow(dead_code)]

use tidegate_trace::compare_page::{ComparePage, ComparedModel};
use tidegate_trace::{
    ClockName, FenceId, Finding, FindingKind, Kind, LaneId, LaneKind, LinkId, MissingEdge, NameId,
    PathPart, Record, Stretch, Trace, TraceBuilder,
};

/// A trace without lanes or records.
pub fn empty() -> Trace {
    TraceBuilder::new("nothing", ClockName::Virtual).finish()
}

/// Linked submissions with a gap, a preemption, a recovery, and work that never ran.
pub fn troubled() -> Trace {
    let mut b = TraceBuilder::new("troubled", ClockName::Virtual);
    let thread = b.add_lane(
        LaneKind::CpuThread,
        "a program with a rather long name.exe",
        "main thread of the program",
    );
    let queue =
        b.add_lane(LaneKind::Queue, "a program with a rather long name.exe", "graphics queue");
    let engine = b.add_lane(LaneKind::Engine, "GPU", "3D");
    let interrupt = b.add_lane(LaneKind::Interrupt, "GPU", "interrupts");
    let fence = b.add_fence("done");
    let names =
        ["frame", "shadow maps", "lighting", "submit", "device reset"].map(|name| b.name(name));
    let mut records = Vec::new();
    for i in 0..40u32 {
        let (link, at) = (LinkId(i + 1), u64::from(i) * 10_000);
        let of = |lane, kind, name, from: u64, to: u64| {
            Record::span(lane, kind, names[name], at + from, at + to).queued(at + 500).linked(link)
        };
        records.push(of(thread, Kind::Submit, 3, 200, 500).queued(at + 200));
        records.push(of(queue, Kind::Execute, 0, 20_000, 29_000));
        records.push(of(engine, Kind::Draw, 1, 20_000, 23_000));
        records.push(of(engine, Kind::Gap, 0, 23_000, 25_000));
        records.push(of(engine, Kind::Draw, 2, 25_000, 29_000));
        let mut signal = of(queue, Kind::Signal, 0, 29_000, 29_100);
        signal.name = NameId::NONE;
        records.push(signal.on_fence(fence, u64::from(i) + 1));
    }
    records.push(Record::instant(queue, Kind::Execute, NameId::NONE, 424_000).queued(300_000));
    records.push(Record::span(queue, Kind::Preempted, names[0], 61_000, 64_000));
    records.push(Record::span(interrupt, Kind::Recovery, names[4], 430_000, 470_000));
    let unfinished = Record::instant(queue, Kind::WaitQueued, NameId::NONE, 426_000);
    records.push(unfinished.on_fence(fence, 99));
    records.push(Record::span(queue, Kind::NeverRan, names[0], 425_000, 480_000));
    b.append(records);
    b.add_verdict("the queue 'graphics queue' was reset once");
    b.finish()
}

/// The frame graph with findings: a missing edge in each direction of time, one whose records are
/// not there, and a circle of waits.
pub fn unsynchronised() -> Trace {
    let mut trace = frames(4);
    let named = |name: &str, lane: LaneKind, nth: usize| {
        let found = trace.records.iter().enumerate().filter(|(_, record)| {
            trace.name_of(record) == name && trace.lanes[record.lane.0 as usize].kind == lane
        });
        found.map(|(index, _)| index).nth(nth).unwrap()
    };
    let upload = named("upload textures", LaneKind::Engine, 1);
    let opaque = named("opaque", LaneKind::Engine, 1);
    let simulate = named("simulate particles", LaneKind::Engine, 2);
    let waits: Vec<usize> =
        (0..trace.records.len()).filter(|at| trace.records[*at].kind == Kind::Wait).collect();
    let finding = |kind, title: &str, edges: &[(usize, usize)]| Finding {
        kind,
        title: title.to_owned(),
        text: format!(
            "{title} are accessed without a path of waits and signals:\n  <b>missing</b>"
        ),
        records: edges.iter().flat_map(|(from, to)| [*from, *to]).collect(),
        edges: edges.iter().map(|(from, to)| MissingEdge { from: *from, to: *to }).collect(),
    };
    let hazard = FindingKind::Hazard;
    for finding in [
        finding(
            hazard,
            "bytes 0..4096 of 'textures': 'copy queue', then '3D queue'",
            &[(upload, opaque)],
        ),
        finding(
            hazard,
            "bytes 0..64 of 'particles': '3D queue', then 'compute queue'",
            &[(simulate, opaque)],
        ),
        finding(hazard, "bytes 0..64 of '<script>': records that are lost", &[]),
        finding(
            FindingKind::Deadlock,
            "a circle of 2 waits",
            &[(waits[0], waits[1]), (waits[1], waits[0])],
        ),
    ] {
        trace.add_finding(finding);
    }
    trace
}

/// A chain over two queues and a thread, worked out by hand, with its critical path. The CPU wait
/// of `main` blocks from 40 to 100 ns:
///
/// - `main` submits `upload` to the copy queue (0 to 10) and `shade` to the compute queue (10 to
///   20), and waits from 40 on;
/// - the copy engine runs `upload` from 15 to 50 and signals `uploaded` at 52;
/// - the compute queue waits for it from 22 to 55, runs `shade` from 60 to 90, and signals `done`
///   at 92;
/// - `main` wakes at 100.
pub fn chain() -> Trace {
    let mut b = TraceBuilder::new("a chain", ClockName::Virtual);
    let main = b.add_lane(LaneKind::CpuThread, "app", "main");
    let [copy, compute] = ["copy", "compute"].map(|name| b.add_lane(LaneKind::Queue, "app", name));
    let [copies, shades] =
        ["engine 0", "engine 1"].map(|name| b.add_lane(LaneKind::Engine, "GPU", name));
    let (uploaded, done) = (b.add_fence("uploaded"), b.add_fence("done"));
    let [upload, shade] = ["upload", "shade"].map(|name| b.name(name));
    let span = Record::span;
    let [one, two] = [LinkId(1), LinkId(2)];
    b.append(vec![
        span(main, Kind::Submit, upload, 0, 10).linked(one),
        span(main, Kind::Submit, shade, 10, 20).linked(two),
        span(copy, Kind::Execute, upload, 15, 50).queued(5).linked(one).on_engine(copies),
        span(copies, Kind::Copy, upload, 15, 50).linked(one).for_queue(copy),
        span(copy, Kind::Signal, NameId::NONE, 50, 52).queued(5).on_fence(uploaded, 1),
        span(compute, Kind::Wait, NameId::NONE, 22, 55).queued(12).on_fence(uploaded, 1),
        span(compute, Kind::Execute, shade, 60, 90).queued(12).linked(two).on_engine(shades),
        span(shades, Kind::Dispatch, shade, 60, 90).linked(two).for_queue(compute),
        span(compute, Kind::Signal, NameId::NONE, 90, 92).queued(12).on_fence(done, 1),
        span(main, Kind::CpuWait, NameId::NONE, 40, 100).on_fence(done, 1),
    ]);
    let mut trace = b.finish();
    let at = |lane: LaneId, kind: Kind| {
        let found = trace.records.iter().position(|r| r.lane == lane && r.kind == kind);
        found.expect("a record of the chain")
    };
    let stretch = |part, start_ns, end_ns, lane, kind| Stretch {
        part,
        start_ns,
        end_ns,
        lane: Some(lane),
        record: Some(at(lane, kind)),
    };
    trace.critical_path = vec![
        stretch(PathPart::StartUp, 0, 10, main, Kind::Submit),
        stretch(PathPart::StartUp, 10, 15, copy, Kind::Execute),
        stretch(PathPart::Copy, 15, 50, copies, Kind::Copy),
        stretch(PathPart::Sync, 50, 52, copy, Kind::Signal),
        stretch(PathPart::Sync, 52, 55, compute, Kind::Wait),
        stretch(PathPart::Launch, 55, 60, compute, Kind::Execute),
        stretch(PathPart::Gpu, 60, 90, shades, Kind::Dispatch),
        stretch(PathPart::Sync, 90, 92, compute, Kind::Signal),
        stretch(PathPart::Sync, 92, 100, main, Kind::CpuWait),
    ];
    trace
}

/// A replayed schedule: two agents, a store that becomes visible late, a verdict.
pub fn schedule() -> Trace {
    let mut b = TraceBuilder::new("schedule of a race", ClockName::Steps);
    let [producer, consumer] =
        ["producer", "consumer"].map(|name| b.add_lane(LaneKind::CpuThread, "schedule", name));
    let mut records = Vec::new();
    for at in 0..120u64 {
        let text = b.name(&format!("step {at} of the schedule"));
        let (lane, kind, link) = match at {
            3 => (producer, Kind::Store, LinkId(1)),
            15 => (producer, Kind::Flush, LinkId(1)),
            _ => (if at % 3 == 0 { producer } else { consumer }, Kind::Step, LinkId::NONE),
        };
        records.push(Record::span(lane, kind, text, at, at + 1).linked(link));
    }
    b.append(records);
    b.add_verdict("fails: the consumer read 0 from the value of the fence, expected 1");
    b.finish()
}

/// The frame graph under three models: the same work, a frame more each.
pub fn three_models() -> [Trace; 3] {
    [4, 3, 2].map(frames)
}

/// A comparison of `traces`; the parts of each model sum to its makespan.
pub fn comparison(traces: &[Trace; 3]) -> ComparePage<'_> {
    let model = |(name, trace): (&str, _)| {
        let (first, last) = Trace::extent_ns(trace).unwrap();
        let makespan_ns = last - first;
        let (gpu, waiting) = (makespan_ns / 2, makespan_ns / 3);
        let parts = vec![
            (Some(PathPart::Gpu), gpu),
            (Some(PathPart::Sync), waiting),
            (Some(PathPart::Launch), makespan_ns - gpu - waiting),
        ];
        ComparedModel { name: name.to_owned(), makespan_ns, parts, trace }
    };
    ComparePage {
        title: "frame graph".to_owned(),
        verdict: vec![
            "user: 0.45 ms, 50 % faster than packet; 141 \u{2192} 2 kernel calls".to_owned(),
        ],
        models: ["packet", "hardware", "user"].into_iter().zip(traces).map(model).collect(),
        differences: vec!["the copy queue is idle for 60 \u{b5}s less under user".to_owned()],
    }
}

/// Strings and numbers that a careless writer would break on.
pub fn awkward() -> Trace {
    let mut b =
        TraceBuilder::new("</title></script><script>alert(\"1\")</script>", ClockName::Wall);
    let lane = b.add_lane(LaneKind::CpuThread, "a \"group\" & <b>", "</script>");
    let fence = b.add_fence("f\\\u{2028}é<");
    let name = b.name("<!-- </script> \n \u{1F40B}");
    b.append(vec![
        Record::span(lane, Kind::CpuWait, name, 1_234, 5_678)
            .on_fence(fence, u64::MAX)
            .with_arg(u64::MAX - 1),
        Record::instant(lane, Kind::Mark, NameId::NONE, 2_000).with_arg((1 << 53) + 1),
    ]);
    b.add_lost(12);
    b.finish()
}

/// A frame graph: a main thread feeds a copy, a compute and a 3D queue, a streaming thread uploads
/// ahead, a present thread waits for each frame.
pub fn frames(count: u64) -> Trace {
    let mut scene = Scene::new();
    for frame in 0..count {
        scene.frame(frame);
    }
    scene.finish()
}

struct Lanes {
    main: LaneId,
    streaming: LaneId,
    present: LaneId,
    queues: [LaneId; 3],
    engines: [LaneId; 3],
    interrupt: LaneId,
}

const COPY: usize = 0;
const COMPUTE: usize = 1;
const DRAW: usize = 2;

struct Scene {
    b: TraceBuilder,
    lanes: Lanes,
    uploaded: FenceId,
    simulated: FenceId,
    shadows: FenceId,
    frame_done: FenceId,
    records: Vec<Record>,
    /// When each queue's last command was done.
    free_ns: [u64; 3],
    /// When the program itself gets to the next frame.
    cpu_ns: u64,
    done_ns: Vec<u64>,
}

impl Scene {
    fn new() -> Scene {
        let mut b = TraceBuilder::new("frame graph, user-mode submission", ClockName::Virtual);
        let lanes = Lanes {
            main: b.add_lane(LaneKind::CpuThread, "game.exe", "main"),
            streaming: b.add_lane(LaneKind::CpuThread, "game.exe", "streaming"),
            present: b.add_lane(LaneKind::CpuThread, "game.exe", "present"),
            queues: ["copy queue", "compute queue", "3D queue"]
                .map(|name| b.add_lane(LaneKind::Queue, "game.exe", name)),
            engines: ["copy", "compute", "3D"]
                .map(|name| b.add_lane(LaneKind::Engine, "adapter 0", name)),
            interrupt: b.add_lane(LaneKind::Interrupt, "adapter 0", "line 0"),
        };
        let [uploaded, simulated, shadows, frame_done] =
            ["uploaded", "simulated", "shadows", "frame done"].map(|name| b.add_fence(name));
        Scene {
            b,
            lanes,
            uploaded,
            simulated,
            shadows,
            frame_done,
            records: Vec::new(),
            free_ns: [0; 3],
            cpu_ns: 20_000,
            done_ns: Vec::new(),
        }
    }

    fn finish(mut self) -> Trace {
        self.b.append(self.records);
        self.b.finish()
    }

    fn push(&mut self, record: Record) {
        self.records.push(record);
    }

    /// The program may be two frames ahead of the GPU.
    fn hold_back(&mut self, frame: u64) {
        if frame < 2 {
            return;
        }
        let free = self.done_ns[frame as usize - 2] + 9_000;
        if free > self.cpu_ns {
            let name = self.b.name("wait for back buffer");
            let wait = Record::span(self.lanes.main, Kind::CpuWait, name, self.cpu_ns, free);
            self.push(wait.on_fence(self.frame_done, frame - 1));
            self.cpu_ns = free;
        }
    }

    fn work(
        &mut self,
        queue: usize,
        kind: Kind,
        name: &str,
        queued_ns: u64,
        length_ns: u64,
    ) -> u64 {
        let name = self.b.name(name);
        let start = self.free_ns[queue].max(queued_ns + 1_500);
        let end = start + length_ns;
        let record =
            Record::span(self.lanes.queues[queue], kind, name, start, end).queued(queued_ns);
        self.push(record);
        self.push(
            Record::span(self.lanes.engines[queue], kind, name, start, end).queued(queued_ns),
        );
        self.free_ns[queue] = end;
        end
    }

    fn signal(&mut self, queue: usize, fence: FenceId, value: u64, queued_ns: u64) -> u64 {
        let at = self.free_ns[queue].max(queued_ns + 1_500);
        let record =
            Record::span(self.lanes.queues[queue], Kind::Signal, NameId::NONE, at, at + 400);
        self.push(record.queued(queued_ns).on_fence(fence, value));
        self.free_ns[queue] = at + 400;
        at
    }

    fn wait(&mut self, queue: usize, fence: FenceId, value: u64, queued_ns: u64, signaled_ns: u64) {
        let start = self.free_ns[queue].max(queued_ns + 1_500);
        let end = start.max(signaled_ns + 700);
        let record = Record::span(self.lanes.queues[queue], Kind::Wait, NameId::NONE, start, end);
        self.push(record.queued(queued_ns).on_fence(fence, value));
        self.free_ns[queue] = end;
    }

    fn submit(&mut self, thread: LaneId, name: &str, at_ns: u64, length_ns: u64) {
        let name = self.b.name(name);
        self.push(Record::span(thread, Kind::Submit, name, at_ns, at_ns + length_ns));
        let ring = self.b.name("ring");
        self.push(Record::instant(thread, Kind::Doorbell, ring, at_ns + length_ns - 500));
    }

    fn frame(&mut self, frame: u64) {
        let value = frame + 1;
        let wobble = (frame * 7_919) % 17;
        self.hold_back(frame);
        let t = self.cpu_ns;
        let upload = t.saturating_sub(12_000);
        let name = self.b.name("fill upload heap");
        let write =
            Record::span(self.lanes.streaming, Kind::MapWrite, name, upload, upload + 9_000);
        self.push(write.with_arg(8 << 20));
        self.submit(self.lanes.streaming, "submit upload", upload + 9_000, 3_000);
        self.work(COPY, Kind::Copy, "upload textures", upload + 11_500, 62_000 + 900 * wobble);
        self.work(COPY, Kind::Copy, "upload vertices", upload + 11_800, 24_000);
        let uploaded = self.signal(COPY, self.uploaded, value, upload + 12_000);

        let record = self.b.name("record lists");
        self.push(Record::span(self.lanes.main, Kind::Mark, record, t, t + 30_000));
        self.submit(self.lanes.main, "submit compute", t + 30_000, 4_000);
        self.work(COMPUTE, Kind::Fill, "clear particles", t + 33_000, 11_000);
        self.work(
            COMPUTE,
            Kind::Dispatch,
            "simulate particles",
            t + 33_200,
            74_000 + 1_500 * wobble,
        );
        let simulated = self.signal(COMPUTE, self.simulated, value, t + 33_500);

        self.submit(self.lanes.main, "submit graphics", t + 36_000, 5_000);
        let shadow_done = self.work(DRAW, Kind::Draw, "shadow maps", t + 40_000, 48_000);
        let shadows = self.signal(DRAW, self.shadows, value, t + 40_100);
        self.wait(COMPUTE, self.shadows, value, t + 33_700, shadows);
        self.work(COMPUTE, Kind::Dispatch, "light culling", t + 33_900, 38_000 - 700 * wobble);
        self.wait(DRAW, self.uploaded, value, t + 40_200, uploaded);
        self.wait(DRAW, self.simulated, value, t + 40_300, simulated.max(shadow_done));
        self.work(DRAW, Kind::Draw, "opaque", t + 40_400, 96_000 - 1_200 * wobble);
        self.work(DRAW, Kind::Draw, "particles", t + 40_500, 31_000);
        self.work(DRAW, Kind::Execute, "post and UI", t + 40_700, 22_000);
        let done = self.signal(DRAW, self.frame_done, value, t + 40_900);
        self.done_ns.push(done);
        self.present(value, t + 41_000, done);
        self.cpu_ns = t + 48_000;
    }

    fn present(&mut self, value: u64, from_ns: u64, done_ns: u64) {
        let from = from_ns.max(self.done_ns.iter().rev().nth(1).map_or(0, |done| done + 16_000));
        let names = ["wait for frame", "present", "fence signaled", "release waiters"]
            .map(|n| self.b.name(n));
        let isr = done_ns + 1_200;
        self.push(Record::span(self.lanes.interrupt, Kind::Interrupt, names[2], isr, isr + 1_800));
        self.push(Record::span(
            self.lanes.interrupt,
            Kind::Dpc,
            names[3],
            isr + 1_900,
            isr + 5_500,
        ));
        let woken = isr + 7_500;
        let present = self.lanes.present;
        self.push(
            Record::span(present, Kind::CpuWait, names[0], from, woken)
                .on_fence(self.frame_done, value),
        );
        self.push(Record::span(present, Kind::KernelCall, names[1], woken + 300, woken + 6_300));
    }
}

/// `boxes` records on so many queues, 4 engines, 4 threads and an interrupt line: deep queues, many
/// fences.
pub fn large(boxes: usize, queue_count: usize) -> Trace {
    let mut b = TraceBuilder::new(format!("stress with {queue_count} queues"), ClockName::Virtual);
    let threads: Vec<_> =
        (0..4).map(|i| b.add_lane(LaneKind::CpuThread, "stress", format!("worker {i}"))).collect();
    let queues: Vec<_> = (0..queue_count)
        .map(|i| b.add_lane(LaneKind::Queue, format!("process {}", i / 10), format!("queue {i}")))
        .collect();
    let engines: Vec<_> = ["3D", "compute", "copy 0", "copy 1"]
        .iter()
        .map(|name| b.add_lane(LaneKind::Engine, "adapter 0", *name))
        .collect();
    let line = b.add_lane(LaneKind::Interrupt, "adapter 0", "line 0");
    let fences: Vec<_> = (0..queue_count).map(|i| b.add_fence(format!("fence {i}"))).collect();
    let kinds = [Kind::Draw, Kind::Dispatch, Kind::Copy, Kind::Fill, Kind::Timed];
    let names: Vec<_> =
        (0..200).map(|i| b.name(&format!("kernel_{i:03}_of_some_length"))).collect();
    let mut random = Random(42);
    let mut free = vec![0u64; queue_count];
    let mut signaled: Vec<Vec<u64>> = vec![Vec::new(); queue_count];
    let mut records = Vec::with_capacity(boxes);
    let mut round = 0u64;
    while records.len() + 7 < boxes {
        let q = (round % queue_count as u64) as usize;
        let from = (q + 13) % queue_count;
        let value = round / queue_count as u64 + 1;
        let queued = (round * 230).max(free[q].saturating_sub(60_000 + random.below(40_000)));
        let thread = threads[q % 4];
        let submit = b.name("submit");
        let first = records.len();
        records.push(Record::span(
            thread,
            Kind::Submit,
            submit,
            queued.saturating_sub(120),
            queued,
        ));
        let mut at = free[q].max(queued + 900);
        if value > 1 && round.is_multiple_of(2) {
            let end = at.max(signaled[from][value as usize - 2]) + 200;
            let wait = Record::span(queues[q], Kind::Wait, NameId::NONE, at, end).queued(queued);
            records.push(wait.on_fence(fences[from], value - 1));
            at = end;
        }
        for _ in 0..2 {
            let end = at + 300 + random.below(4_000);
            let kind = kinds[random.below(5) as usize];
            let name = names[random.below(200) as usize];
            records.push(Record::span(queues[q], kind, name, at, end).queued(queued));
            if random.below(3) == 0 {
                records.push(Record::span(engines[q % 4], kind, name, at, end).queued(queued));
            }
            at = end;
        }
        let signal =
            Record::span(queues[q], Kind::Signal, NameId::NONE, at, at + 80).queued(queued);
        records.push(signal.on_fence(fences[q], value));
        for record in &mut records[first..] {
            record.link = LinkId(round as u32 + 1);
        }
        if round.is_multiple_of(9) {
            records.push(Record::span(line, Kind::Interrupt, NameId::NONE, at + 500, at + 900));
        }
        free[q] = at + 80;
        signaled[q].push(at);
        round += 1;
    }
    while records.len() < boxes {
        let at = free[0] + records.len() as u64;
        records.push(Record::instant(threads[0], Kind::Mark, NameId::NONE, at));
    }
    b.append(records);
    let mut trace = b.finish();
    trace.critical_path = dense_path(&trace);
    trace
}

/// A path without a hole: each time the record that starts next, and launch up to it.
fn dense_path(trace: &Trace) -> Vec<Stretch> {
    let mut path: Vec<Stretch> = Vec::new();
    let mut at_ns = 0;
    for (number, record) in trace.records.iter().enumerate() {
        let is_work = record.kind.is_work() || record.kind == Kind::Wait;
        if !is_work || record.start_ns < at_ns || record.end_ns <= record.start_ns {
            continue;
        }
        let part = match record.kind {
            Kind::Copy | Kind::Fill => PathPart::Copy,
            Kind::Wait => PathPart::Sync,
            _ => PathPart::Gpu,
        };
        for (part, start_ns, end_ns) in
            [(PathPart::Launch, at_ns, record.start_ns), (part, record.start_ns, record.end_ns)]
        {
            if start_ns < end_ns {
                let (lane, record) = (Some(record.lane), Some(number));
                path.push(Stretch { part, start_ns, end_ns, lane, record });
            }
        }
        at_ns = record.end_ns;
    }
    path
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}
