//! Packets with physical addresses: what commands may reach, where buffers are cut when local
//! memory is too small, and what runs between two parts.

use tidegate::trace::{Kind, NameId};
use tidegate::variants;
use tidegate_testbed::prelude::*;

/// Of a test's allocations.
const BYTES: u64 = 64 * 1024;
const COPY: u32 = 2;

/// A machine of the named variant, with room for `room` allocations in local memory.
fn patching(room: u64) -> impl FnOnce(&mut MachineConfig) {
    move |config| {
        variants::find("patching").unwrap().apply(config);
        config.gpu.local_memory_bytes = room * BYTES;
    }
}

fn world(room: u64) -> World {
    world_with(patching(room))
}

fn on_demand(w: &World) -> Allocation {
    w.allocate_in(BYTES, Placement::LocalOnDemand)
}

fn word(allocation: &Allocation, at: u64) -> u64 {
    let AllocationMemory::Window(window) = &allocation.memory else { panic!("it moves") };
    let mut bytes = [0; 8];
    window.read(at, &mut bytes).unwrap();
    u64::from_le_bytes(bytes)
}

fn context(w: &World, node_ordinal: u32, gpu: u32) -> Handle {
    w.affine(1 << gpu).context(node_ordinal)
}

fn bytes(commands: &[Command]) -> Vec<u8> {
    let mut writer = CommandWriter::new();
    commands.iter().for_each(|c| writer.push(c));
    writer.to_bytes()
}

fn render(
    w: &World,
    on: &[Handle],
    commands: &[Command],
    list: &[(&Allocation, bool)],
) -> Result<(), Status> {
    let allocations: Vec<(Handle, bool)> =
        list.iter().map(|(a, write)| (a.handle, *write)).collect();
    let commands = bytes(commands);
    w.kernel.render(Render { contexts: on, commands: &commands, allocations: &allocations })
}

fn fill(to: &Allocation, value: u32) -> Command {
    tidegate_testbed::fill(to.gpu_va, BYTES, value)
}

fn copy(from: &Allocation, to: &Allocation) -> Command {
    Command::Copy { source: GpuVa(from.gpu_va), destination: GpuVa(to.gpu_va), bytes: BYTES }
}

/// Fills one allocation, and hands its content on from each to the next.
fn chain(all: &[Allocation], value: u32) -> Vec<Command> {
    let mut commands = vec![fill(&all[0], value)];
    commands.extend(all.windows(2).map(|pair| copy(&pair[0], &pair[1])));
    commands
}

fn twice(value: u32) -> u64 {
    u64::from(value) << 32 | u64::from(value)
}

/// What the driver was given of buffers: the id and the bytes of each part.
fn parts(w: &World) -> Vec<DdiCall> {
    w.driver.take().into_iter().filter(|c| c.name() == "SubmitCommand").collect()
}

// spec: PRE-034
#[test]
fn commands_run_with_the_addresses_that_the_driver_patches_in() {
    let w = world(4).run(|w| {
        let (all, context) = ([0; 3].map(|_| on_demand(w)), context(w, COPY, 0));
        w.driver.take();
        let list = [(&all[0], true), (&all[1], true), (&all[2], true)];
        render(w, &[context], &chain(&all, 7), &list).unwrap();
        w.on(context).complete();
        assert_eq!((word(&all[2], 0), word(&all[2], BYTES - 8)), (twice(7), twice(7)));
        assert_eq!(parts(w).len(), 1, "there is room for all of it");
    });
    assert_eq!(w.stats().split_parts, 0);
}

