//! How processes end: in good order, by force, and at any moment; what becomes of what they share,
//! and that nothing is left.

use tidegate::d3d12;
use tidegate::dxgkrnl::Process;
use tidegate::gpu_abi::address::TABLE_LEVELS;
use tidegate_testbed::prelude::*;

const SETTLED_NS: u64 = 100_000;

/// Announces progress value `progress`, and rings for work that takes `ns`.
fn submit_timed(w: &World, queue: &UserQueue, ns: u64, progress: u64) {
    queue.doorbell.last_queued.store(progress);
    queue.push(&w.execute_packet(&[Command::Timed { ns }], progress));
}

/// Where the calls of these names are.
fn order(calls: &[&str], names: &[&str]) -> Vec<String> {
    calls.iter().filter(|name| names.contains(name)).map(|name| (*name).to_owned()).collect()
}

const LIST: [&str; 5] =
    ["DisconnectDoorbell", "SuspendContext", "DestroyDoorbell", "DestroyHwQueue", "ResumeContext"];

/// Another process, which has opened a fence of the world's process.
struct Other {
    client: Client,
    fence: FenceInstance,
}

/// A fence of the world's process with flags, and another process that has opened it.
fn share_with(w: &World, initial: u64, flags: SyncObjectFlags) -> (FenceInstance, Other) {
    let (shared, client) = (w.try_native(initial, flags).unwrap(), w.client("other"));
    let fence = client.open_fence(&w.share_all(&shared));
    (shared, Other { client, fence })
}

fn share(w: &World) -> (FenceInstance, Other) {
    share_with(w, 0, SHARED)
}

// spec: UMS-087, UMS-088, UMS-089
#[test]
fn a_process_that_closes_has_its_work_done_before_anything_is_destroyed() {
    let w = world().run(|w| {
        let (queue, fence) = (w.connected_queue(0), w.native(0));
        let handle = fence.value.clone();
        queue.signal(&fence, 7);
        submit_timed(w, &queue, 50_000, 1);
        w.driver.take();
        let (progress, value) = (queue.queue.progress_value.clone(), handle.clone());
        w.hooked.on(Entry::DestroyDoorbell, move || {
            assert_eq!((progress.load(), value.load()), (1, 7))
        });
        let regions = w.adapter().census().memory_regions;
        let (adapter, progress) = (w.adapter().clone(), queue.queue.progress_value.clone());
        w.hooked.on(Entry::DisconnectDoorbell, move || {
            assert_eq!(progress.load(), 0, "the doorbell goes before the work is done");
            assert_eq!(adapter.census().memory_regions, regions, "rings are there");
        });
        w.process.close();
        let calls = w.driver.take_names();
        let expected = ["DisconnectDoorbell", "DestroyDoorbell", "DestroyHwQueue"];
        assert_eq!(order(&calls, &LIST), expected);
    });
    let stats = w.stats();
    assert_eq!((stats.processes_closed, stats.processes_terminated, stats.devices_lost), (1, 0, 0));
}

#[test]
fn a_process_that_closes_has_the_work_of_kernel_mode_queues_and_contexts_done() {
    world().run(|w| {
        let (shared, outside) = share(w);
        let (queue, context) = (w.hw_queue(), w.context(1));
        w.on_queue(&queue).run(1, &[Command::Timed { ns: 10_000 }]).signal(&shared, 1);
        w.on(context).wait(&shared, 1).run(&[Command::Timed { ns: 10_000 }]).signal(&shared, 2);
        w.process.close();
        assert_eq!(outside.fence.value.load(), 2);
        assert_eq!(w.adapter().lost_signals(), []);
    });
}

#[test]
fn a_ring_that_was_lost_is_not_lost_with_the_process() {
    world().run(|w| {
        let (shared, outside) = share(w);
        // The doorbell is not connected yet: the ring meets a dummy page, and the process does not
        // repeat it.
        let queue = w.user_queue(0);
        queue.put(&signal_packet(&shared, 1, u32::MAX));
        submit_timed(w, &queue, 10, 1);
        w.process.close();
        assert_eq!(outside.fence.value.load(), 1);
    });
}

