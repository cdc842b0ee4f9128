//! Programs of queues, fences and threads, and the pairs that must or must not be found.

use std::ops::Range;
use tidegate_hazard::{
    AccessKind, Checker, CommandRef, FenceFault, FenceKey, Hazard, Hint, ListInfo, QueueKey,
    Report, SpaceKey, TimelineId, TimelineKind,
};

const SPACE: SpaceKey = SpaceKey(1);
const DATA: Range<u64> = 0x1000..0x2000;

struct Program {
    checker: Checker,
    main: TimelineId,
    links: u32,
}

impl Program {
    fn new() -> Program {
        let mut checker = Checker::new();
        let main = checker.thread(1, true, || "main".into());
        checker.add_resource(SPACE, DATA, "data".into());
        Program { checker, main, links: 0 }
    }

    fn queue(&mut self, name: &str) -> QueueKey {
        self.checker.add_queue(name.into(), SPACE)
    }

    fn fence(&mut self, name: &str) -> FenceKey {
        self.checker.add_fence(name.into(), 0)
    }

    fn thread(&mut self, number: u64) -> TimelineId {
        self.checker.thread(number, true, || format!("thread {number}"))
    }

    /// Submits a list of one command and returns its link.
    fn execute(&mut self, queue: QueueKey) -> u32 {
        self.links += 1;
        let list = ListInfo { gpu_va: u64::from(self.links) << 32, label: None, commands: 1 };
        self.checker.execute(self.main, queue, self.links, vec![list]);
        self.links
    }

    /// Makes calls of one queue, in order.
    fn on(&mut self, queue: QueueKey) -> Calls<'_> {
        Calls { link: 0, program: self, queue }
    }

    fn runs(&mut self, link: u32, kind: AccessKind, bytes: Range<u64>) -> &mut Program {
        let buffer = u64::from(link) << 32;
        let command = CommandRef { link, buffer, number: 1, what: "copy", program: "" };
        self.checker.gpu_accesses(command, [(kind, bytes)]);
        self
    }

    fn writes(&mut self, link: u32, bytes: Range<u64>) -> &mut Program {
        self.runs(link, AccessKind::Write, bytes)
    }

    fn reads(&mut self, link: u32, bytes: Range<u64>) -> &mut Program {
        self.runs(link, AccessKind::Read, bytes)
    }

    fn wait(&mut self, queue: QueueKey, fence: FenceKey, value: u64) {
        self.checker.queue_wait(self.main, queue, fence, value);
    }

    fn signal(&mut self, queue: QueueKey, fence: FenceKey, value: u64) {
        self.checker.queue_signal(self.main, queue, fence, value);
    }

    fn report(&mut self) -> Report {
        self.checker.report()
    }

    fn is_clean(&mut self) -> bool {
        self.report().is_clean()
    }

    fn only(&mut self) -> Hazard {
        let report = self.report();
        assert_eq!(report.hazards.len(), 1, "{report}");
        report.hazards[0].clone()
    }
}

/// Calls of one queue.
struct Calls<'a> {
    program: &'a mut Program,
    queue: QueueKey,
    /// The link of its last list.
    link: u32,
}

impl Calls<'_> {
    fn wait(self, fence: FenceKey, value: u64) -> Self {
        self.program.wait(self.queue, fence, value);
        self
    }

    fn signal(self, fence: FenceKey, value: u64) -> Self {
        self.program.signal(self.queue, fence, value);
        self
    }

    fn execute(self) -> Self {
        let link = self.program.execute(self.queue);
        Calls { link, ..self }
    }
}

fn order(hazard: &Hazard) -> [&str; 2] {
    [&hazard.first.timeline, &hazard.second.timeline]
}

// spec: ME-071, ME-072, ME-073, ME-074
#[test]
fn a_write_and_a_read_of_two_queues_need_a_fence_between_them() {
    for fenced in [true, false] {
        let mut p = Program::new();
        let (copy, render, fence) = (p.queue("copy"), p.queue("render"), p.fence("copied"));
        let write = p.on(copy).execute().signal(fence, 1).link;
        if fenced {
            p.wait(render, fence, 1);
        }
        let read = p.execute(render);
        p.writes(write, 0x1000..0x1800).reads(read, 0x1400..0x2000);
        if fenced {
            assert!(p.is_clean());
            continue;
        }
        let hazard = p.only();
        assert_eq!(order(&hazard), ["copy", "render"]);
        assert_eq!(
            (hazard.resource.as_deref(), hazard.bytes.clone()),
            (Some("data"), 0x400..0x800)
        );
        assert_eq!(
            hazard.to_string(),
            "bytes 1024..2048 of 'data' are accessed without a path of waits and signals:\n  \
             queue 'copy' writes in submission 1, command 1 (copy)\n  \
             queue 'render' reads in submission 1, command 1 (copy)\n  \
             missing: wait for value 1 of fence 'copied' on queue 'render' before submission 1; \
             queue 'copy' signals it after submission 1"
        );
    }
}

