//! Save areas of packet contexts: made, given their first content, kept over evictions and moves,
//! and freed.

use tidegate::ddi::{ContextAllocation, ContextAllocationOwner, CreateContextAllocation};
use tidegate_testbed::prelude::*;

const AREA_BYTES: u64 = 4096;
/// Of a test's allocations.
const BYTES: u64 = 64 * 1024;
/// Longer than anything takes.
const SETTLED_NS: u64 = 1_000_000;
const STATE: [u8; 64] = [0x5A; 64];

/// A machine whose packets are preempted in the middle.
fn world_with(change: impl FnOnce(&mut MachineConfig)) -> (World, Arc<SaveAreas>) {
    let change = |config: &mut MachineConfig| {
        config.driver.save_areas = true;
        change(config);
    };
    setup(change).start_behind(|driver| SaveAreas::new(&Platform::host(), driver))
}

/// The same with local memory for a test's allocation and one save area, and nothing else.
fn narrow() -> (World, Arc<SaveAreas>) {
    world_with(|config| config.gpu.local_memory_bytes = BYTES + AREA_BYTES)
}

/// Returns the area of the newest context after its content was initialised.
fn initialised_area(w: &World, areas: &SaveAreas) -> ContextAllocation {
    let area = *areas.areas().last().unwrap();
    w.pass(SETTLED_NS);
    assert!(areas.initialised().contains(&area.os_handle));
    area
}

/// Makes the driver's call for an area.
fn create(
    areas: &SaveAreas,
    owner: ContextAllocationOwner,
    bytes: u64,
) -> Result<ContextAllocation, Status> {
    let args = CreateContextAllocation { owner, bytes };
    areas.callbacks().create_context_allocation(&Passive::enter(), args)
}

/// Has the memory manager's context and the system process's page tables made, which stay.
fn warm_up(w: &World, areas: &SaveAreas) {
    let first = w.context(0);
    initialised_area(w, areas);
    w.kernel.destroy_context(first).unwrap();
    w.pass(SETTLED_NS);
}

fn on_demand(w: &World, bytes: u64) -> Allocation {
    w.allocate_in(bytes, Placement::LocalOnDemand)
}

fn page_in(w: &World, queue: &PagingQueue, of: &Allocation) -> u64 {
    match w.make_resident(queue, &[of]) {
        Residency::Pending { paging_fence_value } => paging_fence_value,
        other => panic!("{other:?}"),
    }
}

/// Has the oldest area leave local memory for an allocation.
fn press(w: &World, bytes: u64) -> Allocation {
    let (queue, all) = (w.paging_queue(), on_demand(w, bytes));
    let value = page_in(w, &queue, &all);
    w.wait(queue.fence.handle, value).unwrap();
    all
}

fn counts(w: &World) -> (usize, usize) {
    let census = w.adapter().census();
    (census.context_allocations, census.local_context_allocations)
}

/// Runs a short packet and blocks until it is done.
fn run_short(w: &World, context: Handle) {
    w.submit_packet(context, &[Command::Timed { ns: 1 }]);
    w.on(context).complete();
}

// spec: PRE-013, PRE-015
#[test]
fn a_packet_context_gets_a_save_area_and_no_packet_runs_before_its_first_content() {
    let (w, areas) = world_with(|_| ());
    w.run(move |w| {
        let (memory, gpu_va) = w.bytes(8);
        w.driver.take();
        let context = w.context(0);
        let area = areas.areas()[0];
        assert_eq!((areas.areas().len(), area.system_gpu_va % AREA_BYTES), (1, 0));
        assert_eq!(counts(w), (1, 1), "there is room in local memory");
        w.submit_packet(context, &[store(gpu_va, 7)]);
        let submitted = w.driver.take_names().contains(&"SubmitCommandVirtual");
        assert!(!submitted, "it has no content yet");
        w.on(context).complete();
        assert_eq!(memory.read_u64(0), Ok(7));
        assert_eq!(
            areas.read(area.system_gpu_va),
            Some([0; 64]),
            "the bytes before were overwritten"
        );
        // The memory manager's own context came with it, and gave its own area its content first.
        assert_eq!(areas.initialised(), [areas.areas()[1].os_handle, area.os_handle]);
        assert_eq!(counts(w), (2, 1), "the memory manager's own area cannot be moved");
        let calls = w.driver.take();
        let init = |op: &Paging| matches!(op, Paging::InitContextResource { .. });
        let packet_or_init =
            |c: &&DdiCall| c.name() == "SubmitCommandVirtual" || c.paging().is_some_and(init);
        let order: Vec<_> = calls.iter().filter(packet_or_init).map(DdiCall::name).collect();
        let init = ["BuildPagingBuffer", "SubmitCommandVirtual"];
        assert_eq!(order, [init[0], init[1], init[0], init[1], "SubmitCommandVirtual"]);
    });
}