// spec: UMS-090
#[test]
fn a_process_that_announced_more_than_it_submitted_closes_after_the_tdr_delay() {
    let w = world().run(|w| {
        let queue = w.connected_queue(0);
        submit_timed(w, &queue, 10, 1);
        queue.doorbell.last_queued.store(u64::MAX);
        w.driver.take();
        let from = w.platform.now();
        w.process.close();
        assert_eq!(w.platform.now().since(from), 2_000_000_000);
        let calls = order(&w.driver.take_names(), &LIST);
        assert_eq!(calls, LIST[..4]);
    });
    assert_eq!(w.stats().processes_terminated, 1);
}

// spec: UMS-091, UMS-092, UMS-093
#[test]
fn a_process_that_is_terminated_is_suspended_before_its_queues_go() {
    let w = world().run(|w| {
        let (queues, fence) = ([w.connected_queue(0), w.connected_queue(1)], w.native(0));
        for queue in &queues {
            queue.signal(&fence, 1);
            submit_timed(w, queue, 1_000_000_000, 1);
        }
        w.pass(SETTLED_NS);
        w.driver.take();
        let regions = w.adapter().census().memory_regions;
        let adapter = w.adapter().clone();
        w.hooked.on(Entry::SuspendContext, move || {
            assert_eq!(adapter.census().memory_regions, regions, "rings are there");
        });
        w.process.terminate();
        let of_queue = ["DisconnectDoorbell", "DestroyDoorbell", "DestroyHwQueue"];
        let expected: Vec<&str> =
            ["SuspendContext"; 2].into_iter().chain(of_queue).chain(of_queue).collect();
        assert_eq!(order(&w.driver.take_names(), &LIST), expected);
        assert_eq!(w.platform.now().0, SETTLED_NS, "the end does not wait for the work");
        assert_eq!(w.state(), Ok(DeviceState::ProcessEnded));
        assert_eq!(w.kernel.create_device(), Err(Status::DEVICE_REMOVED));
        assert_eq!(w.kernel.destroy_device(w.device), Err(Status::DEVICE_REMOVED));
    });
    let stats = w.stats();
    assert_eq!((stats.processes_terminated, stats.devices_lost), (1, 0));
}

// spec: UMS-091
#[test]
fn a_broadcast_of_a_process_that_is_terminated_is_not_made_because_one_of_its_queues_went_first() {
    world().run(|w| {
        let (shared, outside) = share(w);
        let (queues, never) = ([w.hw_queue(), w.hw_queue()], w.native(0));
        w.kernel.submit_wait_to_hw_queue(queues[0].handle, &at(&never, 1)).unwrap();
        let args = SubmitSignalToHwQueues {
            hw_queues: &queues.each_ref().map(|queue| queue.handle),
            fences: &at(&shared, 1),
            flags: SignalFlags::empty(),
        };
        w.kernel.submit_signal_to_hw_queues(args).unwrap();
        // Its device is in error before the first of its queues is touched, so no queue signals for
        // the others.
        w.process.terminate();
        assert_eq!(outside.fence.value.load(), 0);
    });
}

// spec: UMS-094
#[test]
fn a_shared_fence_stays_armed_for_the_remaining_waiters() {
    world().run(|w| {
        let (shared, outside) = share_with(w, 3, SHARED);
        let (queue, context) = (w.hw_queue(), w.context(1));
        let mine = w.wait_event(&shared, 5);
        w.on_queue(&queue).wait(&shared, 6).signal(&shared, 20);
        w.on(context).wait(&shared, 7).signal(&shared, 30);
        let theirs = outside.client.wait_event(&outside.fence, 10);
        w.armed();
        w.process.terminate();
        assert!(mine.is_set(), "the waiter ends with its process");
        assert!(!theirs.is_set(), "a death is no signal");
        assert_eq!(w.armed().last(), Some(&vec![9]), "armed for 10");
        assert_eq!(outside.fence.value.load(), 3, "a death is no signal");
        let said = w.adapter().lost_signals();
        assert_eq!(said.len(), 1);
        assert_eq!((said[0].process.as_str(), said[0].queued), ("test", Some(30)));
        // It works on.
        outside.client.signal(&outside.fence, 10);
        assert!(theirs.is_set());
        assert_eq!(outside.client.state(), Ok(DeviceState::Active));
    });
}

