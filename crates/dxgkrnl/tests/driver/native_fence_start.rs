//! What an adapter's start makes of the features and of the driver's declaration: contradictions
//! fail it, and what is not enabled is not called.

use tidegate::calls::CreateNativeFence;
use tidegate::ddi;
use tidegate::ddi::Status as DdiStatus;
use tidegate::ddi::fence::{CreateNativeFence as DdiCreate, OpenNativeFence};
use tidegate_testbed::prelude::*;

fn without_native_fences(config: &mut MachineConfig) {
    config.kernel.native_fence = FeatureSetting::OFF;
}

fn without_intra_gpu_fences(config: &mut MachineConfig) {
    config.kernel.native_fence_os_caps.remove(NativeFenceOsCaps::INTRA_GPU_FENCE_TYPE);
}

/// Starts with changed caps and returns the error, if there is one.
fn refusal(caps: impl Fn(&mut AdapterCaps) + Send + Sync + 'static) -> Option<StartError> {
    refusal_with(|_| (), caps)
}

fn refusal_with(
    config: impl FnOnce(&mut MachineConfig),
    caps: impl Fn(&mut AdapterCaps) + Send + Sync + 'static,
) -> Option<StartError> {
    start_error(setup(config).caps(caps).try_start())
}

/// The same with driver entries replaced.
fn refusal_overriding(
    overrides: Overrides,
    caps: impl Fn(&mut AdapterCaps) + Send + Sync + 'static,
) -> Option<StartError> {
    start_error(setup(|_| ()).caps(caps).overriding(overrides).try_start())
}

fn start_error(started: Result<World, MachineError>) -> Option<StartError> {
    match started {
        Ok(_) => None,
        Err(MachineError::Start(error)) => Some(error),
        Err(other) => panic!("{other}"),
    }
}

/// A driver that declares these caps of native fences.
fn fences(caps: NativeFenceCaps) -> Overrides {
    Overrides::default().query_native_fence_caps(move |_, _| caps)
}

/// A driver of this version.
fn version(version: DdiVersion) -> Overrides {
    Overrides::default().ddi_version(version)
}

// spec: NF-058, NF-070
#[test]
fn native_fences_that_are_not_enabled_fail_the_start() {
    assert_eq!(VidSchCaps::NATIVE_GPU_FENCE.bits(), 1 << 11);
    let declare = |caps: &mut AdapterCaps| caps.scheduling |= VidSchCaps::from_bits_retain(1 << 11);
    assert_eq!(
        refusal_with(without_native_fences, declare),
        Some(StartError::NativeFenceNotEnabled)
    );
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
    let declare = |monitored_value_stride| {
        fences(NativeFenceCaps { monitored_value_stride, ..NativeFenceCaps::default() })
    };
    for stride in [0, 1, 4, 12, 24, 63, 100, 4095, 8192, u32::MAX] {
        assert_eq!(
            refusal_overriding(declare(stride), |_| {}),
            Some(StartError::FenceStride(stride))
        );
    }
    for stride in [8, 128, 4096] {
        let world = setup(|_| ()).overriding(declare(stride)).start();
        assert_eq!(distances(&world), [u64::from(stride); 2]);
    }
    assert_eq!(distances(&world()), [64; 2]);
}

/// How far CurrentValue and MonitoredValue of two packed fences are apart, in bytes; a page holds
/// one fence of 4096.
fn distances(world: &World) -> [u64; 2] {
    let (first, second) = (world.native(0), world.native(0));
    let current = second.current_value_gpu_va - first.current_value_gpu_va;
    let monitored = second.monitored_value_gpu_va - first.monitored_value_gpu_va;
    let pages = |distance: u64| if distance > 4096 { 4096 } else { distance };
    [pages(current), pages(monitored)]
}

// spec: NF-284
#[test]
fn the_addresses_of_fences_lie_in_the_address_space() {
    let declare = |minimum_address, maximum_address| {
        fences(NativeFenceCaps { minimum_address, maximum_address, ..NativeFenceCaps::default() })
    };
    // 4 levels of 9 bits over pages of 4 KiB.
    let end = 1 << 48;
    let refused = |minimum, maximum| Some(StartError::FenceAddresses { minimum, maximum, end });
    let outcome = |minimum, maximum| refusal_overriding(declare(minimum, maximum), |_| {});
    assert_eq!(outcome(Some(0x2000), Some(0x1FFF)), refused(0x2000, 0x1FFF));
    assert_eq!(outcome(Some(end), None), refused(end, end - 1));
    assert_eq!(outcome(None, Some(end)), refused(0, end));
    assert_eq!(outcome(Some(u64::MAX), Some(u64::MAX)), refused(u64::MAX, u64::MAX));
    for (minimum, maximum) in [(Some(0x20_0000), Some(end - 1)), (Some(0), None), (None, None)] {
        assert_eq!(outcome(minimum, maximum), None);
    }
}