#[test]
fn each_command_that_stores_is_patched_and_each_other_one_is_passed_on() {
    world(4).run(|w| {
        let (own, read_only, context) = (on_demand(w), on_demand(w), context(w, COPY, 0));
        let at = |offset| GpuVa(own.gpu_va + offset);
        let commands = [
            Command::Label { name: 1 },
            Command::WriteValue { destination: at(8), value: 0x1_0000_0005 },
            Command::Barrier,
            Command::Timestamp { destination: at(16) },
            Command::Timed { ns: 1_000 },
            Command::Timestamp { destination: at(24) },
            Command::Gap { ns: 1_000 },
            Command::Timestamp { destination: at(BYTES - 8) },
        ];
        w.pass(5_000);
        render(w, &[context], &commands, &[(&own, true)]).unwrap();
        w.on(context).complete();
        assert_eq!(word(&own, 8), 0x1_0000_0005);
        let times = [16, 24, BYTES - 8].map(|offset| word(&own, offset));
        assert_eq!(times, [5_000, 6_000, 7_000]);
        assert_eq!((word(&own, 0), word(&own, 32)), (0, 0), "nothing else is stored");
        for destination in [at(BYTES - 4), GpuVa(read_only.gpu_va)] {
            let list = [(&own, true), (&read_only, false)];
            let refused = render(w, &[context], &[Command::Timestamp { destination }], &list);
            assert_eq!(refused, Err(Status::INVALID_PARAMETER), "{destination:?}");
        }
    });
}

// spec: PRE-034
#[test]
fn a_buffer_that_needs_more_than_there_is_runs_in_parts_and_is_right() {
    let w = world(2).run(|w| {
        let all: Vec<Allocation> = (0..6).map(|_| on_demand(w)).collect();
        let context = context(w, COPY, 0);
        w.driver.take();
        let list: Vec<_> = all.iter().map(|a| (a, true)).collect();
        for round in 1..4 {
            render(w, &[context], &chain(&all, round), &list).unwrap();
            w.on(context).complete();
            assert!(all.iter().all(|a| word(a, 8) == twice(round)), "round {round}");
        }
        let ids = parts(w);
        assert!(ids.len() >= 15, "{ids:?}");
        assert!(w.adapter().local_memory_use().most_bytes <= 2 * BYTES);
    });
    assert!(w.stats().split_parts >= 12);
}

/// What the driver was given between the first and the last part of a split buffer, while another
/// context has packets all the time: ids of that context's packets, and how many of the memory
/// manager's there were.
fn between_parts(preemption_aware: bool) -> (Vec<u32>, usize) {
    let change = move |config: &mut MachineConfig| {
        patching(2)(config);
        config.driver.preemption_aware = preemption_aware;
    };
    let w = world_with(change);
    let result = Arc::new(w.platform.mutex("what ran between", (Vec::new(), 0)));
    let inner = result.clone();
    w.run(move |w| {
        let all: Vec<Allocation> = (0..6).map(|_| on_demand(w)).collect();
        let split = context(w, COPY, 0);
        let list: Vec<_> = all.iter().map(|a| (a, true)).collect();
        // It is of another process, so work queued by this one does not delay its paging.
        let neighbour = w.client("another");
        let other = neighbour.context(COPY);
        let platform = w.platform.clone();
        w.driver.take();
        let going = w.platform.spawn("another", move || {
            for _ in 0..400 {
                neighbour.submit_packet(other, &[Command::Timed { ns: 1 }]);
                platform.sleep_until(platform.now().after(10));
            }
        });
        w.pass(50);
        let timed = |command| [command, Command::Timed { ns: 100 }];
        let commands: Vec<Command> = chain(&all, 9).into_iter().flat_map(timed).collect();
        render(w, &[split], &commands, &list).unwrap();
        w.on(split).complete();
        going.join();
        assert!(all.iter().all(|a| word(a, 0) == twice(9)));
        let calls = w.driver.take();
        let parts: Vec<usize> =
            (0..calls.len()).filter(|at| calls[*at].name() == "SubmitCommand").collect();
        assert!(parts.len() > 2, "{}", parts.len());
        let id = |call: &DdiCall| match call {
            DdiCall::SubmitCommandVirtual { args } => Some(args.submission_fence_id),
            _ => None,
        };
        let between = &calls[parts[0]..parts[parts.len() - 1]];
        let ids: Vec<u32> = between.iter().filter_map(id).collect();
        let calls = w.calls();
        let pages = |id: &u32| {
            let mut packets = calls.packets.iter().filter(|p| p.engine.node_ordinal == COPY);
            packets.any(|p| {
                p.submission_fence_id == *id && p.flags.contains(SubmitCommandFlags::PAGING)
            })
        };
        let (paging, others): (Vec<u32>, Vec<u32>) = ids.into_iter().partition(pages);
        *inner.lock() = (others, paging.len());
    });
    result.lock().clone()
}