// spec: UMS-094
#[test]
fn waits_that_outlive_their_instance_do_not_outlive_their_process() {
    world().run(|w| {
        let flags = SHARED | SyncObjectFlags::UNWAIT_CPU_WAITERS_ONLY_ON_DESTROY;
        let (shared, outside) = share_with(w, 0, flags);
        let mine = w.wait_event(&shared, 5);
        w.armed();
        w.process.terminate();
        assert!(mine.is_set());
        assert_eq!(w.armed().len(), 1, "no waiter is left");
        assert_eq!(outside.fence.value.load(), 0);
    });
}

#[test]
fn threads_that_block_in_a_wait_come_back_with_an_error() {
    world().run(|w| {
        let (shared, outside) = share(w);
        let (kernel, own) = (w.kernel.clone(), w.native(0));
        let fences = [at(&shared, 1)[0], at(&own, 1)[0]];
        let waiter = w.platform.spawn("a thread of the process", move || {
            for mode in [WaitMode::All, WaitMode::Any] {
                let ended = kernel.wait_from_cpu(&fences, mode, None);
                assert_eq!(ended, Err(Status::DEVICE_REMOVED), "{mode:?}");
            }
        });
        w.pass(SETTLED_NS);
        w.process.terminate();
        assert_eq!(waiter.join(), tidegate::platform::WaitEnd::Woken);
        assert_eq!(outside.fence.value.load(), 0);
    });
}

#[test]
fn a_report_says_that_a_signal_went_with_its_process() {
    let (w, report) = world().run_to_report(|w| {
        let (shared, outside) = share(w);
        let queue = w.hw_queue();
        let never = w.native(0);
        w.on_queue(&queue).wait(&never, 1).signal(&shared, 5);
        w.process.terminate();
        assert_eq!(outside.client.wait(outside.fence.handle, 5), Err(Status::CANCELLED));
    });
    let lost = "process 'test', which could signal it, was ended with a signal of 5 queued, which never comes";
    assert_eq!(
        w.machine.standstill(&report),
        [
            format!("'main' waits for fence 'f' to reach 5 (it is at 0; {lost})"),
            format!("fence 'f': {lost}"),
        ]
    );
}

#[test]
fn packets_that_the_driver_has_are_finished_and_no_other_follows() {
    world().run(|w| {
        let (shared, outside) = share(w);
        let (memory, gpu_va) = w.bytes(64);
        let context = w.context(0);
        for slot in 0..6 {
            let store = tidegate_testbed::store(gpu_va + slot * 8, 1);
            w.submit_packet(context, &[Command::Timed { ns: 1_000 }, store]);
        }
        w.on(context).signal(&shared, 1);
        w.process.terminate();
        let mut bytes = [0; 64];
        memory.read(0, &mut bytes).unwrap();
        let done = bytes.iter().filter(|byte| **byte == 1).count();
        assert_eq!(done, 2, "as many as a node holds at once");
        assert_eq!(outside.fence.value.load(), 0);
        // The node is free for others.
        let theirs = outside.client.context(0);
        outside.client.on(theirs).signal(&outside.fence, 2);
        outside.client.wait(outside.fence.handle, 2).unwrap();
    });
}

#[test]
fn a_driver_that_does_not_let_go_of_a_context_holds_an_end_for_the_tdr_delay_and_no_longer() {
    let w = world().run(|w| {
        let (_shared, outside) = share(w);
        w.connected_queue(0);
        w.hooked.plant(|answers| answers.suspends_later = true);
        let from = w.platform.now();
        w.process.terminate();
        assert_eq!(w.platform.now().since(from), 2_000_000_000);
        assert_eq!(outside.fence.value.load(), 0, "the delay signals no fence");
        assert_eq!(w.adapter().census().hw_queues, 0);
    });
    assert_eq!(w.stats().devices_lost, 0);
}

