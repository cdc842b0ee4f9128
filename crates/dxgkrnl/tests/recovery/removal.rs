//! The removal of an adapter while processes use it: waiters are released, the driver ends its
//! objects in the published order, and later calls return the reason.

use tidegate::dxgkrnl::Process;
use tidegate_testbed::prelude::*;

const S: u64 = 1_000_000_000;
/// Longer than any step of the tests takes.
const SETTLED_NS: u64 = 1_000_000;

/// Two adapters, a process on each, and a fence that the first process made and the second has
/// open.
struct Pair {
    machine: Machine,
    clients: [Client; 2],
    handle: NtHandle,
    shared: [FenceInstance; 2],
}

fn pair() -> Arc<Pair> {
    let platform = Platform::virtual_time(StepCosts::free());
    let config = || MachineConfig::standard(&platform);
    let machine = Machine::builder(&platform).reference(config()).reference(config());
    let machine = machine.start().unwrap();
    let clients = [0, 1].map(|index| {
        let kernel = machine.open_on(index, "app").unwrap();
        let device = kernel.create_device().unwrap();
        Client::of(&platform, kernel, device)
    });
    let made = clients[0].try_native(0, SHARED | SyncObjectFlags::CROSS_ADAPTER).unwrap();
    let handle = clients[0].share_all(&made);
    let opened = clients[1].open_fence(&handle);
    Arc::new(Pair { machine, clients, handle, shared: [made, opened] })
}

impl Pair {
    fn run(self: &Arc<Pair>, main: impl FnOnce(&Pair) + Send + 'static) {
        let own = self.clone();
        self.machine.run(move || main(&own)).unwrap();
        for index in 0..2 {
            assert_eq!(self.machine.adapter_at(index).bug_checks(), []);
            assert_eq!(self.machine.driver_at(index).violations(), []);
        }
    }
}

// spec: PRE-093
#[test]
fn a_process_of_another_adapter_that_waits_for_a_shared_fence_is_released() {
    let ends: [fn(&Pair); 3] = [
        |pair| pair.machine.remove_adapter(0),
        |pair| pair.machine.adapter_at(0).remove(),
        |pair| pair.machine.adapter_at(0).stop(),
    ];
    for end in ends {
        pair().run(move |pair| {
            let [removed, other] = &pair.clients;
            let event = other.wait_event(&pair.shared[1], 5);
            // A packet of the other adapter waits too, in its software queue.
            let (context, done) = (other.context(0), other.native(0));
            other.on(context).wait(&pair.shared[1], 5).signal(&done, 1);
            end(pair);
            assert_eq!(event.wait_for(None, "the wait of the other process"), WaitEnd::Woken);
            other.wait(done.handle, 1).unwrap();
            assert_eq!(pair.shared.each_ref().map(|fence| fence.value.load()), [u64::MAX; 2]);
            // An open by NT handle finds the fence at its maximum.
            assert_eq!(other.open_fence(&pair.handle).value.load(), u64::MAX);
            // The other adapter goes on.
            assert_eq!(other.state(), Ok(DeviceState::Active));
            assert_eq!(removed.state(), Ok(DeviceState::Removed));
            other.on(context).run(&[Command::Timed { ns: 10 }]).signal_and_wait(&done, 2);
        });
    }
}