// spec: PRE-111
#[test]
fn without_preemption_nothing_but_paging_runs_between_two_parts() {
    let (others, paging) = between_parts(false);
    assert_eq!(others, [0; 0], "packets of another context");
    assert!(paging > 0);
}

// spec: PRE-037
#[test]
fn with_preemption_packets_of_another_context_run_between_two_parts() {
    let (others, paging) = between_parts(true);
    assert!(others.len() > 2 && paging > 0, "{others:?}, {paging}");
}

/// A part begins with the state of a new packet, and another context's packets leave theirs: what
/// the commands of the first part set has to hold in the others all the same. The state that
/// commands set is the label.
// spec: PRE-038
#[test]
fn what_the_first_part_sets_holds_in_every_part() {
    for room in [1, 2, 3] {
        let w = world(room);
        w.platform.enable_tracing();
        let [own, foreign] =
            ["of the split buffer", "of another context"].map(|n| w.platform.trace_name(n));
        let label = |of: NameId| Command::Label { name: of.0 + 1 };
        let w = w.run(move |w| {
            let all: Vec<Allocation> = (0..6).map(|_| on_demand(w)).collect();
            let (split, other) = (context(w, COPY, 0), context(w, COPY, 0));
            let neighbour = (**w).clone();
            let platform = w.platform.clone();
            let (_, gpu_va) = w.bytes(4_096);
            let going = w.platform.spawn("another", move || {
                let fill = tidegate_testbed::fill(gpu_va, 64, 1);
                for _ in 0..50 {
                    neighbour.submit_packet(other, &[label(foreign), fill.clone()]);
                    platform.sleep_until(platform.now().after(1));
                }
            });
            let mut commands = vec![label(own)];
            commands.extend(all.iter().map(|to| fill(to, 5)));
            if room > 1 {
                commands.extend(all.windows(2).map(|pair| copy(&pair[0], &pair[1])));
            }
            let list: Vec<_> = all.iter().map(|a| (a, true)).collect();
            render(w, &[split], &commands, &list).unwrap();
            w.on(split).complete();
            going.join();
        });
        assert!(w.stats().split_parts >= 5 - u64::from(room > 1), "{room}");
        let trace = w.platform.take_trace("labels");
        let engine = |lane| trace.lanes.iter().any(|l| l.id == lane && l.kind == LaneKind::Engine);
        // Those of the memory manager have no label.
        let of = |kind, bytes| {
            let slices = trace.records.iter().filter(move |r| r.kind == kind && r.arg == bytes);
            slices.filter(|r| engine(r.lane)).map(|r| r.name).collect::<Vec<_>>()
        };
        let (fills, copies) = (of(Kind::Fill, BYTES), of(Kind::Copy, BYTES));
        let named = |names: &[NameId]| names.iter().filter(|name| **name == own).count();
        assert_eq!(named(&fills), 6, "room for {room}: {fills:?}");
        assert_eq!(named(&copies), if room > 1 { 5 } else { 0 }, "room for {room}: {copies:?}");
        assert!(fills.iter().chain(&copies).all(|name| *name != foreign), "room for {room}");
        assert_eq!(of(Kind::Fill, 64), [foreign; 50]);
    }
}