/// An engine may still run commands that use the memory until their queue has gone.
#[test]
fn the_memory_of_a_device_that_ends_goes_after_its_queues_and_contexts() {
    world().run(|w| {
        let client = w.client("another");
        let memory = client.allocate_in(4096, Placement::System);
        let (queue, _context) = (client.hw_queue(), client.context(0));
        client.on_queue(&queue).run(1, &[Command::Timed { ns: 100 }]).finish();
        let driver = w.driver.clone();
        driver.take();
        client.kernel.destroy_device(client.device).unwrap();
        let calls = driver.take();
        let level = TABLE_LEVELS - 1;
        let entry = (level, GpuVa(memory.gpu_va).table_index(level));
        let unmaps = |call: &DdiCall| match call {
            DdiCall::UpdatePageTable { args } => {
                let of_page = (args.level, args.start_index) == entry;
                of_page && args.entries[0] == PageTableEntry::Invalid
            }
            _ => false,
        };
        let at = |name: &str| calls.iter().rposition(|call| call.name() == name).unwrap();
        let unmapped = calls.iter().position(unmaps).unwrap();
        assert!(unmapped > at("DestroyHwQueue") && unmapped > at("DestroyContext"), "{calls:?}");
    });
}

#[test]
fn a_process_ends_once() {
    let w = world().run(|w| {
        let queue = w.connected_queue(0);
        queue.doorbell.last_queued.store(1);
        let closing = w.process.clone();
        let closer = w.platform.spawn("closer", move || closing.close());
        w.pass(SETTLED_NS);
        w.process.terminate();
        assert_eq!(w.adapter().census().hw_queues, 1, "the other one is at it");
        closer.join();
        w.process.terminate();
        w.process.close();
        assert_eq!(w.adapter().census().hw_queues, 0);
    });
    assert_eq!(w.stats().processes_terminated, 1);
}

#[test]
fn an_end_is_on_the_timeline() {
    let platform = Platform::virtual_time(StepCosts::free());
    platform.enable_tracing();
    let machine = Machine::new(&platform, MachineConfig::standard(&platform)).unwrap();
    let (closed, ended) = (machine.process("good").unwrap(), machine.process("bad").unwrap());
    machine
        .run(move || {
            closed.create_device().unwrap();
            ended.create_device().unwrap();
            closed.close();
            ended.terminate();
        })
        .unwrap();
    let mut json = Vec::new();
    tidegate::trace::chrome::write(&platform.take_trace("ends"), &mut json).unwrap();
    let json = String::from_utf8(json).unwrap();
    for name in ["process 'good' closed", "process 'bad' terminated", "processes"] {
        assert!(json.contains(name), "{name}");
    }
}

/// What there is of everything that comes and goes with processes.
fn census(machine: &Machine) -> (tidegate::dxgkrnl::Census, [usize; 9], tidegate::softgpu::Census) {
    (machine.adapter().census(), machine.driver().census(), machine.gpu().census())
}

fn queue(device: &Device, name: &str, submission: Submission) -> d3d12::error::Result<Queue> {
    let desc = QueueDesc::new(CommandListType::Copy).submission(submission);
    device.create_queue(QueueDesc { name: name.to_owned(), ..desc })
}

fn buffer(device: &Device, name: &str) -> d3d12::error::Result<d3d12::Buffer> {
    device.create_buffer(BufferDesc::upload(name, 4096))
}

