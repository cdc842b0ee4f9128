//! What an adapter's start makes of the features and of the driver's declaration: contradictions fail it, and what is not
//! enabled is not called.

mod world;

use tidegate::MachineError;
use tidegate::calls::{CreateNativeFence, NativeFenceType, Status, SyncObjectFlags};
use tidegate::ddi::caps::AdapterCaps;
use tidegate::ddi::fence::{CreateNativeFence as DdiCreate, OpenNativeFence};
use tidegate::ddi::{
    Driver, DriverHandle, FeatureId, FeatureState, Passive, Status as DdiStatus, VidSchCaps,
};
use tidegate::dxgkrnl::StartError;
use tidegate::{MachineConfig, ddi};
use world::{World, start, world, world_with};

fn without_native_fences(mut config: MachineConfig) -> MachineConfig {
    config.kernel.native_fence = false;
    config
}

/// Starts with a changed declaration and tells why that failed, if it did.
fn refusal(caps: impl Fn(&mut AdapterCaps) + Send + Sync + 'static) -> Option<StartError> {
    refusal_with(|config| config, caps)
}

fn refusal_with(
    config: impl FnOnce(MachineConfig) -> MachineConfig,
    caps: impl Fn(&mut AdapterCaps) + Send + Sync + 'static,
) -> Option<StartError> {
    match start(config, Some(Box::new(caps))) {
        Ok(_) => None,
        Err(MachineError::Start(error)) => Some(error),
        Err(other) => panic!("{other}"),
    }
}

// spec: NF-058, NF-070
#[test]
fn native_fences_that_are_not_enabled_fail_the_start() {
    assert_eq!(VidSchCaps::NATIVE_GPU_FENCE.bits(), 1 << 11);
    let declare = |caps: &mut AdapterCaps| caps.scheduling |= VidSchCaps::from_bits_retain(1 << 11);
    assert_eq!(refusal_with(without_native_fences, declare), Some(StartError::NativeFenceNotEnabled));
    assert_eq!(refusal_with(without_native_fences, |_| {}), None);
    assert_eq!(refusal(declare), None);
}

// spec: NF-069, MF-017
#[test]
fn native_fences_need_64_bit_stores() {
    assert_eq!(VidSchCaps::NO_64BIT_ATOMICS.bits(), 1 << 5);
    let declare = |caps: &mut AdapterCaps| caps.scheduling |= VidSchCaps::from_bits_retain(1 << 5);
    assert_eq!(refusal(declare), Some(StartError::NativeFenceWithout64BitAtomics));
    assert_eq!(refusal_with(without_native_fences, declare), None, "monitored fences do without");
}

// spec: NF-028
#[test]
fn a_fence_stride_is_a_power_of_two_from_8_to_4096_and_64_by_default() {
    let declare =
        |stride: u32| move |caps: &mut AdapterCaps| caps.native_fence.monitored_value_stride = stride;
    for stride in [0, 1, 4, 12, 24, 63, 100, 4095, 8192, u32::MAX] {
        assert_eq!(refusal(declare(stride)), Some(StartError::FenceStride(stride)));
    }
    for stride in [8, 128, 4096] {
        assert_eq!(
            distances(&start(|c| c, Some(Box::new(declare(stride)))).unwrap()),
            [u64::from(stride); 2]
        );
    }
    assert_eq!(distances(&world()), [64; 2]);
}

/// How far CurrentValue and MonitoredValue of two packed fences are apart, in bytes; a page holds one fence of 4096.
fn distances(world: &World) -> [u64; 2] {
    let (first, second) = (world.native(0), world.native(0));
    let current = second.current_value_gpu_va - first.current_value_gpu_va;
    let monitored = second.monitored_value_gpu_va - first.monitored_value_gpu_va;
    let pages = |distance: u64| if distance > 4096 { 4096 } else { distance };
    [pages(current), pages(monitored)]
}

