//! What kernel and driver find out about each other when an adapter starts, and what is then
//! called: versions of the contract, features with their tables and versions, and no entry that is
//! not there or not enabled.

use tidegate::calls::CreateHwContext;
use tidegate::ddi::FeatureState;
use tidegate::ddi::feature::{FeatureInterface, KernelFeatureTable, NativeFenceTable1};
use tidegate_testbed::prelude::*;

const HWSCH: FeatureId = FeatureId::HWSCH;
const NATIVE_FENCE: FeatureId = FeatureId::NATIVE_FENCE;
const USER_MODE_SUBMISSION: FeatureId = FeatureId::USER_MODE_SUBMISSION;
const ALL: [FeatureId; 3] = [HWSCH, NATIVE_FENCE, USER_MODE_SUBMISSION];

const ON: FeatureState = FeatureState {
    version: 1,
    enabled: true,
    known: true,
    supported_by_driver: true,
    supported_on_current_config: true,
};

/// The setting of one feature.
fn setting(config: &mut MachineConfig, feature: FeatureId) -> &mut FeatureSetting {
    match feature {
        HWSCH => &mut config.kernel.hardware_scheduling,
        NATIVE_FENCE => &mut config.kernel.native_fence,
        _ => &mut config.kernel.user_mode_submission,
    }
}

/// A machine on which one feature is set otherwise.
fn world_set(feature: FeatureId, value: FeatureSetting) -> World {
    world_with(|config| {
        *setting(config, feature) = value;
    })
}

/// A machine with driver entries replaced.
fn world_overriding(overrides: Overrides) -> Result<World, StartError> {
    match setup(|_| ()).overriding(overrides).try_start() {
        Ok(world) => Ok(world),
        Err(tidegate::MachineError::Start(error)) => Err(error),
        Err(other) => panic!("{other}"),
    }
}

/// A machine whose driver has this version.
fn world_of(version: DdiVersion) -> Result<World, StartError> {
    world_overriding(Overrides::default().ddi_version(version))
}

fn features(world: &World) -> Arc<dyn FeatureInterface> {
    world.hooked.start_info().features
}

fn state(world: &World, feature: FeatureId) -> FeatureState {
    let of_driver = features(world).is_feature_enabled(&Passive::enter(), feature);
    assert_eq!(of_driver, world.machine.adapter().feature(feature), "driver and kernel agree");
    of_driver
}

/// What the kernel's interface answers to a request for a table.
fn table(
    world: &World,
    feature: FeatureId,
    version: u16,
    interface_size: u16,
) -> Result<bool, Status> {
    let query = QueryFeatureInterface { feature, version, interface_size };
    let table = features(world).query_feature_interface(&Passive::enter(), query)?;
    Ok(matches!(table, KernelFeatureTable::NativeFence1(_)))
}

// spec: NF-059, NF-060
#[test]
fn a_driver_reads_which_features_are_enabled() {
    assert_eq!(NATIVE_FENCE, FeatureId(37), "number 37 of category 0, the driver's");
    let w = world();
    for feature in [FeatureId(0), FeatureId(4), FeatureId(37)] {
        assert_eq!(state(&w, feature), ON, "{feature:?}");
    }
    let stranger = state(&w, FeatureId(1 << 28 | 37));
    assert_eq!(stranger, FeatureState::default(), "the same number of another category");
    drop(w);

    let w = world_set(NATIVE_FENCE, FeatureSetting::OFF);
    assert_eq!(state(&w, NATIVE_FENCE), FeatureState { enabled: false, ..ON });
}

