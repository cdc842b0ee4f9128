//! What compute lists take: typed programs, pipeline states with root parameters, indirect
//! dispatches, predicates, timestamps; and atomic operations of two engines on one word.

use tidegate::d3d12::TILE_BYTES;
use tidegate::programs::atomics::{Atomic, Step, Width};
use tidegate::programs::{AtomicSteps, Count, Draw, FillPattern, Histogram, Saxpy};
use tidegate_testbed::prelude::*;

fn app() -> App {
    App::new(DeviceOptions::default(), |_| ())
}

fn numbers(buffer: &Buffer) -> Vec<u32> {
    let mut bytes = vec![0; buffer.bytes() as usize];
    buffer.read(0, &mut bytes).unwrap();
    bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

fn write(buffer: &Buffer, values: &[u32]) {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    buffer.write(0, &bytes).unwrap();
}

fn buffer(app: &App, name: &str, values: &[u32]) -> Buffer {
    let bytes = 4 * values.len() as u64;
    let buffer = app.create_buffer(BufferDesc::gpu_upload(name, bytes)).unwrap();
    write(&buffer, values);
    buffer
}

#[test]
fn programs_are_types_with_named_arguments() {
    for submission in Submission::ALL {
        app().run(move |app| {
            let bits = |values: [f32; 4]| values.map(f32::to_bits);
            let x = buffer(app, "x", &bits([1.0, 2.0, 3.0, 4.0]));
            let y = buffer(app, "y", &bits([10.0, 20.0, 30.0, 40.0]));
            let queue = app.queue(CommandListType::Compute, submission);
            app.execute(&queue, |list| {
                let saxpy = Saxpy { x: x.at(4), y: y.at(4), n: 3, a: 2.0 };
                list.dispatch(&saxpy, saxpy.groups())
            });
            queue.wait_idle().unwrap();
            assert_eq!(numbers(&y), bits([10.0, 24.0, 36.0, 48.0]));
        });
    }
}

// spec: ME-055
#[test]
fn a_pipeline_state_and_root_parameters_are_a_dispatch() {
    app().run(|app| {
        let dst = buffer(app, "dst", &[0; 8]);
        let queue = app.queue(CommandListType::Compute, Submission::User);
        let pattern = PipelineState::new(FillPattern::SHADER);
        app.execute(&queue, |list| {
            let early = list.set_compute_root_constant(1, 8).unwrap_err().to_string();
            assert!(early.contains("no pipeline state is set"), "{early}");
            list.set_pipeline_state(&pattern)?;
            list.set_compute_root_constants(1, &[8, 100])?;
            let unset = list.dispatch_groups([1; 3]).unwrap_err();
            assert_eq!(
                unset.to_string(),
                "argument 'dst' of fill_pattern: it is not set; set the root parameter before the \
                 dispatch"
            );
            assert!(list.set_compute_root_shader_resource_view(0, &dst).is_err(), "it is written");
            assert!(list.set_compute_root_unordered_access_view(1, &dst).is_err(), "a number");
            assert!(list.set_compute_root_constant(0, 1).is_err(), "a buffer");
            assert!(list.set_compute_root_constant(4, 1).is_err(), "beyond the last");
            list.set_compute_root_unordered_access_view(0, &dst)?;
            list.set_compute_root_constant(3, 5)?;
            list.dispatch_groups([1; 3])?;
            // Parameters stay: only the changed one differs.
            list.set_compute_root_unordered_access_view(0, dst.at(16))?;
            list.set_compute_root_constant(1, 4)?;
            list.dispatch_groups([1; 3])?;
            list.clear_state()?;
            assert!(list.dispatch_groups([1; 3]).is_err());
            Ok(())
        });
        queue.wait_idle().unwrap();
        assert_eq!(numbers(&dst), [100, 105, 110, 115, 100, 105, 110, 115]);
        for list_type in [CommandListType::Direct, CommandListType::Compute] {
            let mut list = app.create_command_list(list_type);
            let graphics = list.set_pipeline_state(&PipelineState::new(Draw::SHADER));
            assert!(matches!(graphics, Err(Error::BadValue { .. })));
        }
    });
}

// spec: ME-054
#[test]
fn a_descriptor_table_is_the_buffers_of_a_program() {
    app().run(|app| {
        let bits = |values: [f32; 2]| values.map(f32::to_bits);
        let (x, y) = (buffer(app, "x", &bits([1.0, 2.0])), buffer(app, "y", &bits([3.0, 4.0])));
        let queue = app.queue(CommandListType::Compute, Submission::User);
        let mut heap = app.create_descriptor_heap("views", 4);
        heap.set_view(1, x.at(4)).unwrap();
        heap.set_view(2, &y).unwrap();
        assert!(heap.set_view(4, &y).is_err() && heap.set_view(0, y.at(9)).is_err());
        app.execute(&queue, |list| {
            list.set_pipeline_state(&PipelineState::new(Saxpy::SHADER))?;
            assert!(list.set_compute_root_descriptor_table(0, 1, 2).is_err(), "no heap");
            list.set_descriptor_heap(&heap)?;
            // The list has the views that the heap had.
            heap.set_view(1, &x)?;
            assert!(list.set_compute_root_descriptor_table(0, 2, 2).is_err(), "no view");
            assert!(list.set_compute_root_descriptor_table(0, 1, 3).is_err(), "two buffers");
            list.set_compute_root_constants(2, &[1, 2.0f32.to_bits()])?;
            list.set_compute_root_descriptor_table(0, 1, 2)?;
            list.dispatch_groups([1; 3])
        });
        queue.wait_idle().unwrap();
        assert_eq!(numbers(&y), bits([7.0, 4.0]));
        let mut copies = app.create_command_list(CommandListType::Copy);
        assert!(matches!(copies.set_descriptor_heap(&heap), Err(Error::NotAccepted { .. })));
        let table = copies.set_compute_root_descriptor_table(0, 0, 1);
        assert!(matches!(table, Err(Error::NotAccepted { .. })));
    });
}

// spec: ME-052, ME-054
#[test]
fn copy_lists_take_none_of_it() {
    app().run(|app| {
        let data = buffer(app, "data", &[0; 8]);
        let heap = app.create_query_heap("times", 2).unwrap();
        assert!(app.create_query_heap("none", 0).is_err());
        let pattern = PipelineState::new(FillPattern::SHADER);
        let op = PredicationOp::EqualZero;
        for (list_type, takes) in [
            (CommandListType::Direct, true),
            (CommandListType::Compute, true),
            (CommandListType::Copy, false),
        ] {
            let mut list = app.create_command_list(list_type);
            let fill = FillPattern { dst: &data, n: 8, first: 0, step: 1 };
            let taken = [
                list.dispatch(&fill, fill.groups()),
                list.set_pipeline_state(&pattern),
                list.set_compute_root_unordered_access_view(0, &data),
                list.set_compute_root_constants(1, &[8, 0, 1]),
                list.dispatch_groups([1; 3]),
                list.execute_indirect(1, data.at(0), None),
                list.set_predication(Some(data.at(0)), op),
                list.end_query(&heap, 0),
                list.resolve_query_data(&heap, 0, 1, &data, 0),
                list.clear_state(),
            ];
            for (number, result) in taken.iter().enumerate() {
                let refused = matches!(result, Err(Error::NotAccepted { .. }));
                assert_eq!((result.is_ok(), refused), (takes, !takes), "{list_type} {number}");
            }
        }
        let mut list = app.create_command_list(CommandListType::Compute);
        assert!(list.end_query(&heap, 2).is_err());
        assert!(list.resolve_query_data(&heap, 1, 2, &data, 0).is_err());
        assert!(list.resolve_query_data(&heap, 0, 1, &data, 4).is_err());
        assert!(list.set_predication(Some(data.at(4)), op).is_err());
        list.set_pipeline_state(&pattern).unwrap();
        list.set_compute_root_unordered_access_view(0, &data).unwrap();
        list.set_compute_root_constants(1, &[8, 0, 1]).unwrap();
        assert!(list.execute_indirect(1, data.at(2), None).is_err());
        assert!(list.execute_indirect(3, data.at(0), None).is_err(), "36 bytes of 32");
    });
}

/// Every recording method by its published name, with the least able list that takes it.
#[test]
fn each_method_is_taken_by_the_lists_of_the_table() {
    use CommandListType::{Compute, Copy, Direct};
    app().run(|app| {
        let of = |desc: BufferDesc| app.create_buffer(desc).unwrap();
        let (a, b) = (of(BufferDesc::new("a", 4096)), of(BufferDesc::new("b", 4096)));
        let tile = of(BufferDesc::new("tile", TILE_BYTES));
        let tiled = app.create_reserved_buffer(BufferDesc::new("tiled", TILE_BYTES)).unwrap();
        let texture = TextureDesc::new_2d("texture", Format::R8G8B8A8Unorm, 8, 8);
        let rows = texture.copyable_footprints(0, 1, 0).footprints[0];
        let texture = app.create_texture(texture).unwrap();
        let (views, times) =
            (app.create_descriptor_heap("views", 1), app.create_query_heap("times", 1).unwrap());
        let views = {
            let mut views = views;
            views.set_view(0, &a).unwrap();
            views
        };
        let pattern = PipelineState::new(FillPattern::SHADER);
        let fill = FillPattern { dst: &a, n: 4, first: 0, step: 1 };
        let draw = Draw::triangles(a.at(0), 3, b.at(0), [8, 8]).target(b.at(1024));
        for list_type in [Direct, Compute, Copy] {
            let mut list = app.create_command_list(list_type);
            let list = &mut list;
            let barrier =
                Barrier::transition(&tile, ResourceStates::COPY_DEST, ResourceStates::COPY_SOURCE);
            let (texels, in_buffer) = (
                TextureCopyLocation::Subresource(&texture, 0),
                TextureCopyLocation::Footprint(&b, rows),
            );
            let taken = [
                ("CopyBufferRegion", Copy, list.copy(&a, 0, &b, 0, 4)),
                ("CopyResource", Copy, list.copy_resource(&a, &b)),
                (
                    "CopyTextureRegion",
                    Copy,
                    list.copy_texture_region(texels, [0; 3], in_buffer, None),
                ),
                ("CopyTiles", Copy, list.copy_tiles(&tiled, 0..1, &tile, 0, TileCopy::FromBuffer)),
                ("ResourceBarrier", Copy, list.barrier(&[barrier])),
                ("SetPipelineState", Compute, list.set_pipeline_state(&pattern)),
                ("SetDescriptorHeaps", Compute, list.set_descriptor_heap(&views)),
                (
                    "SetComputeRootDescriptorTable",
                    Compute,
                    list.set_compute_root_descriptor_table(0, 0, 1),
                ),
                (
                    "SetComputeRootUnorderedAccessView",
                    Compute,
                    list.set_compute_root_unordered_access_view(0, &a),
                ),
                ("SetComputeRoot32BitConstant", Compute, list.set_compute_root_constant(1, 4)),
                (
                    "SetComputeRoot32BitConstants",
                    Compute,
                    list.set_compute_root_constants(2, &[0, 1]),
                ),
                ("Dispatch", Compute, list.dispatch_groups([1; 3])),
                ("Dispatch", Compute, list.dispatch(&fill, fill.groups())),
                ("ExecuteIndirect", Compute, list.execute_indirect(1, b.at(0), None)),
                ("SetPredication", Compute, list.set_predication(None, PredicationOp::EqualZero)),
                ("EndQuery", Compute, list.end_query(&times, 0)),
                ("ResolveQueryData", Compute, list.resolve_query_data(&times, 0, 1, &b, 0)),
                ("ClearUnorderedAccessViewUint", Compute, list.clear_uint(&a, 0, 4, 1)),
                ("ClearUnorderedAccessViewFloat", Compute, list.clear_float(&a, 0, 4, 1.0)),
                ("DiscardResource", Compute, list.discard(&a)),
                ("ClearState", Compute, list.clear_state()),
                ("DrawInstanced", Direct, list.draw(&draw, draw.groups())),
                (
                    "ClearRenderTargetView",
                    Direct,
                    list.clear_render_target_view(&texture, [0.0; 4]),
                ),
            ];
            let rank = |of| [Copy, Compute, Direct].iter().position(|t| *t == of);
            for (method, least, result) in taken {
                let takes = rank(list_type) >= rank(least);
                let refused = matches!(result, Err(Error::NotAccepted { .. }));
                assert_eq!((result.is_ok(), refused), (takes, !takes), "{method} in {list_type}");
            }
        }
        let histogram = PipelineState::new(Histogram::SHADER);
        let mut list = app.create_command_list(Copy);
        assert!(list.set_pipeline_state(&histogram).is_err());
        let view = list.set_compute_root_shader_resource_view(0, &a);
        assert!(matches!(view, Err(Error::NotAccepted { .. })));
    });
}

// spec: ME-054
#[test]
fn the_gpu_reads_the_arguments_of_indirect_dispatches() {
    for submission in Submission::ALL {
        app().run(move |app| {
            let counter = buffer(app, "counter", &[0, 0]);
            let groups = buffer(app, "groups", &[1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1]);
            let (count, source) = (buffer(app, "count", &[0]), buffer(app, "source", &[3]));
            let queue = app.queue(CommandListType::Compute, submission);
            app.execute(&queue, |list| {
                // The list itself writes the count: the GPU reads it behind the copy.
                list.copy(&count, 0, &source, 0, 4)?;
                list.set_pipeline_state(&PipelineState::new(Count::SHADER))?;
                list.set_compute_root_unordered_access_view(0, &counter)?;
                list.set_compute_root_constants(2, &[5, 2])?;
                list.execute_indirect(4, groups.at(0), Some(count.at(0)))?;
                list.execute_indirect(1, groups.at(36), None)
            });
            queue.wait_idle().unwrap();
            // Of the first three, one has no groups; the fourth is beyond the count.
            assert_eq!(numbers(&counter), [(2 + 1) * 10, 0], "{submission}");
        });
    }
}

// spec: ME-054
#[test]
fn a_predicate_skips_commands_up_to_the_next_one_and_the_end_of_the_list() {
    for submission in Submission::ALL {
        app().run(move |app| {
            let data = buffer(app, "data", &[0; 6]);
            let (zero, set) = (buffer(app, "zero", &[0, 0]), buffer(app, "set", &[0, 1]));
            let queue = app.queue(CommandListType::Compute, submission);
            let first = app.list(CommandListType::Compute, |list| {
                list.set_predication(Some(zero.at(0)), PredicationOp::EqualZero)?;
                list.clear_uint(&data, 0, 4, 7)?;
                list.copy(&data, 0, &set, 4, 4)?;
                list.set_predication(Some(set.at(0)), PredicationOp::EqualZero)?;
                list.clear_uint(&data, 4, 4, 7)?;
                list.set_predication(Some(zero.at(0)), PredicationOp::NotEqualZero)?;
                list.clear_uint(&data, 8, 4, 7)?;
                list.set_predication(None, PredicationOp::EqualZero)?;
                list.clear_uint(&data, 12, 4, 7)?;
                list.set_predication(Some(set.at(0)), PredicationOp::NotEqualZero)?;
                list.clear_uint(&data, 16, 4, 7)
            });
            let second =
                app.list(CommandListType::Compute, |list| list.clear_uint(&data, 20, 4, 7));
            queue.execute(&[&first, &second]).unwrap();
            queue.wait_idle().unwrap();
            assert_eq!(numbers(&data), [0, 7, 7, 7, 0, 7], "{submission}");
        });
    }
}

// spec: ME-054
#[test]
fn timestamps_enclose_the_work_between_them() {
    for submission in Submission::ALL {
        app().run(move |app| {
            let heap = app.create_query_heap("times", 3).unwrap();
            let (times, zero) = (app.readback(24), buffer(app, "zero", &[0, 0]));
            let queue = app.queue(CommandListType::Compute, submission);
            app.execute(&queue, |list| {
                list.end_query(&heap, 0)?;
                list.timed(5_000)?;
                list.end_query(&heap, 1)?;
                list.timed(700)?;
                list.end_query(&heap, 2)?;
                list.set_predication(Some(zero.at(0)), PredicationOp::EqualZero)?;
                list.resolve_query_data(&heap, 1, 2, &times, 8)?;
                list.resolve_query_data(&heap, 0, 1, &times, 0)
            });
            queue.wait_idle().unwrap();
            let mut bytes = [0; 24];
            times.read(0, &mut bytes).unwrap();
            let [start, middle, end] =
                [0, 1, 2].map(|at| u64::from_le_bytes(bytes.as_chunks::<8>().0[at]));
            assert_eq!([middle - start, end - middle], [5_000, 700], "{submission}");
        });
    }
}

/// Two compute queues on two engines, and lists on both that use the same words at once.
fn two_engines(platform: &Platform, submission: Submission) {
    const LISTS: u32 = 40;
    const THREADS: u32 = 300;
    let two = |config: &mut tidegate::MachineConfig| {
        let classes = [EngineKind::Compute, EngineKind::Compute];
        config.gpu.nodes = NodeConfig::of_classes(&classes);
    };
    App::on(platform, DeviceOptions::default(), two).run(move |app| {
        let (counter, bins) = (buffer(app, "counter", &[0, 0]), buffer(app, "bins", &[0; 7]));
        let (words, values) = (buffer(app, "words", &[0; 4]), (0..THREADS).collect::<Vec<u32>>());
        let src = buffer(app, "src", &values);
        let steps: Vec<u8> = [Atomic::Max(9), Atomic::Add(1 << 40)]
            .into_iter()
            .zip([0, 1])
            .flat_map(|(atomic, word)| Step { word, width: Width::W64, atomic }.to_bytes())
            .collect();
        let plan = app.create_buffer(BufferDesc::gpu_upload("steps", steps.len() as u64)).unwrap();
        plan.write(0, &steps).unwrap();
        let queues = [0, 1].map(|node| {
            let desc = QueueDesc::new(CommandListType::Compute).submission(submission);
            app.create_queue(QueueDesc { node: Some(node), ..desc }).unwrap()
        });
        for _ in 0..LISTS {
            for queue in &queues {
                app.execute(queue, |list| {
                    let (counter, bins) = (&counter, &bins);
                    let count = Count { counter, tickets: None, n: THREADS, amount: 3 };
                    list.dispatch(&count, count.groups())?;
                    let histogram = Histogram { src: &src, bins, n: THREADS, bin_count: 7 };
                    list.dispatch(&histogram, histogram.groups())?;
                    let (words, steps) = (&words, &plan);
                    let steps = AtomicSteps { words, steps, results: None, n: 2, word_count: 2 };
                    list.dispatch(&steps, steps.groups())
                });
            }
        }
        queues.iter().for_each(|queue| queue.wait_idle().unwrap());
        let lists = 2 * LISTS;
        assert_eq!(numbers(&counter), [lists * THREADS * 3, 0], "{submission}");
        let of_bin = |bin| values.iter().filter(|value| **value % 7 == bin).count() as u32;
        let expected: Vec<u32> = (0..7).map(|bin| lists * of_bin(bin)).collect();
        assert_eq!(numbers(&bins), expected, "{submission}");
        assert_eq!(numbers(&words), [9, 0, 0, lists << 8], "{submission}");
    });
}

// spec: ME-008
#[test]
fn engines_that_run_at_once_lose_no_atomic_operation() {
    for submission in Submission::ALL {
        two_engines(&Platform::virtual_time(tidegate::platform::StepCosts::free()), submission);
        two_engines(&Platform::closed_host(), submission);
    }
}