// spec: ME-072
#[test]
fn reads_of_several_queues_and_disjoint_bytes_are_no_hazard() {
    let mut p = Program::new();
    let queues = ["a", "b", "c"].map(|name| p.queue(name));
    for (number, queue) in (0u64..).zip(queues) {
        let link = p.execute(queue);
        p.reads(link, 0x1000..0x1400).writes(link, 0x1400 + number..0x1400 + number + 1);
        p.runs(link, AccessKind::Atomic, 0x1800..0x1804);
    }
    assert!(p.is_clean(), "{}", p.report());
}

#[test]
fn the_order_of_the_run_does_not_matter() {
    for reversed in [false, true] {
        let mut p = Program::new();
        let (a, b, fence) = (p.queue("a"), p.queue("b"), p.fence("f"));
        let one = p.execute(a);
        let other = p.execute(b);
        p.signal(a, fence, 1);
        let links = if reversed { [other, one] } else { [one, other] };
        p.writes(links[0], DATA).writes(links[1], DATA);
        assert_eq!(order(&p.only()), ["a", "b"], "in the order of the calls");
    }
}

#[test]
fn a_wait_before_its_signal_is_an_edge() {
    let mut p = Program::new();
    let (copy, render, fence) = (p.queue("copy"), p.queue("render"), p.fence("copied"));
    let read = p.on(render).wait(fence, 1).execute().link;
    let write = p.on(copy).execute().signal(fence, 1).link;
    p.writes(write, DATA).reads(read, DATA);
    assert!(p.is_clean(), "{}", p.report());
}

#[test]
fn a_later_value_of_the_run_is_no_edge_of_the_program() {
    // The wait for 1 may pass before the second write, regardless of the value seen in this run.
    let mut p = Program::new();
    let (copy, render, fence) = (p.queue("copy"), p.queue("render"), p.fence("copied"));
    let first = p.on(copy).execute().signal(fence, 1).link;
    let second = p.on(copy).execute().signal(fence, 2).link;
    let read = p.on(render).wait(fence, 1).execute().link;
    p.writes(first, 0x1000..0x1800).writes(second, 0x1800..0x2000).reads(read, DATA);
    assert_eq!(p.only().bytes, 0x800..0x1000);
}

#[test]
fn a_ring_of_slots_reused_after_its_reader_is_clean_and_names_the_reuse_without_it() {
    for fenced in [true, false] {
        let mut p = Program::new();
        let (copy, render) = (p.queue("copy"), p.queue("render"));
        let (copied, drawn) = (p.fence("copied"), p.fence("drawn"));
        // The copies are submitted first, as by a separate thread.
        let mut links = Vec::new();
        for frame in 1..=12u64 {
            if frame > 3 && fenced {
                p.wait(copy, drawn, frame - 3);
            }
            links.push(p.execute(copy));
            p.signal(copy, copied, frame);
        }
        let mut reads = Vec::new();
        for frame in 1..=12u64 {
            p.wait(render, copied, frame);
            reads.push(p.execute(render));
            p.signal(render, drawn, frame);
        }
        let slot = |frame: usize| {
            let start = 0x1000 + (frame as u64 % 3) * 0x100;
            start..start + 0x100
        };
        for (frame, link) in links.iter().enumerate() {
            p.writes(*link, slot(frame));
        }
        for (frame, link) in reads.iter().enumerate() {
            p.reads(*link, slot(frame));
        }
        if fenced {
            assert!(p.is_clean(), "{}", p.report());
        } else {
            assert_eq!(order(&p.only()), ["render", "copy"], "{}", p.report());
        }
    }
}

// A counter that the CPU has read proves that memory is free (validation layers' #7457).
#[test]
fn a_completed_value_that_the_cpu_has_read_is_an_edge() {
    for read in [Some(1), Some(0), None] {
        let mut p = Program::new();
        let (a, b, fence) = (p.queue("a"), p.queue("b"), p.fence("timeline"));
        let first = p.on(a).execute().signal(fence, 1).link;
        if let Some(value) = read {
            p.checker.cpu_read(p.main, fence, value);
        }
        let second = p.execute(b);
        p.writes(first, DATA).writes(second, DATA);
        assert_eq!(p.is_clean(), read == Some(1), "{}", p.report());
    }
}