// spec: NF-061, NF-062
#[test]
fn a_table_is_given_for_an_enabled_feature_at_its_version() {
    let w = world();
    assert_eq!(NativeFenceTable1::BYTES, 8, "one pointer");
    for bytes in [8, 9, u16::MAX] {
        assert_eq!(table(&w, NATIVE_FENCE, 1, bytes), Ok(true));
    }
    for bytes in [0, 4, 7] {
        assert_eq!(table(&w, NATIVE_FENCE, 1, bytes), Err(Status::BUFFER_TOO_SMALL));
    }
    for version in [0, 2, u16::MAX] {
        assert_eq!(table(&w, NATIVE_FENCE, version, 8), Err(Status::INVALID_PARAMETER));
    }
    for feature in [HWSCH, USER_MODE_SUBMISSION] {
        assert_eq!(table(&w, feature, 1, 0), Ok(false), "{feature} adds no call to the kernel");
    }
    assert_eq!(table(&w, FeatureId(1), 1, 64), Err(Status::NOT_SUPPORTED));
    drop(w);
    let w = world_set(NATIVE_FENCE, FeatureSetting::OFF);
    assert_eq!(table(&w, NATIVE_FENCE, 1, 8), Err(Status::NOT_SUPPORTED));
}

// spec: NF-063, NF-064
#[test]
fn the_table_of_native_fences_has_the_types_that_the_kernel_makes() {
    let os_caps = |caps: Option<NativeFenceOsCaps>| {
        let w = world_with(|config| {
            caps.into_iter().for_each(|caps| config.kernel.native_fence_os_caps = caps);
        });
        let (level, interface_size) = (Passive::enter(), NativeFenceTable1::BYTES);
        let query = QueryFeatureInterface { feature: NATIVE_FENCE, version: 1, interface_size };
        match features(&w).query_feature_interface(&level, query) {
            Ok(KernelFeatureTable::NativeFence1(table)) => table.get_os_caps(&level).bits(),
            _ => panic!("version 1 is negotiated"),
        }
    };
    assert_eq!(os_caps(None), 0b11);
    for (bits, caps) in [
        (0, NativeFenceOsCaps::empty()),
        (0b01, NativeFenceOsCaps::OPTIMIZED_DEFAULT_FENCE_TYPE),
        (0b10, NativeFenceOsCaps::INTRA_GPU_FENCE_TYPE),
    ] {
        assert_eq!(os_caps(Some(caps)), bits);
    }
}

/// A call of a kernel's interface and of a driver's, with the level that it demands as a type.
type IsEnabled = fn(&dyn FeatureInterface, &Passive, FeatureId) -> FeatureState;
type Table = fn(
    &dyn FeatureInterface,
    &Passive,
    QueryFeatureInterface,
) -> Result<KernelFeatureTable, Status>;
type Support = fn(&dyn Driver, &Passive, QueryFeatureSupport) -> FeatureSupport;
type GetOsCaps = fn(&NativeFenceTable1, &Passive) -> NativeFenceOsCaps;

// spec: NF-067
#[test]
fn features_are_queried_at_passive_level() {
    // This compiles only while the levels are what is written here.
    let _passive: (IsEnabled, Table, Support, GetOsCaps) = (
        |features, level, id| features.is_feature_enabled(level, id),
        |features, level, query| features.query_feature_interface(level, query),
        |driver, level, args| driver.query_feature_support(level, args),
        |table, level| table.get_os_caps(level),
    );
}

/// A driver that supports native fences as `support` returns.
fn native_fence_support(support: fn(QueryFeatureSupport) -> FeatureSupport) -> Overrides {
    Overrides::default().query_feature_support(move |inner, level, args| match args.feature {
        NATIVE_FENCE => support(args),
        _ => inner.query_feature_support(level, args),
    })
}

// The kernel has one version of each feature, so the choice of the highest of several is visible
// only in a test of the policy.
#[test]
fn the_negotiated_version_is_within_both_ranges() {
    let negotiated = |support| {
        let w = world_overriding(native_fence_support(support)).unwrap();
        let state = state(&w, NATIVE_FENCE);
        assert_eq!(w.kernel.query_adapter_info().native_gpu_fence_supported, state.enabled);
        (state.version, state.enabled)
    };
    assert_eq!(negotiated(|_| FeatureSupport::of_versions(1, 7)), (1, true));
    assert_eq!(negotiated(|_| FeatureSupport::of_versions(0, 1)), (1, true));
    assert_eq!(
        negotiated(|_| FeatureSupport::of_versions(2, 7)),
        (0, false),
        "newer than the kernel"
    );
    assert_eq!(negotiated(|_| FeatureSupport::of_versions(1, 0)), (0, false), "an empty range");
    assert_eq!(negotiated(|_| FeatureSupport::default()), (0, false));
    let not_supported =
        |_| FeatureSupport { supported_by_driver: false, ..FeatureSupport::of_versions(1, 1) };
    assert_eq!(negotiated(not_supported), (0, false));
    let not_here = |_| FeatureSupport {
        supported_on_current_config: false,
        ..FeatureSupport::of_versions(1, 1)
    };
    assert_eq!(negotiated(not_here), (1, false));
}

