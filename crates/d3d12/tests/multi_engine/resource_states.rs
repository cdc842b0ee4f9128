//! Resource states on machines: the use that each command of a list makes of a resource, errors in
//! place of reports, presents without a fence, mapped heaps, and predicates across preemption.

use tidegate::d3d12::TILE_BYTES;
use tidegate::programs::{Draw, FillPattern, Histogram};
use tidegate_testbed::prelude::*;

type S = ResourceStates;
const DIRECT: CommandListType = CommandListType::Direct;

fn app(validation: Validation) -> App {
    App::new(DeviceOptions::default().validation(validation), |config| {
        config.gpu.display = Some(DisplayConfig::default());
    })
}

/// Records commands with `buffer`, which a barrier has put into another state than the first
/// command needs. Returns what was reported of it: the command and the state that it needs.
fn needs(
    app: &App,
    buffer: &Buffer,
    record: impl FnOnce(&mut CommandList, &Buffer),
) -> Vec<(&'static str, S)> {
    let mut list = app.create_command_list(DIRECT);
    // No command needs this state.
    list.barrier(&[Barrier::transition(buffer, S::COMMON, S::STREAM_OUT)]).unwrap();
    record(&mut list, buffer);
    list.close().unwrap();
    let found = app.state_violations();
    assert!(found.iter().all(|v| v.rule == StateRule::WrongState), "{found:?}");
    found.iter().map(|v| (v.command.kind, v.needed)).collect()
}

#[test]
fn every_command_says_in_which_state_it_uses_a_resource() {
    app(Validation::STATES).run(|app| {
        let plain = |name: &str| app.create_buffer(BufferDesc::new(name, 4096)).unwrap();
        let other = plain("other");
        let needs = |record: &dyn Fn(&mut CommandList, &Buffer)| {
            needs(app, &plain("x"), |list, buffer| record(list, buffer))
        };
        let (source, dest) = (S::COPY_SOURCE, S::COPY_DEST);
        let (uav, read) = (S::UNORDERED_ACCESS, S::NON_PIXEL_SHADER_RESOURCE);
        let found = needs(&|list, x| list.copy(x, 0, &other, 0, 4).unwrap());
        assert_eq!(found, [("CopyBufferRegion", dest)]);
        let found = needs(&|list, x| list.copy(&other, 0, x, 0, 4).unwrap());
        assert_eq!(found, [("CopyBufferRegion", source)]);
        let found = needs(&|list, x| list.copy_resource(x, &other).unwrap());
        assert_eq!(found, [("CopyResource", dest)]);
        let found = needs(&|list, x| {
            let texture = TextureDesc::new_2d("t", Format::R32Uint, 8, 8);
            let rows = texture.copyable_footprints(0, 1, 0).footprints[0];
            let texture = app.create_texture(texture).unwrap();
            let (to, from) = (
                TextureCopyLocation::Subresource(&texture, 0),
                TextureCopyLocation::Footprint(x, rows),
            );
            list.copy_texture_region(to, [0; 3], from, None).unwrap();
        });
        assert_eq!(found, [("CopyTextureRegion", source)]);
        let found = needs(&|list, x| list.clear_uint(x, 0, 4, 1).unwrap());
        assert_eq!(found, [("ClearUnorderedAccessViewUint", uav)]);
        let found = needs(&|list, x| list.clear_float(x, 0, 4, 1.0).unwrap());
        assert_eq!(found, [("ClearUnorderedAccessViewFloat", uav)]);
        let found = needs(&|list, x| list.clear_render_target_view(x, [1.0; 4]).unwrap());
        assert_eq!(found, [("ClearRenderTargetView", S::RENDER_TARGET)]);
        let found = needs(&|list, x| list.discard(x).unwrap());
        assert_eq!(found, [("DiscardResource", uav)]);
        // A program reads some of its arguments and writes others.
        let found = needs(&|list, x| {
            let histogram = Histogram { src: x, bins: &other, n: 4, bin_count: 4 };
            list.dispatch(&histogram, histogram.groups()).unwrap();
        });
        assert_eq!(found, [("Dispatch", read)]);
        let found = needs(&|list, x| {
            let histogram = Histogram { src: &other, bins: x, n: 4, bin_count: 4 };
            list.dispatch(&histogram, histogram.groups()).unwrap();
        });
        assert_eq!(found, [("Dispatch", uav)]);
        for (argument, needed) in [
            (0, S::VERTEX_AND_CONSTANT_BUFFER),
            (1, S::RENDER_TARGET),
            (2, S::PIXEL_SHADER_RESOURCE),
            (3, uav),
        ] {
            let found = needs(&|list, x| {
                let buffers = [plain("0"), plain("1"), plain("2"), plain("3")];
                let of_buffer = |at: usize| if at == argument { x } else { &buffers[at] };
                let draw = Draw::triangles(of_buffer(0).at(0), 3, of_buffer(3).at(0), [8, 8]);
                let draw = draw.target(of_buffer(1).at(0)).textured(of_buffer(2).at(0), [8, 8]);
                list.draw(&draw, draw.groups()).unwrap();
            });
            assert_eq!(found, [("Draw", needed)]);
        }
        let set = |list: &mut CommandList, dst: &Buffer| {
            list.set_pipeline_state(&PipelineState::new(FillPattern::SHADER)).unwrap();
            list.set_compute_root_unordered_access_view(0, dst).unwrap();
            list.set_compute_root_constants(1, &[4, 0, 1]).unwrap();
        };
        let found = needs(&|list, x| {
            set(list, x);
            list.dispatch_groups([1; 3]).unwrap();
        });
        assert_eq!(found, [("Dispatch", uav)]);
        let found = needs(&|list, x| {
            set(list, x);
            list.execute_indirect(1, other.at(0), None).unwrap();
        });
        assert_eq!(found, [("ExecuteIndirect", uav)]);
        let found = needs(&|list, x| {
            set(list, &other);
            list.execute_indirect(1, x.at(0), None).unwrap();
        });
        assert_eq!(found, [("ExecuteIndirect", S::INDIRECT_ARGUMENT)]);
        let found = needs(&|list, x| {
            list.set_predication(Some(x.at(0)), PredicationOp::EqualZero).unwrap();
        });
        assert_eq!(found, [("SetPredication", S::INDIRECT_ARGUMENT)]);
        let times = app.create_query_heap("times", 1).unwrap();
        let found = needs(&|list, x| {
            list.end_query(&times, 0).unwrap();
            list.resolve_query_data(&times, 0, 1, x, 0).unwrap();
        });
        assert_eq!(found, [("ResolveQueryData", dest)]);
        let tiled = app.create_reserved_buffer(BufferDesc::new("tiled", TILE_BYTES)).unwrap();
        let linear = app.create_buffer(BufferDesc::readback("linear", TILE_BYTES)).unwrap();
        let found = crate::resource_states::needs(app, &tiled, |list, x| {
            list.copy_tiles(x, 0..1, &linear, 0, TileCopy::ToBuffer).unwrap();
        });
        assert_eq!(found, [("CopyTiles", source)]);
    });
}