#[test]
fn what_the_cpu_reads_and_writes_counts() {
    let mut p = Program::new();
    let (queue, fence) = (p.queue("copy"), p.fence("done"));
    p.checker.cpu_access(p.main, SPACE, AccessKind::Write, DATA, "map-write");
    let link = p.on(queue).execute().signal(fence, 1).link;
    p.writes(link, DATA);
    assert!(p.is_clean(), "the write precedes the call");
    p.checker.cpu_access(p.main, SPACE, AccessKind::Read, 0x1000..0x1004, "map-read");
    let hazard = p.only();
    assert_eq!(hazard.second.kind, TimelineKind::Thread);
    assert_eq!(
        hazard.missing_edge(),
        "wait for value 1 of fence 'done' on thread 'main' before the map-read; queue 'copy' signals \
         it after submission 1"
    );
    let mut p = Program::new();
    let (queue, fence) = (p.queue("copy"), p.fence("done"));
    let link = p.on(queue).execute().signal(fence, 1).link;
    p.checker.cpu_wait(p.main, fence, 1);
    p.checker.cpu_access(p.main, SPACE, AccessKind::Read, DATA, "map-read");
    p.writes(link, DATA);
    assert!(p.is_clean(), "recorded late, and still ordered: {}", p.report());
}

// Threads that pass work to each other by fences (validation layers' #7250).
#[test]
fn threads_are_ordered_by_fences_and_by_joins_alone() {
    for ordered in [true, false] {
        let mut p = Program::new();
        let (left, right) = (p.thread(2), p.thread(3));
        let fence = p.fence("handed over");
        for turn in 0..6u64 {
            let thread = if turn % 2 == 0 { left } else { right };
            if ordered {
                p.checker.cpu_wait(thread, fence, turn);
            }
            p.checker.cpu_access(thread, SPACE, AccessKind::Write, DATA, "map-write");
            p.checker.cpu_signal(thread, fence, turn + 1);
        }
        assert_eq!(p.is_clean(), ordered, "{}", p.report());
        let ended = p.checker.release(left);
        p.checker.acquire(p.main, &ended);
        if ordered {
            p.checker.cpu_access(p.main, SPACE, AccessKind::Read, DATA, "map-read");
            assert!(!p.is_clean(), "the last write was the other thread's");
        }
    }
}

#[test]
fn threads_of_unknown_synchronisation_are_ordered_as_they_call() {
    let mut p = Program::new();
    let foreign = p.checker.thread(9, false, || "pool".into());
    p.checker.cpu_access(foreign, SPACE, AccessKind::Write, DATA, "map-write");
    let queue = p.queue("copy");
    let foreign = p.checker.thread(9, false, || unreachable!());
    p.checker.execute(foreign, queue, 1, Vec::new());
    p.main = p.checker.thread(1, true, || unreachable!());
    p.checker.cpu_access(p.main, SPACE, AccessKind::Read, DATA, "map-read");
    assert!(p.is_clean(), "{}", p.report());
    p.writes(1, DATA);
    assert!(!p.is_clean(), "the queue is ordered by its fences alone");
}

#[test]
fn accesses_of_threads_of_unknown_synchronisation_are_ordered_as_they_were_made() {
    // Each thread hands the memory over by a means that the checker does not see, and makes no
    // other call before.
    for exact in [[false, false], [true, false], [false, true]] {
        let mut p = Program::new();
        let [writer, reader] = [(7, exact[0]), (8, exact[1])]
            .map(|(number, exact)| p.checker.thread(number, exact, String::new));
        p.checker.cpu_access(writer, SPACE, AccessKind::Write, DATA, "map-write");
        assert_eq!(p.checker.thread(8, exact[1], String::new), reader);
        p.checker.cpu_access(reader, SPACE, AccessKind::Read, DATA, "map-read");
        assert_eq!(p.checker.thread(7, exact[0], String::new), writer);
        p.checker.cpu_access(writer, SPACE, AccessKind::Write, DATA, "map-write");
        assert!(p.is_clean(), "{exact:?}: {}", p.report());
    }
}