// spec: NF-283
#[test]
fn settings_override_each_feature() {
    for feature in ALL {
        let with = |value| {
            let w = world_set(feature, value);
            (state(&w, feature).version, state(&w, feature).enabled)
        };
        let on = FeatureSetting::ON;
        assert_eq!(with(on), (1, true), "{feature}");
        assert_eq!(with(FeatureSetting::OFF), (1, false), "{feature}");
        assert_eq!(with(FeatureSetting { min_version: 2, ..on }), (0, false), "{feature}");
        assert_eq!(with(FeatureSetting { max_version: 0, ..on }), (0, false), "{feature}");
        assert_eq!(
            with(FeatureSetting { min_version: 1, max_version: 1, ..on }),
            (1, true),
            "{feature}"
        );
    }
}

// spec: NF-283
#[test]
fn experimental_support_counts_when_it_is_allowed() {
    let experimental = |args: QueryFeatureSupport| match args.allow_experimental {
        true => FeatureSupport::of_versions(args.min_version, args.max_version),
        false => FeatureSupport::default(),
    };
    let with = |allow_experimental| {
        let set = |config: &mut MachineConfig| {
            config.kernel.native_fence.allow_experimental = allow_experimental
        };
        let w = setup(set).overriding(native_fence_support(experimental)).start();
        state(&w, NATIVE_FENCE)
    };
    assert_eq!(with(true), ON);
    assert_eq!(with(false), FeatureState { known: true, ..FeatureState::default() });
}

#[test]
fn a_feature_is_off_while_one_that_it_rests_on_is() {
    let off = FeatureState { enabled: false, ..ON };
    for (set, expected) in [
        (HWSCH, [off, off, off]),
        (NATIVE_FENCE, [ON, off, off]),
        (USER_MODE_SUBMISSION, [ON, ON, off]),
    ] {
        let w = world_set(set, FeatureSetting::OFF);
        assert_eq!(ALL.map(|feature| state(&w, feature)), expected, "without {set}");
    }
}

/// The calls of a start, with what each was about.
fn start_calls(world: &World) -> Vec<String> {
    let text = |call: &DdiCall| match call {
        DdiCall::QueryFeatureSupport { args } => format!("QueryFeatureSupport {}", args.feature),
        DdiCall::QueryFeatureInterface { args } => {
            format!("QueryFeatureInterface {} version {}", args.feature, args.version)
        }
        DdiCall::SetupPriorityBands { args } => {
            format!("SetupPriorityBands NORMAL {} %", args.target_normal_band_percentage)
        }
        call => match call.entry().adapter_info_type() {
            Some(info) => format!("QueryAdapterInfo type {} {info:?}", info as u32),
            None => call.name().to_owned(),
        },
    };
    let calls = world.start_calls.iter();
    calls.filter(|call| call.entry() != Entry::ConnectInterrupt).map(text).collect()
}

// spec: NF-071
#[test]
fn caps_are_queried_when_their_feature_is_enabled() {
    let supports: Vec<String> = ALL.iter().map(|f| format!("QueryFeatureSupport {f}")).collect();
    let table = |feature: FeatureId| format!("QueryFeatureInterface {feature} version 1");
    let info = |what: &str| format!("QueryAdapterInfo type {what}");
    let (driver, native) = (info("1 DriverCaps"), info("37 NativeFenceCaps"));
    let user = info("38 UserModeSubmissionCaps");
    let cases = [
        (
            None,
            vec![
                table(HWSCH),
                table(NATIVE_FENCE),
                table(USER_MODE_SUBMISSION),
                driver.clone(),
                native.clone(),
                user,
            ],
        ),
        (
            Some(USER_MODE_SUBMISSION),
            vec![table(HWSCH), table(NATIVE_FENCE), driver.clone(), native],
        ),
        (Some(NATIVE_FENCE), vec![table(HWSCH), driver.clone()]),
        (Some(HWSCH), vec![driver.clone()]),
    ];
    for (off, after_start) in cases {
        let w = match off {
            Some(feature) => world_set(feature, FeatureSetting::OFF),
            None => world(),
        };
        let mut expected = supports.clone();
        expected.push("StartDevice".to_owned());
        expected.extend(after_start);
        if off != Some(HWSCH) {
            expected.push("SetupPriorityBands NORMAL 10 %".to_owned());
        }
        assert_eq!(start_calls(&w), expected, "without {off:?}");
    }
}

