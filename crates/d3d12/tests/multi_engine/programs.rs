//! The programs and scenarios of the multi-engine document, run from their workload files through
//! queues, kernel, driver and GPU in every submission model. The order of the work is read from the
//! records of the run.

use std::path::Path;
use tidegate::run_workload;
use tidegate::runner::report::Report;
use tidegate::trace::{Kind, Record, Trace};
use tidegate::workload::load_bytes;
use tidegate_testbed::prelude::*;

/// A run, and what its timeline has of each queue.
struct Run {
    report: Report,
    trace: Trace,
}

/// Runs a workload file in one model, with parts of its text replaced.
fn run(file: &str, submission: Submission, changes: &[(&str, &str)]) -> Run {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads").join(file);
    let mut text = std::fs::read_to_string(path).unwrap();
    for (from, to) in changes {
        assert!(text.contains(from), "{file} has no '{from}'");
        text = text.replace(from, to);
    }
    let loaded = load_bytes(text.as_bytes(), file, &LoadOptions::default());
    let workload = Arc::new(loaded.unwrap_or_else(|error| panic!("{error}")).0);
    let submission = Some(submission);
    let request =
        RunRequest { submission, tracing: true, ..RunRequest::new(workload, Clock::Virtual) };
    let result = run_workload(&request).unwrap();
    Run { report: result.outcome.report, trace: result.trace.expect("a timeline") }
}

impl Run {
    /// The same, which came out as its file expects.
    fn right(self) -> Run {
        let report = &self.report;
        assert!(report.is_right(), "under {}: {:?}", report.submission, report.problem_lines());
        self
    }

    /// Asserts that all of `first` ends before any of `second` begins.
    fn in_order(&self, first: &[Record], second: &[Record], what: &str) {
        assert!(end_ns(first) <= start_ns(second), "{}: {what}", self.report.submission);
    }

    /// The calls that submitted work to a queue.
    fn calls(&self, queue: &str) -> Vec<Record> {
        let is_call = |r: &&Record| r.kind == Kind::Submit && r.fence().is_none();
        let calls = self.trace.records.iter().filter(is_call);
        calls.filter(|r| self.is_queue(r.queue().unwrap(), queue)).copied().collect()
    }

    fn is_queue(&self, lane: tidegate::trace::LaneId, queue: &str) -> bool {
        let lane = &self.trace.lanes[lane.0 as usize];
        lane.kind == LaneKind::Queue && lane.name == queue
    }

    /// What engines executed for a queue, in order of its start.
    fn work(&self, queue: &str) -> Vec<Record> {
        let of_queue = |r: &&Record| {
            let engine = self.trace.lanes[r.lane.0 as usize].kind == LaneKind::Engine;
            engine && r.kind.is_work() && r.queue().is_some_and(|lane| self.is_queue(lane, queue))
        };
        self.trace.records.iter().filter(of_queue).copied().collect()
    }

    /// The part of it whose name contains `name`.
    fn named(&self, queue: &str, name: &str) -> Vec<Record> {
        self.work(queue).into_iter().filter(|r| self.trace.name_of(r).contains(name)).collect()
    }

    /// The waits or signals of a queue on one fence, with their values.
    fn operations(&self, queue: &str, kind: Kind, fence: &str) -> Vec<(u64, Record)> {
        let on_fence = |r: &Record| {
            let (named, value) = r.fence()?;
            (self.trace.fences[named.0 as usize].name == fence).then_some((value, *r))
        };
        let all =
            self.trace.records.iter().filter(|r| r.kind == kind && self.is_queue(r.lane, queue));
        all.filter_map(on_fence).collect()
    }

    /// When a queue had signalled a fence with this value.
    fn signalled_ns(&self, queue: &str, fence: &str, value: u64) -> u64 {
        let signals = self.operations(queue, Kind::Signal, fence);
        let signal = signals.iter().find(|(signalled, _)| *signalled == value);
        signal.unwrap_or_else(|| panic!("'{queue}' never signalled {fence} with {value}")).1.end_ns
    }
}

fn start_ns(work: &[Record]) -> u64 {
    work.iter().map(|r| r.start_ns).min().expect("there was some work")
}