/// A life with everything in it: three models, fences of its own and a shared one, waits on the CPU
/// and the GPU.
fn live(machine: &Machine, process: &Arc<Process>, shared: &NtHandle) -> d3d12::error::Result<()> {
    let device =
        machine.device_in(process, DeviceOptions::default()).map_err(|error| match error {
            tidegate::MachineError::Device(error) => error,
            error => panic!("{error}"),
        })?;
    let common = device.open_shared_handle("common", shared)?;
    let (source, target) = (buffer(&device, "source")?, buffer(&device, "target")?);
    let own = device.create_fence("own", 0)?;
    let queues = [
        queue(&device, "user", Submission::User)?,
        queue(&device, "hardware", Submission::Hardware)?,
        queue(&device, "packet", Submission::Packet)?,
    ];
    for round in 0..1u64 {
        for (index, queue) in (0..).zip(&queues) {
            let mut list = device.create_command_list(CommandListType::Copy);
            list.copy(&target, 0, &source, 0, 4096)?;
            list.timed(500)?;
            let list = list.close()?;
            queue.wait(&own, round * 3 + index)?;
            queue.execute(&[&list])?;
            queue.signal(&own, round * 3 + index + 1)?;
        }
    }
    own.wait(3)?;
    queues[0].wait(&common, 1)?;
    queues[0].signal(&own, 7)?;
    let event = device.create_event(d3d12::EventDesc::manual_reset());
    own.set_event_on_completion(7, &event)?;
    common.signal(1)?;
    own.wait(7)?;
    device.wait_idle()
}

/// A neighbour that computes while the others live and die.
struct Neighbour {
    device: Device,
    queue: Queue,
    fence: Fence,
    source: d3d12::Buffer,
    target: d3d12::Buffer,
    round: u64,
}

impl Neighbour {
    fn new(machine: &Machine) -> Neighbour {
        let process_name = "neighbour".to_owned();
        let device =
            machine.device(DeviceOptions { process_name, ..DeviceOptions::default() }).unwrap();
        let (queue, fence) =
            (queue(&device, "neighbour", Submission::User).unwrap(), device.fence(0));
        let (source, target) = (buffer(&device, "a").unwrap(), buffer(&device, "b").unwrap());
        Neighbour { device, queue, fence, source, target, round: 0 }
    }

    /// Copies new bytes, and checks the copy.
    fn turn(&mut self) {
        self.round += 1;
        let bytes: Vec<u8> = (0..4096u64).map(|n| (n * 31 + self.round * 7) as u8).collect();
        self.source.write(0, &bytes).unwrap();
        self.device.execute(&self.queue, |list| list.copy(&self.target, 0, &self.source, 0, 4096));
        self.queue.signal(&self.fence, self.round).unwrap();
        self.fence.wait(self.round).unwrap();
        let mut came = vec![0; 4096];
        self.target.read(0, &mut came).unwrap();
        assert!(came == bytes, "the neighbour's work is wrong");
    }
}

/// Steps that end an agent's turn, each with a price of its own, so that an end can come between
/// any two.
fn priced() -> StepCosts {
    use Step::{DdiCall, DoorbellStore, KernelCall, UmdEncode, VidSchDispatch};
    let steps = [KernelCall, DdiCall, DoorbellStore, UmdEncode, VidSchDispatch];
    steps.into_iter().fold(StepCosts::free(), |costs, step| costs.with(step, 100))
}

/// How a life that was ended at some moment went.
struct Ended {
    /// How long it was.
    lived_ns: u64,
    /// The last driver call before the end.
    last: Option<&'static str>,
    outcome: d3d12::error::Result<()>,
}