// spec: PRE-093
#[test]
fn every_wait_on_the_adapter_ends_and_says_why() {
    world().run(|w| {
        let stays = SyncObjectFlags::NO_SIGNAL_MAX_VALUE_ON_TDR;
        let fences = [w.native(0), w.monitored(0), w.try_native(0, stays).unwrap()];
        let event = w.wait_event(&fences[0], 9);
        let waiters = fences.each_ref().map(|fence| {
            let (kernel, wait) = (Arc::clone(&w.kernel), at(fence, 3));
            let ended = Arc::new(w.platform.mutex("how a wait ended", None));
            let end = ended.clone();
            let agent = w.platform.spawn("waiter", move || {
                let outcome = kernel.wait_from_cpu(&wait, WaitMode::All, None);
                *end.lock() = Some(outcome);
            });
            (agent, ended)
        });
        // Queued work and queued waits of every kind.
        let (context, queue, user) = (w.context(0), w.hw_queue(), w.connected_queue(1));
        w.on(context).wait(&fences[0], 4).run(&[Command::Timed { ns: 10 }]);
        w.on_queue(&queue).wait(&fences[1], 4).run(1, &[Command::Timed { ns: 10 }]);
        user.doorbell.last_queued.store(1);
        user.wait(&fences[0], 4);
        w.pass(SETTLED_NS);
        w.machine.remove_adapter(0);
        assert!(w.platform.now().0 < S, "no delay is waited for: {:?}", w.platform.now());
        assert_eq!(event.wait_for(None, "the event of a wait"), WaitEnd::Woken);
        for (agent, ended) in waiters {
            agent.join();
            assert_eq!(*ended.lock(), Some(Err(Status::DEVICE_REMOVED)));
        }
        assert_eq!(fences.each_ref().map(|f| f.value.load()), [u64::MAX; 3]);
        assert_eq!(queue.progress_value.load(), u64::MAX);
        assert_eq!(user.status(), DoorbellStatus::DisconnectedAbort);
    });
}

// spec: PRE-095
#[test]
fn every_later_call_says_that_the_device_was_removed() {
    world().run(|w| {
        let (context, queue, fence) = (w.context(0), w.hw_queue(), w.native(0));
        let commands = w.commands(&[Command::Timed { ns: 1 }]);
        w.machine.remove_adapter(0);
        assert_eq!(w.state(), Ok(DeviceState::Removed));
        let removed = Err(Status::DEVICE_REMOVED);
        let [one] = at(&fence, 1);
        let (commands_gpu_va, command_bytes) = commands;
        let submit = tidegate::calls::SubmitCommand { context, commands_gpu_va, command_bytes };
        let calls = [
            w.kernel.submit_command(submit),
            w.kernel.wait_from_cpu(&[one], WaitMode::All, None),
            w.kernel.wait_from_cpu(&[one], WaitMode::All, Some(w.platform.event(true))),
            w.kernel.signal_from_cpu(&[one], SignalFlags::empty()),
            w.kernel.wait_from_gpu(context, &[one]),
            w.kernel.submit_wait_to_hw_queue(queue.handle, &[one]),
            w.kernel.destroy_synchronization_object(fence.handle),
            w.kernel.destroy_hw_queue(queue.handle),
            w.kernel.destroy_device(w.device),
            w.kernel.debug_timeouts(TdrTest::ForceTdr),
            w.kernel.create_device().map(drop),
            w.adapter().open("late").map(drop),
            w.adapter().suspend_contexts().map(drop),
        ];
        for (number, outcome) in calls.into_iter().enumerate() {
            assert_eq!(outcome, removed, "call {number}");
        }
        // Ending a process twice changes nothing.
        w.process.terminate();
        w.process.close();
        assert_eq!(w.state(), Ok(DeviceState::Removed));
    });
}

// spec: PRE-094
#[test]
fn the_driver_ends_each_object_in_the_published_order_and_gets_no_call_afterwards() {
    world().run(|w| {
        let queue = w.connected_queue(0);
        let (private, packets) = (w.native(0), w.context(0));
        let kept = w.try_native(0, SHARED).unwrap();
        let handle = w.share_all(&kept);
        let memory = w.allocate(4096, AllocationKind::Bulk);
        w.driver.take();
        w.machine.remove_adapter(0);
        let fence = ["CloseNativeFence", "DestroyNativeFence"];
        let expected = [
            &["DisconnectDoorbell", "SuspendContext", "DestroyDoorbell", "DestroyHwQueue"][..],
            &fence,
            &["DestroyContext"],
            &fence,
            &["CloseNativeFence", "DestroyDevice", "DestroyNativeFence", "StopDevice"],
        ]
        .concat();
        let mut calls = w.driver.take_names();
        calls.retain(|name| expected.contains(name));
        calls.dedup();
        assert_eq!(calls, expected);
        assert_eq!(w.machine.driver().census(), [0; 9]);
        let census = w.adapter().census();
        let queues = [census.hw_queues, census.doorbells, census.contexts, census.hw_contexts];
        assert_eq!((census.devices, census.fences, queues), (0, 0, [0; 4]));
        // What the process and the handle still hold ends without the driver.
        drop((queue, private, packets, kept, handle, memory));
        w.adapter().stop();
        w.machine.remove_adapter(0);
        assert_eq!(w.driver.take_names(), Vec::<&str>::new());
    });
}