#[test]
fn a_driver_without_the_table_of_a_negotiated_feature_does_not_start() {
    for feature in ALL {
        let status = Status::NOT_SUPPORTED;
        let no_table = Overrides::default().query_feature_interface(move |inner, level, args| {
            if args.feature == feature {
                Err(status)
            } else {
                inner.query_feature_interface(level, args)
            }
        });
        assert_eq!(
            world_overriding(no_table).err(),
            Some(StartError::FeatureTable { feature, version: 1, status })
        );
    }
}

/// The entries of each feature: parts of their names.
const HW_QUEUE_ENTRIES: [&str; 5] = [
    "HwQueue",
    "SuspendContext",
    "ResumeContext",
    "SetupPriorityBands",
    "SetContextSchedulingProperties",
];
const NATIVE_FENCE_ENTRIES: [&str; 5] =
    ["NativeFence", "UpdateMonitoredValues", "UpdateCurrentValues", "NativeFenceCaps", "37"];
const DOORBELL_ENTRIES: [&str; 4] =
    ["Doorbell", "NotifyWorkSubmission", "UserModeSubmissionCaps", "38"];
const FEATURE_ENTRIES: [&str; 1] = ["QueryFeature"];

/// Every kind of call that a process can make, whatever comes of it; and a whole life of what must
/// always work: monitored fences, signalled and waited for by CPU and GPU, and packets.
fn live(world: World) -> Vec<String> {
    let start = start_calls(&world);
    let world = world.run(|w| {
        packets(w);
        for user_mode_submission in [false, true] {
            if let Ok(queue) = w.try_hw_queue(0, user_mode_submission) {
                let _ = w.kernel.native_fence_log_detail(queue.handle);
                w.kernel.destroy_hw_queue(queue.handle).unwrap();
            }
        }
        let (device, node_ordinal, engine_affinity) = (w.device, 0, 0);
        let context = tidegate::calls::CreateHwContext { device, node_ordinal, engine_affinity };
        if let Ok(context) = w.kernel.create_hw_context(context) {
            w.kernel.set_context_in_process_scheduling_priority(context, 1).unwrap();
            w.kernel.destroy_hw_context(context).unwrap();
        }
        let user_mode = |node: &tidegate::calls::NodeInfo| node.user_mode_submission;
        if w.kernel.query_adapter_info().nodes.iter().all(user_mode) {
            let queue = w.connected_queue(1);
            w.kernel.notify_work_submission(queue.doorbell.handle).unwrap();
            w.kernel.destroy_doorbell(queue.doorbell.handle).unwrap();
        }
        if let Ok(fence) = w.try_native(0, SyncObjectFlags::empty()) {
            signal_and_wait(w, &fence);
        }
        w.kernel.destroy_device(w.device).unwrap();
    });
    let mut called = start;
    called.extend(world.driver.take_names().into_iter().map(str::to_owned));
    called
}

fn signal_and_wait(w: &World, fence: &FenceInstance) {
    let event = w.wait_event(fence, 2);
    w.signal(fence, 2);
    assert!(event.is_set());
    w.kernel.destroy_synchronization_object(fence.handle).unwrap();
}