#[test]
fn a_thread_that_may_have_been_handed_memory_follows_all_threads() {
    for acquires in [true, false] {
        let mut p = Program::new();
        let [writer, reader] = [7, 8].map(|number| p.thread(number));
        p.checker.cpu_access(writer, SPACE, AccessKind::Write, DATA, "map-write");
        if acquires {
            p.checker.acquire_from_all(reader);
        }
        p.checker.cpu_access(reader, SPACE, AccessKind::Read, DATA, "map-read");
        assert_eq!(p.is_clean(), acquires, "{}", p.report());
        // What the writer does later is not covered.
        p.checker.cpu_access(writer, SPACE, AccessKind::Write, DATA, "map-write");
        assert!(!p.is_clean());
    }
}

// Two reserved buffers over one tile of a heap, and a placed buffer there.
// spec: ME-071
#[test]
fn memory_is_compared_where_it_lies() {
    const ONE: Range<u64> = 0x10_0000..0x13_0000;
    const OTHER: Range<u64> = 0x20_0000..0x23_0000;
    const HEAP: u64 = 0x80_0000;
    let new = || {
        let mut p = Program::new();
        p.checker.add_resource(SPACE, ONE, "one".into());
        p.checker.add_resource(SPACE, OTHER, "other".into());
        let (copy, compute) = (p.queue("copy"), p.queue("compute"));
        // The third tile of the one, and the first of the other.
        let third = vec![(0x12_0000..0x13_0000, Some(HEAP))];
        p.checker.map_tiles(p.main, copy, third);
        p.checker.map_tiles(p.main, compute, vec![(0x20_0000..0x21_0000, Some(HEAP))]);
        (p, copy, compute)
    };
    let (mut p, copy, compute) = new();
    let (write, read) = (p.execute(copy), p.execute(compute));
    p.writes(write, 0x12_0100..0x12_0200).reads(read, 0x20_0180..0x20_0280);
    let found = p.only();
    assert_eq!(order(&found), ["copy", "compute"]);
    assert_eq!(found.resource.as_deref(), Some("one' and 'other"));
    assert_eq!(found.bytes, 0x2_0180..0x2_0200, "as offsets of the first");

    // The same with the edge, and with other bytes of the tile.
    let (mut p, copy, compute) = new();
    let done = p.fence("done");
    let write = p.execute(copy);
    let beside = p.execute(compute);
    p.signal(copy, done, 1);
    let read = p.on(compute).wait(done, 1).execute().link;
    p.writes(write, 0x12_0100..0x12_0200).reads(beside, 0x20_0200..0x20_0280);
    p.reads(read, 0x20_0180..0x20_0280);
    assert!(p.is_clean(), "{}", p.report());

    // The same addresses over other memory, mapped later in the queue's order.
    let (mut p, copy, compute) = new();
    let write = p.execute(copy);
    p.checker.map_tiles(p.main, compute, vec![(0x20_0000..0x21_0000, Some(HEAP + 0x1_0000))]);
    let read = p.execute(compute);
    p.writes(write, 0x12_0100..0x12_0200).reads(read, 0x20_0180..0x20_0280);
    assert!(p.is_clean(), "{}", p.report());

    // A placed buffer of the heap.
    let (mut p, copy, compute) = new();
    p.checker.add_resource(SPACE, HEAP..HEAP + 0x1_0000, "placed".into());
    let (write, read) = (p.execute(copy), p.execute(compute));
    p.writes(write, HEAP..HEAP + 16).reads(read, 0x20_0000..0x20_0010);
    assert_eq!(p.only().resource.as_deref(), Some("placed' and 'one' and 'other"));

    // Addresses that are freed and reserved again have no memory.
    let (mut p, copy, compute) = new();
    p.checker.free_memory(SPACE, OTHER);
    let (write, read) = (p.execute(copy), p.execute(compute));
    p.writes(write, 0x12_0100..0x12_0200).reads(read, 0x20_0180..0x20_0280);
    assert!(p.is_clean(), "{}", p.report());
}

#[test]
fn presents_free_a_buffer_one_present_later() {
    for early in [false, true] {
        let mut p = Program::new();
        let (render, shown) = (p.queue("render"), p.fence("shown"));
        let display = p.checker.add_display("chain".into(), SPACE);
        let buffer = |n: u64| 0x1000 + n % 2 * 0x800..0x1800 + n % 2 * 0x800;
        let mut links = Vec::new();
        for frame in 0..6u64 {
            if frame >= 2 {
                // The buffer of frame - 2 is free when the next present is shown.
                p.wait(render, shown, if early { frame - 1 } else { frame });
            }
            links.push(p.execute(render));
            p.checker.present(p.main, render, display, shown, frame + 1, buffer(frame));
        }
        for (frame, link) in (0..).zip(links) {
            p.writes(link, buffer(frame));
        }
        assert_eq!(p.is_clean(), !early, "{}", p.report());
    }
}