// spec: NF-068
#[test]
fn user_mode_submission_rests_on_native_fences_and_these_on_hardware_scheduling() {
    let user_mode = |caps: &mut AdapterCaps| caps.nodes[2].user_mode_submission = true;
    let refused = Some(StartError::UserModeSubmissionWithoutNativeFence(2));
    assert_eq!(refusal_with(without_native_fences, user_mode), refused);
    let no_node =
        |caps: &mut AdapterCaps| caps.nodes.iter_mut().for_each(|n| n.context_scheduling = false);
    assert_eq!(refusal(no_node), Some(StartError::NativeFenceWithoutHardwareScheduling));
    let not_there = |caps: &mut AdapterCaps| caps.nodes[1].context_scheduling = false;
    assert_eq!(
        refusal(not_there),
        Some(StartError::UserModeSubmissionWithoutHardwareScheduling(1))
    );
    let neither = |caps: &mut AdapterCaps| {
        (caps.nodes[1].context_scheduling, caps.nodes[1].user_mode_submission) = (false, false);
    };
    assert_eq!(refusal(neither), None, "a node for packets only");
    let optimized = |caps: &mut AdapterCaps| {
        caps.scheduling |= VidSchCaps::OPTIMIZED_NATIVE_FENCE_SIGNALED_INTERRUPT;
    };
    let refused =
        Some(StartError::CapDependency("OptimizedNativeFenceSignaledInterrupt", "NativeGpuFence"));
    assert_eq!(refusal_with(without_native_fences, optimized), refused);
}

#[test]
fn a_node_declares_no_feature_that_is_not_enabled() {
    let scheduled = |caps: &mut AdapterCaps| caps.nodes[0].context_scheduling = true;
    let without_scheduling =
        |config: &mut MachineConfig| config.kernel.hardware_scheduling = FeatureSetting::OFF;
    let refused = Some(StartError::HardwareSchedulingNotEnabled(0));
    assert_eq!(refusal_with(without_scheduling, scheduled), refused);
    assert_eq!(refusal_with(without_scheduling, |_| {}), None);
    let user_mode = |caps: &mut AdapterCaps| caps.nodes[1].user_mode_submission = true;
    let without_user_mode =
        |config: &mut MachineConfig| config.kernel.user_mode_submission = FeatureSetting::OFF;
    let refused = Some(StartError::UserModeSubmissionNotEnabled(1));
    assert_eq!(refusal_with(without_user_mode, user_mode), refused);
    assert_eq!(refusal_with(without_user_mode, |_| {}), None);
}

