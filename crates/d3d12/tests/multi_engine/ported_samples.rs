//! The flows of public Direct3D 12 samples, written call by call against this API: HelloTexture,
//! n-body gravity with async compute, recording by several threads, ExecuteIndirect, predication,
//! dynamic indexing, residency. Comments name the published call where the name differs.

use tidegate::d3d12::INDIRECT_BYTES;
use tidegate::d3d12::error::Result;
use tidegate::programs::layout::Vertex;
use tidegate::programs::{Draw, FillPattern, Histogram, NBody, mesh};
use tidegate_testbed::prelude::*;

type S = ResourceStates;

/// A device that checks states and accesses, on a machine with a display.
fn app() -> App {
    let checks = Validation::STATE_ERRORS | Validation::HAZARDS;
    App::new(DeviceOptions::new("ported").validation(checks), |config| {
        config.gpu.display = Some(DisplayConfig::default());
    })
}

fn is_clean(app: &App) {
    assert_eq!(app.state_violations(), []);
    let report = app.hazards().expect("the check is on");
    assert!(report.is_clean(), "{report:?}");
}

const SIDE: u32 = 64;
/// A row of texels fills a multiple of 256 bytes, so rows follow each other without gaps.
const ROW: u64 = 4 * SIDE as u64;
const RED: [u8; 4] = [255, 0, 0, 255];

/// Two triangles over the middle of the target, in clip space.
fn quad() -> Vec<u8> {
    let corner = |x: f32, y: f32| Vertex {
        position: [x, y, 0.5, 1.0],
        normal: [0.0, 0.0, -1.0],
        uv: [0.5, 0.5],
        colour: [255; 4],
    };
    let [a, b, c, d] = [corner(-0.5, -0.5), corner(-0.5, 0.5), corner(0.5, 0.5), corner(0.5, -0.5)];
    mesh::vertex_bytes(&[a, b, c, a, c, d])
}

/// HelloTexture: upload heap, CopyTextureRegion, barrier, draw, present.
fn hello_texture(app: &App, submission: Submission) -> Result<()> {
    let direct = CommandListType::Direct;
    // LoadPipeline
    let queue = app.create_queue(QueueDesc::direct("direct").submission(submission))?;
    let target = |name: &str| TextureDesc::new_2d(name, Format::R8G8B8A8Unorm, SIDE, SIDE);
    let targets = vec![app.create_texture(target("0"))?, app.create_texture(target("1"))?];
    let (name, frame_latency) = ("screen".to_owned(), 1);
    let desc = SwapChainDesc { name, width: SIDE, height: SIDE, buffers: 2, frame_latency };
    let swap_chain = app.create_swap_chain_of_textures(&queue, targets, desc)?;
    let allocator = app.create_command_allocator("frame", direct);
    let depth = app.create_buffer(BufferDesc::new("depth", u64::from(SIDE) * ROW))?;

    // LoadAssets: vertices in an upload heap, the texture in the default heap.
    let vertices = quad();
    let vertex_buffer = BufferDesc::upload("vertices", vertices.len() as u64);
    let vertex_buffer = app.create_buffer(vertex_buffer)?;
    vertex_buffer.write(0, &vertices)?;
    let texture = target("texture").initial(S::COPY_DEST);
    let layout = texture.copyable_footprints(0, 1, 0);
    let texture = app.create_texture(texture)?;
    // GetRequiredIntermediateSize
    let upload = app.create_buffer(BufferDesc::upload("upload", layout.total_bytes))?;
    upload.write(0, &RED.repeat(SIDE as usize * SIDE as usize))?;
    let mut list = app.create_command_list_from(&allocator)?;
    list.copy_texture_region(
        TextureCopyLocation::Subresource(&texture, 0),
        [0, 0, 0],
        TextureCopyLocation::Footprint(&upload, layout.footprints[0]),
        None,
    )?;
    list.barrier(&[Barrier::transition(&texture, S::COPY_DEST, S::PIXEL_SHADER_RESOURCE)])?;
    let mut command_list = list.close()?;
    queue.execute(&[&command_list])?;
    let fence = app.create_fence("frame", 0)?;
    let mut fence_value = 0;
    let fence_event = app.create_event(EventDesc::auto_reset());
    let mut wait_for_previous_frame = || -> Result<()> {
        fence_value += 1;
        queue.signal(&fence, fence_value)?;
        if fence.completed_value() < fence_value {
            fence.set_event_on_completion(fence_value, &fence_event)?;
            fence_event.wait()?;
        }
        Ok(())
    };
    wait_for_previous_frame()?;

    let picture = app.create_buffer(BufferDesc::readback("picture", layout.total_bytes))?;
    for _ in 0..3 {
        // PopulateCommandList
        let target = &swap_chain.textures()[swap_chain.current_index()];
        allocator.reset()?;
        let mut list = command_list.reset(&allocator)?;
        list.barrier(&[Barrier::transition(target, S::PRESENT, S::RENDER_TARGET)])?;
        list.clear_render_target_view(target, [0.0, 0.0, 1.0, 1.0])?;
        // ClearDepthStencilView
        list.clear_float(&depth, 0, depth.bytes(), 1.0)?;
        list.barrier(&[Barrier::unordered_access(&depth)])?;
        let (texels, pixels) = (texture.view(), target.view());
        let draw = Draw::triangles(vertex_buffer.at(0), 6, depth.at(0), [SIDE; 2])
            .target(pixels.at(0))
            .textured(texels.at(0), [SIDE; 2]);
        list.draw(&draw, draw.groups())?;
        list.barrier(&[Barrier::transition(target, S::RENDER_TARGET, S::COPY_SOURCE)])?;
        let read = TextureCopyLocation::Footprint(&picture, layout.footprints[0]);
        list.copy_texture_region(read, [0; 3], TextureCopyLocation::Subresource(target, 0), None)?;
        list.barrier(&[Barrier::transition(target, S::COPY_SOURCE, S::PRESENT)])?;
        command_list = list.close()?;
        // OnRender
        queue.execute(&[&command_list])?;
        swap_chain.present(1)?;
        wait_for_previous_frame()?;
        let mut bytes = vec![0; layout.total_bytes as usize];
        picture.read(0, &mut bytes)?;
        let pixel = |x: u32, y: u32| &bytes[(y * SIDE + x) as usize * 4..][..4];
        assert_eq!((pixel(0, 0), pixel(SIDE / 2, SIDE / 2)), (&[0, 0, 255, 255][..], &RED[..]));
    }
    swap_chain.wait_shown()?;
    Ok(())
}