fn end_ns(work: &[Record]) -> u64 {
    work.iter().map(|r| r.end_ns).max().expect("there was some work")
}

/// How many commands the work is: a preempted one has a record for each stretch, and all of them
/// have the first start.
fn commands(work: &[Record]) -> usize {
    let starts: BTreeSet<u64> = work.iter().map(|r| r.queued_ns).collect();
    starts.len()
}

fn overlap(one: &Record, other: &Record) -> bool {
    one.start_ns < other.end_ns && other.start_ns < one.end_ns
}

/// Whether some work of one list ran beside some of the other.
fn overlaps(one: &[Record], other: &[Record]) -> bool {
    one.iter().any(|a| other.iter().any(|b| overlap(a, b)))
}

// spec: ME-005
#[test]
fn the_frame_graph_runs_in_its_order_and_no_stricter() {
    // Once the textures take longest, once the lighting does: each of the four waits counts.
    for slow in
        ["{ signal = \"copy_fence\", value = 102 }", "{ signal = \"compute_fence\", value = 301 }"]
    {
        let slowed = format!("{{ work_us = 9000, label = \"slow tex\" }},\n    {slow}");
        let changes =
            [(slow, &slowed[..]), ("width = 1600", "width = 160"), ("height = 900", "height = 90")];
        for submission in Submission::ALL {
            let run = run("frame-graph.toml", submission, &changes);
            let which = format!("{submission} with {slow} late");
            assert!(run.report.completed, "{which}");
            let copies = run.work("copy");
            let (textures, geometry): (Vec<_>, Vec<_>) =
                copies.iter().partition(|r| run.trace.name_of(r).contains("tex"));
            let rendered = run.work("render");
            let sky =
                rendered.iter().position(|r| run.trace.name_of(r) == "image_gradient").unwrap();
            let (pre_pass, last) = rendered.split_at(sky);
            let lighting = run.work("compute");
            let counts = (commands(&geometry), commands(&textures) + commands(&lighting));
            assert_eq!(counts, (8, 6), "{which}");
            for (first, second, what) in [
                (&geometry[..], pre_pass, "pre-pass before its geometry"),
                (pre_pass, &lighting, "lighting before the pre-pass"),
                (&lighting, last, "final draw before the lighting"),
                (&textures, last, "final draw before its textures"),
            ] {
                run.in_order(first, second, &format!("{what}, {slow} late"));
            }
            assert!(overlaps(&textures, pre_pass), "{which}: textures beside the pre-pass");
        }
    }
}

/// Copy and commands of each frame of the ring buffer.
fn ring_frames(run: &Run) -> (Vec<Record>, Vec<Vec<Record>>) {
    let copies: Vec<Record> =
        run.work("copy").into_iter().filter(|r| r.kind == Kind::Copy).collect();
    let drawn: Vec<Record> =
        run.work("render").into_iter().filter(|r| run.trace.name_of(r) != "before all").collect();
    (copies, drawn.chunks(4).map(<[Record]>::to_vec).collect())
}

// spec: ME-006
#[test]
fn a_ring_of_any_length_holds_copy_and_renderer_to_each_other() {
    for length in [1, 2, 3, 5, 24] {
        for submission in Submission::ALL {
            let which = format!("length {length} under {submission}");
            let text = format!("length = {length}");
            let run = run("ring-buffer.toml", submission, &[("length = 3", &text)]);
            let (copies, frames) = ring_frames(&run);
            assert_eq!((copies.len(), frames.len()), (24, 24), "{which}");
            for (i, (copy, frame)) in copies.iter().zip(&frames).enumerate() {
                assert!(copy.end_ns <= start_ns(frame), "{which}: frame {i} before its copy");
                let free_ns = i.checked_sub(length).map_or(0, |before| end_ns(&frames[before]));
                assert!(free_ns <= copy.start_ns, "{which}: copy {i} into a slot in use");
            }
            // No stricter: a copy runs ahead of the frame before its own where the ring has room.
            assert_eq!(length > 1, overlaps(&copies, &frames.concat()), "{which}");
        }
    }
}

