//! From start to stop: features and caps, the order of creation and destruction, and what becomes
//! of old handles.

use tidegate_ddi::feature::{DriverFeatureTable, FeatureInterface, KernelFeatureTable};
use tidegate_ddi::{FeatureDdi, FeatureState};
use tidegate_kmd::Kind;
use tidegate_testbed::prelude::driver::*;

fn caps_with(config: Config, features: &'static [FeatureId]) -> tidegate_ddi::AdapterCaps {
    let machine = Machine::cold(&Platform::host(), config);
    machine.start(features).unwrap();
    machine.driver.query_adapter_caps(&machine.passive())
}

/// A connect without a secondary address.
const PLAIN: ConnectDoorbellFlags = ConnectDoorbellFlags::empty();

// spec: NF-056, NF-057
#[test]
fn native_fences_are_declared_only_when_the_kernel_has_enabled_them() {
    let native = |config, features| {
        caps_with(config, features).scheduling.contains(VidSchCaps::NATIVE_GPU_FENCE)
    };
    assert!(native(Config::standard(), ALL));
    assert!(native(Config::standard(), &[FeatureId::HWSCH, FeatureId::NATIVE_FENCE]));
    assert!(!native(Config::standard(), &[FeatureId::HWSCH, FeatureId::USER_MODE_SUBMISSION]));
    assert!(!native(Config::standard(), &[FeatureId::NATIVE_FENCE]), "no hardware scheduling");
    assert!(!native(Config { native_fence: false, ..Config::standard() }, ALL));
    let asleep = Machine::cold(&Platform::host(), Config::standard());
    let before = asleep.driver.query_adapter_caps(&asleep.passive());
    assert!(!before.scheduling.contains(VidSchCaps::NATIVE_GPU_FENCE), "nothing was asked yet");
}

// spec: NF-221
#[test]
fn the_optimised_interrupt_is_declared_with_native_fences_only() {
    let declared = |interrupt, features| {
        let caps = caps_with(Config { interrupt, ..Config::standard() }, features);
        caps.scheduling.contains(VidSchCaps::OPTIMIZED_NATIVE_FENCE_SIGNALED_INTERRUPT)
    };
    assert!(declared(InterruptMode::HwQueue, ALL));
    assert!(!declared(InterruptMode::HwQueue, &[]));
    assert!(!declared(InterruptMode::FenceArray, ALL));
    assert!(!declared(InterruptMode::NullArray, ALL));
}

// spec: PRE-008, PRE-011
#[test]
fn the_granularity_declared_is_that_of_the_coarsest_engine() {
    let machine = Machine::cold(&Platform::host(), Config::standard());
    let nodes = [
        (GraphicsPreemption::Pixel, ComputePreemption::Dispatch),
        (GraphicsPreemption::Primitive, ComputePreemption::Thread),
        (GraphicsPreemption::Shader, ComputePreemption::Shader),
    ];
    for (node, (graphics, compute)) in (0..).zip(nodes) {
        let register = Register::NODE_PREEMPTION.offset(node);
        let states = NodePreemption { graphics, compute }.encode();
        machine.device.script.lock_device().traits.insert(register, states);
    }
    machine.start(ALL).unwrap();
    let caps = machine.driver.query_adapter_caps(&machine.passive()).preemption;
    assert_eq!(
        (caps.graphics, caps.compute),
        (GraphicsPreemption::Primitive, ComputePreemption::Dispatch)
    );
}

#[test]
fn nodes_are_declared_as_the_device_has_them_and_user_mode_submission_as_negotiated() {
    let mut config = Config::standard();
    config.user_mode_nodes = !(1 << 0);
    let caps = caps_with(config.clone(), ALL);
    let nodes: Vec<_> = caps
        .nodes
        .iter()
        .map(|n| (n.engine_type, &*n.friendly_name, n.user_mode_submission))
        .collect();
    let expected = [
        (EngineKind::ThreeD, "3D", false),
        (EngineKind::Compute, "compute", true),
        (EngineKind::Copy, "copy", true),
    ];
    assert_eq!(nodes, expected);
    let must =
        VidSchCaps::MULTI_ENGINE_AWARE | VidSchCaps::PREEMPTION_AWARE | VidSchCaps::NO_DMA_PATCHING;
    assert!(caps.scheduling.contains(must));
    let without = caps_with(config, &[FeatureId::HWSCH, FeatureId::NATIVE_FENCE]);
    assert!(without.nodes.iter().all(|n| !n.user_mode_submission));
}