#[test]
fn hello_texture_draws_what_was_uploaded() {
    for submission in [Submission::Packet, Submission::Hardware] {
        app().case(submission).run(move |app| {
            hello_texture(app, submission).unwrap();
            is_clean(app);
        });
    }
}

const BODIES: u32 = 256;
const STEPS: usize = 6;
const FRAMES: usize = 3;
const BODY_BYTES: u64 = 16 * BODIES as u64;

/// Places of bodies, or their velocities.
fn bodies(seed: u32) -> Vec<u8> {
    let number = |at: u32| ((at * 37 + seed) % 101) as f32 / 50.0 - 1.0;
    (0..4 * BODIES).flat_map(|at| number(at).to_le_bytes()).collect()
}

/// n-body gravity: a compute queue moves bodies between two buffers, a 3D queue uses the newest
/// one, and the CPU is at most `FRAMES` frames ahead. Returns what each frame saw.
fn n_body(app: &App, submission: Submission) -> Result<Vec<Vec<u8>>> {
    let render = app.create_queue(QueueDesc::direct("render").submission(submission))?;
    let compute = app.create_queue(QueueDesc::compute("compute").submission(submission))?;
    let upload = app.create_buffer(BufferDesc::upload("upload", 2 * BODY_BYTES))?;
    upload.write(0, &[bodies(1), bodies(2)].concat())?;
    let positions = [0, 1].map(|at| {
        app.create_buffer(BufferDesc::new(format!("positions {at}"), BODY_BYTES)).unwrap()
    });
    let velocities = app.create_buffer(BufferDesc::new("velocities", BODY_BYTES))?;
    let seen = BufferDesc::readback("seen", STEPS as u64 * BODY_BYTES);
    let seen = app.create_buffer(seen)?;
    // LoadAssets
    let mut list = app.create_command_list(CommandListType::Direct);
    list.copy(&positions[0], 0, &upload, 0, BODY_BYTES)?;
    list.copy(&velocities, 0, &upload, BODY_BYTES, BODY_BYTES)?;
    render.execute(&[&list.close()?])?;
    let (rendered, computed) = (app.create_fence("rendered", 0)?, app.create_fence("computed", 0)?);
    let frame = app.create_fence("frame", 0)?;
    render.signal(&rendered, 1)?;

    let allocators: Vec<_> = (0..FRAMES)
        .map(|_| {
            let of = |list_type| app.create_command_allocator("frame", list_type);
            (of(CommandListType::Compute), of(CommandListType::Direct))
        })
        .collect();
    for step in 0..STEPS {
        let value = step as u64 + 1;
        // MoveToNextFrame: the resources of this frame are free again.
        let event = app.create_event(EventDesc::auto_reset());
        let needed = value.saturating_sub(FRAMES as u64);
        if frame.completed_value() < needed {
            frame.set_event_on_completion(needed, &event)?;
            event.wait()?;
        }
        let (simulation, drawing) = &allocators[step % FRAMES];
        let (from, to) = (&positions[step % 2], &positions[(step + 1) % 2]);
        // Simulate: the buffer to write was drawn, and the frame before is complete.
        simulation.reset()?;
        let mut list = app.create_command_list_from(simulation)?;
        list.barrier(&[Barrier::transition(from, S::COMMON, S::NON_PIXEL_SHADER_RESOURCE)])?;
        list.barrier(&[Barrier::transition(to, S::COMMON, S::UNORDERED_ACCESS)])?;
        let program = NBody { pos_in: from, pos_out: to, vel: &velocities, n: BODIES, dt: 0.01 };
        list.dispatch(&program, program.groups())?;
        compute.wait(&rendered, value)?;
        compute.execute(&[&list.close()?])?;
        compute.signal(&computed, value)?;
        // Render
        drawing.reset()?;
        let mut list = app.create_command_list_from(drawing)?;
        list.copy(&seen, step as u64 * BODY_BYTES, to, 0, BODY_BYTES)?;
        render.wait(&computed, value)?;
        render.execute(&[&list.close()?])?;
        render.signal(&rendered, value + 1)?;
        render.signal(&frame, value)?;
    }
    frame.wait(STEPS as u64)?;
    let mut steps = Vec::new();
    for step in 0..STEPS {
        let mut bytes = vec![0; BODY_BYTES as usize];
        seen.read(step as u64 * BODY_BYTES, &mut bytes)?;
        steps.push(bytes);
    }
    Ok(steps)
}