// spec: ME-007
#[test]
fn a_ring_of_three_shows_the_sequence_of_the_document() {
    // The renderer comes late, so that the ring fills up; then the copies are slower than the
    // draws, so that it runs dry.
    let late = "program = [\n    { work_us = 2000, label = \"before all\" },\n    { loop = \"i\", from = 1, to = \"frames\", do = [\n        { wait = \"fence2\"";
    let changes = [
        (
            "program = [\n    { loop = \"i\", from = 1, to = \"frames\", do = [\n        { wait = \"fence2\"",
            late,
        ),
        (
            "        { copy = \"data\"",
            "        { work_us = 300, label = \"slow\" },\n        { copy = \"data\"",
        ),
    ];
    for submission in Submission::ALL {
        let run = run("ring-buffer.toml", submission, &changes);
        let (copies, frames) = ring_frames(&run);
        // Three fills, and the copy queue has waited for nothing; then it waits for the first draw.
        let [(first_value, first), ..] = run.operations("copy", Kind::Wait, "fence1")[..] else {
            panic!("{submission}: the copy queue never waited")
        };
        assert_eq!(first_value, 1);
        let draw_ns = start_ns(&frames[0]);
        assert!(copies[2].end_ns <= first.start_ns.min(draw_ns), "{submission}");
        assert!(run.signalled_ns("copy", "fence2", 3) <= first.start_ns, "{submission}");
        assert!(first.start_ns < draw_ns, "{submission}: it waits before the first draw");
        assert!(run.signalled_ns("render", "fence1", 1) <= first.end_ns, "{submission}");
        assert!(first.end_ns <= copies[3].start_ns, "{submission}");
        // The renderer passes its waits for the three fills, draws three times, and waits for the
        // fourth.
        let waits = run.operations("render", Kind::Wait, "fence2");
        let stood = |value: u64| {
            let of_value = waits.iter().find(|(waited, _)| *waited == value);
            of_value.unwrap_or_else(|| panic!("{submission}: no wait for {value}")).1
        };
        let at_once = [2, 3].map(stood).iter().all(|r| r.duration_ns() < 10_000);
        assert!(at_once, "{submission}: it had to wait");
        let fourth = stood(4);
        let waited = end_ns(&frames[2]) <= fourth.start_ns && fourth.duration_ns() > 50_000;
        assert!(waited, "{submission}");
        assert!(run.signalled_ns("copy", "fence2", 4) <= stood(4).end_ns, "{submission}");
    }
}

// spec: ME-057, ME-059
#[test]
fn the_pipeline_keeps_its_order_with_one_copy_more_than_its_latency() {
    const LATENCY: usize = 2;
    // Once as it stands, and once with graphics so slow that compute has to wait for it.
    for changes in [&[][..], &[("work_us = 70", "work_us = 400")]] {
        for submission in Submission::ALL {
            let run = run("pipelined-compute-graphics.toml", submission, changes);
            let computed: Vec<Vec<Record>> =
                run.work("compute").chunks(2).map(<[Record]>::to_vec).collect();
            let drawn: Vec<Vec<Record>> =
                run.work("graphics").chunks(2).map(<[Record]>::to_vec).collect();
            assert_eq!((computed.len(), drawn.len()), (20, 20 - LATENCY), "{submission}");
            for (frame, graphics) in drawn.iter().enumerate() {
                run.in_order(&computed[frame], graphics, &format!("graphics {frame}"));
                let Some(next) = computed.get(frame + LATENCY + 1) else { continue };
                run.in_order(graphics, next, &format!("data of {frame} written over"));
            }
            assert!(overlaps(&computed.concat(), &drawn.concat()), "{submission}: a pipeline");
            if changes.is_empty() {
                run.right();
            }
        }
    }
}

// spec: ME-058
#[test]
fn the_pipeline_holds_its_thread_to_the_latency_of_the_cpu() {
    const LATENCY: u64 = 3;
    for submission in Submission::ALL {
        let run = run("pipelined-compute-graphics.toml", submission, &[]).right();
        let calls = run.calls("compute");
        assert_eq!(calls.len(), 20, "{submission}");
        for (complete, call) in (1..).zip(&calls[LATENCY as usize + 1..]) {
            let complete_ns = run.signalled_ns("compute", "compute_fence", complete);
            assert!(complete_ns <= call.start_ns, "{submission}: {complete} was not complete");
        }
    }
}