// spec: NF-281
#[test]
fn what_is_declared_came_with_the_driver_s_version_or_before() {
    let too_low =
        |feature, needs, states| Some(StartError::DdiVersionTooLow { feature, needs, states });
    let (v2_6, v2_7) = (DdiVersion::wddm(2, 6), DdiVersion::WDDM_2_7);
    let (v3_1, v3_2) = (DdiVersion::WDDM_3_1, DdiVersion::WDDM_3_2);
    let scheduled = |caps: &mut AdapterCaps| caps.nodes[0].context_scheduling = true;
    let native = |caps: &mut AdapterCaps| caps.scheduling |= VidSchCaps::NATIVE_GPU_FENCE;
    let user_mode = |caps: &mut AdapterCaps| caps.nodes[0].user_mode_submission = true;
    assert_eq!(refusal_overriding(version(v2_6), scheduled), too_low(FeatureId::HWSCH, v2_7, v2_6));
    assert_eq!(refusal_overriding(version(v2_7), scheduled), None);
    assert_eq!(
        refusal_overriding(version(v3_1), native),
        too_low(FeatureId::NATIVE_FENCE, v3_2, v3_1)
    );
    let refused = too_low(FeatureId::USER_MODE_SUBMISSION, v3_1, v2_7);
    assert_eq!(refusal_overriding(version(v2_7), user_mode), refused);
    let refused = Some(StartError::UserModeSubmissionWithoutNativeFence(0));
    assert_eq!(refusal_overriding(version(v3_1), user_mode), refused);
    assert_eq!(refusal_overriding(version(v3_2), native), None);
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

// spec: PRE-017
#[test]
fn a_driver_with_preemption_and_a_display_flips_at_vertical_syncs() {
    let with_display = |c: &mut MachineConfig| c.gpu.display = Some(DisplayConfig::default());
    let lacks = StartError::CapDependency(
        "PreemptionAware on an adapter with a display",
        "FlipOnVSyncMmIo",
    );
    assert_eq!(refusal_with(with_display, |_| ()), None);
    assert_eq!(refusal_with(with_display, |caps| caps.flip_on_vsync_mmio = false), Some(lacks));
    // Without preemption nothing rests on it, and without a display there is nothing to flip.
    let without_preemption = |caps: &mut AdapterCaps| {
        caps.flip_on_vsync_mmio = false;
        caps.scheduling -= VidSchCaps::PREEMPTION_AWARE | VidSchCaps::NO_DMA_PATCHING;
    };
    assert_eq!(refusal_with(with_display, without_preemption), None);
    assert_eq!(refusal(|caps| caps.flip_on_vsync_mmio = false), None);
    let timeless =
        |caps: &mut AdapterCaps| caps.display.as_mut().expect("it has one").refresh_period_ns = 0;
    assert_eq!(refusal_with(with_display, timeless), Some(StartError::RefreshPeriod));
}

// spec: PRE-045, PRE-091
#[test]
fn a_driver_that_declares_a_capability_has_the_entries_that_it_needs() {
    use EntryGroup as G;
    fn without_hardware_queues(caps: &mut AdapterCaps) {
        caps.nodes.iter_mut().for_each(|node| {
            (node.context_scheduling, node.user_mode_submission) = (false, false);
        });
        without_native_fences(caps);
    }
    fn without_native_fences(caps: &mut AdapterCaps) {
        caps.nodes.iter_mut().for_each(|node| node.user_mode_submission = false);
        caps.peer_signal = Default::default();
        caps.scheduling -=
            VidSchCaps::NATIVE_GPU_FENCE | VidSchCaps::OPTIMIZED_NATIVE_FENCE_SIGNALED_INTERRUPT;
    }
    type Change = fn(&mut AdapterCaps);
    let off: [(&str, G, &str, Change); 9] = [
        ("PreemptionAware", G::Preemption, "DxgkDdiPreemptCommand", |caps| {
            caps.scheduling -= VidSchCaps::PREEMPTION_AWARE | VidSchCaps::NO_DMA_PATCHING;
        }),
        ("CancelCommandAware", G::Cancellation, "DxgkDdiCancelCommand", |caps| {
            caps.scheduling -= VidSchCaps::CANCEL_COMMAND_AWARE;
        }),
        (
            "SupportPerEngineTDR",
            G::EngineReset,
            "DxgkDdiQueryDependentEngineGroup, DxgkDdiQueryEngineStatus, DxgkDdiResetEngine",
            |caps| caps.per_engine_tdr = false,
        ),
        (
            "ContextSchedulingSupported on a node",
            G::HwQueues,
            "DxgkDdiResetHwEngine, DxgkDdiResumeHwEngine",
            without_hardware_queues,
        ),
        (
            "NativeGpuFence",
            G::NativeFences,
            "DxgkDdiCreateNativeFence, DxgkDdiOpenNativeFence",
            without_native_fences,
        ),
        (
            "UserModeSubmission on a node",
            G::UserModeSubmission,
            "DxgkDdiCreateDoorbell, DxgkDdiConnectDoorbell",
            |caps| caps.nodes.iter_mut().for_each(|node| node.user_mode_submission = false),
        ),
        (
            "MaxAllocationListSlotId without NoDmaPatching",
            G::Patching,
            "DxgkDdiRender, DxgkDdiPatch, DxgkDdiSubmitCommand",
            |caps| caps.max_allocation_list_slot_id = 0,
        ),
        (
            "a display",
            G::Display,
            "DxgkDdiSetVidPnSourceAddress, DxgkDdiSetVidPnSourceVisibility, DxgkDdiControlInterrupt",
            |caps| caps.display = None,
        ),
        ("a common doorbell", G::Peers, "CommonDoorbell, ConnectPeer, LinkNativeFence", |caps| {
            caps.peer_signal = Default::default();
        }),
    ];
    for (capability, group, names, off) in off {
        let refusal_of = |declared: bool| {
            let caps: tidegate_testbed::ChangeCaps = Box::new(move |caps| {
                caps.scheduling |= VidSchCaps::CANCEL_COMMAND_AWARE;
                caps.scheduling -= VidSchCaps::NO_DMA_PATCHING;
                caps.peer_signal.common_doorbell = true;
                if !declared {
                    off(caps);
                }
            });
            let with_display =
                |c: &mut MachineConfig| c.gpu.display = Some(DisplayConfig::default());
            let lacks = Overrides::default().hides(group);
            start_error(setup(with_display).caps(caps).overriding(lacks).try_start())
        };
        let refusal = StartError::MissingEntries { capability, group };
        assert!(refusal.to_string().contains(names), "{refusal}");
        assert_eq!(refusal_of(true), Some(refusal));
        assert_eq!(refusal_of(false), None, "nothing needs {names}");
    }
}

/// A later version may have none, too, and then patches addresses.
#[test]
fn a_driver_without_virtual_addresses_has_the_entries_that_patch() {
    let before = "no GPU virtual addresses, because its version is before WDDM 2.0";
    for (version, declared, capability) in [
        (DdiVersion::wddm(1, 3), false, before),
        (DdiVersion::WDDM_2_0, true, "no GPU virtual addresses"),
    ] {
        let caps: tidegate_testbed::ChangeCaps = Box::new(move |caps| {
            caps.patches_addresses = declared;
            caps.scheduling |= VidSchCaps::NO_DMA_PATCHING;
        });
        let group = EntryGroup::Patching;
        let lacks = Overrides::default().ddi_version(version).hides(group);
        let error = start_error(setup(|_| ()).caps(caps).overriding(lacks).try_start());
        assert_eq!(error, Some(StartError::MissingEntries { capability, group }));
    }
}

fn refused_type(world: &World, fence_type: NativeFenceType) -> Option<Status> {
    world.native_with(|args| args.fence_type = fence_type).err()
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
    assert!(!w.try_hw_queue(0, false).unwrap().native_progress_fence);
    w.kernel.destroy_synchronization_object(fence.handle).unwrap();
    let fence_calls = ["NativeFence", "UpdateMonitored", "UpdateCurrent"];
    let called = w.driver.take_names();
    assert!(
        called.iter().all(|name| fence_calls.iter().all(|call| !name.contains(call))),
        "{called:?}"
    );
}

// spec: NF-104
#[test]
fn bad_arguments_and_what_is_not_there_have_different_statuses() {
    let w = world_with(without_intra_gpu_fences);
    assert_eq!(refused_type(&w, NativeFenceType::IntraGpu), Some(Status::NOT_SUPPORTED));
    let both = SyncObjectFlags::NO_WAIT | SyncObjectFlags::NO_SIGNAL;
    assert_eq!(w.try_native(0, both).err(), Some(Status::INVALID_PARAMETER));
    let no_device = CreateNativeFence {
        device: tidegate::calls::Handle(0),
        initial_value: 0,
        fence_type: NativeFenceType::Default,
        flags: SyncObjectFlags::empty(),
        engine_affinity: 0,
        private_data: [0; 64],
        name: "x",
    };
    assert_eq!(w.kernel.create_native_fence(no_device).err(), Some(Status::INVALID_PARAMETER));
    assert_eq!(w.driver.take_names(), Vec::<&str>::new(), "a refused call reaches no driver");
    drop(w);
    let without = world_with(without_native_fences);
    assert_eq!(refused_type(&without, NativeFenceType::Default), Some(Status::NOT_SUPPORTED));
    // What is not there is refused before arguments that no driver takes.
    let of_no_driver = without.native_with(|args| {
        args.fence_type = NativeFenceType::IntraGpu;
        args.flags = SyncObjectFlags::CROSS_ADAPTER;
    });
    assert_eq!(of_no_driver.err(), Some(Status::NOT_SUPPORTED));
}

// spec: NF-098
#[test]
fn native_fence_types_have_the_published_numbers() {
    assert_eq!([NativeFenceType::Default as u32, NativeFenceType::IntraGpu as u32], [0, 1]);
}

/// What Create returns.
type Created = Result<(DriverHandle, [u8; 64]), DdiStatus>;

/// A driver's entries, with the level that each demands as a type: this compiles only while they
/// are what is written here.
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