#[test]
fn a_part_does_without_the_memory_that_work_behind_a_held_engine_uses() {
    let unaware = |config: &mut MachineConfig| {
        patching(3)(config);
        config.driver.preemption_aware = false;
    };
    world_with(unaware).run(|w| {
        let all: Vec<Allocation> = (0..5).map(|_| on_demand(w)).collect();
        let (split, other, gate) = (context(w, COPY, 0), context(w, COPY, 0), w.monitored(0));
        // One allocation is used by a packet that waits, and leaves when that is complete.
        let used = w.allocate_in(BYTES, Placement::Local);
        w.on(other).wait(&gate, 1).run(&[fill(&used, 5)]);
        w.kernel.evict(w.device, &[used.handle]).unwrap();
        // It can go when the engine is held: the first part needs two allocations, the second
        // three.
        let given = w.platform.event(false);
        let engine_has_a_part = given.clone();
        w.hooked.on(Entry::SubmitCommand, move || engine_has_a_part.set(Step::ThreadWake));
        let (kernel, open) = (w.kernel.clone(), at(&gate, 1));
        let going = w.platform.spawn("gate", move || {
            assert_eq!(given.wait(), WaitEnd::Woken);
            kernel.signal_from_cpu(&open, SignalFlags::empty()).unwrap();
        });
        let commands = [
            fill(&all[0], 9),
            copy(&all[0], &all[1]),
            fill(&all[2], 8),
            copy(&all[2], &all[3]),
            copy(&all[3], &all[4]),
        ];
        let list: Vec<_> = all.iter().map(|a| (a, true)).collect();
        render(w, &[split], &commands, &list).unwrap();
        going.join();
        w.on(split).complete();
        w.on(other).complete();
        let words = [&all[1], &all[4], &used].map(|a| word(a, 0));
        assert_eq!(words, [twice(9), twice(8), twice(5)]);
        assert_eq!(parts(w).len(), 2);
        assert_eq!(w.state(), Ok(DeviceState::Active));
    });
}

#[test]
fn commands_reach_what_is_listed_and_nothing_else() {
    let w = world(4);
    w.run(|w| {
        let (own, other, context) = (on_demand(w), on_demand(w), context(w, COPY, 0));
        let fill_at = |destination, bytes| tidegate_testbed::fill(destination, bytes, 1);
        let dispatch = Command::Dispatch { program: 1, groups: [1; 3], args: vec![own.gpu_va] };
        let wait = Command::WaitFence {
            current_value: GpuVa(own.gpu_va),
            value: 1,
            epoch: 0,
            fence_handle: 0,
            log_entry: u32::MAX,
        };
        for (commands, listed) in [
            (vec![fill(&other, 1)], (&own, true)),
            (vec![fill(&own, 1)], (&own, false)),
            (vec![copy(&own, &other)], (&other, true)),
            (vec![fill_at(own.gpu_va + 8, BYTES)], (&own, true)),
            (vec![fill_at(own.gpu_va - 8, 8)], (&own, true)),
            (vec![fill_at(u64::MAX - 3, 8)], (&own, true)),
            (vec![store(own.gpu_va + BYTES - 4, 1)], (&own, true)),
            (vec![dispatch], (&own, true)),
            (vec![wait], (&own, true)),
            // A good command before a bad one does not run either.
            (vec![fill(&own, 5), fill(&other, 5)], (&own, true)),
        ] {
            let refused = render(w, &[context], &commands, &[listed]);
            assert_eq!(refused, Err(Status::INVALID_PARAMETER), "{commands:?}");
        }
        let raw = |commands: &[u8]| {
            let allocations = [(own.handle, true)];
            w.kernel.render(Render { contexts: &[context], commands, allocations: &allocations })
        };
        for bad in [&[][..], &[1, 2, 3], &[0xFF; 8], &[0; 8]] {
            assert_eq!(raw(bad), Err(Status::INVALID_PARAMETER), "{bad:?}");
        }
        let nowhere = render(w, &[], &[fill(&own, 1)], &[(&own, true)]);
        assert_eq!(nowhere, Err(Status::INVALID_PARAMETER));
        assert_eq!(word(&own, 0), 0);
        render(w, &[context], &[fill(&own, 6)], &[(&own, true)]).unwrap();
        w.on(context).complete();
        assert_eq!((word(&own, 0), w.state()), (twice(6), Ok(DeviceState::Active)));
    });
}