/// Which compute result each graphics frame of the asynchronous program read, and when its call was
/// made and its work done.
fn newest_results(run: &Run) -> Vec<(u64, u64, Vec<Record>)> {
    let released = run.operations("graphics", Kind::Signal, "graphics_compute_fence");
    let frames: Vec<Vec<Record>> = run.work("graphics").chunks(3).map(<[Record]>::to_vec).collect();
    // The last signal releases all buffers at the end of the program.
    assert_eq!(released.len(), frames.len() + 1);
    released
        .iter()
        .zip(frames)
        .map(|((value, signal), frame)| (value + 1, signal.queued_ns, frame))
        .collect()
}

// spec: ME-060, ME-061, ME-063
#[test]
fn asynchronous_graphics_waits_once_and_uses_the_newest_result_that_is_known() {
    /// Between the thread's read of the fence and its next call, at most.
    const READ_NS: u64 = 20_000;
    for submission in Submission::ALL {
        let run = run("async-compute-graphics.toml", submission, &[]).right();
        let waits = run.operations("graphics", Kind::Wait, "compute_fence");
        let others = run
            .trace
            .records
            .iter()
            .filter(|r| r.kind == Kind::Wait && run.is_queue(r.lane, "graphics"));
        assert_eq!((waits.len(), waits[0].0, others.count()), (1, 1, 1), "{submission}");
        let frames = newest_results(&run);
        let first_ns = run.signalled_ns("compute", "compute_fence", 1);
        assert!(first_ns <= start_ns(&frames[0].2), "{submission}");
        let signals = run.operations("compute", Kind::Signal, "compute_fence");
        let complete =
            |at_ns: u64| signals.iter().filter(|(_, r)| r.end_ns <= at_ns).map(|(v, _)| *v).max();
        for (newest, call_ns, _) in &frames {
            let (least, most) = (complete(call_ns.saturating_sub(READ_NS)), complete(*call_ns));
            let known = least.unwrap_or(1)..=most.unwrap_or(1);
            assert!(known.contains(newest), "{submission}: {newest}, not {known:?}, at {call_ns}");
        }
        let used: Vec<u64> = frames.iter().map(|(newest, ..)| *newest).collect();
        assert!(used.first() == Some(&1) && used.last() > Some(&2), "{submission}: {used:?}");
    }
}

// spec: ME-062
#[test]
fn asynchronous_compute_writes_no_buffer_that_graphics_still_reads() {
    // Graphics so slow that compute would be through with both buffers before one frame ends.
    for changes in [
        &[][..],
        &[(
            "work_us = 40, label = \"graphics frame\"",
            "work_us = 700, label = \"graphics frame\"",
        )],
    ] {
        for submission in Submission::ALL {
            let run = run("async-compute-graphics.toml", submission, changes);
            assert!(run.report.completed, "{submission}");
            let writes = run.named("compute", "fill_pattern");
            for (newest, _, frame) in newest_results(&run) {
                let mut reads = frame[0];
                (reads.start_ns, reads.end_ns) = (start_ns(&frame), end_ns(&frame));
                for (result, write) in (1..).zip(&writes) {
                    let same_buffer = result != newest && result % 2 == newest % 2;
                    let written_over = same_buffer && overlap(write, &reads);
                    assert!(!written_over, "{submission}: {result} over {newest}, which is read");
                }
            }
            run.right();
        }
    }
}

// spec: ME-009
#[test]
fn urgent_compute_interrupts_a_frame_and_its_result_is_early() {
    for submission in [Submission::Hardware, Submission::User] {
        let run = run("high-priority-compute.toml", submission, &[]).right();
        let (frames, urgent) = (run.work("render"), run.work("urgent"));
        assert_eq!(urgent.len(), 4, "{submission}");
        // A stretch of a frame that began before the urgent work and goes on behind it.
        for work in &urgent {
            let goes_on = |r: &Record| r.queued_ns < work.start_ns && work.end_ns <= r.start_ns;
            let at_ns = work.start_ns;
            assert!(frames.iter().any(goes_on), "{submission}: urgent work at {at_ns} ns");
        }
        let answered_ns = run.signalled_ns("urgent", "answered", 1);
        assert!(answered_ns < run.signalled_ns("render", "rendered", 1), "{submission}");
    }
}