/// At the queue API: the reason is typed, fences read the maximum, and a wait ends with the reason.
#[test]
fn queues_and_fences_of_an_application_say_that_the_adapter_was_removed() {
    App::new(DeviceOptions::default(), |_| ()).run(|app| {
        let queue = app.queue(CommandListType::Copy, Submission::User);
        let (gate, done) = (app.fence(0), app.fence(0));
        let stays = app.create_fence("stays", 0).unwrap();
        queue.wait(&gate, 1).unwrap();
        queue.signal(&done, 1).unwrap();
        let (waited, removed) =
            (done.clone(), Err(Error::DeviceRemoved(RemovedReason::AdapterRemoved)));
        let expected = removed.clone();
        let waiter = app.platform().spawn("waiter", move || assert_eq!(waited.wait(1), expected));
        app.pass(SETTLED_NS);
        app.machine.remove_adapter(0);
        waiter.join();
        assert_eq!(app.removed_reason(), Some(RemovedReason::AdapterRemoved));
        assert_eq!([&gate, &done, &stays].map(|fence| fence.completed_value()), [u64::MAX; 3]);
        assert_eq!(queue.signal(&done, 2), removed);
    });
}

/// A recovery that is under way is over before the removal, and none begins after it.
#[test]
fn a_removal_waits_for_a_recovery_and_lets_no_other_begin() {
    world().run(|w| {
        let queue = w.hw_queue();
        w.submit(&queue, 1, &[Command::Hang]);
        let adapter: Arc<Adapter> = w.adapter().clone();
        let (platform, removing) = (w.platform.clone(), adapter.clone());
        let agent = w.platform.event(true);
        let started = agent.clone();
        w.hooked.on(Entry::ResetHwEngine, move || {
            let removing = removing.clone();
            let done = started.clone();
            platform.spawn("remover", move || {
                removing.remove();
                done.set(Step::ThreadWake);
            });
            platform.sleep_until(platform.now().after(S));
        });
        assert_eq!(w.wait(queue.progress_fence, 1), Err(Status::DEVICE_REMOVED));
        assert_eq!(agent.wait_for(None, "the removal"), WaitEnd::Woken);
        let names = w.driver.take_names();
        let place = |name| names.iter().position(|called| *called == name).unwrap();
        assert!(place("ResumeHwEngine") < place("DestroyHwQueue"), "{names:?}");
        assert_eq!(names.last(), Some(&"StopDevice"));
        assert_eq!(adapter.recoveries().len(), 1);
        let state = w.state();
        assert!(matches!(state, Ok(DeviceState::Hung(_))), "the first reason stays: {state:?}");
    });
}

// spec: PRE-143
#[test]
fn contexts_that_are_held_off_the_run_list_end_with_their_adapter() {
    for user_mode in [false, true] {
        world().run(move |w| {
            match user_mode {
                true => drop(w.connected_queue(0)),
                false => drop(w.hw_queue()),
            }
            let held = w.adapter().suspend_contexts().unwrap();
            w.driver.take();
            let before = w.platform.now();
            w.machine.remove_adapter(0);
            assert_eq!(w.platform.now().since(before), 0, "nothing is waited for");
            let calls = w.driver.take_names();
            let place = |name| calls.iter().position(|called| *called == name);
            assert!(place("DestroyContext") < place("StopDevice"), "{calls:?}");
            assert_eq!(calls.last(), Some(&"StopDevice"));
            held.resume();
            assert_eq!(w.driver.take_names(), Vec::<&str>::new(), "no context is left to resume");
        });
    }
}