#[test]
fn each_feature_s_caps_are_a_query_of_their_own() {
    let (machine, level) = Machine::at_passive();
    assert_eq!(machine.driver.query_user_mode_submission_caps(&level).doorbell_size_bytes, 8);
    assert_eq!(machine.driver.query_native_fence_caps(&level), NativeFenceCaps::default());
}

#[test]
fn what_the_driver_supports_depends_on_its_configuration() {
    let support = |config, feature| {
        let machine = Machine::cold(&Platform::host(), config);
        let args = QueryFeatureSupport {
            feature,
            min_version: 1,
            max_version: 9,
            allow_experimental: false,
        };
        machine.driver.query_feature_support(&machine.passive(), args)
    };
    let (full, lacking) = (FeatureSupport::of_versions(1, 1), FeatureSupport::default());
    let not_here = FeatureSupport { supported_on_current_config: false, ..full };
    let without = || Config { native_fence: false, ..Config::standard() };
    for feature in ALL {
        assert_eq!(support(Config::standard(), *feature), full, "{feature}");
    }
    assert_eq!(support(without(), FeatureId::HWSCH), full);
    assert_eq!(support(without(), FeatureId::NATIVE_FENCE), not_here);
    assert_eq!(support(without(), FeatureId::USER_MODE_SUBMISSION), not_here);
    assert_eq!(support(Config::standard(), FeatureId(1)), lacking);
}

#[test]
fn an_enabled_feature_has_a_table_at_its_version() {
    let machine = Machine::cold(&Platform::host(), Config::standard());
    let table = |feature, version| {
        let args = QueryFeatureInterface { feature, version, interface_size: 0 };
        machine.driver.query_feature_interface(&machine.passive(), args)
    };
    assert_eq!(table(FeatureId::HWSCH, 1), Err(Status::DEVICE_REMOVED), "not started");
    machine.start(&[FeatureId::HWSCH, FeatureId::NATIVE_FENCE]).unwrap();
    assert_eq!(table(FeatureId::HWSCH, 1), Ok(DriverFeatureTable::Empty));
    assert_eq!(table(FeatureId::NATIVE_FENCE, 1), Ok(DriverFeatureTable::Empty));
    assert_eq!(table(FeatureId::NATIVE_FENCE, 2), Err(Status::INVALID_PARAMETER));
    assert_eq!(table(FeatureId::USER_MODE_SUBMISSION, 1), Err(Status::NOT_SUPPORTED));
    assert_eq!(table(FeatureId(1), 1), Err(Status::NOT_SUPPORTED));
}

/// A kernel that has enabled these features and has a table for none.
struct WithoutTables(Features);

impl FeatureInterface for WithoutTables {
    fn is_feature_enabled(&self, level: &Passive, feature: FeatureId) -> FeatureState {
        self.0.is_feature_enabled(level, feature)
    }

    fn query_feature_interface(
        &self,
        _level: &Passive,
        _query: QueryFeatureInterface,
    ) -> Result<KernelFeatureTable, Status> {
        Err(Status::INVALID_PARAMETER)
    }
}

#[test]
fn a_kernel_without_the_table_of_an_enabled_feature_fails_the_start() {
    let machine = Machine::cold(&Platform::host(), Config::standard());
    let start = tidegate_ddi::StartInfo {
        callbacks: machine.kernel.clone(),
        features: Arc::new(WithoutTables(Features(ALL))),
        system_memory: machine.system.clone(),
    };
    let refused = machine.driver.start_device(&machine.passive(), start);
    assert_eq!(refused, Err(Status::NOT_SUPPORTED));
}

#[test]
fn a_configuration_that_cannot_be_fails_the_start() {
    let standard = Config::standard;
    let dedicated =
        |physical| Config { doorbells: DoorbellModel::Dedicated { physical }, ..standard() };
    let slots = |kernel_ring_slots| Config { kernel_ring_slots, ..standard() };
    for config in [dedicated(0), slots(0), slots(1), slots(48), slots(1 << 21)] {
        let machine = Machine::cold(&Platform::host(), config.clone());
        assert_eq!(machine.start(ALL), Err(Status::INVALID_PARAMETER), "{config:?}");
        assert_eq!(machine.journal.take(), []);
    }
}