// spec: ME-010
#[test]
fn background_work_takes_what_is_left_and_delays_no_frame_by_more_than_a_piece() {
    const PIECE_NS: u64 = 150_000;
    for submission in Submission::ALL {
        let run = run("background-compute.toml", submission, &[]).right();
        let (frames, pieces) =
            (run.named("render", "frame"), run.named("background", "decompression"));
        let submitted = run.operations("render", Kind::Signal, "rendered");
        assert_eq!(submitted.len(), 10, "{submission}");
        for (value, signal) in &submitted {
            let took_ns = signal.end_ns - signal.queued_ns;
            let most_ns = 600_000 + PIECE_NS + 60_000;
            assert!(took_ns <= most_ns, "{submission}: frame {value} took {took_ns} ns");
        }
        assert!(!overlaps(&frames, &pieces), "{submission}: one engine");
        let between = pieces.iter().filter(|p| p.start_ns < end_ns(&frames)).count();
        assert!(between >= 12, "{submission}: {between} pieces while frames were drawn");
    }
}

// spec: ME-012
#[test]
fn uploads_stream_through_a_buffer_of_the_applications_size_while_frames_are_drawn() {
    for submission in Submission::ALL {
        let run = run("streaming-upload.toml", submission, &[]).right();
        let copies = run.named("copy", "copy staging");
        let calls = run.calls("copy");
        assert_eq!((copies.len(), calls.len()), (32, 32), "{submission}");
        // The application blocks when its four slots are on their way, and only then.
        for (tile, call) in calls.iter().enumerate().skip(4) {
            let free_ns = run.signalled_ns("copy", "uploaded", tile as u64 - 3);
            assert!(free_ns <= call.start_ns, "{submission}: tile {tile}");
        }
        let begun_ns = copies[0].end_ns + 100_000;
        assert!(calls[3].start_ns < begun_ns, "{submission}: four without a wait");
        let frames = run.named("render", "frame");
        assert!(overlaps(&copies, &frames), "{submission}: in the background");
    }
}

// spec: ME-013
#[test]
fn a_deep_queue_in_the_background_holds_no_frame_up() {
    for submission in Submission::ALL {
        let run = run("decode-deep-queues.toml", submission, &[]).right();
        let (decoded, frames) =
            (run.named("decode", "decode"), run.named("interface", "interface"));
        assert_eq!((decoded.len(), frames.len()), (48, 20), "{submission}");
        let queued = run.trace.records.iter().filter(|r| r.kind == Kind::Execute);
        let queued: Vec<&Record> = queued.filter(|r| run.is_queue(r.lane, "decode")).collect();
        let calls = run.calls("interface");
        for (call, frame) in calls.iter().zip(&frames) {
            let waited_ns = frame.start_ns - call.start_ns;
            assert!(waited_ns <= 20_000, "{submission}: {waited_ns} ns");
        }
        let first_ns = calls[0].start_ns;
        let pending = queued.iter().filter(|r| r.queued_ns <= first_ns && r.end_ns > first_ns);
        assert!(pending.count() >= 40, "{submission}: beside a deep queue");
    }
}

// spec: ME-051
#[test]
fn a_wait_that_can_never_be_met_is_reported_with_its_chain() {
    for submission in Submission::ALL {
        let run = run("bad/deadlock.toml", submission, &[]);
        assert!(!run.report.completed, "{submission}");
        let [said] = &run.report.problems[..] else {
            panic!("{submission}: {:?}", run.report.problems)
        };
        for part in
            ["deadlock", "'left'", "'right'", "'left_done'", "'right_done'", "break the circle"]
        {
            assert!(said.contains(part), "{submission}: no {part} in:\n{said}");
        }
    }
}