#[test]
fn hardware_contexts_and_nodes_that_do_not_stop_in_the_middle_have_none() {
    let (w, areas) = world_with(|config| {
        config.gpu.nodes[0].preemption.graphics = GraphicsPreemption::DmaBuffer;
        config.gpu.nodes[0].preemption.compute = ComputePreemption::None;
    });
    w.run(move |w| {
        let (context, _queue) = (w.context(0), w.hw_queue());
        run_short(w, context);
        assert!(areas.areas().is_empty());
        w.context(1);
        assert_eq!(areas.areas().len(), 1);
    });
}

// spec: PRE-016
#[test]
fn a_state_is_kept_when_its_area_leaves_local_memory_and_engines_find_it_at_its_address() {
    let (w, areas) = narrow();
    w.run(move |w| {
        let context = w.context(0);
        let area = initialised_area(w, &areas);
        areas.write(area.system_gpu_va, &STATE);
        let (before, there) = (areas.at(area.system_gpu_va), counts(w).1);
        let all = press(w, BYTES + AREA_BYTES);
        assert_eq!((there, counts(w).1), (1, 0));
        assert_ne!(areas.at(area.system_gpu_va), before, "the address leads elsewhere");
        assert_eq!(areas.read(area.system_gpu_va), Some(STATE));
        // Its context goes on with the area where it is.
        run_short(w, context);
        w.kernel.destroy_allocation(all.handle).unwrap();
        let state = areas.read(area.system_gpu_va);
        assert_eq!(state, Some(STATE), "it stays in system memory when room becomes free");
    });
}

#[test]
fn an_area_for_which_there_is_no_room_begins_in_system_memory() {
    let (w, areas) = world_with(|config| config.gpu.local_memory_bytes = BYTES);
    w.run(move |w| {
        press(w, BYTES);
        let context = w.context(0);
        let area = initialised_area(w, &areas);
        assert_eq!((counts(w), areas.read(area.system_gpu_va)), ((2, 0), Some([0; 64])));
        run_short(w, context);
    });
}

// spec: PRE-016
#[test]
fn an_area_moves_only_while_no_packet_of_its_context_is_on_the_engine() {
    let (w, areas) = narrow();
    w.run(move |w| {
        let context = w.context(0);
        let area = initialised_area(w, &areas);
        let before = areas.at(area.system_gpu_va);
        // Less than the timeout of paging operations.
        let long_ns = 1_000_000;
        w.submit_packet(context, &[Command::Timed { ns: long_ns }]);
        let (queue, all) = (w.paging_queue(), on_demand(w, BYTES + AREA_BYTES));
        w.pass(1_000);
        let value = page_in(w, &queue, &all);
        w.pass(10_000);
        // From now on no packet of the context is given to the driver before the move is over.
        w.driver.take();
        w.submit_packet(context, &[Command::Timed { ns: 1 }]);
        w.pass(10_000);
        assert_eq!((areas.at(area.system_gpu_va), counts(w).1), (before, 1), "a packet runs");
        w.wait(queue.fence.handle, value).unwrap();
        assert!(w.platform.now().0 > long_ns);
        w.on(context).complete();
        assert_eq!(counts(w).1, 0);
        let calls = w.driver.take();
        let moves = |op: &Paging| matches!(op, Paging::VirtualTransfer { .. });
        let moved = calls.iter().position(|c| c.paging().is_some_and(moves)).unwrap();
        let packets: Vec<usize> =
            (0..calls.len()).filter(|at| calls[*at].name() == "SubmitCommandVirtual").collect();
        assert!(packets[0] > moved, "{calls:?}");
    });
}