#[test]
fn root_views_are_used_by_dispatches_and_not_where_they_are_set() {
    app(Validation::STATES).run(|app| {
        let x = app.create_buffer(BufferDesc::new("x", 64)).unwrap();
        let mut list = app.create_command_list(CommandListType::Compute);
        list.barrier(&[Barrier::transition(&x, S::COMMON, S::COPY_DEST)]).unwrap();
        list.set_pipeline_state(&PipelineState::new(FillPattern::SHADER)).unwrap();
        list.set_compute_root_unordered_access_view(0, &x).unwrap();
        list.set_compute_root_constants(1, &[16, 0, 1]).unwrap();
        list.barrier(&[Barrier::transition(&x, S::COPY_DEST, S::UNORDERED_ACCESS)]).unwrap();
        list.dispatch_groups([1; 3]).unwrap();
        list.barrier(&[Barrier::transition(&x, S::UNORDERED_ACCESS, S::COPY_SOURCE)]).unwrap();
        list.dispatch_groups([1; 3]).unwrap();
        list.close().unwrap();
        let found = app.state_violations();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].command.command, found[0].command.kind), (4, "Dispatch"));
    });
}

#[test]
fn violations_are_errors_of_the_calls_that_make_them() {
    for submission in Submission::ALL {
        app(Validation::STATE_ERRORS).case(submission).run(move |app| {
            let [a, b] =
                ["a", "b"].map(|name| app.create_buffer(BufferDesc::new(name, 64)).unwrap());
            let queue = app.queue(DIRECT, submission);
            let mut list = app.create_command_list(DIRECT);
            list.set_name("both ways");
            list.copy(&a, 0, &b, 0, 64).unwrap();
            list.copy(&b, 0, &a, 0, 64).unwrap();
            let Err(Error::State(violation)) = list.close() else { panic!("it closed") };
            assert_eq!((violation.rule, violation.command.command), (StateRule::NeedsBarrier, 1));
            assert_eq!(Error::State(violation).code(), ErrorCode::Failed);
            assert_eq!(app.state_violations().len(), 2, "both buffers are reported too");

            let with = |from, to| {
                let mut list = app.create_command_list(DIRECT);
                list.set_name("barrier");
                list.barrier(&[Barrier::transition(&a, from, to)]).unwrap();
                list.close().unwrap()
            };
            // Right, and a violation behind a wait: a report.
            let gate = app.create_fence("gate", 0).unwrap();
            queue.wait(&gate, 1).unwrap();
            queue.execute(&[&with(S::COPY_SOURCE, S::COPY_DEST)]).unwrap();
            gate.signal(1).unwrap();
            queue.wait_idle().unwrap();
            assert_eq!(app.state_violations().len(), 1);
            // A barrier whose state before is not the resource's.
            let error = queue.execute(&[&with(S::COPY_SOURCE, S::COPY_DEST)]).unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidCall, "{error}");
            let Some(RemovedReason::InvalidCall(call)) = app.removed_reason() else { panic!() };
            assert_eq!((call.list.as_deref(), call.command), (Some("barrier"), Some(0)));
            assert!(call.why.contains("name that state as the barrier's state before"), "{call}");
        });
    }
}