/// Runs a life that is ended `after_ns` of its time, beside a neighbour; asserts that nothing of it
/// is left.
fn end_after(after_ns: u64, end: fn(&Process)) -> Ended {
    let change = |config: &mut MachineConfig| {
        config.driver.doorbells = tidegate::kmd::DoorbellModel::Dedicated { physical: 1 };
    };
    let w = tidegate_testbed::setup(change).costs(priced()).start();
    let life = Arc::new(w.platform.mutex("how the life went", None));
    let kept = life.clone();
    w.run(move |w| {
        let handle = w.share_all(&w.try_native(0, SHARED).unwrap());
        let mut neighbour = Neighbour::new(&w.machine);
        (0..3).for_each(|_| neighbour.turn());
        neighbour.device.wait_idle().unwrap();
        let before = census(&w.machine);
        w.driver.take();
        let victim = w.machine.process("victim").unwrap();
        let (begun, ended) = (w.platform.now(), w.platform.event(true));
        let beside = Arc::new(w.platform.mutex("the neighbour", Some(neighbour)));
        let going = w.platform.spawn("neighbour", {
            let (beside, ended) = (beside.clone(), ended.clone());
            move || {
                let mut neighbour = beside.lock().take().unwrap();
                while !ended.is_set() {
                    neighbour.turn();
                }
                neighbour.turn();
                neighbour.device.wait_idle().unwrap();
                *beside.lock() = Some(neighbour);
            }
        });
        let last = Arc::new(w.platform.mutex("the last call", None));
        let killer = w.platform.spawn("killer", {
            let (platform, victim, driver, last) =
                (w.platform.clone(), victim.clone(), w.driver.clone(), last.clone());
            move || {
                platform.sleep_until(begun.after(after_ns));
                *last.lock() = driver.take().last().map(|call| call.name());
                end(&victim);
            }
        });
        let outcome = live(&w.machine, &victim, &handle);
        let lived_ns = w.platform.now().since(begun);
        killer.join();
        ended.set(Step::ThreadWake);
        going.join();
        // The process's handle is still there, and nothing else of it.
        assert_eq!(census(&w.machine), before, "ended after {after_ns} ns: {outcome:?}");
        drop(victim);
        assert_eq!(census(&w.machine), before);
        let last = *last.lock();
        *kept.lock() = Some(Ended { lived_ns, last, outcome });
    });
    life.lock().take().expect("the run came to its end")
}

/// Ends come in the middle of every step that is a multiple of `step_ns` into the life.
fn ended_everywhere(end: fn(&Process), step_ns: usize) -> BTreeSet<&'static str> {
    // Longer than it lives, and not much: the neighbour is at it all the time.
    let longest_ns = 200_000;
    let whole = end_after(longest_ns, end);
    assert!(whole.lived_ns < longest_ns);
    whole.outcome.unwrap();
    let mut last = BTreeSet::new();
    for after_ns in (50..whole.lived_ns).step_by(step_ns) {
        let ended = end_after(after_ns, end);
        last.extend(ended.last);
        if let Err(error) = ended.outcome {
            assert!(matches!(error, Error::DeviceRemoved(_)), "ended after {after_ns} ns: {error}");
        }
    }
    last
}

// spec: UMS-093, UMS-094
#[test]
fn a_process_that_is_terminated_in_any_step_leaves_nothing_and_disturbs_no_neighbour() {
    let last = ended_everywhere(Process::terminate, 100);
    let met = [
        "CreateDevice",
        "CreateContext",
        "CreateHwQueue",
        "OpenNativeFence",
        "CreateDoorbell",
        "ConnectDoorbell",
        "SubmitCommandToHwQueue",
        "SubmitCommandVirtual",
        "UpdateMonitoredValues",
    ];
    assert!(met.iter().all(|ddi| last.contains(ddi)), "ends came after {last:?}");
}

// spec: UMS-089, UMS-090
#[test]
fn a_process_that_closes_in_any_step_leaves_nothing_and_disturbs_no_neighbour() {
    ended_everywhere(Process::close, 100);
}

#[test]
fn a_device_that_is_made_beside_a_broken_contract_is_refused() {
    let w = inline_world();
    let hooked = w.hooked.clone();
    let report =
        InterruptData::DmaCompleted { engine: EngineId::of_node(0), submission_fence_id: 9 };
    w.hooked.once(Entry::CreateDevice, move || hooked.interrupt(report.clone()));
    assert_eq!(w.kernel.create_device(), Err(Status::DEVICE_REMOVED));
    assert_eq!(w.adapter().bug_checks().len(), 1);
    assert_eq!(w.adapter().census().devices, 1, "the device of the world");
}