#[test]
fn an_area_in_use_for_too_long_stays_and_the_new_allocation_works_in_system_memory() {
    let (w, areas) = narrow();
    w.run(move |w| {
        let context = w.context(0);
        let area = initialised_area(w, &areas);
        let before = areas.at(area.system_gpu_va);
        w.submit_packet(context, &[Command::Timed { ns: 10 * SETTLED_NS }]);
        w.pass(1_000);
        let all = press(w, BYTES + AREA_BYTES);
        assert_eq!((areas.at(area.system_gpu_va), counts(w).1), (before, 1));
        let queue = w.hw_queue_on(2);
        w.on_queue(&queue).run(1, &[fill(all.gpu_va, BYTES + AREA_BYTES, 3)]).complete();
        run_short(w, context);
    });
}

// spec: PRE-016
#[test]
fn states_go_along_when_power_goes_and_comes() {
    let (w, areas) = world_with(|config| config.kernel.power = PowerManagement::Managed);
    w.run(move |w| {
        let context = w.context(0);
        let area = initialised_area(w, &areas);
        areas.write(area.system_gpu_va, &STATE);
        let adapter = w.adapter();
        assert_eq!(adapter.set_power_state(DevicePowerState::D3), Ok(DevicePowerState::D3));
        assert_eq!(counts(w).1, 0);
        assert_eq!(areas.read(area.system_gpu_va), Some(STATE));
        assert_eq!(adapter.set_power_state(DevicePowerState::D0), Ok(DevicePowerState::D0));
        assert_eq!((counts(w).1, areas.read(area.system_gpu_va)), (1, Some(STATE)));
        run_short(w, context);
    });
}

// spec: PRE-014
#[test]
fn an_area_goes_with_its_context_but_not_before_its_last_packet() {
    let (w, areas) = world_with(|_| ());
    w.run(move |w| {
        let (idle, busy) = (w.context(1), w.context(0));
        initialised_area(w, &areas);
        let made = areas.areas();
        let of = |n: usize| made[n].system_gpu_va;
        assert_eq!(counts(w), (3, 2));
        w.kernel.destroy_context(idle).unwrap();
        assert_eq!((areas.freed(), counts(w)), (vec![made[0].os_handle], (2, 1)));
        assert_eq!(areas.at(of(0)), None);
        w.submit_packet(busy, &[Command::Timed { ns: 10_000 }]);
        w.pass(1_000);
        w.kernel.destroy_context(busy).unwrap();
        assert_eq!((areas.freed().len(), counts(w)), (2, (1, 0)));
        assert!(areas.at(of(1)).is_some(), "its packet may store its state there");
        w.pass(20_000);
        assert_eq!(areas.at(of(1)), None);
        let again =
            areas.callbacks().destroy_context_allocation(&Passive::enter(), made[0].os_handle);
        assert_eq!(again, Err(Status::INVALID_HANDLE));
    });
}

#[test]
fn a_process_that_ends_leaves_no_area() {
    let (w, _areas) = world_with(|_| ());
    w.run(|w| {
        // What is made once stays: the memory manager's context, the system process's page tables.
        let first = w.context(0);
        w.pass(SETTLED_NS);
        w.kernel.destroy_context(first).unwrap();
        let census = || (w.adapter().census(), w.machine.driver().census());
        let before = census();
        for wait_ns in [0, SETTLED_NS] {
            let process = w.machine.process("short").unwrap();
            let device = w.machine.device_in(&process, Default::default()).unwrap();
            let queue = device.queue(CommandListType::Copy, Submission::Packet);
            w.pass(wait_ns);
            process.terminate();
            drop((queue, device, process));
            w.pass(SETTLED_NS);
            assert_eq!(census(), before);
        }
    });
}