#[test]
fn a_present_of_a_texture_that_another_queue_draws_needs_a_fence() {
    app(Validation::STATES).run(|app| {
        let queue = |name: &str| {
            app.create_queue(QueueDesc::direct(name).submission(Submission::Packet)).unwrap()
        };
        let (draws, shows) = (queue("draws"), queue("shows"));
        let back = |name: &str| {
            app.create_texture(TextureDesc::new_2d(name, Format::R8G8B8A8Unorm, 64, 64)).unwrap()
        };
        let desc = SwapChainDesc::new("screen", 64, 64).buffers(2).frame_latency(1);
        let chain =
            app.create_swap_chain_of_textures(&shows, vec![back("0"), back("1")], desc).unwrap();
        let drawn = app.create_fence("drawn", 0).unwrap();
        for (value, ordered) in [(1, true), (2, false)] {
            let target = &chain.textures()[chain.current_index()];
            app.execute(&draws, |list| {
                list.barrier(&[Barrier::transition(target, S::PRESENT, S::RENDER_TARGET)])?;
                list.clear_render_target_view(target, [0.0, 1.0, 0.0, 1.0])?;
                list.barrier(&[Barrier::transition(target, S::RENDER_TARGET, S::PRESENT)])
            });
            draws.signal(&drawn, value).unwrap();
            if ordered {
                shows.wait(&drawn, value).unwrap();
            } else {
                draws.wait_idle().unwrap();
            }
            chain.present(1).unwrap();
            chain.wait_shown().unwrap();
            assert_eq!(app.state_violations(), [], "a fence or the CPU orders them");
        }
        let target = &chain.textures()[chain.current_index()];
        app.execute(&draws, |list| {
            list.barrier(&[Barrier::transition(target, S::PRESENT, S::RENDER_TARGET)])?;
            list.barrier(&[Barrier::transition(target, S::RENDER_TARGET, S::PRESENT)])
        });
        chain.present(1).unwrap();
        let found = app.state_violations();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(
            found[0].to_string(),
            "texture '0' subresource 0: command 0 (Present) of a list without a name on queue \
             'shows' needs COMMON without an order with command 0 (ResourceBarrier) of a list \
             without a name on queue 'draws'; no fence is signalled by 'draws' after it and waited \
             for by 'shows'; order the two queues with a fence"
        );
        draws.wait_idle().unwrap();
        chain.wait_shown().unwrap();
    });
}

#[test]
fn no_cpu_maps_the_default_heap() {
    app(Validation::empty()).run(|app| {
        let x = app.create_buffer(BufferDesc::new("x", 64)).unwrap();
        let error = x.write(0, &[1]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a map-write of buffer 'x': no CPU maps the default heap; copy over an upload or \
             readback heap"
        );
        assert!(matches!(x.read(0, &mut [0]), Err(Error::BadValue { .. })));
        assert!(matches!(x.write_traced(0, &[1]), Err(Error::BadValue { .. })));
        let heap = app.create_heap(HeapDesc::new("heap", 1)).unwrap();
        let placed = app.create_placed_buffer(&heap, 0, BufferDesc::new("p", 64)).unwrap();
        assert!(placed.write(0, &[1]).is_err());
        for heap in [Heap::Upload, Heap::Readback, Heap::GpuUpload] {
            let y = app.create_buffer(BufferDesc::new("y", 4).heap(heap)).unwrap();
            y.write(0, &[1, 2, 3, 4]).unwrap();
            let mut bytes = [0; 4];
            y.read(0, &mut bytes).unwrap();
            assert_eq!(bytes, [1, 2, 3, 4], "{heap:?}");
        }
    });
}