/// A context may end while it is held, too.
#[test]
fn a_hold_keeps_no_context_of_a_process_that_ends() {
    world().run(|w| {
        let (other, held) = (w.client("other"), w.connected_queue(0));
        let _queue = other.connected_queue(1);
        let suspended = w.adapter().suspend_contexts().unwrap();
        w.driver.take();
        other.kernel.destroy_device(other.device).unwrap();
        assert!(w.driver.take_names().contains(&"DestroyContext"));
        suspended.resume();
        assert_eq!(w.driver.take_names(), ["ResumeContext"], "that of the process that goes on");
        drop(held);
    });
}

/// Two times the timeout delay, if the end of the process waited for its work.
// spec: PRE-144
#[test]
fn a_removal_does_not_wait_for_a_process_that_waits_for_its_work() {
    let ends: [fn(&Process); 2] = [Process::close, Process::terminate];
    for (end, late) in ends.into_iter().flat_map(|end| [(end, false), (end, true)]) {
        world().run(move |w| {
            let process = w.machine.process("ending").unwrap();
            let device = process.create_device().unwrap();
            let ending = Client::of(&w.platform, process.clone(), device);
            ending.submit_packet(ending.context(0), &[Command::Timed { ns: 20 * S }]);
            let queue = ending.hw_queue_on(1);
            ending.submit(&queue, 1, &[Command::Timed { ns: 20 * S }]);
            let user = ending.connected_queue(2);
            user.doorbell.last_queued.store(1);
            w.pass(SETTLED_NS);
            let before = w.platform.now();
            let platform = w.platform.clone();
            let agent = Arc::new(w.platform.mutex("an ending process", None));
            let spawned = agent.clone();
            // The hook keeps no process, which would keep the machine.
            let of_process = Arc::downgrade(&process);
            let start = move || {
                let Some(process) = of_process.upgrade() else { return };
                let ending = platform.spawn("ending", move || end(&process));
                spawned.lock().get_or_insert(ending);
            };
            match late {
                // While the removal suspends the contexts.
                true => w.hooked.on(Entry::SuspendContext, start),
                false => start(),
            }
            w.pass(SETTLED_NS);
            w.machine.remove_adapter(0);
            let ended = agent.lock().take();
            ended.into_iter().for_each(|agent| _ = agent.join());
            let waited = w.platform.now().since(before);
            assert!(waited <= 2 * SETTLED_NS, "late {late}: {waited} ns");
            drop((queue, user));
        });
    }
}

/// Work before a removal: a hang on the copy engine, and a save area whose first content waits
/// behind it.
type Blocked = fn(&dyn Fn(&str) -> Client, &dyn Fn()) -> Vec<Client>;

/// Removes the adapter after `work`. Nothing is waited for.
fn removal_with(work: Blocked) {
    let platform = Platform::virtual_time(StepCosts::free());
    let machine = Machine::builder(&platform).reference(MachineConfig::standard(&platform));
    let machine = Arc::new(machine.start().unwrap());
    let own = machine.clone();
    let main = move || {
        let open = |name: &str| {
            let process = own.process(name).unwrap();
            let device = process.create_device().unwrap();
            Client::of(&platform, process, device)
        };
        let pass = || _ = platform.sleep_until(platform.now().after(SETTLED_NS));
        let clients = work(&open, &pass);
        own.remove_adapter(0);
        assert!(platform.now().0 < S, "no delay is waited for: {:?}", platform.now());
        drop(clients);
    };
    machine.run(main).unwrap();
    assert_eq!(machine.adapter().bug_checks(), []);
    assert_eq!(machine.driver().violations(), []);
}