// Two resources in one memory (no "aliased memory of different kinds" in the layers).
#[test]
fn aliased_resources_conflict_by_their_bytes_and_both_are_named() {
    let mut p = Program::new();
    p.checker.add_resource(SPACE, 0x1800..0x2800, "texture".into());
    let (a, b) = (p.queue("a"), p.queue("b"));
    let (one, other) = (p.execute(a), p.execute(b));
    p.writes(one, 0x1000..0x2000).writes(other, 0x1800..0x2800);
    assert_eq!(p.only().resource.as_deref(), Some("data' and 'texture"));
}

#[test]
fn freed_memory_has_no_history() {
    let mut p = Program::new();
    let key = p.checker.add_resource(SPACE, 0x8000..0x9000, "old".into());
    let (a, b) = (p.queue("a"), p.queue("b"));
    let (one, other) = (p.execute(a), p.execute(b));
    p.writes(one, 0x8000..0x9000);
    p.checker.remove_resource(key);
    p.checker.free_memory(SPACE, 0x8000..0x9000);
    p.writes(other, 0x8000..0x9000);
    assert!(p.is_clean());
}

// A memory pool: consecutive resources in the same bytes, without an edge between them.
#[test]
fn memory_that_is_used_again_keeps_its_history_and_the_names_of_both() {
    let mut p = Program::new();
    let old = p.checker.add_resource(SPACE, 0x8000..0x9000, "old".into());
    let (a, b) = (p.queue("a"), p.queue("b"));
    let (one, other) = (p.execute(a), p.execute(b));
    p.writes(one, 0x8000..0x9000);
    p.checker.remove_resource(old);
    p.checker.add_resource(SPACE, 0x8000..0x8800, "new".into());
    p.writes(other, 0x8000..0x8800);
    let hazard = p.only();
    assert_eq!((order(&hazard), hazard.bytes.clone()), (["a", "b"], 0..0x800));
    assert_eq!(hazard.resource.as_deref(), Some("new' and 'old"));
}

#[test]
fn one_missing_edge_is_named_once_however_many_pairs_it_leaves_unordered() {
    // copy -> compute -> render, without the first edge; both later queues access the data.
    let mut p = Program::new();
    let queues = ["copy", "compute", "render"].map(|name| p.queue(name));
    let (copied, computed) = (p.fence("copied"), p.fence("computed"));
    let write = p.on(queues[0]).execute().signal(copied, 1).link;
    let compute = p.on(queues[1]).execute().signal(computed, 1).link;
    let render = p.on(queues[2]).wait(computed, 1).execute().link;
    p.writes(write, DATA).reads(compute, DATA).reads(render, DATA);
    let report = p.report();
    assert_eq!(order(&p.only()), ["copy", "compute"]);
    assert_eq!((report.implied.len(), order(&report.implied[0])), (1, ["copy", "render"]));
}

/// Timed work, such as recorded kernels, names no memory. A wait for it still orders something.
#[test]
fn a_wait_for_work_without_accesses_is_not_redundant() {
    let mut p = Program::new();
    let (a, b, fence) = (p.queue("a"), p.queue("b"), p.fence("worked"));
    for value in 1..=3 {
        p.on(a).execute().signal(fence, value);
        p.wait(b, fence, value);
    }
    assert_eq!(p.report().hints, []);
    p.checker.cpu_wait(p.main, fence, 3);
    assert_eq!(p.report().hints, []);
}

#[test]
fn hints_name_redundant_waits_and_two_signallers() {
    let mut p = Program::new();
    let (a, b, fence) = (p.queue("a"), p.queue("b"), p.fence("shared"));
    p.on(a).signal(fence, 1).wait(fence, 1);
    assert_eq!(
        p.report().hints,
        [Hint::RedundantWait {
            waiter: "a".into(),
            fence: "shared".into(),
            value: 1,
            count: 1,
            of: 1
        }]
    );
    p.signal(b, fence, 2);
    let two = Hint::FaultyFence {
        fence: "shared".into(),
        fault: FenceFault::TwoSignallers(["a".into(), "b".into()]),
    };
    assert_eq!(p.report().hints, [two], "no wait for it is called redundant");
}