#[test]
fn drivers_allocate_whole_pages_for_contexts_that_exist() {
    let (w, areas) = world_with(|_| ());
    w.run(move |w| {
        let context = w.context(0);
        initialised_area(w, &areas);
        let (level, kernel) = (Passive::enter(), areas.callbacks());
        let known = areas.contexts()[0];
        let create =
            |context, bytes| create(&areas, ContextAllocationOwner::Context(context), bytes);
        for bytes in [0, 1, AREA_BYTES + 8, 1 << 40] {
            assert_eq!(create(known, bytes), Err(Status::INVALID_PARAMETER), "{bytes}");
        }
        assert_eq!(create(OsHandle(1 << 62), AREA_BYTES), Err(Status::INVALID_HANDLE));
        // One that comes while the context lives holds its packets until it has its content, too.
        let later = create(known, 2 * AREA_BYTES).unwrap();
        run_short(w, context);
        assert_eq!(areas.read(later.system_gpu_va), Some([0; 64]));
        assert_eq!(kernel.destroy_context_allocation(&level, later.os_handle), Ok(()));
        w.kernel.destroy_context(context).unwrap();
        assert_eq!(create(known, AREA_BYTES), Err(Status::INVALID_HANDLE));
    });
}

/// An area of a device is for all its contexts, and is there as long as one of them has a packet on
/// an engine.
// spec: PRE-013, PRE-014, PRE-015
#[test]
fn a_device_s_area_has_its_content_at_once_and_goes_with_the_device() {
    let (w, areas) = narrow();
    w.run(move |w| {
        let guest = w.client("guest");
        let device = areas.devices().last().copied().unwrap();
        let busy = guest.context(0);
        initialised_area(w, &areas);
        let before = counts(w);
        let (level, kernel) = (Passive::enter(), areas.callbacks());
        let create = |device, bytes| create(&areas, ContextAllocationOwner::Device(device), bytes);
        let (kept, given_back) =
            (create(device, AREA_BYTES).unwrap(), create(device, 2 * AREA_BYTES).unwrap());
        for area in [kept, given_back] {
            let content = areas.read(area.system_gpu_va);
            assert_eq!(content, Some([0; 64]), "the call returns when it has its content");
            assert!(areas.initialised().contains(&area.os_handle));
        }
        assert_eq!(counts(w), (before.0 + 2, before.1), "any context may use it: it does not move");
        // Other allocations need all of local memory.
        areas.write(kept.system_gpu_va, &STATE);
        let at = areas.at(kept.system_gpu_va);
        press(w, BYTES);
        assert_eq!(areas.at(kept.system_gpu_va), at);
        assert_eq!(areas.read(kept.system_gpu_va), Some(STATE));
        assert_eq!(kernel.destroy_context_allocation(&level, given_back.os_handle), Ok(()));
        assert_eq!(areas.at(given_back.system_gpu_va), None);
        assert_eq!(create(device, AREA_BYTES + 8), Err(Status::INVALID_PARAMETER));
        assert_eq!(create(OsHandle(1 << 62), AREA_BYTES), Err(Status::INVALID_HANDLE));
        // The memory manager's own device: what gives an area its content would wait for itself.
        let of_kernel: Vec<OsHandle> =
            areas.devices().into_iter().filter(|of| *of > device).collect();
        assert!(!of_kernel.is_empty());
        assert!(of_kernel.iter().all(|of| create(*of, AREA_BYTES) == Err(Status::INVALID_HANDLE)));

        guest.submit_packet(busy, &[Command::Timed { ns: 10_000 }]);
        w.pass(1_000);
        // The end of a lost device waits for no work.
        guest.kernel.mark_device_as_error(guest.device, DeviceErrorReason::Generic).unwrap();
        guest.kernel.destroy_device(guest.device).unwrap();
        assert!(areas.at(kept.system_gpu_va).is_some(), "its packet may use it");
        w.pass(20_000);
        assert_eq!(areas.at(kept.system_gpu_va), None);
        assert_eq!(create(device, AREA_BYTES), Err(Status::INVALID_HANDLE));
        let again = kernel.destroy_context_allocation(&level, kept.os_handle);
        assert_eq!(again, Err(Status::INVALID_HANDLE));
    });
}