#[test]
fn a_predicate_is_kept_while_its_packet_is_preempted() {
    const MS: u64 = 1_000_000;
    for skips in [true, false] {
        app(Validation::empty()).case(skips).racing().run(move |app| {
            let desc = |name: &str| QueueDesc::compute(name).submission(Submission::Packet);
            let low = app.create_queue(desc("low")).unwrap();
            let high = app.create_queue(desc("high").priority(Priority::High)).unwrap();
            let (data, value) = (app.readback(4), BufferDesc::gpu_upload("value", 8));
            let value = app.create_buffer(value).unwrap();
            value.write(0, &u64::from(!skips).to_le_bytes()).unwrap();
            app.execute(&low, |list| {
                list.set_predication(Some(value.at(0)), PredicationOp::EqualZero)?;
                list.timed(5 * MS)?;
                list.fill(&data, 0, 4, 7)
            });
            app.pass(MS);
            app.execute(&high, |list| list.timed(MS));
            app.pass(MS / 2);
            assert_eq!(app.machine.adapter().stats().preemptions, 1);
            // The GPU has read the value.
            value.write(0, &u64::from(skips).to_le_bytes()).unwrap();
            low.wait_idle().unwrap();
            let mut found = [0; 4];
            data.read(0, &mut found).unwrap();
            assert_eq!(u32::from_le_bytes(found), if skips { 0 } else { 7 });
        });
    }
}

/// The rules that are broken by what was executed since the last call.
fn broken(app: &App) -> Vec<StateRule> {
    app.state_violations().iter().map(|violation| violation.rule).collect()
}

// spec: ME-077, ME-078
#[test]
fn promotion_and_decay_hold_between_calls_and_not_inside_one() {
    for submission in Submission::ALL {
        app(Validation::STATES).case(submission).racing().run(move |app| {
            let [x, y] =
                ["x", "y"].map(|name| app.create_buffer(BufferDesc::new(name, 256)).unwrap());
            let texture = TextureDesc::new_2d("texture", Format::R32Uint, 8, 8);
            let rows = texture.copyable_footprints(0, 1, 0).footprints[0];
            let space = app.create_buffer(BufferDesc::new("rows", rows.bytes())).unwrap();
            let make = || app.create_texture(texture.clone()).unwrap();
            let (direct, copy) =
                (app.queue(DIRECT, submission), app.queue(CommandListType::Copy, submission));
            let into = |list: &mut CommandList| list.copy(&x, 0, &y, 0, 4);
            let from = |list: &mut CommandList| list.copy(&y, 0, &x, 0, 4);
            // A buffer decays at the end of each call, whatever set its state.
            app.execute(&direct, into);
            app.execute(&direct, from);
            app.execute(&direct, |list| {
                list.barrier(&[Barrier::transition(&x, S::COMMON, S::UNORDERED_ACCESS)])
            });
            app.execute(&direct, from);
            assert_eq!(broken(app), []);
            // Not between two lists of one call.
            let lists = [app.list(DIRECT, into), app.list(DIRECT, from)];
            direct.execute(&[&lists[0], &lists[1]]).unwrap();
            assert_eq!(broken(app), [StateRule::NeedsBarrier; 2]);
            // A texture that a direct queue promoted to a write state does not decay; one that a
            // copy queue used does.
            for (queue, rules) in [(&direct, vec![StateRule::NeedsBarrier]), (&copy, Vec::new())] {
                let texture = make();
                let (texels, linear) = (
                    TextureCopyLocation::Subresource(&texture, 0),
                    TextureCopyLocation::Footprint(&space, rows),
                );
                app.execute(queue, |list| list.copy_texture_region(texels, [0; 3], linear, None));
                app.execute(queue, |list| list.copy_texture_region(linear, [0; 3], texels, None));
                assert_eq!(broken(app), rules, "{}", queue.list_type());
                // One that was promoted to a read state decays on every queue.
                let texture = make();
                let texels = TextureCopyLocation::Subresource(&texture, 0);
                app.execute(queue, |list| list.copy_texture_region(linear, [0; 3], texels, None));
                app.execute(queue, |list| list.copy_texture_region(texels, [0; 3], linear, None));
                assert_eq!(broken(app), [], "{}", queue.list_type());
            }
            direct.wait_idle().unwrap();
            copy.wait_idle().unwrap();
        });
    }
}

