//! Which bytes and which resources the hazard check names: aliased memory, memory that is used
//! again, parts of buffers, back buffers.

use tidegate::d3d12::TILE_BYTES;
use tidegate::platform::hazard::{AccessKind, Hazard, TimelineKind};
use tidegate::programs::Saxpy;
use tidegate_testbed::prelude::*;

const UNIT: u64 = 64 << 10;
const FILL_PATTERN: u32 = 9;

/// Runs a program in each model and returns what the check found, once for all models.
fn hazards_of(models: &[Submission], program: fn(&App, [Queue; 2])) -> Vec<Hazard> {
    let mut all: Vec<Vec<Hazard>> = models
        .iter()
        .map(|submission| {
            let app = App::new(DeviceOptions::default(), |config| {
                let display = DisplayConfig { refresh_period_ns: 50_000, ..Default::default() };
                config.gpu.display = Some(display);
            });
            let submission = *submission;
            let app = app.case(submission).racing().run(move |app| {
                let queue = |name: &str, of| {
                    let desc = QueueDesc::new(of).submission(submission);
                    app.create_queue(QueueDesc { name: name.to_owned(), ..desc }).unwrap()
                };
                let queues = [
                    queue("graphics", CommandListType::Direct),
                    queue("compute", CommandListType::Compute),
                ];
                program(app, queues.clone());
                app.wait_idle().unwrap();
            });
            app.device.hazards().expect("the check is on").hazards
        })
        .collect();
    let first = all.pop().unwrap();
    // The links are numbers of the timeline, on which the models differ.
    let without_links = |hazards: &[Hazard]| -> Vec<Hazard> {
        let mut hazards = hazards.to_vec();
        hazards.iter_mut().for_each(|of| (of.first.link, of.second.link) = (0, 0));
        hazards
    };
    for other in &all {
        assert_eq!(without_links(other), without_links(&first), "the models differ");
    }
    first
}

fn only(hazards: Vec<Hazard>) -> Hazard {
    assert_eq!(hazards.len(), 1, "{hazards:#?}");
    hazards.into_iter().next().unwrap()
}

fn sides(hazard: &Hazard) -> [(&str, &str, AccessKind); 2] {
    [&hazard.first, &hazard.second].map(|side| (&*side.timeline, &*side.what, side.access))
}

// Aliased memory of different kinds: a buffer over a texture in one heap.
#[test]
fn a_buffer_and_a_texture_in_the_same_memory_conflict_and_both_are_named() {
    fn program(app: &App, [graphics, compute]: [Queue; 2]) {
        let heap = app.create_heap(HeapDesc::new("heap", 4 * UNIT)).unwrap();
        let bytes = BufferDesc::new("bytes", 2 * UNIT);
        let bytes = app.create_placed_buffer(&heap, 0, bytes).unwrap();
        let picture = TextureDesc::new_2d("picture", Format::R32Uint, 128, 128);
        let picture = app.create_placed_texture(&heap, UNIT, picture).unwrap();
        let source = TextureDesc::new_2d("source", Format::R32Uint, 128, 128);
        let source = app.create_texture(source).unwrap();
        app.execute(&graphics, |list| list.clear_uint(&bytes, 0, 2 * UNIT, 7));
        app.execute(&compute, |list| list.copy_resource(&picture, &source));
    }
    let hazard = only(hazards_of(&Submission::ALL, program));
    assert_eq!(hazard.resource.as_deref(), Some("bytes' and 'picture"));
    assert_eq!(hazard.bytes, UNIT..2 * UNIT);
    assert_eq!(
        sides(&hazard),
        [("graphics", "fill", AccessKind::Write), ("compute", "copy", AccessKind::Write)]
    );
}

// The history of memory does not end with the resource that stood there.
#[test]
fn a_place_of_a_heap_that_is_used_again_without_an_edge_is_a_hazard() {
    fn program(app: &App, [graphics, compute]: [Queue; 2]) {
        let heap = app.create_heap(HeapDesc::new("pool", UNIT)).unwrap();
        let placed =
            |name: &str| app.create_placed_buffer(&heap, 0, BufferDesc::new(name, UNIT)).unwrap();
        let old = placed("old");
        app.execute(&graphics, |list| list.clear_uint(&old, 0, UNIT, 1));
        drop(old);
        let new = placed("new");
        app.execute(&compute, |list| list.clear_uint(&new, 0, UNIT, 2));
    }
    let hazard = only(hazards_of(&Submission::ALL, program));
    assert_eq!(hazard.resource.as_deref(), Some("old' and 'new"));
    assert_eq!((&*hazard.first.timeline, &*hazard.second.timeline), ("graphics", "compute"));
}