/// A thread writes what a queue reads, after a wait for the value that the queue signals behind the
/// read.
fn write_after_wait(p: &mut Program, read: u32, fence: FenceKey) -> String {
    p.reads(read, DATA);
    p.checker.cpu_wait(p.main, fence, 1);
    p.checker.cpu_access(p.main, SPACE, AccessKind::Write, DATA, "map-write");
    let report = p.report();
    assert_eq!(report.hints.len(), 1, "the fence and no wait: {:?}", report.hints);
    p.only().missing_edge()
}

#[test]
fn a_wait_that_another_queue_may_end_is_not_called_missing() {
    let mut p = Program::new();
    let (a, b, fence) = (p.queue("A"), p.queue("B"), p.fence("timeline"));
    let read = p.on(a).execute().signal(fence, 1).link;
    p.signal(b, fence, 2);
    assert_eq!(
        write_after_wait(&mut p, read, fence),
        "fence 'timeline' is signalled from 'A' and 'B' without an order, so a wait may be ended by \
         either; use one fence for each timeline; wait on thread 'main' before the map-write for the \
         signal after submission 1"
    );
}

#[test]
fn a_fence_that_falls_is_named_where_a_wait_for_it_orders_nothing() {
    let mut p = Program::new();
    let (queue, fence) = (p.queue("q"), p.fence("index"));
    p.on(queue).execute().signal(fence, 2);
    let read = p.on(queue).execute().signal(fence, 1).link;
    let fault = FenceFault::Falls { timeline: "q".into(), from: 2, to: 1 };
    assert_eq!(
        write_after_wait(&mut p, read, fence),
        "fence 'index' falls from 2 to 1 on 'q', so a wait for 1 may be ended by the signal of 2; \
         signal rising values; wait on thread 'main' before the map-write for the signal after \
         submission 2"
    );
    assert_eq!(p.report().hints, [Hint::FaultyFence { fence: "index".into(), fault }]);
}

#[test]
fn an_idle_queue_is_an_edge_and_an_unknown_signal_is_none() {
    let mut p = Program::new();
    let (queue, fence) = (p.queue("copy"), p.fence("of another process"));
    let link = p.on(queue).wait(fence, 7).execute().link;
    p.writes(link, 0x1000..0x1100);
    p.checker.cpu_wait_idle(p.main, queue);
    p.checker.cpu_access(p.main, SPACE, AccessKind::Read, DATA, "map-read");
    assert!(p.is_clean(), "{}", p.report());
}

#[test]
fn the_table_of_accesses_does_not_grow_with_the_run() {
    let mut p = Program::new();
    let queue = p.queue("copy");
    for _ in 0..300_000u32 {
        let link = p.execute(queue);
        p.writes(link, DATA);
    }
    let other = p.queue("other");
    let link = p.execute(other);
    p.reads(link, DATA);
    assert_eq!(p.only().first.submission, 300_000);
}

#[test]
fn an_event_that_is_armed_gives_what_its_fences_give() {
    let mut p = Program::new();
    let (queue, fence) = (p.queue("copy"), p.fence("done"));
    let links = [1, 2].map(|value| p.on(queue).execute().signal(fence, value).link);
    p.writes(links[0], 0x1000..0x1800).writes(links[1], 0x1800..0x2000);
    // Armed twice before the first wait: the first wait observes the first signal, the second wait
    // the second.
    p.checker.arm_event(7, true, vec![(fence, 1)]);
    p.checker.arm_event(7, true, vec![(fence, 2)]);
    p.checker.event_wait(p.main, 7, false);
    p.checker.cpu_access(p.main, SPACE, AccessKind::Read, 0x1000..0x1800, "map-read");
    assert!(p.is_clean(), "{}", p.report());
    p.checker.event_wait(p.main, 7, false);
    p.checker.cpu_access(p.main, SPACE, AccessKind::Read, DATA, "map-read");
    assert!(p.is_clean(), "{}", p.report());
}

#[test]
fn a_reader_that_lacks_its_wait_is_named_behind_its_producer() {
    // One thread submits frame after frame. The producer's queue waits for the reader of the
    // previous frame; the reader does not wait.
    let mut p = Program::new();
    let (compute, graphics, drawn) = (p.queue("compute"), p.queue("graphics"), p.fence("drawn"));
    let computed = p.fence("computed");
    for frame in 1..=8u64 {
        if frame > 1 {
            p.wait(compute, drawn, frame - 1);
            p.checker.cpu_wait(p.main, computed, frame - 1);
        }
        let write = p.on(compute).execute().signal(computed, frame).link;
        let read = p.on(graphics).execute().signal(drawn, frame).link;
        p.writes(write, DATA).reads(read, DATA);
    }
    assert_eq!(order(&p.only()), ["compute", "graphics"], "{}", p.report());
}