#[test]
fn n_body_gravity_computes_beside_rendering() {
    let mut results = Vec::new();
    for submission in Submission::ALL {
        let app = app().case(submission);
        let steps = app.machine.run(|| n_body(&app, submission)).unwrap().unwrap();
        assert!(steps.windows(2).all(|pair| pair[0] != pair[1]), "{submission}: bodies move");
        is_clean(&app);
        results.push(steps);
    }
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "the models agree");
}

const CONTEXTS: u32 = 4;

/// Multithreading: each thread records a list of the frame, and one call executes them in order.
#[test]
#[allow(clippy::disallowed_methods, reason = "threads of std record lists")]
fn threads_record_the_lists_of_one_call() {
    let options = DeviceOptions::new("threads").validation(Validation::STATES);
    App::on(&Platform::host(), options, |_| ()).run(|app| {
        let direct = CommandListType::Direct;
        let queue = app.queue(direct, Submission::User);
        let bytes = u64::from(CONTEXTS) * 4;
        let sums = app.create_buffer(BufferDesc::new("sums", bytes)).unwrap();
        let readback = app.create_buffer(BufferDesc::readback("readback", bytes)).unwrap();
        for frame in 0..3 {
            let (sums, readback) = (&sums, &readback);
            let scene = |context: u32| {
                let mut list = app.create_command_list(direct);
                list.clear_uint(sums, u64::from(context) * 4, 4, frame * 10 + context)?;
                list.close()
            };
            let mut lists: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> =
                    (0..CONTEXTS).map(|context| scope.spawn(move || scene(context))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect()
            });
            let mut post = app.create_command_list(direct);
            let read = Barrier::transition(sums, S::UNORDERED_ACCESS, S::COPY_SOURCE);
            post.barrier(&[read]).unwrap();
            post.copy(readback, 0, sums, 0, bytes).unwrap();
            lists.push(post.close().unwrap());
            let all: Vec<_> = lists.iter().collect();
            // ExecuteCommandLists
            queue.execute(&all).unwrap();
            queue.wait_idle().unwrap();
            assert_eq!(words(readback), [0, 1, 2, 3].map(|context| frame * 10 + context));
        }
        assert_eq!(app.state_violations(), []);
    });
}