// Each queue has its own reserved buffer, and both buffers have one tile of the heap.
// spec: ME-071
#[test]
fn reserved_buffers_over_one_tile_conflict_unless_the_queues_are_ordered() {
    fn program(app: &App, [graphics, compute]: [Queue; 2], wait: bool) {
        let heap = app.create_heap(HeapDesc::new("pool", 2 * TILE_BYTES)).unwrap();
        let reserved = |name: &str| {
            let desc = BufferDesc::new(name, 2 * TILE_BYTES);
            app.create_reserved_buffer(desc).unwrap()
        };
        let (written, read) = (reserved("written"), reserved("read"));
        let target = app.create_buffer(BufferDesc::new("target", TILE_BYTES)).unwrap();
        let map = |queue: &Queue, buffer, tile, heap_tile| {
            let mapping = TileMapping::map(tile, 1, &heap, heap_tile);
            queue.update_tile_mappings(buffer, &[mapping]).unwrap();
        };
        map(&graphics, &written, 1, 0);
        map(&compute, &read, 0, 1);
        let copy = || {
            app.execute(&compute, |list| {
                list.copy_tiles(&read, 0..1, &target, 0, TileCopy::ToBuffer)
            });
        };
        app.execute(&graphics, |list| list.clear_uint(&written, TILE_BYTES, TILE_BYTES, 7));
        // The other tile of the heap.
        copy();
        let done = app.fence(0);
        graphics.signal(&done, 1).unwrap();
        if wait {
            compute.wait(&done, 1).unwrap();
        }
        map(&compute, &read, 0, 0);
        copy();
        compute.wait_idle().unwrap();
        graphics.wait_idle().unwrap();
    }
    assert_eq!(hazards_of(&Submission::ALL, |app, queues| program(app, queues, true)), []);
    let hazard = only(hazards_of(&Submission::ALL, |app, queues| program(app, queues, false)));
    assert_eq!(hazard.resource.as_deref(), Some("written' and 'read"));
    assert_eq!(
        sides(&hazard),
        [("graphics", "fill", AccessKind::Write), ("compute", "copy", AccessKind::Read)]
    );
    assert!(hazard.missing_edge().contains("wait for value 1 of fence"), "{hazard}");
}

#[test]
fn memory_that_was_freed_begins_without_history() {
    fn program(app: &App, [graphics, compute]: [Queue; 2]) {
        for queue in [&graphics, &compute, &graphics] {
            let heap = app.create_heap(HeapDesc::new("pool", UNIT)).unwrap();
            let buffer = app.create_placed_buffer(&heap, 0, BufferDesc::new("b", UNIT)).unwrap();
            app.execute(queue, |list| list.clear_uint(&buffer, 0, UNIT, 1));
            queue.wait_idle().unwrap();
        }
    }
    assert_eq!(hazards_of(&Submission::ALL, program), []);
}

fn fill_words(app: &App, queue: &Queue, target: &Buffer, from: u64, words: u32) {
    let args = [Arg::Buffer(target, from), Arg::U32(words), Arg::U32(1), Arg::U32(1)];
    app.execute(queue, |list| list.dispatch_by_number(FILL_PATTERN, [words / 1024, 1, 1], &args));
}

// What a program really touched: each queue has the whole buffer as its argument.
#[test]
fn dispatches_that_touch_different_halves_of_a_buffer_are_no_hazard() {
    fn halves(app: &App, [graphics, compute]: [Queue; 2]) {
        let data = app.readback(16 * 1024);
        fill_words(app, &graphics, &data, 0, 2048);
        fill_words(app, &compute, &data, 8192, 2048);
    }
    assert_eq!(hazards_of(&Submission::ALL, halves), []);

    fn overlap(app: &App, [graphics, compute]: [Queue; 2]) {
        let [other, data] = ["other", "data"]
            .map(|name| app.create_buffer(BufferDesc::readback(name, 16 * 1024)).unwrap());
        fill_words(app, &graphics, &other, 0, 1024);
        fill_words(app, &graphics, &data, 0, 2048);
        fill_words(app, &compute, &data, 4096, 2048);
    }
    // The right resource, and only its bytes (validation layers' #8291).
    let hazard = only(hazards_of(&Submission::ALL, overlap));
    assert_eq!((hazard.resource.as_deref(), hazard.bytes.clone()), (Some("data"), 4096..8192));
    assert_eq!((hazard.first.submission, hazard.second.submission), (2, 1));
    assert!(hazard.first.what.starts_with("dispatch of fill_pattern"), "{hazard}");
}