#[test]
fn user_mode_submission_without_native_fences_fails_the_start() {
    let declare = |caps: &mut AdapterCaps| caps.nodes[2].user_mode_submission = true;
    let refused = Some(StartError::UserModeSubmissionWithoutNativeFence(2));
    assert_eq!(refusal_with(without_native_fences, declare), refused);
    let optimized = |caps: &mut AdapterCaps| {
        caps.scheduling |= VidSchCaps::OPTIMIZED_NATIVE_FENCE_SIGNALED_INTERRUPT;
    };
    let refused = Some(StartError::CapDependency("OptimizedNativeFenceSignaledInterrupt", "NativeGpuFence"));
    assert_eq!(refusal_with(without_native_fences, optimized), refused);
}

// spec: PRE-007
#[test]
fn scheduling_caps_rest_on_each_other() {
    let aware = VidSchCaps::MULTI_ENGINE_AWARE;
    let native = VidSchCaps::NATIVE_GPU_FENCE;
    let only = |bits: VidSchCaps| move |caps: &mut AdapterCaps| caps.scheduling = bits | native;
    let lacks = |what, rests_on| Some(StartError::CapDependency(what, rests_on));
    let cases = [
        (VidSchCaps::PREEMPTION_AWARE, lacks("PreemptionAware", "MultiEngineAware")),
        (VidSchCaps::CANCEL_COMMAND_AWARE, lacks("CancelCommandAware", "MultiEngineAware")),
        (VidSchCaps::NO_DMA_PATCHING | aware, lacks("NoDmaPatching", "PreemptionAware")),
        (
            VidSchCaps::NO_DMA_PATCHING | VidSchCaps::PREEMPTION_AWARE,
            lacks("PreemptionAware", "MultiEngineAware"),
        ),
        (
            aware
                | VidSchCaps::PREEMPTION_AWARE
                | VidSchCaps::NO_DMA_PATCHING
                | VidSchCaps::CANCEL_COMMAND_AWARE,
            None,
        ),
        (VidSchCaps::empty(), None),
    ];
    for (bits, refused) in cases {
        assert_eq!(refusal(only(bits)), refused, "{bits:?}");
    }
}

// spec: NF-059, NF-060, NF-063
#[test]
fn a_driver_learns_which_features_are_enabled() {
    assert_eq!(FeatureId::NATIVE_FENCE, FeatureId(37), "number 37 of category 0, the driver's");
    let on = FeatureState { version: 1, enabled: true, known: true };
    let w = world();
    let features = w.hooked.start_info().features;
    for feature in [FeatureId(0), FeatureId(4), FeatureId(37)] {
        assert_eq!(features.is_feature_enabled(feature), on, "{feature:?}");
    }
    assert!(
        !features.is_feature_enabled(FeatureId(1 << 28 | 37)).enabled,
        "the same number of another category"
    );
    let offered = features.native_fence_os_caps().expect("the table of an enabled feature");
    assert_eq!(
        offered.intra_gpu,
        refused_type(&w, NativeFenceType::IntraGpu).is_none(),
        "offered, so it can be made"
    );
    drop((features, w));

    let w = world_with(without_native_fences);
    let features = w.hooked.start_info().features;
    let off = FeatureState { version: 1, enabled: false, known: true };
    assert_eq!(features.is_feature_enabled(FeatureId::NATIVE_FENCE), off);
    assert_eq!(features.native_fence_os_caps(), None);
}

fn refused_type(world: &World, fence_type: NativeFenceType) -> Option<Status> {
    let flags = SyncObjectFlags::empty();
    let args = CreateNativeFence { device: world.device, initial_value: 0, fence_type, flags, name: "x" };
    world.kernel.create_native_fence(args).err()
}