fn packets(w: &World) {
    let (by_cpu, by_gpu) = (w.monitored(0), w.monitored(0));
    let context = w.context(0);
    w.on(context).wait(&by_cpu, 1).run(&[store(by_gpu.current_value_gpu_va, 1)]).signal(&by_gpu, 2);
    w.kernel.signal_from_cpu(&at(&by_cpu, 1), SignalFlags::empty()).unwrap();
    w.wait(by_gpu.handle, 2).unwrap();
    signal_and_wait(w, &by_cpu);
    w.kernel.destroy_synchronization_object(by_gpu.handle).unwrap();
    w.kernel.destroy_context(context).unwrap();
}

fn of<'a>(called: &'a [String], entries: &[&str]) -> Vec<&'a String> {
    called.iter().filter(|name| entries.iter().any(|entry| name.contains(entry))).collect()
}

// spec: NF-077, NF-282
#[test]
fn no_entry_of_a_feature_that_is_off_is_called() {
    let with_all = live(world());
    let groups: [&[&str]; 3] = [&HW_QUEUE_ENTRIES, &NATIVE_FENCE_ENTRIES, &DOORBELL_ENTRIES];
    for group in groups {
        for entry in
            group.iter().filter(|entry| !["SuspendContext", "ResumeContext"].contains(entry))
        {
            let once = with_all.iter().any(|name| name.contains(entry));
            assert!(once, "{entry} is called when all is on: {with_all:?}");
        }
    }
    for (number, off) in ALL.into_iter().enumerate() {
        // The tables of features that rest on it are not queried either.
        let called = live(world_set(off, FeatureSetting::OFF));
        let called: Vec<String> =
            called.into_iter().filter(|name| !name.starts_with("QueryFeature")).collect();
        for group in &groups[number..] {
            assert_eq!(of(&called, group), Vec::<&String>::new(), "without {off}");
        }
        assert!(called.iter().any(|name| name == "SubmitCommandVirtual"));
    }
}

// spec: NF-280
#[test]
fn entries_above_a_driver_s_version_are_never_called() {
    for version in
        [DdiVersion::WDDM_2_0, DdiVersion::wddm(2, 6), DdiVersion::WDDM_2_7, DdiVersion::WDDM_3_1]
    {
        // Hardware queues came with WDDM 2.7, and do without native fences.
        let hw_queues: &[&str] =
            if version < DdiVersion::WDDM_2_7 { &HW_QUEUE_ENTRIES } else { &[] };
        let newer: Vec<&str> =
            [hw_queues, &NATIVE_FENCE_ENTRIES, &DOORBELL_ENTRIES, &FEATURE_ENTRIES].concat();
        let w = world_of(version).unwrap();
        assert_eq!(state(&w, HWSCH).enabled, version >= DdiVersion::WDDM_2_7, "{version}");
        let info = w.kernel.query_adapter_info();
        assert!(!info.native_gpu_fence_supported, "{version}");
        assert_eq!(info.hardware_scheduling, version >= DdiVersion::WDDM_2_7, "{version}");
        assert_eq!(w.try_native(0, SyncObjectFlags::empty()).err(), Some(Status::NOT_SUPPORTED));
        assert_eq!(w.try_hw_queue(0, true).err(), Some(Status::NOT_SUPPORTED));
        let hw_context = CreateHwContext { device: w.device, node_ordinal: 0, engine_affinity: 0 };
        let made = w.kernel.create_hw_context(hw_context).is_ok();
        assert_eq!(made, version >= DdiVersion::WDDM_2_7, "{version}");
        let called = live(w);
        assert_eq!(of(&called, &newer), Vec::<&String>::new(), "{version}");
        for entry in ["StartDevice", "CreateContext", "SubmitCommandVirtual", "DestroyDevice"] {
            assert!(called.iter().any(|name| name == entry), "{version}: {entry} in {called:?}");
        }
    }
}

// spec: NF-280, PRE-110
#[test]
fn a_driver_of_another_contract_or_from_before_windows_8_does_not_start() {
    let (oldest, newest) = (DdiVersion::WDDM_1_2, DdiVersion::WDDM_3_2);
    for (major, minor) in [(1, 0), (1, 1), (3, 3), (4, 0)] {
        let states = DdiVersion::wddm(major, minor);
        let refused = world_of(states).err();
        assert_eq!(refused, Some(StartError::UnknownDdiVersion { states, oldest, newest }));
    }
    assert!(world_of(oldest).is_ok());
}