#[test]
fn what_one_command_needs_must_fit_at_once() {
    world(1).run(|w| {
        let (from, to, context) = (on_demand(w), on_demand(w), context(w, COPY, 0));
        let list = [(&from, true), (&to, true)];
        assert_eq!(render(w, &[context], &[copy(&from, &to)], &list), Err(Status::NO_MEMORY));
        render(w, &[context], &[fill(&from, 1), fill(&to, 2)], &list).unwrap();
        w.on(context).complete();
        assert_eq!((word(&from, 0), word(&to, 0)), (twice(1), twice(2)));
    });
}

#[test]
fn a_driver_that_patches_nothing_takes_no_commands_to_patch() {
    tidegate_testbed::world().run(|w| {
        let (own, context) = (on_demand(w), context(w, COPY, 0));
        let refused = render(w, &[context], &[fill(&own, 1)], &[(&own, true)]);
        assert_eq!(refused, Err(Status::NOT_SUPPORTED));
    });
}

fn three_fills(w: &World) -> (Status, DeviceState) {
    let (all, context) = ([0; 3].map(|_| on_demand(w)), context(w, COPY, 0));
    let list = [(&all[0], true), (&all[1], true), (&all[2], true)];
    let commands =
        [fill(&all[0], 1), Command::Timed { ns: 10 }, copy(&all[0], &all[1]), fill(&all[2], 3)];
    let status = render(w, &[context], &commands, &list).err().unwrap_or(Status::SUCCESS);
    (status, w.state().unwrap())
}

/// A driver whose list of patches leaves every unbinding out.
fn leaking() -> Overrides {
    Overrides::default().render(|inner, level, args| {
        let mut list = inner.render(level, args)?;
        list.retain(|place| place.allocation.is_some());
        Ok(list)
    })
}

// spec: PRE-035, PRE-036, PRE-040
#[test]
fn a_list_of_patches_rises_and_unbinds_what_it_binds_unless_nothing_verifies_it() {
    let opted_out = |caps: &mut AdapterCaps| caps.scheduling |= VidSchCaps::NO_DMA_PATCHING;
    let not_verified = |config: &mut MachineConfig| {
        patching(2)(config);
        config.kernel.verify_split_buffers = false;
    };
    let repeating = Overrides::default().render(|inner, level, args| {
        let mut list = inner.render(level, args)?;
        list[1].split_offset = list[0].split_offset;
        Ok(list)
    });
    for (case, machine, status) in [
        ("a binding stays", setup(patching(2)).overriding(leaking()), Status::INVALID_PARAMETER),
        (
            "the driver patches nothing",
            setup(patching(2)).caps(opted_out).overriding(leaking()),
            Status::SUCCESS,
        ),
        ("no verification", setup(not_verified).overriding(leaking()), Status::SUCCESS),
        ("it repeats", setup(patching(4)).overriding(repeating), Status::INVALID_PARAMETER),
    ] {
        machine.start().run(move |w| {
            assert_eq!(three_fills(w), (status, DeviceState::Active), "{case}");
        });
    }
}