// spec: NF-077
#[test]
fn a_driver_without_the_feature_sees_no_native_fence_call() {
    let w = world_with(without_native_fences);
    assert!(!w.kernel.query_adapter_info().native_gpu_fence_supported);
    let fence = w.monitored(3);
    let event = w.wait_event(&fence, 4);
    w.signal(&fence, 4);
    assert!(event.is_set());
    assert_eq!(w.try_native(0, SyncObjectFlags::empty()).err(), Some(Status::NOT_SUPPORTED));
    assert_eq!(w.try_hw_queue(0, false).err(), Some(Status::NOT_SUPPORTED));
    w.kernel.destroy_synchronization_object(fence.handle).unwrap();
    let fence_calls = ["NativeFence", "UpdateMonitored", "UpdateCurrent"];
    let called = w.driver.take_names();
    assert!(called.iter().all(|name| fence_calls.iter().all(|call| !name.contains(call))), "{called:?}");
}

// spec: NF-104
#[test]
fn bad_arguments_and_what_is_not_there_are_told_apart() {
    let w = world();
    assert_eq!(refused_type(&w, NativeFenceType::IntraGpu), Some(Status::NOT_SUPPORTED));
    let both = SyncObjectFlags::NO_WAIT | SyncObjectFlags::NO_SIGNAL;
    assert_eq!(w.try_native(0, both).err(), Some(Status::INVALID_PARAMETER));
    let no_device = CreateNativeFence {
        device: tidegate::calls::Handle(0),
        initial_value: 0,
        fence_type: NativeFenceType::Default,
        flags: SyncObjectFlags::empty(),
        name: "x",
    };
    assert_eq!(w.kernel.create_native_fence(no_device).err(), Some(Status::INVALID_PARAMETER));
    assert_eq!(w.driver.take_names(), Vec::<&str>::new(), "a refused call reaches no driver");
    drop(w);
    let without = world_with(without_native_fences);
    assert_eq!(refused_type(&without, NativeFenceType::Default), Some(Status::NOT_SUPPORTED));
}

// spec: NF-098
#[test]
fn native_fence_types_have_the_published_numbers() {
    assert_eq!([NativeFenceType::Default as u32, NativeFenceType::IntraGpu as u32], [0, 1]);
}

/// What Create returns.
type Created = Result<(DriverHandle, [u8; 64]), DdiStatus>;

/// A driver's entries, with the level that each demands as a type: this compiles only while they are what is written here.
struct LifeOfAFence {
    _create: fn(&dyn Driver, &Passive, DdiCreate) -> Created,
    _open: fn(&dyn Driver, &Passive, OpenNativeFence) -> Result<DriverHandle, DdiStatus>,
    _close: fn(&dyn Driver, &Passive, DriverHandle),
    _destroy: fn(&dyn Driver, &Passive, DriverHandle),
}

// spec: NF-078, NF-079
#[test]
fn the_life_of_a_fence_is_at_passive_level() {
    let _passive = LifeOfAFence {
        _create: |driver, level, args| driver.create_native_fence(level, args),
        _open: |driver, level, args| driver.open_native_fence(level, args),
        _close: |driver, level, local| driver.close_native_fence(level, local),
        _destroy: |driver, level, global| driver.destroy_native_fence(level, global),
    };
    let _logs: fn(&dyn Driver, &ddi::Dispatch, ddi::fence::SetNativeFenceLogBuffer) =
        |driver, level, args| driver.set_native_fence_log_buffer(level, args);
    let _flush: fn(&dyn Driver, &ddi::Dispatch, &[DriverHandle]) =
        |driver, level, queues| driver.update_native_fence_logs(level, queues);
    let w = world();
    let queue = w.try_hw_queue(0, true).unwrap();
    w.kernel.destroy_hw_queue(queue.handle).unwrap();
    let called = w.driver.take_names();
    for entry in ["Create", "Open", "Close", "Destroy"] {
        assert!(called.contains(&format!("{entry}NativeFence").as_str()), "{called:?}");
    }
    assert_eq!(called.iter().filter(|name| **name == "SetNativeFenceLogBuffer").count(), 2);
}