#[test]
fn a_node_of_a_class_that_the_driver_does_not_know_fails_the_start() {
    let machine = Machine::cold(&Platform::host(), Config::standard());
    let class = Register::NODE_CLASS.offset(1);
    machine.device.script.lock_device().traits.insert(class, EngineKind::ALL.len() as u64);
    assert_eq!(machine.start(ALL), Err(Status::NOT_SUPPORTED));
    assert_eq!(machine.journal.take(), []);
}

#[test]
fn a_start_that_fails_half_way_leaves_nothing_behind() {
    let machine = Machine::cold(&Platform::host(), Config::standard());
    machine.device.script.lock_device().broken_node = Some(2);
    assert_eq!(machine.start(ALL), Err(Status::INVALID_PARAMETER));
    let destroyed = [0, 1].map(|n| AdminCommand::DestroyQueue { queue: QueueId(n) });
    assert_eq!(machine.commands()[3..], destroyed);
    assert!(!anything_placed(&machine));
    assert!(!machine.driver.interrupt_routine(&machine.dirql()));
    machine.device.script.lock_device().broken_node = None;
    machine.start(ALL).unwrap();
    assert_eq!(machine.start(ALL), Err(Status::INVALID_PARAMETER), "it is started");
    assert!(anything_placed(&machine));
    machine.driver.stop_device(&machine.passive());
    assert!(!anything_placed(&machine));
    machine.start(ALL).unwrap();
    assert_eq!(machine.driver.violations(), []);
}

/// Whether anything of the driver's is in system memory.
fn anything_placed(machine: &Machine) -> bool {
    let (end, _) = machine.system.protocol(1);
    machine.system.remove(end);
    (0x10_0000..end.0)
        .step_by(0x1000)
        .any(|at| machine.system.resolve(PhysicalAddress(at)).is_some())
}

/// One object of each kind.
struct Life {
    device: DriverHandle,
    context: DriverHandle,
    queue: DriverHandle,
    fence: DriverHandle,
    local: DriverHandle,
    doorbell: DriverHandle,
}

fn life(machine: &Machine) -> Life {
    let owned = machine.owned(5, 1);
    let fence = machine.fence(0xF1);
    let mut args = queue_args(owned.context, 0x50, true, 0);
    (args.progress_fence, args.progress_current_gpu_va) = (ProgressFence::Native(fence), 0x100);
    let queue = machine.driver.create_hw_queue(&machine.passive(), args).unwrap();
    let local = machine.open(fence, owned.device, 0x100);
    let doorbell = machine.doorbell(queue, 0xD0);
    Life { device: owned.device, context: owned.context, queue, fence, local, doorbell }
}

#[test]
fn what_is_destroyed_in_order_leaves_nothing_and_breaks_nothing() {
    let (machine, level) = Machine::at_passive();
    let life = life(&machine);
    machine.driver.connect_doorbell(&level, life.doorbell, PLAIN).unwrap();
    machine.driver.destroy_doorbell(&level, life.doorbell);
    machine.driver.destroy_hw_queue(&level, life.queue);
    machine.driver.destroy_context(&level, life.context);
    machine.driver.close_native_fence(&level, life.local);
    machine.driver.destroy_native_fence(&level, life.fence);
    machine.driver.destroy_device(&level, life.device);
    machine.driver.stop_device(&level);
    assert_eq!(machine.driver.violations(), []);
    let destroyed = machine
        .commands()
        .into_iter()
        .filter(|c| matches!(c, AdminCommand::DestroyQueue { .. }))
        .count();
    assert_eq!(destroyed, 4, "the queue's and the three nodes'");
}