// spec: PRE-039
#[test]
fn linked_adapters_run_the_same_copy_of_a_split_buffer() {
    let linked = |config: &mut MachineConfig| {
        patching(2)(config);
        config.gpu.physical_gpus = 2;
    };
    let platform = Platform::host();
    let last = Arc::new(platform.mutex("the last buffer", None));
    let submitted = Arc::new(platform.mutex("the bytes of each part", Vec::new()));
    let (patched, parts) = (last.clone(), submitted.clone());
    let keeping = Overrides::default()
        .patch(move |inner, level, args| {
            *patched.lock() = Some(args.dma_buffer.clone());
            inner.patch(level, args)
        })
        .submit_command(move |inner, level, args| {
            let buffer = last.lock().clone().expect("a buffer is patched first");
            let mut bytes = vec![0; buffer.len() as usize];
            buffer.read(0, &mut bytes).unwrap();
            parts.lock().push(bytes);
            inner.submit_command(level, args)
        });
    setup(linked).overriding(keeping).start().run(move |w| {
        let all: Vec<Allocation> = (0..4).map(|_| on_demand(w)).collect();
        let contexts = [0, 1].map(|gpu| context(w, COPY, gpu));
        let list: Vec<_> = all.iter().map(|a| (a, true)).collect();
        w.driver.take();
        render(w, &contexts, &chain(&all, 4), &list).unwrap();
        contexts.iter().for_each(|context| w.on(*context).complete());
        assert!(all.iter().all(|a| word(a, 16) == twice(4)));
        let calls = w.driver.take();
        let count = |what: &str| calls.iter().filter(|c| c.name() == what).count();
        assert!(count("Patch") > 1);
        assert_eq!(count("SubmitCommand"), 2 * count("Patch"), "both run what was patched once");
        // Both halves of a pair were given the same bytes.
        let submitted = submitted.lock();
        assert!(submitted.chunks(2).all(|pair| pair[0] == pair[1]));
        let twice = render(w, &[contexts[0]; 2], &chain(&all, 4), &list);
        assert_eq!(twice, Err(Status::INVALID_PARAMETER));
    });
}

/// A packet with physical addresses is preempted and goes on like any other.
#[test]
fn a_part_is_preempted_and_goes_on() {
    let with_save_areas = |config: &mut MachineConfig| {
        patching(4)(config);
        config.driver.save_areas = true;
    };
    world_with(with_save_areas).run(|w| {
        let (own, to, split) = (on_demand(w), on_demand(w), context(w, 0, 0));
        w.pass(1_000_000);
        let own_store = |value| store(own.gpu_va, value);
        let mut commands = vec![own_store(1), copy_word(to.gpu_va, own.gpu_va), own_store(2)];
        commands.extend((0..100).map(|_| Command::Timed { ns: 10_000 }));
        commands.push(own_store(3));
        // In system memory, where words have no page of their own, a store of a value is one of
        // bytes.
        render(w, &[split], &commands, &[(&own, true), (&to, true)]).unwrap();
        w.pass(100_000);
        let urgent = w.affine(1).context_of(0, Priority::High);
        w.submit_packet(urgent, &[Command::Timed { ns: 10_000 }]);
        w.on(urgent).complete();
        assert_eq!((word(&own, 0), word(&to, 0)), (2, 1), "it is in the middle");
        w.on(split).complete();
        assert_eq!((word(&own, 0), word(&to, 0)), (3, 1), "and did nothing twice");
        assert!(w.stats().packets_preempted > 0);
    });
}

#[test]
fn buffers_that_have_run_leave_memory_while_their_context_goes_on() {
    world(4).run(|w| {
        let (own, context) = (on_demand(w), context(w, COPY, 0));
        let regions = |rounds: u32| {
            for round in 0..rounds {
                render(w, &[context], &[fill(&own, round)], &[(&own, true)]).unwrap();
                w.on(context).complete();
            }
            w.adapter().census().memory_regions
        };
        let few = regions(3);
        assert_eq!(regions(20), few);
    });
}

#[test]
fn a_buffer_stays_in_memory_while_its_packet_runs_though_its_context_has_gone() {
    world(4).run(|w| {
        let (own, context) = (on_demand(w), context(w, COPY, 0));
        let commands = [Command::Timed { ns: 1_000_000 }, fill(&own, 7)];
        render(w, &[context], &commands, &[(&own, true)]).unwrap();
        w.pass(100_000);
        w.kernel.destroy_context(context).unwrap();
        let regions = || w.adapter().census().memory_regions;
        let with_buffer = regions();
        w.pass(2_000_000);
        assert_eq!((regions(), word(&own, 0)), (with_buffer - 1, twice(7)));
    });
}