/// Preempted packets go on from where their state is by now.
// spec: PRE-016
#[test]
fn a_packet_that_was_preempted_goes_on_from_a_state_that_has_moved() {
    let (w, areas) = narrow();
    w.run(move |w| {
        let (memory, words) = w.bytes(64);
        let (first, second, third) = (words, words + 8, words + 16);
        let context = w.context(0);
        let area = initialised_area(w, &areas);
        memory.write(0, &1u64.to_le_bytes()).unwrap();
        // A packet that is restarted from its beginning would find another first word.
        let mut work = vec![copy_word(second, first), store(first, 2)];
        work.extend((0..100).map(|_| Command::Timed { ns: 10_000 }));
        work.push(copy_word(third, second));
        w.submit_packet(context, &work);
        w.pass(100_000);
        let urgent = w.context_of(0, Priority::High);
        // As many as a node holds at once: the other one has its state, and nothing on the engine.
        w.on(urgent).run(&[Command::Timed { ns: 4 * SETTLED_NS }]).run(&[Command::Timed { ns: 1 }]);
        w.pass(200_000);
        let state = areas.read(area.system_gpu_va).unwrap();
        assert_eq!(state[..8], SAVED_STATE.to_le_bytes(), "it was preempted in the middle");
        let before = areas.at(area.system_gpu_va);
        press(w, BYTES);
        assert_ne!(areas.at(area.system_gpu_va), before, "its state has moved");
        assert_eq!(areas.read(area.system_gpu_va), Some(state));
        assert_eq!(memory.read_u64(16), Ok(0), "the urgent one runs");
        w.on(context).complete();
        let words = [0, 8, 16].map(|at| memory.read_u64(at).unwrap());
        assert_eq!(words, [2, 1, 1], "nothing was done twice, and nothing left out");
        assert_eq!(areas.read(area.system_gpu_va).unwrap()[..8], [0; 8], "a state is used once");
    });
}

/// Contexts come while the memory manager is at work.
#[test]
fn areas_and_allocations_come_and_go_together() {
    let (w, areas) = world_with(|config| config.gpu.local_memory_bytes = 2 * BYTES);
    w.run(move |w| {
        let queue = w.paging_queue();
        let allocations: Vec<Allocation> = (0..3).map(|_| on_demand(w, BYTES)).collect();
        for round in 0..12 {
            let context = w.context(round % 3);
            let allocation = &allocations[round as usize % 3];
            let value = page_in(w, &queue, allocation);
            w.on(context).wait(&queue.fence, value).run(&[fill(allocation.gpu_va, BYTES, round)]);
            w.kernel.evict(w.device, &[allocation.handle]).unwrap();
            if round % 2 == 0 {
                w.on(context).complete();
                w.kernel.destroy_context(context).unwrap();
            }
        }
        w.pass(100 * SETTLED_NS);
        assert_eq!(areas.initialised().len(), 13);
        assert_eq!(w.adapter().bug_checks(), []);
    });
}

#[test]
fn a_context_that_the_driver_refuses_owns_no_save_area() {
    let refused = Arc::new(OnceLock::new());
    let of_driver = refused.clone();
    let refuses = Overrides::default().create_context(move |_, _, args| {
        let _first = of_driver.set(args.os_handle);
        Err(Status::NO_MEMORY)
    });
    let w = setup(|_| ()).overriding(refuses).start();
    assert_eq!(w.try_context(0, Priority::Normal), Err(Status::NO_MEMORY));
    let owner = ContextAllocationOwner::Context(*refused.get().unwrap());
    let args = CreateContextAllocation { owner, bytes: AREA_BYTES };
    let callbacks = w.hooked.start_info().callbacks;
    let made = callbacks.create_context_allocation(&Passive::enter(), args);
    assert_eq!(made, Err(Status::INVALID_HANDLE));
}