#[test]
fn a_parent_that_goes_first_is_written_down_and_its_children_can_still_go() {
    let (machine, level) = Machine::at_passive();
    let life = life(&machine);
    machine.driver.connect_doorbell(&level, life.doorbell, PLAIN).unwrap();
    machine.driver.destroy_native_fence(&level, life.fence);
    machine.driver.destroy_device(&level, life.device);
    machine.driver.destroy_context(&level, life.context);
    machine.driver.destroy_hw_queue(&level, life.queue);
    assert_eq!(
        machine.driver.connect_doorbell(&level, life.doorbell, PLAIN).unwrap_err(),
        Status::INVALID_PARAMETER
    );
    machine.driver.disconnect_doorbell(&level, life.doorbell);
    machine.driver.destroy_doorbell(&level, life.doorbell);
    machine.driver.close_native_fence(&level, life.local);
    let still = |parent, children| KmdError::StillInUse { parent, children };
    let errors: Vec<_> = machine.driver.violations().iter().map(|v| v.error).collect();
    let expected = [
        still(Kind::Fence, 2),
        still(Kind::Device, 2),
        still(Kind::Context, 1),
        still(Kind::HwQueue, 1),
    ];
    assert_eq!(errors, expected);
    machine.driver.stop_device(&level);
    assert_eq!(machine.driver.violation_count(), 4);
}

#[test]
fn a_stop_with_objects_left_takes_their_hardware_and_says_so() {
    let machine = Machine::standard();
    let life = life(&machine);
    machine.queue(life.context, 0x51, false, 0x8000);
    machine.journal.take();
    machine.driver.stop_device(&machine.passive());
    let destroyed: Vec<_> =
        [3, 4, 0, 1, 2].map(|n| AdminCommand::DestroyQueue { queue: QueueId(n) }).into();
    assert_eq!(machine.commands(), destroyed);
    assert_eq!(machine.driver.violation_count(), 1);
    machine.driver.stop_device(&machine.passive());
    assert_eq!(machine.driver.violations()[1].error, KmdError::NotStarted);
}

#[test]
fn no_handle_is_kept_after_its_destroy() {
    let (machine, level) = Machine::at_passive();
    let old = life(&machine);
    machine.driver.destroy_doorbell(&level, old.doorbell);
    machine.driver.destroy_hw_queue(&level, old.queue);
    machine.driver.destroy_context(&level, old.context);
    machine.driver.close_native_fence(&level, old.local);
    machine.driver.destroy_native_fence(&level, old.fence);
    machine.driver.destroy_device(&level, old.device);
    // New objects may be in the same slots; the old handles must not reach them.
    let new = life(&machine);
    machine.journal.take();
    let invalid = Status::INVALID_PARAMETER;
    let driver = &machine.driver;
    let context = context_args(old.device, 0, 0);
    assert_eq!(driver.create_context(&level, context), Err(invalid));
    assert_eq!(driver.create_hw_queue(&level, queue_args(old.context, 0, true, 0)), Err(invalid));
    assert_eq!(
        driver.open_native_fence(&level, open_args(old.fence, new.device, 0x500)),
        Err(invalid)
    );
    assert_eq!(
        driver.open_native_fence(&level, open_args(new.fence, old.device, 0x500)),
        Err(invalid)
    );
    let ring = machine.ring(16);
    let mut doorbell = doorbell_args(old.queue, 0, ring);
    assert_eq!(driver.create_doorbell(&level, &mut doorbell), Err(invalid));
    assert_eq!(driver.connect_doorbell(&level, old.doorbell, PLAIN).unwrap_err(), invalid);
    assert_eq!(driver.suspend_context(&level, old.context, 1), Err(invalid));
    assert_eq!(driver.resume_context(&level, old.context), Err(invalid));
    assert_eq!(driver.violations(), []);
    driver.disconnect_doorbell(&level, old.doorbell);
    driver.destroy_doorbell(&level, old.doorbell);
    driver.notify_work_submission(&level, old.queue);
    driver.destroy_hw_queue(&level, old.queue);
    driver.destroy_context(&level, old.context);
    driver.close_native_fence(&level, old.local);
    driver.destroy_native_fence(&level, old.fence);
    driver.destroy_device(&level, old.device);
    assert_eq!(driver.violation_count(), 8);
    assert_eq!(machine.journal.take(), [], "the hardware heard of none of it");
}

#[test]
fn a_node_that_is_not_there_is_refused() {
    let machine = Machine::standard();
    let context = context_args(machine.device_for(5), 0, 3);
    assert_eq!(
        machine.driver.create_context(&machine.passive(), context),
        Err(Status::INVALID_PARAMETER)
    );
}