/// Local memory may be taken after the check of all parts. The first part has run then, so the
/// buffer cannot be refused: its device is lost, and says at which byte and why.
// spec: PRE-037
#[test]
fn a_buffer_of_which_a_part_runs_and_the_rest_finds_no_room_costs_its_device_alone() {
    world(3).run(|w| {
        let n = w.client("innocent");
        let (small, context) = (on_demand(w), context(w, COPY, 0));
        let large = w.allocate_in(3 * BYTES, Placement::LocalOnDemand);
        let (own, queue) = (n.allocate_in(BYTES, Placement::LocalOnDemand), n.paging_queue());
        let (taker, taken) = (n.clone(), own.clone());
        w.hooked.once(Entry::Patch, move || _ = taker.make_resident(&queue, &[&taken]));
        let commands = [fill(&small, 1), tidegate_testbed::fill(large.gpu_va, 3 * BYTES, 2)];
        let list = [(&small, true), (&large, true)];
        assert_eq!(render(w, &[context], &commands, &list), Err(Status::DEVICE_REMOVED));
        let Ok(DeviceState::Faulted(report)) = w.state() else { panic!("{:?}", w.state()) };
        assert_eq!(report.queue, w.number(context));
        assert!(report.gpu_va > 0, "the byte at which the second part begins");
        assert!(report.what.contains("do not fit in local memory"), "{}", report.what);
        assert_eq!(n.state(), Ok(DeviceState::Active));
        assert_eq!(word(&own, 0), 0, "no part stored there");
        assert_eq!(w.adapter().bug_checks(), []);
    });
}

/// A removal ends the wait for the room of the next part. The device is removed, not at fault.
#[test]
fn a_removal_ends_the_wait_of_a_part_for_room() {
    let (_w, report) = world_with(|config| {
        patching(1)(config);
        config.kernel.paging_timeout_ns = u64::MAX;
    })
    .run_to_report(|w| {
        let (all, context, gate) = ([0; 2].map(|_| on_demand(w)), context(w, COPY, 0), w.native(0));
        w.on(context).wait(&gate, 1);
        let waiting = (**w).clone();
        let commands = bytes(&[fill(&all[0], 1), fill(&all[1], 2)]);
        let allocations = all.each_ref().map(|a| (a.handle, true));
        let agent = w.platform.spawn("renders", move || {
            let contexts = &[context];
            let args = Render { contexts, commands: &commands, allocations: &allocations };
            assert_eq!(waiting.kernel.render(args), Err(Status::DEVICE_REMOVED));
        });
        w.pass(1_000_000);
        w.machine.remove_adapter(0);
        agent.join();
        assert_eq!(w.state(), Ok(DeviceState::Removed));
    });
    assert!(report.completed(), "{report:?}");
}

/// What a driver answers to the patch or to the submission of a part, and what that costs.
#[test]
fn a_part_that_the_driver_refuses_costs_its_device_or_stops_the_adapter_with_the_name_of_the_entry()
{
    for (entry, named) in
        [(Entry::Patch, "DxgkDdiPatch"), (Entry::SubmitCommand, "DxgkDdiSubmitCommand")]
    {
        for status in [Status::INVALID_PARAMETER, Status::INSUFFICIENT_RESOURCES] {
            let (w, report) = world(4).run_to_report(move |w| {
                let (own, context) = (on_demand(w), context(w, COPY, 0));
                w.hooked.fail_next(entry, status);
                let _queued = render(w, &[context], &[fill(&own, 1)], &[(&own, true)]);
                w.pass(1_000_000);
                let state = w.state().unwrap();
                match status {
                    Status::INVALID_PARAMETER => {
                        assert!(matches!(state, DeviceState::Faulted(_)), "{entry:?}: {state:?}");
                        let n = w.client("innocent");
                        n.on(n.context(COPY)).run(&[Command::Timed { ns: 10 }]).complete();
                    }
                    _ => assert_eq!(state, DeviceState::Stopped, "{entry:?}"),
                }
            });
            assert!(report.completed(), "{entry:?} {status}: {report:?}");
            let broken = match status {
                Status::INVALID_PARAMETER => vec![],
                _ => vec![BugCheck::DdiFailed { ddi: named, status }],
            };
            assert_eq!(w.adapter().bug_checks(), broken);
        }
    }
}