/// 64 areas for a context and for a device, each of 16 MiB at most.
#[test]
fn areas_are_limited_in_size_and_number_for_each_owner() {
    let (w, areas) = world_with(|_| ());
    w.run(move |w| {
        let context = w.context(0);
        initialised_area(w, &areas);
        let (known, device) = (areas.contexts()[0], areas.devices()[0]);
        // The context has an area from its creation, the device none.
        let owners = [
            (ContextAllocationOwner::Context(known), 1),
            (ContextAllocationOwner::Device(device), 0),
        ];
        for (owner, first) in owners {
            assert_eq!(
                create(&areas, owner, (16 << 20) + AREA_BYTES),
                Err(Status::INVALID_PARAMETER)
            );
            let largest = create(&areas, owner, 16 << 20).unwrap();
            let rest: Vec<_> =
                (first + 1..64).map(|_| create(&areas, owner, AREA_BYTES).unwrap()).collect();
            let refused = Err(Status::INSUFFICIENT_RESOURCES);
            assert_eq!(create(&areas, owner, AREA_BYTES), refused, "{owner:?}");
            let free = |area: &ContextAllocation| {
                areas.callbacks().destroy_context_allocation(&Passive::enter(), area.os_handle)
            };
            assert_eq!(free(&largest), Ok(()));
            let again = create(&areas, owner, AREA_BYTES).unwrap();
            assert_eq!(create(&areas, owner, AREA_BYTES), refused, "{owner:?}");
            assert!(rest.iter().chain([&again]).all(|area| free(area) == Ok(())));
            w.pass(SETTLED_NS);
        }
        // The first area, and that of the memory manager's context.
        assert_eq!(counts(w).0, 2);
        run_short(w, context);
    });
}

/// The hardware may use it at any time, so it does not move.
#[test]
fn an_area_of_a_hardware_context_gets_its_first_content_and_ends_with_the_context() {
    let (w, areas) = world_with(|_| ());
    w.run(move |w| {
        warm_up(w, &areas);
        let (before, context) = (counts(w), w.hw_context(0));
        let owner = ContextAllocationOwner::Context(*areas.contexts().last().unwrap());
        let area = create(&areas, owner, AREA_BYTES).unwrap();
        w.pass(SETTLED_NS);
        assert!(areas.initialised().contains(&area.os_handle));
        assert_eq!(areas.read(area.system_gpu_va), Some([0; 64]));
        assert_eq!(counts(w), (before.0 + 1, before.1), "it is in system memory");
        w.kernel.destroy_hw_context(context).unwrap();
        assert_eq!((counts(w), areas.at(area.system_gpu_va)), (before, None));
    });
}