#[test]
fn a_read_without_any_producer_comes_behind_the_write() {
    let mut p = Program::new();
    let (render, compute) = (p.queue("render"), p.queue("compute"));
    let (read, write) = (p.execute(compute), p.execute(render));
    p.reads(read, DATA).writes(write, DATA);
    assert_eq!(order(&p.only()), ["render", "compute"], "{}", p.report());
}

/// A ring of slots: `copy` writes three slots ahead of `render`, and waits for `wait_for(frame)`.
fn ring(wait_for: impl Fn(u64) -> u64) -> Program {
    let mut p = Program::new();
    let (copy, render) = (p.queue("copy"), p.queue("render"));
    let (copied, drawn) = (p.fence("copied"), p.fence("drawn"));
    for frame in 1..=12u64 {
        if frame > 3 {
            p.wait(copy, drawn, wait_for(frame));
        }
        let write = p.on(copy).execute().signal(copied, frame).link;
        let read = p.on(render).wait(copied, frame).execute().signal(drawn, frame).link;
        let slot = 0x1000 + frame % 3 * 0x100..0x1100 + frame % 3 * 0x100;
        p.writes(write, slot.clone()).reads(read, slot);
    }
    p
}

#[test]
fn a_wait_for_a_later_value_than_its_accesses_need_is_a_hint() {
    let report = ring(|frame| frame - 3).report();
    assert!(report.is_clean() && report.hints.is_empty(), "{report:?}");
    // Each slot was read three frames ago; the frame before last is two later.
    let report = ring(|frame| frame - 1).report();
    assert!(report.is_clean(), "{report}");
    let over_wide = Hint::OverWideWait {
        waiter: "copy".into(),
        fence: "drawn".into(),
        value: 3,
        enough: 1,
        count: 9,
    };
    assert_eq!(report.hints, [over_wide]);
    assert_eq!(
        report.hints[0].to_string(),
        "'copy' waits for a later value of fence 'drawn' than its accesses need, 9 times: 1 is \
         enough where it first waits for 3"
    );
    let hazard = ring(|frame| frame - 4).only();
    assert_eq!(order(&hazard), ["render", "copy"]);
}

#[test]
fn a_wait_that_another_queue_relies_on_is_not_over_wide() {
    // The relay reads the first copy and also orders the second one.
    let mut p = Program::new();
    let [copy, relay, render] = ["copy", "relay", "render"].map(|name| p.queue(name));
    let (copied, relayed) = (p.fence("copied"), p.fence("relayed"));
    let halves = [0x1000..0x1800, 0x1800..0x2000];
    let writes = [1, 2].map(|value| p.on(copy).execute().signal(copied, value).link);
    let first = p.on(relay).wait(copied, 2).execute().signal(relayed, 1).link;
    let second = p.on(render).wait(relayed, 1).execute().link;
    for (link, half) in writes.into_iter().zip(halves.clone()) {
        p.writes(link, half);
    }
    p.reads(first, halves[0].clone()).reads(second, halves[1].clone());
    let report = p.report();
    assert!(report.is_clean() && report.hints.is_empty(), "{report:?}");
}

#[test]
fn a_wait_of_a_thread_that_orders_its_later_calls_is_not_over_wide() {
    let mut p = Program::new();
    let (copy, render, copied) = (p.queue("copy"), p.queue("render"), p.fence("copied"));
    let halves = [0x1000..0x1800, 0x1800..0x2000];
    let writes = [1, 2].map(|value| p.on(copy).execute().signal(copied, value).link);
    p.checker.cpu_wait(p.main, copied, 2);
    for (link, half) in writes.into_iter().zip(halves.clone()) {
        p.writes(link, half);
    }
    p.checker.cpu_access(p.main, SPACE, AccessKind::Read, halves[0].clone(), "map-read");
    let over_wide =
        |report: &Report| report.hints.iter().any(|hint| matches!(hint, Hint::OverWideWait { .. }));
    assert!(over_wide(&p.report()), "so far, 1 would do: {:?}", p.report());
    let read = p.execute(render);
    p.reads(read, halves[1].clone());
    let report = p.report();
    assert!(report.is_clean() && !over_wide(&report), "{report:?}");
}