/// The hang is of a process that has ended, so the engine keeps a packet of the pager.
// spec: PRE-164
#[test]
fn a_removal_after_the_last_process_ends_the_operation_that_the_pager_waits_for() {
    removal_with(|open, pass| {
        let (guilty, pages) = (open("guilty"), open("pages"));
        let hangs = guilty.hw_queue_on(2);
        guilty.submit(&hangs, 1, &[Command::Hang]);
        pass();
        // Its save area gets its content behind the hang.
        pages.context(0);
        pass();
        Vec::new()
    });
}

/// The engine has as many packets as it takes, so the pager's is not submitted yet.
// spec: PRE-164
#[test]
fn a_removal_ends_an_operation_of_the_pager_that_no_engine_has() {
    removal_with(|open, pass| {
        let (guilty, pages) = (open("guilty"), open("pages"));
        let hangs = guilty.context(2);
        pass();
        (0..4).for_each(|_| guilty.submit_packet(hangs, &[Command::Hang]));
        pass();
        pages.context(0);
        pass();
        vec![guilty, pages]
    });
}

/// The objects of a call may be ending, or gone, when the removal meets it.
// spec: PRE-095
#[test]
fn a_call_during_a_removal_says_that_the_device_was_removed() {
    // No lock that the calls below take is held over these.
    let entries =
        [Entry::SuspendContext, Entry::DestroyHwQueue, Entry::DestroyContext, Entry::DestroyDevice];
    for entry in entries {
        world().run(move |w| {
            let (user, queue, context) = (w.connected_queue(0), w.hw_queue(), w.context(0));
            // The hook keeps no process, which would keep the machine.
            let (kernel, device) = (Arc::downgrade(&w.process), w.device);
            let outcomes = Arc::new(w.platform.mutex("outcomes", Vec::new()));
            let kept = outcomes.clone();
            let doorbell = user.doorbell.handle;
            w.hooked.on(entry, move || {
                let Some(kernel) = kernel.upgrade() else { return };
                let kernel: &dyn Kernel = &*kernel;
                *kept.lock() = vec![
                    // No object of this kind.
                    kernel.destroy_context(doorbell),
                    kernel.wait_from_gpu(context, &[]),
                    kernel.evict(device, &[]),
                ];
            });
            w.machine.remove_adapter(0);
            let outcomes = outcomes.lock().clone();
            assert_eq!(outcomes, [Err(Status::DEVICE_REMOVED); 3], "{entry:?}");
            drop(queue);
        });
    }
}

/// A call that does not leave the driver holds up no removal for ever: two delays pass, and the
/// adapter ends without DxgkDdiStopDevice.
// spec: PRE-093
#[test]
fn a_call_that_does_not_leave_the_driver_holds_up_a_removal_for_a_bounded_time() {
    let (w, report) = world().run_to_report(|w| {
        let n = w.client("slow");
        let (platform, entered) = (w.platform.clone(), w.platform.event(true));
        let seen = entered.clone();
        w.hooked.once(Entry::CreateDevice, move || {
            seen.set(Step::ThreadWake);
            platform.sleep_until(platform.now().after(100 * S));
        });
        let kernel = n.kernel.clone();
        let slow = w.platform.spawn("slow call", move || {
            assert_eq!(kernel.create_device(), Err(Status::DEVICE_REMOVED));
        });
        assert_eq!(entered.wait(), WaitEnd::Woken);
        let before = w.platform.now();
        w.driver.take();
        w.machine.remove_adapter(0);
        assert!(w.platform.now().since(before) <= 20 * S, "{:?}", w.platform.now());
        assert!(!w.driver.take_names().contains(&"StopDevice"), "a call is in the driver");
        assert_eq!(w.state(), Ok(DeviceState::Removed));
        assert_eq!(n.kernel.create_device(), Err(Status::DEVICE_REMOVED));
        slow.join();
    });
    assert!(report.completed(), "{report:?}");
    assert_eq!(w.adapter().bug_checks(), [BugCheck::StuckInDriver]);
}