/// The reset of an adapter waits for calls inside of the driver, and the content of an area for the
/// reset. A device's area is therefore refused until the reset has ended.
#[test]
fn a_device_s_area_is_refused_while_a_reset_waits_for_the_driver() {
    let (w, areas) = world_with(|_| ());
    w.run(move |w| {
        warm_up(w, &areas);
        let guest = w.client("guest");
        let owner = ContextAllocationOwner::Device(*areas.devices().last().unwrap());
        let before = counts(w);
        // 1. A call during the reset.
        let (answer, of_driver) = (Arc::new(OnceLock::new()), areas.clone());
        let during = answer.clone();
        w.hooked.once(Entry::ResetFromTimeout, move || {
            let _first = during.set(create(&of_driver, owner, AREA_BYTES));
        });
        guest.kernel.debug_timeouts(TdrTest::ForceTdr).unwrap();
        assert_eq!((answer.get(), counts(w)), (Some(&Err(Status::CANCELLED)), before));
        // 2. A call that waits for the content of its area when the reset begins.
        let platform = w.platform.clone();
        w.hooked.once(Entry::BuildPagingBuffer, move || {
            platform.sleep_until(platform.now().after(4 * SETTLED_NS));
        });
        let (of_driver, platform) = (areas.clone(), w.platform.clone());
        let inside = w.platform.spawn("in the driver", move || {
            let begin = platform.now();
            let answer = create(&of_driver, owner, AREA_BYTES);
            assert_eq!(answer, Err(Status::CANCELLED));
            assert_eq!(platform.now().since(begin), SETTLED_NS, "it ends when the reset begins");
        });
        w.pass(SETTLED_NS);
        guest.kernel.debug_timeouts(TdrTest::ForceTdr).unwrap();
        inside.join();
        w.pass(SETTLED_NS);
        assert_eq!(counts(w), before);
        // 3. A call afterwards.
        let area = create(&areas, owner, AREA_BYTES).unwrap();
        assert_eq!(areas.read(area.system_gpu_va), Some([0; 64]));
        assert_eq!(counts(w).0, before.0 + 1);
        guest.kernel.destroy_device(guest.device).unwrap();
        w.pass(SETTLED_NS);
        assert_eq!(counts(w), before);
    });
}

/// A device that is being destroyed gets no area, which would keep the device.
#[test]
fn a_device_that_is_being_destroyed_gets_no_area() {
    let (w, areas) = world_with(|_| ());
    w.run(move |w| {
        warm_up(w, &areas);
        let census = || (w.adapter().census(), w.machine.driver().census());
        let before = census();
        let guest = w.client("guest");
        let owner = ContextAllocationOwner::Device(*areas.devices().last().unwrap());
        guest.context(0);
        w.pass(SETTLED_NS);
        let (answer, of_driver) = (Arc::new(OnceLock::new()), areas.clone());
        let during = answer.clone();
        w.hooked.once(Entry::DestroyContext, move || {
            let _first = during.set(create(&of_driver, owner, AREA_BYTES));
        });
        guest.kernel.destroy_device(guest.device).unwrap();
        w.pass(SETTLED_NS);
        assert_eq!(answer.get(), Some(&Err(Status::INVALID_HANDLE)));
        drop(guest);
        assert_eq!(census(), before);
    });
}

/// Ends the owner of an area while the area is being made.
fn end_owner_while_an_area_is_made(of_device: bool) {
    let (w, areas) = world_with(|_| ());
    w.run(move |w| {
        warm_up(w, &areas);
        let census = || (w.adapter().census(), w.machine.driver().census());
        let before = census();
        let guest = w.client("guest");
        // It has no area, whose end would wait for the one that is being made.
        let context = guest.hw_context(0);
        let owner = match of_device {
            true => ContextAllocationOwner::Device(*areas.devices().last().unwrap()),
            false => ContextAllocationOwner::Context(*areas.contexts().last().unwrap()),
        };
        let platform = w.platform.clone();
        w.hooked.once(Entry::UpdatePageTable, move || {
            platform.sleep_until(platform.now().after(2 * SETTLED_NS));
        });
        let of_driver = areas.clone();
        let maker = w.platform.spawn("the driver", move || {
            assert_eq!(create(&of_driver, owner, AREA_BYTES), Err(Status::INVALID_HANDLE));
        });
        w.pass(SETTLED_NS);
        match of_device {
            true => guest.kernel.destroy_device(guest.device).unwrap(),
            false => guest.kernel.destroy_hw_context(context).unwrap(),
        }
        maker.join();
        drop(guest);
        w.pass(SETTLED_NS);
        assert_eq!(census(), before);
    });
}

#[test]
fn an_area_whose_context_ends_while_it_is_made_is_not_left() {
    end_owner_while_an_area_is_made(false);
}

#[test]
fn an_area_whose_device_ends_while_it_is_made_is_not_left() {
    end_owner_while_an_area_is_made(true);
}