// spec: UMS-043, UMS-046
#[test]
fn a_suspended_context_has_all_its_queues_off_the_run_list() {
    let (machine, level) = Machine::at_passive();
    let owned = machine.owned(5, 1);
    let [early, late] = [0x50, 0x51].map(|os| machine.queue(owned.context, os, true, 0x8000 + os));
    machine.queue(owned.context, 0x52, false, 0x9000);
    machine.doorbell(early, 0xD0);
    machine.queue(machine.owned(6, 1).context, 0x60, false, 0x9000);
    machine.journal.take();
    assert_eq!(machine.driver.suspend_context(&level, owned.context, 1), Ok(true));
    let suspended = |n| AdminCommand::SuspendQueue { queue: QueueId(n) };
    assert_eq!(machine.commands(), [suspended(4), suspended(3)]);
    // A queue whose ring comes now is born suspended.
    machine.doorbell(late, 0xD1);
    assert_eq!(machine.commands()[1..], [suspended(6)]);
    machine.driver.resume_context(&level, owned.context).unwrap();
    let resumed = [4, 6, 3].map(|n| AdminCommand::ResumeQueue { queue: QueueId(n) });
    assert_eq!(machine.commands(), resumed);
}

// spec: UMS-043
#[test]
fn a_suspension_is_reported_once_when_its_last_queue_has_left_and_never_after_a_resume() {
    let (machine, level) = Machine::at_passive();
    let context = machine.owned(5, 1).context;
    let _ = [0x50, 0x51, 0x52].map(|os| machine.queue(context, os, false, 0x8000 + os));
    let busy = AdminCommand::SuspendQueue { queue: QueueId(0) };
    machine.refuse(&busy, AdminError::Busy as u64);
    // The queue leaves the run list. Returns the suspensions that are reported.
    let left = |queue: u32| {
        machine.device.script.lock_device().suspended.push_back(QueueId(queue));
        let events = machine.interrupt_with(Cause::QUEUE_SUSPENDED.0, &[]);
        let fences = events.into_iter().filter_map(|event| match event {
            Event::Notify(InterruptData::SuspendContextCompleted { suspend_fence, .. }) => {
                Some(suspend_fence.to_string())
            }
            _ => None,
        });
        fences.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(machine.driver.suspend_context(&level, context, 7), Ok(false));
    assert_eq!([left(3), left(5), left(5), left(4), left(4)], ["", "", "", "7", ""]);

    assert_eq!(machine.driver.suspend_context(&level, context, 8), Ok(false));
    assert_eq!([left(3), left(4)], ["", ""]);
    machine.driver.resume_context(&level, context).unwrap();
    assert_eq!(left(5), "", "it has left for nothing");
    assert_eq!(machine.driver.suspend_context(&level, context, 9), Ok(false));
    assert_eq!([left(5), left(3), left(4)], ["", "", "9"]);
}

/// No interrupt names a destroyed queue, so its end reports the suspension that waited for it.
// spec: UMS-043
#[test]
fn a_suspension_that_waits_for_a_destroyed_queue_is_reported_by_its_end() {
    let (machine, level) = Machine::at_passive();
    let (context, other) = (machine.owned(5, 1).context, machine.owned(6, 1).context);
    let queues = [0x50, 0x51].map(|os| machine.queue(context, os, false, 0x8000 + os));
    let of_other = machine.queue(other, 0x60, false, 0x9000);
    machine.refuse(&AdminCommand::SuspendQueue { queue: QueueId(0) }, AdminError::Busy as u64);
    assert_eq!(machine.driver.suspend_context(&level, context, 7), Ok(false));
    let ended = |queue| {
        machine.journal.take();
        machine.driver.destroy_hw_queue(&level, queue);
        machine.journal.take().split_off(1)
    };
    assert_eq!(ended(of_other), [], "a queue of another context");
    assert_eq!(ended(queues[0]), [], "the other queue has not left");
    let (context, suspend_fence) = (OsHandle(0xC0), 7);
    let report = InterruptData::SuspendContextCompleted { context, suspend_fence };
    assert_eq!(ended(queues[1]), [Event::Notify(report), Event::QueueDpc]);
    // Records of queues that have ended are passed over.
    machine.device.script.lock_device().suspended.extend([QueueId(77), QueueId(3)]);
    let events = machine.interrupt_with(Cause::QUEUE_SUSPENDED.0, &[]);
    assert_eq!(events, [Event::QueueDpc, Event::NotifyDpc]);
    assert_eq!(machine.driver.violations(), []);
}

#[test]
fn engines_report_that_they_are_idle_after_the_configured_time() {
    let watches = |engine_after_ns| {
        let mut config = Config::standard();
        config.idle.engine_after_ns = engine_after_ns;
        let machine = Machine::cold(&Platform::host(), config);
        machine.start(ALL).unwrap();
        machine.commands().split_off(3)
    };
    assert_eq!(watches(0), []);
    let report = |engine| AdminCommand::ReportIdle { engine, after_ns: 500 };
    assert_eq!(watches(500), [0, 1, 2].map(report));
    let machine = Machine::standard();
    machine.device.script.lock_device().traits.insert(Register::IDLE_ENGINES, 0b101);
    let idle = |node| {
        let (engine, new_state) = (EngineId::of_node(node), EngineState::TransitionToF1);
        Event::Notify(InterruptData::EngineStateChange { engine, new_state })
    };
    let events = machine.interrupt_with(Cause::ENGINE_IDLE.0, &[]);
    assert_eq!(events, [idle(0), idle(2), Event::QueueDpc, Event::NotifyDpc]);
}

/// The shortest of eight readings has the least error, and its middle is the time of the GPU's.
#[test]
fn clocks_are_read_at_the_middle_of_the_shortest_reading() {
    let platform = Platform::virtual_time(StepCosts::free());
    let machine = Machine::cold(&platform, Config::standard());
    machine.start(ALL).unwrap();
    let took_ns = [10, 4, 6, 2, 8, 2, 9, 3, 1];
    machine.device.script.lock_device().clock = (1_000..).zip(took_ns).collect();
    let report = platform.run(move || {
        let begin = machine.platform.now().0;
        let read = machine.driver.calibrate_gpu_clock(&machine.dispatch(), 0);
        assert_eq!((read.gpu_ns, read.cpu.0 - begin), (1_003, 10 + 4 + 6 + 1));
        assert_eq!(machine.device.script.lock_device().clock.len(), 1, "eight readings");
    });
    assert!(report.completed(), "{report:?}");
}

#[test]
fn what_is_refused_half_way_holds_nothing() {
    let (machine, level) = Machine::at_passive();
    let device = machine.device_for(5);
    // A packet context whose node stops in the middle of commands, and a kernel without save areas.
    let states =
        NodePreemption { graphics: GraphicsPreemption::Pixel, compute: ComputePreemption::Thread };
    let traits = (Register::NODE_PREEMPTION.offset(2), states.encode());
    machine.device.script.lock_device().traits.extend([traits]);
    let packets = CreateContext { hardware_scheduled: false, ..context_args(device, 0xC7, 2) };
    assert!(machine.driver.create_context(&level, packets).is_err());
    assert_eq!(machine.device.script.lock_device().contexts_ended, [0xC7]);

    // A queue whose ring the hardware refuses.
    let context = machine.context(device, 1, true);
    let fence = machine.fence(0xF1);
    let mut args = queue_args(context, 0x50, false, 0);
    (args.progress_fence, args.progress_current_gpu_va) = (ProgressFence::Native(fence), 0x100);
    let regions = machine.system.regions();
    machine.device.script.lock_device().broken_node = Some(1);
    assert!(machine.driver.create_hw_queue(&level, args).is_err());
    machine.device.script.lock_device().broken_node = None;
    assert_eq!(machine.system.regions(), regions, "the ring of the queue has left the bus");
    let other = machine.fence(0xF2);
    let local = machine.open(other, device, 0x100);
    machine.driver.close_native_fence(&level, local);
    [fence, other].into_iter().for_each(|fence| machine.driver.destroy_native_fence(&level, fence));
    machine.driver.destroy_context(&level, context);
    machine.driver.destroy_device(&level, device);
    assert_eq!(machine.driver.violations(), []);
    machine.journal.take();
    machine.driver.stop_device(&level);
    let nodes = [0, 1, 2].map(|n| AdminCommand::DestroyQueue { queue: QueueId(n) });
    assert_eq!(machine.commands(), nodes);
}