#[test]
fn split_and_aliasing_barriers_hold_over_calls() {
    for submission in Submission::ALL {
        app(Validation::STATES).case(submission).run(move |app| {
            let queue = app.queue(DIRECT, submission);
            let other = app.create_buffer(BufferDesc::new("other", 256)).unwrap();
            let texture = TextureDesc::new_2d("texture", Format::R32Uint, 8, 8);
            let texture = app.create_texture(texture.initial(S::COPY_DEST)).unwrap();
            let split = Barrier::transition(&texture, S::COPY_DEST, S::COPY_SOURCE);
            app.execute(&queue, |list| list.barrier(&[split.begin()]));
            app.execute(&queue, |list| list.clear_render_target_view(&texture, [0.0; 4]));
            assert_eq!(broken(app), [StateRule::SplitPending]);
            app.execute(&queue, |list| list.barrier(&[split.end()]));
            assert_eq!(broken(app), []);
            app.execute(&queue, |list| list.barrier(&[split.end()]));
            assert_eq!(broken(app), [StateRule::SplitUnmatched]);

            let heap = app.create_heap(HeapDesc::new("heap", 1)).unwrap();
            let [a, b] = ["a", "b"].map(|name| {
                app.create_placed_buffer(&heap, 0, BufferDesc::new(name, 256)).unwrap()
            });
            let copy_to = |buffer: &Buffer| {
                app.execute(&queue, |list| list.copy(buffer, 0, &other, 0, 4));
            };
            copy_to(&a);
            copy_to(&b);
            assert_eq!(broken(app), [StateRule::Aliased]);
            app.execute(&queue, |list| list.barrier(&[Barrier::aliasing(&b, &a)]));
            copy_to(&a);
            assert_eq!(broken(app), []);
            queue.wait_idle().unwrap();
        });
    }
}

#[test]
fn only_resources_of_simultaneous_access_are_used_by_two_queues_without_a_fence() {
    for submission in Submission::ALL {
        app(Validation::STATES).case(submission).racing().run(move |app| {
            let queue = |name: &str| {
                app.create_queue(QueueDesc::compute(name).submission(submission)).unwrap()
            };
            let (one, two) = (queue("one"), queue("two"));
            let buffer = app.create_buffer(BufferDesc::new("buffer", 4096)).unwrap();
            let desc = || TextureDesc::new_2d("texture", Format::R32Uint, 8, 8);
            let rows = desc().copyable_footprints(0, 1, 0).footprints[0];
            let fence = app.create_fence("order", 0).unwrap();
            let use_on = |queue: &tidegate::d3d12::Queue, texture: &tidegate::d3d12::Texture| {
                app.execute(queue, |list| {
                    list.copy_texture_region(
                        TextureCopyLocation::Footprint(&buffer, rows),
                        [0; 3],
                        TextureCopyLocation::Subresource(texture, 0),
                        None,
                    )
                });
            };
            let write_on = |queue: &tidegate::d3d12::Queue, texture: &tidegate::d3d12::Texture| {
                app.execute(queue, |list| {
                    list.copy_texture_region(
                        TextureCopyLocation::Subresource(texture, 0),
                        [0; 3],
                        TextureCopyLocation::Footprint(&buffer, rows),
                        None,
                    )?;
                    // An ordinary texture keeps a write state; this sets it back.
                    list.barrier(&[Barrier::transition(texture, S::COPY_DEST, S::COMMON)])
                });
            };
            let shared = app.create_texture(desc().simultaneous_access()).unwrap();
            write_on(&one, &shared);
            use_on(&two, &shared);
            assert_eq!(broken(app), [], "its bytes are a matter of the check of accesses");
            let ordinary = app.create_texture(desc()).unwrap();
            write_on(&one, &ordinary);
            one.signal(&fence, 1).unwrap();
            two.wait(&fence, 1).unwrap();
            use_on(&two, &ordinary);
            assert_eq!(broken(app), [], "a fence orders them");
            write_on(&one, &ordinary);
            let found = app.state_violations();
            assert_eq!(found.len(), 1, "{found:?}");
            let missing = found[0].missing_fence.as_ref().unwrap();
            assert_eq!((&*missing.signal, &*missing.wait), ("two", "one"));
            let text = found[0].to_string();
            for part in ["(CopyTextureRegion)", "on queue 'one'", "on queue 'two'", "no fence"] {
                assert!(text.contains(part), "{text}");
            }
            one.wait_idle().unwrap();
            two.wait_idle().unwrap();
        });
    }
}