fn words(buffer: &Buffer) -> Vec<u32> {
    let mut bytes = vec![0; buffer.bytes() as usize];
    buffer.read(0, &mut bytes).unwrap();
    bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A buffer of the default heap with these words, uploaded by `queue`.
fn uploaded(app: &App, queue: &tidegate::d3d12::Queue, name: &str, of: &[u32]) -> Buffer {
    let data = bytes_of(of);
    let upload = app.create_buffer(BufferDesc::upload("upload", data.len() as u64)).unwrap();
    upload.write(0, &data).unwrap();
    let buffer = app.create_buffer(BufferDesc::new(name, data.len() as u64)).unwrap();
    app.execute(queue, |list| list.copy_resource(&buffer, &upload));
    buffer
}

/// ExecuteIndirect: a compute pass writes the commands and their number, which the next pass runs.
#[test]
fn execute_indirect_runs_the_commands_that_a_compute_pass_wrote() {
    for submission in Submission::ALL {
        app().case(submission).run(move |app| {
            let queue = app.queue(CommandListType::Compute, submission);
            let commands = app.create_buffer(BufferDesc::new("commands", 4 * INDIRECT_BYTES));
            let (commands, count) =
                (commands.unwrap(), app.create_buffer(BufferDesc::new("count", 4)).unwrap());
            let object = uploaded(app, &queue, "object", &[3, 3, 1, 3]);
            let bins = app.create_buffer(BufferDesc::new("bins", 16)).unwrap();
            let readback = app.create_buffer(BufferDesc::readback("readback", 16)).unwrap();
            app.execute(&queue, |list| {
                // The pass that culls: every command has one group; two of four are to run.
                let ones = FillPattern { dst: &commands, n: 12, first: 1, step: 0 };
                list.dispatch(&ones, ones.groups())?;
                let two = FillPattern { dst: &count, n: 1, first: 2, step: 0 };
                list.dispatch(&two, two.groups())?;
                let ready =
                    |buffer| Barrier::transition(buffer, S::UNORDERED_ACCESS, S::INDIRECT_ARGUMENT);
                list.barrier(&[ready(&commands), ready(&count)])?;
                list.set_pipeline_state(&PipelineState::new(Histogram::SHADER))?;
                list.set_compute_root_shader_resource_view(0, &object)?;
                list.set_compute_root_unordered_access_view(1, &bins)?;
                list.set_compute_root_constants(2, &[4, 4])?;
                list.execute_indirect(4, commands.at(0), Some(count.at(0)))?;
                list.barrier(&[Barrier::transition(&bins, S::UNORDERED_ACCESS, S::COPY_SOURCE)])?;
                list.copy_resource(&readback, &bins)
            });
            queue.wait_idle().unwrap();
            assert_eq!(words(&readback), [0, 2, 0, 6], "each of two commands counts once");
            is_clean(app);
        });
    }
}

/// Another queue may write behind the arguments of the last dispatch, and not the last of them.
#[test]
fn an_indirect_dispatch_reads_its_arguments_and_no_byte_more() {
    for (at, hazards) in [(0, 1), (INDIRECT_BYTES - 4, 1), (INDIRECT_BYTES, 0)] {
        let (_, report) = app().run_to_report(move |app| {
            let reader = app.queue(CommandListType::Compute, Submission::User);
            let writer = app.queue(CommandListType::Copy, Submission::User);
            let commands = app.create_buffer(BufferDesc::new("commands", 2 * INDIRECT_BYTES));
            let (commands, go) = (commands.unwrap(), app.fence(0));
            let object = uploaded(app, &reader, "object", &[0; 4]);
            let [bins, zero] =
                ["bins", "zero"].map(|name| app.create_buffer(BufferDesc::new(name, 16)).unwrap());
            reader.wait_idle().unwrap();
            reader.wait(&go, 1).unwrap();
            writer.wait(&go, 1).unwrap();
            app.execute(&reader, |list| {
                list.set_pipeline_state(&PipelineState::new(Histogram::SHADER))?;
                list.set_compute_root_shader_resource_view(0, &object)?;
                list.set_compute_root_unordered_access_view(1, &bins)?;
                list.set_compute_root_constants(2, &[4, 4])?;
                list.execute_indirect(1, commands.at(0), None)
            });
            app.execute(&writer, |list| list.copy(&commands, at, &zero, 0, 4));
            go.signal(1).unwrap();
            reader.wait_idle().unwrap();
            writer.wait_idle().unwrap();
            let found = app.hazards().expect("the check is on").hazards;
            assert_eq!(found.len(), hazards, "byte {at}: {found:?}");
        });
        assert!(report.completed(), "{report:?}");
    }
}

/// PredicationQueries: a value that the GPU has computed decides whether the object is drawn.
#[test]
fn predication_draws_what_the_query_has_seen() {
    for (visible, drawn) in [(0, 1), (1, 7)] {
        for submission in Submission::ALL {
            app().case(submission).run(move |app| {
                let queue = app.queue(CommandListType::Direct, submission);
                let query = app.create_buffer(BufferDesc::new("query", 8)).unwrap();
                let target = app.create_buffer(BufferDesc::new("target", 4)).unwrap();
                let readback = app.create_buffer(BufferDesc::readback("readback", 4)).unwrap();
                app.execute(&queue, |list| {
                    list.clear_uint(&target, 0, 4, 1)?;
                    // In place of the occlusion query and ResolveQueryData.
                    list.clear_uint(&query, 0, 4, visible)?;
                    let resolved = Barrier::transition(&query, S::UNORDERED_ACCESS, S::PREDICATION);
                    list.barrier(&[resolved, Barrier::unordered_access(&target)])?;
                    list.set_predication(Some(query.at(0)), PredicationOp::EqualZero)?;
                    list.clear_uint(&target, 0, 4, 7)?;
                    list.set_predication(None, PredicationOp::EqualZero)?;
                    let read = Barrier::transition(&target, S::UNORDERED_ACCESS, S::COPY_SOURCE);
                    list.barrier(&[read])?;
                    list.copy_resource(&readback, &target)
                });
                queue.wait_idle().unwrap();
                assert_eq!(words(&readback), [drawn], "visible {visible}");
                is_clean(app);
            });
        }
    }
}

/// Dynamic indexing: one heap with the views of every material, and a table from a material on.
#[test]
fn dynamic_indexing_takes_the_views_of_a_material_by_number() {
    const MATERIALS: usize = 4;
    app().run(|app| {
        let queue = app.queue(CommandListType::Direct, Submission::Hardware);
        let mut heap = app.create_descriptor_heap("materials", 2 * MATERIALS);
        let mut bins = Vec::new();
        for material in 0..MATERIALS {
            let texels = [material as u32; 4];
            let source = uploaded(app, &queue, &format!("material {material}"), &texels);
            let name = format!("bins {material}");
            let of_material =
                app.create_buffer(BufferDesc::new(name, 4 * MATERIALS as u64)).unwrap();
            heap.set_view(2 * material, &source).unwrap();
            heap.set_view(2 * material + 1, &of_material).unwrap();
            bins.push(of_material);
        }
        let readback = BufferDesc::readback("readback", 4 * MATERIALS as u64);
        let readback = app.create_buffer(readback).unwrap();
        for material in [2, 0, 3] {
            app.execute(&queue, |list| {
                list.set_descriptor_heap(&heap)?;
                list.set_pipeline_state(&PipelineState::new(Histogram::SHADER))?;
                list.set_compute_root_constants(2, &[4, MATERIALS as u32])?;
                list.set_compute_root_descriptor_table(0, 2 * material, 2)?;
                list.dispatch_groups([1; 3])?;
                let bins = &bins[material];
                list.barrier(&[Barrier::transition(bins, S::UNORDERED_ACCESS, S::COPY_SOURCE)])?;
                list.copy_resource(&readback, bins)
            });
            queue.wait_idle().unwrap();
            let mut expected = vec![0; MATERIALS];
            expected[material] = 4;
            assert_eq!(words(&readback), expected);
        }
        is_clean(app);
    });
}

/// Residency: more data than local memory holds; what a frame uses is made resident before, and the
/// rest may leave.
#[test]
fn residency_takes_turns_in_local_memory() {
    const BYTES: u64 = 1 << 20;
    let options = DeviceOptions::new("residency").validation(Validation::STATES);
    App::new(options, |config| config.gpu.local_memory_bytes = 2 * BYTES + (1 << 18)).run(|app| {
        let queue = app.queue(CommandListType::Direct, Submission::Packet);
        let readback = app.create_buffer(BufferDesc::readback("readback", 4)).unwrap();
        let ready = app.create_fence("resident", 0).unwrap();
        let sets: Vec<Buffer> = (0..4)
            .map(|set| {
                let made = app.create_buffer(BufferDesc::new(format!("set {set}"), BYTES)).unwrap();
                app.execute(&queue, |list| list.clear_uint(&made, 0, BYTES, set));
                // Its first reference goes when the work is queued.
                app.evict(&[&made]).unwrap();
                made
            })
            .collect();
        let resident: Vec<&Buffer> = sets.iter().collect();
        assert!(matches!(app.make_resident(&resident), Err(Error::OverBudget { .. })));
        for (value, set) in (1..).zip([0, 3, 1, 2, 0]) {
            app.enqueue_make_resident(&[&sets[set]], &ready, value).unwrap();
            queue.wait(&ready, value).unwrap();
            app.execute(&queue, |list| list.copy(&readback, 0, &sets[set], BYTES - 4, 4));
            app.evict(&[&sets[set]]).unwrap();
            queue.wait_idle().unwrap();
            assert_eq!(words(&readback), [set as u32]);
        }
        assert_eq!(app.state_violations(), []);
    });
}