/// A hang in a part is reported as such, with the call that submitted it.
// spec: PRE-104
#[test]
fn a_part_that_hangs_is_reported_as_commands_with_physical_addresses() {
    world(4).run(|w| {
        let (own, context) = (on_demand(w), context(w, COPY, 0));
        let commands = [fill(&own, 1), Command::Hang];
        render(w, &[context], &commands, &[(&own, true)]).unwrap();
        w.pass(1_000_000);
        let calls: Vec<&str> =
            w.adapter().outstanding_work().iter().flat_map(|w| &w.calls).map(|c| c.entry).collect();
        assert_eq!(calls, ["DxgkDdiSubmitCommand"]);
        w.pass(20_000_000_000);
        assert!(matches!(w.state(), Ok(DeviceState::Hung(_))), "{:?}", w.state());
        let reports = w.adapter().recoveries();
        let text = reports[0].to_string();
        for part in [
            "bytes of commands with physical addresses",
            "last calls DxgkDdiSubmitCommand 2 at 0 ms",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    });
}

/// A context drops its parts that are over when it gets another one. A part that is not yet on all
/// its queues is not over.
#[test]
fn a_buffer_that_is_queued_beside_another_one_of_its_context_leaves_that_one_its_parts() {
    world(4).run(|w| {
        let (first, second, context) = (on_demand(w), on_demand(w), context(w, COPY, 0));
        // It is in local memory, so the other call does not wait for the pager.
        render(w, &[context], &[fill(&second, 1)], &[(&second, true)]).unwrap();
        w.on(context).complete();
        w.driver.take();
        let (patching, beside) = (w.platform.event(true), (**w).clone());
        let (seen, commands, handle) =
            (patching.clone(), bytes(&[fill(&second, 6)]), second.handle);
        let other = w.platform.spawn("beside", move || {
            assert_eq!(seen.wait(), WaitEnd::Woken);
            let (contexts, allocations) = (&[context], &[(handle, true)]);
            beside.kernel.render(Render { contexts, commands: &commands, allocations }).unwrap();
        });
        let platform = w.platform.clone();
        w.hooked.once(Entry::Patch, move || {
            patching.set(Step::ThreadWake);
            platform.sleep_until(platform.now().after(1_000));
        });
        render(w, &[context], &[fill(&first, 5)], &[(&first, true)]).unwrap();
        other.join();
        w.on(context).complete();
        assert_eq!((word(&first, 0), word(&second, 0)), (twice(5), twice(6)));
        assert_eq!((parts(w).len(), w.state()), (2, Ok(DeviceState::Active)));
    });
}

/// The driver of this machine refuses lists with an allocation that is not open.
// spec: RES-019
#[test]
fn lists_name_allocations_by_the_handles_of_their_device() {
    let both = |config: &mut MachineConfig| {
        config.driver.opens_allocations = true;
        config.driver.dma_patching = true;
    };
    world_with(both).run(|w| {
        let target = w.allocate(BYTES, AllocationKind::Bulk);
        w.driver.take();
        render(w, &[w.context(0)], &[fill(&target, 7)], &[(&target, true)]).unwrap();
        let rendered = w.driver.take().into_iter().find_map(|call| match call {
            DdiCall::Render { args } => Some(args.allocations),
            _ => None,
        });
        assert!(rendered.unwrap()[0].opened.is_some());
    });
}