#[test]
fn a_missing_edge_behind_a_relay_names_the_signal_of_the_relay() {
    // copy -> relay -> render, where the relay accesses no memory and render does not wait for it.
    let mut p = Program::new();
    let [copy, relay, render] = ["copy", "relay", "render"].map(|name| p.queue(name));
    let (copied, relayed) = (p.fence("copied"), p.fence("relayed"));
    let write = p.on(copy).execute().signal(copied, 1).link;
    p.on(relay).wait(copied, 1).signal(relayed, 7);
    let read = p.execute(render);
    p.writes(write, DATA).reads(read, DATA);
    assert_eq!(
        p.only().missing_edge(),
        "wait for value 7 of fence 'relayed' on queue 'render' before submission 1; queue 'relay' \
         signals it after queue 'copy' has ended submission 1"
    );
}

#[test]
fn of_a_fence_of_three_queues_the_signal_behind_the_access_is_named() {
    // first -> second -> third, submitted from the last to the first, all on one fence.
    for left_out in [10, 20] {
        let mut p = Program::new();
        let [third, second, first] = ["third", "second", "first"].map(|name| p.queue(name));
        let chained = p.fence("chained");
        let mut links = Vec::new();
        for (queue, waits, signals) in [(third, 20, 30), (second, 10, 20), (first, 0, 10)] {
            if waits != 0 && waits != left_out {
                p.wait(queue, chained, waits);
            }
            links.push(p.execute(queue));
            p.signal(queue, chained, signals);
        }
        p.checker.cpu_wait(p.main, chained, 30);
        let step = |n: u64| 0x1000 + n * 0x100..0x1100 + n * 0x100;
        for (link, n) in links.into_iter().zip([2, 1, 0]) {
            p.reads(link, step(n)).writes(link, step(n + 1));
        }
        let hazard = p.only();
        // Without the wait for 20, 30 satisfies the wait for 10 before the first queue is done.
        assert_eq!(order(&hazard), ["first", "second"], "{left_out}: {hazard}");
        let signal = hazard.signal.unwrap();
        assert_eq!((&*signal.fence, signal.value), ("chained", 10), "{left_out}");
    }
}

#[test]
fn the_signal_behind_an_access_is_named_before_that_of_a_queue_that_waits_for_it() {
    // A renderer waits for every fourth tile. The thread that writes the tiles never waits.
    let mut p = Program::new();
    let (copy, render) = (p.queue("copy"), p.queue("render"));
    let (uploaded, rendered) = (p.fence("uploaded"), p.fence("rendered"));
    for tile in 1..=16u64 {
        let slot = 0x1000 + tile % 4 * 0x100..0x1100 + tile % 4 * 0x100;
        p.checker.cpu_access(p.main, SPACE, AccessKind::Write, slot.clone(), "map-write");
        let link = p.on(copy).execute().signal(uploaded, tile).link;
        p.reads(link, slot);
        if tile % 4 == 0 {
            p.on(render).wait(uploaded, tile).signal(rendered, tile / 4);
        }
    }
    let hazard = p.only();
    assert_eq!(order(&hazard), ["copy", "main"], "{hazard}");
    let signal = hazard.signal.unwrap();
    assert_eq!((&*signal.fence, signal.value), ("uploaded", 1));
}

/// The queue runs one buffer with the commands of both lists of a call.
#[test]
fn a_command_is_of_the_list_that_it_lies_in() {
    for (number, list, command) in [(1, "a", 1), (2, "a", 2), (3, "b", 1), (4, "b", 2)] {
        let mut p = Program::new();
        let (copy, render) = (p.queue("copy"), p.queue("render"));
        let lists = ["a", "b"].map(|label| ListInfo {
            gpu_va: 1 << 40 | u64::from(label == "b"),
            label: Some(label.into()),
            commands: 2,
        });
        p.links += 1;
        let link = p.links;
        p.checker.execute(p.main, copy, link, lists.into());
        let of = CommandRef { link, buffer: 1 << 50, number, what: "copy", program: "" };
        p.checker.gpu_accesses(of, [(AccessKind::Write, DATA)]);
        let read = p.execute(render);
        p.reads(read, DATA);
        let hazard = p.only();
        let side = [&hazard.first, &hazard.second].into_iter().find(|s| s.timeline == "copy");
        let side = side.unwrap();
        assert_eq!((side.list.as_deref(), side.command), (Some(list), command), "{number}");
    }
}