/// What the side of this timeline did.
fn access_of(hazard: &Hazard, timeline: &str) -> Option<AccessKind> {
    sides(hazard).iter().find(|side| side.0 == timeline).map(|side| side.2)
}

// A block that lies in one page is read and written where it is, without a copy.
#[test]
fn a_block_that_a_program_reads_and_writes_in_place_is_an_access_of_each_kind() {
    const ELEMENTS: u32 = 1024;
    type Touch = fn(&App, &Queue, [&Buffer; 2]);
    fn program(app: &App, [graphics, compute]: [Queue; 2], touch: Touch) {
        let [x, y] = ["x", "y"]
            .map(|name| app.create_buffer(BufferDesc::new(name, u64::from(4 * ELEMENTS))).unwrap());
        let saxpy = Saxpy { x: x.at(0), y: y.at(0), n: ELEMENTS, a: 2.0 };
        app.execute(&graphics, |list| list.dispatch(&saxpy, saxpy.groups()));
        touch(app, &compute, [&x, &y]);
    }
    let written = only(hazards_of(&Submission::ALL, |app, queues| {
        program(app, queues, |app, queue, [_, y]| {
            let target = app.readback(y.bytes());
            app.execute(queue, |list| list.copy(&target, 0, y, 0, y.bytes()));
        });
    }));
    assert_eq!((written.resource.as_deref(), written.bytes.clone()), (Some("y"), 0..4096));
    assert_eq!(access_of(&written, "graphics"), Some(AccessKind::Write));
    let read = only(hazards_of(&Submission::ALL, |app, queues| {
        program(app, queues, |app, queue, [x, _]| {
            app.execute(queue, |list| list.clear_uint(x, 0, x.bytes(), 7));
        });
    }));
    assert_eq!((read.resource.as_deref(), read.bytes.clone()), (Some("x"), 0..4096));
    assert_eq!(access_of(&read, "graphics"), Some(AccessKind::Read));
}

#[test]
fn a_back_buffer_that_another_queue_writes_while_it_is_shown_is_a_hazard() {
    fn program(app: &App, [graphics, compute]: [Queue; 2]) {
        let desc = SwapChainDesc::new("screen", 32, 32).buffers(2).frame_latency(1);
        let chain = app.create_swap_chain(&graphics, desc).unwrap();
        let back = &chain.buffers()[chain.current_index()];
        app.execute(&graphics, |list| list.clear_uint(back, 0, back.bytes(), 1));
        chain.present(1).unwrap();
        let shown = app.create_fence("presented", 0).unwrap();
        graphics.signal(&shown, 1).unwrap();
        compute.wait(&shown, 1).unwrap();
        app.execute(&compute, |list| list.clear_uint(back, 0, back.bytes(), 2));
        app.pass(1_000_000);
    }
    let hazard = only(hazards_of(&[Submission::Packet, Submission::Hardware], program));
    assert_eq!(hazard.first.kind, TimelineKind::Display);
    assert_eq!((&*hazard.first.timeline, &*hazard.second.timeline), ("screen", "compute"));
    assert_eq!(hazard.first.submission, 1, "{hazard}");
}

// What the CPU does through a mapping counts like a command.
#[test]
fn an_upload_that_is_overwritten_before_its_copy_is_a_hazard() {
    fn program(app: &App, [graphics, _]: [Queue; 2]) {
        let staging = app.create_buffer(BufferDesc::upload("staging", 512)).unwrap();
        let target = app.readback(512);
        for round in 0..2u8 {
            staging.write(128, &[round; 64]).unwrap();
            app.execute(&graphics, |list| list.copy(&target, 0, &staging, 0, 160));
        }
    }
    let hazard = only(hazards_of(&Submission::ALL, program));
    assert_eq!((hazard.resource.as_deref(), hazard.bytes.clone()), (Some("staging"), 128..160));
    assert_eq!(hazard.second.kind, TimelineKind::Thread);
    assert_eq!(
        sides(&hazard).map(|(_, what, access)| (what, access)),
        [("copy", AccessKind::Read), ("map-write", AccessKind::Write)]
    );
}
