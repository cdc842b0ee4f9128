//! Which declarations go together. The kernel refuses to start an adapter whose driver contradicts
//! itself; each of its reasons is a clause.

use crate::clause::{Clause, Family};
use crate::journal::{Event, RunEnd};
use crate::tally::Tally;
use crate::twin::Twin;
use tidegate::ddi::{
    AdapterCaps, DdiVersion, EntryGroup, FeatureId, NativeFenceCaps, Overrides, Status, VidSchCaps,
};
use tidegate::dxgkrnl::StartError;

/// A reason for which no adapter starts.
pub(crate) struct Rule {
    pub(crate) clause: Clause,
    is: fn(&StartError) -> bool,
}

const fn rule(
    id: &'static str,
    rule: &'static str,
    source: &'static str,
    is: fn(&StartError) -> bool,
    twin: Twin,
) -> Rule {
    let family = Family::Capabilities;
    let (situations, also): (&[&str], &[&str]) = (&["packets"], &[]);
    Rule { clause: Clause { id, family, rule, source, situations, twin, also, adapter: None }, is }
}

/// The same, in a situation with a display.
const fn on_display(of: Rule) -> Rule {
    let Rule { clause, is } = of;
    Rule { clause: Clause { situations: &["flips"], ..clause }, is }
}

/// The same, on a named machine.
const fn on(adapter: &'static str, of: Rule) -> Rule {
    let Rule { clause, is } = of;
    Rule { clause: clause.on(adapter), is }
}

macro_rules! rests {
    ($id:literal, $cap:literal, $other:literal, $source:literal, $twin:expr) => {
        rule(
            concat!("capabilities-", $id),
            concat!("a driver that declares ", $cap, " declares ", $other),
            $source,
            |error| matches!(error, StartError::CapDependency($cap, $other)),
            Twin::Caps($twin),
        )
    };
}

macro_rules! entries {
    ($id:literal, $cap:literal, $Group:ident, $source:literal) => {
        rule(
            concat!("capabilities-", $id),
            concat!("a driver that declares ", $cap, " has its entries"),
            $source,
            |error| matches!(error, StartError::MissingEntries { group: EntryGroup::$Group, .. }),
            Twin::Layer(|overrides| overrides.hides(EntryGroup::$Group)),
        )
    };
}

macro_rules! version {
    ($id:literal, $what:literal, $FEATURE:ident, $version:expr, $needs:literal) => {
        rule(
            concat!("capabilities-", $id),
            concat!("a driver that declares ", $what, " is written for ", $needs, " or later"),
            "NF-281",
            |error| {
                matches!(error, StartError::DdiVersionTooLow { feature: FeatureId::$FEATURE, .. })
            },
            Twin::Layer(|overrides| {
                only(overrides.ddi_version($version), |caps| {
                    no_native_fences(caps);
                    let feature = FeatureId::$FEATURE;
                    let has_queues = feature != FeatureId::USER_MODE_SUBMISSION;
                    for node in &mut caps.nodes {
                        node.context_scheduling = has_queues;
                        node.user_mode_submission = !has_queues;
                    }
                    if feature == FeatureId::NATIVE_FENCE {
                        caps.scheduling.insert(VidSchCaps::NATIVE_GPU_FENCE);
                    }
                })
            }),
        )
    };
}

fn only(overrides: Overrides, change: fn(&mut AdapterCaps)) -> Overrides {
    overrides.query_adapter_caps(move |inner, level| {
        let mut caps = inner.query_adapter_caps(level);
        change(&mut caps);
        caps
    })
}

fn no_user_mode_submission(caps: &mut AdapterCaps) {
    caps.nodes.iter_mut().for_each(|node| node.user_mode_submission = false);
}

fn no_native_fences(caps: &mut AdapterCaps) {
    no_user_mode_submission(caps);
    caps.signaled_hw_queue_array = false;
    caps.scheduling.remove(VidSchCaps::NATIVE_GPU_FENCE);
    caps.scheduling.remove(VidSchCaps::OPTIMIZED_NATIVE_FENCE_SIGNALED_INTERRUPT);
}

fn window(caps: &mut NativeFenceCaps, minimum: u64, maximum: u64) {
    (caps.minimum_address, caps.maximum_address) = (Some(minimum), Some(maximum));
}

const NAMES: &str = "capabilities-node-names";
const SEGMENTS: &str = "capabilities-segments";
const DOORBELL_BYTES: &str = "capabilities-doorbell-bytes";

/// DXGK_MAX_METADATA_NAME_LENGTH, with the end of the name.
const NAME_LENGTH: usize = 32;
const PAGE_BYTES: u64 = 4096;

/// Rules that the kernel does not enforce.
pub(super) static OTHERS: [Clause; 3] = [
    Clause::new(
        Family::Capabilities,
        NAMES,
        "the friendly name of a node has 1 to 31 characters",
        "page DXGKARG_GETNODEMETADATA",
        &["packets"],
        Twin::Caps(|caps| caps.nodes[0].friendly_name = "n".repeat(NAME_LENGTH)),
    ),
    Clause::new(
        Family::Capabilities,
        SEGMENTS,
        "a segment consists of whole pages, at least one",
        "page DXGK_SEGMENTDESCRIPTOR4",
        &["packets"],
        Twin::Layer(|overrides| {
            overrides.query_segments(|inner, level| {
                let mut segments = inner.query_segments(level);
                segments.iter_mut().for_each(|segment| segment.bytes -= 8);
                segments
            })
        }),
    ),
    Clause::new(
        Family::Capabilities,
        DOORBELL_BYTES,
        "a doorbell has 4 or 8 bytes",
        "UMS-014",
        &["user-queues"],
        Twin::Layer(|overrides| {
            overrides.query_user_mode_submission_caps(|inner, level| {
                let mut caps = inner.query_user_mode_submission_caps(level);
                caps.doorbell_size_bytes = 16;
                caps
            })
        }),
    ),
];

pub(crate) static RULES: &[Rule] = &[
    rule(
        "capabilities-nodes",
        "a driver reports 1 to 64 nodes",
        "page DXGK_DRIVERCAPS",
        |error| matches!(error, StartError::Nodes(_)),
        Twin::Caps(|caps| caps.nodes.clear()),
    ),
    rule(
        "capabilities-physical-adapters",
        "a driver reports 1 to 4 physical adapters",
        "NF-327",
        |error| matches!(error, StartError::PhysicalAdapters(_)),
        Twin::Caps(|caps| caps.physical_adapters = 5),
    ),
    on_display(rule(
        "capabilities-refresh-period",
        "the refresh of a display takes time",
        "page DXGK_DISPLAY_INFORMATION",
        |error| matches!(error, StartError::RefreshPeriod),
        Twin::Caps(|caps| {
            if let Some(display) = &mut caps.display {
                display.refresh_period_ns = 0;
            }
        }),
    )),
    on_display(rests!(
        "flip-on-vsync",
        "PreemptionAware on an adapter with a display",
        "FlipOnVSyncMmIo",
        "PRE-017",
        |caps| caps.flip_on_vsync_mmio = false
    )),
    rests!("multi-engine", "PreemptionAware", "MultiEngineAware", "PRE-005", |caps| {
        caps.scheduling.remove(VidSchCaps::MULTI_ENGINE_AWARE);
    }),
    rests!("cancel-multi-engine", "CancelCommandAware", "MultiEngineAware", "PRE-071", |caps| {
        caps.scheduling.remove(
            VidSchCaps::MULTI_ENGINE_AWARE
                | VidSchCaps::PREEMPTION_AWARE
                | VidSchCaps::NO_DMA_PATCHING,
        );
        caps.scheduling.insert(VidSchCaps::CANCEL_COMMAND_AWARE);
    }),
    rests!("patching-preemption", "NoDmaPatching", "PreemptionAware", "PRE-110", |caps| {
        caps.scheduling.remove(VidSchCaps::PREEMPTION_AWARE | VidSchCaps::CANCEL_COMMAND_AWARE);
        caps.scheduling.insert(VidSchCaps::NO_DMA_PATCHING);
    }),
    rests!(
        "optimized-interrupt",
        "OptimizedNativeFenceSignaledInterrupt",
        "NativeGpuFence",
        "NF-221",
        |caps| {
            no_native_fences(caps);
            caps.scheduling.insert(VidSchCaps::OPTIMIZED_NATIVE_FENCE_SIGNALED_INTERRUPT);
        }
    ),
    rests!(
        "queue-array",
        "signaled_hw_queue_array",
        "OptimizedNativeFenceSignaledInterrupt",
        "NF-233",
        |caps| {
            caps.scheduling.remove(VidSchCaps::OPTIMIZED_NATIVE_FENCE_SIGNALED_INTERRUPT);
            caps.signaled_hw_queue_array = true;
        }
    ),
    rule(
        "capabilities-atomics",
        "a driver that declares NativeGpuFence does not declare No64BitAtomics",
        "NF-069",
        |error| matches!(error, StartError::NativeFenceWithout64BitAtomics),
        Twin::Caps(|caps| caps.scheduling.insert(VidSchCaps::NO_64BIT_ATOMICS)),
    ),
    entries!("preemption-entries", "PreemptionAware", Preemption, "PRE-091"),
    rule(
        "capabilities-cancellation-entries",
        "a driver that declares CancelCommandAware has its entries",
        "PRE-091",
        |error| matches!(error, StartError::MissingEntries { group: EntryGroup::Cancellation, .. }),
        Twin::Layer(|overrides| {
            only(overrides.hides(EntryGroup::Cancellation), |caps| {
                caps.scheduling.insert(VidSchCaps::CANCEL_COMMAND_AWARE);
            })
        }),
    ),
    entries!("engine-reset-entries", "SupportPerEngineTDR", EngineReset, "PRE-045"),
    entries!("hw-queue-entries", "ContextSchedulingSupported on a node", HwQueues, "PRE-091"),
    entries!("native-fence-entries", "NativeGpuFence", NativeFences, "NF-078"),
    entries!(
        "doorbell-entries",
        "UserModeSubmissionSupported on a node",
        UserModeSubmission,
        "PRE-091"
    ),
    rule(
        "capabilities-patching-entries",
        "a driver with allocation lists and without NoDmaPatching has the entries of patching",
        "PRE-091",
        |error| matches!(error, StartError::MissingEntries { group: EntryGroup::Patching, .. }),
        Twin::Layer(|overrides| {
            only(overrides.hides(EntryGroup::Patching), |caps| {
                caps.scheduling.remove(VidSchCaps::NO_DMA_PATCHING);
                caps.max_allocation_list_slot_id = 16;
            })
        }),
    ),
    on_display(entries!("display-entries", "a display", Display, "PRE-091")),
    version!(
        "version-hw-queues",
        "ContextSchedulingSupported on a node",
        HWSCH,
        DdiVersion::WDDM_2_0,
        "WDDM 2.7"
    ),
    version!(
        "version-native-fences",
        "NativeGpuFence",
        NATIVE_FENCE,
        DdiVersion::WDDM_2_7,
        "WDDM 3.2"
    ),
    version!(
        "version-doorbells",
        "UserModeSubmissionSupported on a node",
        USER_MODE_SUBMISSION,
        DdiVersion::wddm(3, 0),
        "WDDM 3.1"
    ),
    rule(
        "capabilities-version",
        "a driver is written for a version that the kernel drives",
        "NF-280",
        |error| matches!(error, StartError::UnknownDdiVersion { .. }),
        Twin::Layer(|overrides| overrides.ddi_version(DdiVersion::wddm(1, 1))),
    ),
    rule(
        "capabilities-feature-table",
        "a driver has a table of each feature that it negotiated",
        "NF-066",
        |error| matches!(error, StartError::FeatureTable { .. }),
        Twin::Layer(|overrides| {
            overrides.query_feature_interface(|_, _, _| Err(Status::NOT_SUPPORTED))
        }),
    ),
    rule(
        "capabilities-fences-need-queues",
        "a driver that declares NativeGpuFence declares ContextSchedulingSupported on a node",
        "NF-068",
        |error| matches!(error, StartError::NativeFenceWithoutHardwareScheduling),
        Twin::Caps(|caps| {
            no_user_mode_submission(caps);
            caps.nodes.iter_mut().for_each(|node| node.context_scheduling = false);
        }),
    ),
    rule(
        "capabilities-doorbells-need-fences",
        "a node with user-mode submission is of a driver that declares NativeGpuFence",
        "NF-068",
        |error| matches!(error, StartError::UserModeSubmissionWithoutNativeFence(_)),
        Twin::Caps(|caps| {
            caps.scheduling.remove(VidSchCaps::NATIVE_GPU_FENCE);
            caps.scheduling.remove(VidSchCaps::OPTIMIZED_NATIVE_FENCE_SIGNALED_INTERRUPT);
        }),
    ),
    rule(
        "capabilities-doorbells-need-queues",
        "a node with user-mode submission has ContextSchedulingSupported",
        "NF-068",
        |error| matches!(error, StartError::UserModeSubmissionWithoutHardwareScheduling(_)),
        Twin::Caps(|caps| caps.nodes[0].context_scheduling = false),
    ),
    rule(
        "capabilities-doorbells-need-fence-writes",
        "a node with user-mode submission can write fences",
        "MF-052",
        |error| matches!(error, StartError::UserModeSubmissionWithoutFenceWrites(_)),
        Twin::Caps(|caps| caps.nodes[0].writes_fences = false),
    ),
    rule(
        "capabilities-fence-stride",
        "the stride of fence values is a power of two from 8 to 4096",
        "NF-028",
        |error| matches!(error, StartError::FenceStride(_)),
        Twin::FenceCaps(|caps| caps.monitored_value_stride = 24),
    ),
    rule(
        "capabilities-fence-addresses",
        "the bounds of fence addresses lie in the address space, the lower one first",
        "NF-284",
        |error| matches!(error, StartError::FenceAddresses { .. }),
        Twin::FenceCaps(|caps| window(caps, 1 << 31, 1 << 30)),
    ),
    rule(
        "capabilities-fence-window",
        "a whole page lies between the bounds of fence addresses",
        "NF-076",
        |error| matches!(error, StartError::FenceWindow(..)),
        Twin::FenceCaps(|caps| window(caps, (1 << 30) + 8, (1 << 30) + 64)),
    ),
    on(
        "monitored",
        rule(
            "capabilities-native-fences-enabled",
            "a driver declares NativeGpuFence only if the feature is enabled",
            "NF-058",
            |error| matches!(error, StartError::NativeFenceNotEnabled),
            Twin::Caps(|caps| caps.scheduling.insert(VidSchCaps::NATIVE_GPU_FENCE)),
        ),
    ),
    on(
        "packets-only",
        rule(
            "capabilities-hw-queues-enabled",
            "a node has ContextSchedulingSupported only if hardware scheduling is enabled",
            "NF-068",
            |error| matches!(error, StartError::HardwareSchedulingNotEnabled(_)),
            Twin::Caps(|caps| caps.nodes[0].context_scheduling = true),
        ),
    ),
    on(
        "no-user-mode",
        rule(
            "capabilities-doorbells-enabled",
            "a node has user-mode submission only if the feature is enabled",
            "NF-068",
            |error| matches!(error, StartError::UserModeSubmissionNotEnabled(_)),
            Twin::Caps(|caps| caps.nodes[0].user_mode_submission = true),
        ),
    ),
    on("peer-doorbells", entries!("peer-entries", "a common doorbell", Peers, "PRE-091")),
];

/// Checks the reason for which the adapter did not start, or that it did.
pub(super) struct Walk;

impl crate::walk::Walk for Walk {
    fn event(&mut self, tally: &mut Tally, event: &Event) {
        match event {
            Event::Caps(caps) => {
                let is_named = |name: &str| (1..NAME_LENGTH).contains(&name.encode_utf16().count());
                let bad = caps.nodes.iter().find(|node| !is_named(&node.friendly_name));
                tally.check(NAMES, bad.is_none(), || {
                    format!("a node is called '{}'", bad.map_or("", |node| &node.friendly_name))
                });
            }
            Event::Segment(number, bytes) => {
                // u64::MAX is a segment without a limit.
                let is_whole = *bytes != 0 && bytes.is_multiple_of(PAGE_BYTES);
                let holds = is_whole || *bytes == u64::MAX;
                tally.check(SEGMENTS, holds, || format!("segment {number} has {bytes} bytes"));
            }
            Event::DoorbellBytes(bytes) => {
                tally.check(DOORBELL_BYTES, matches!(bytes, 4 | 8), || format!("it is {bytes}"));
            }
            _ => {}
        }
    }

    fn end(&mut self, tally: &mut Tally, end: &RunEnd) {
        for rule in RULES {
            match &end.refused {
                None => tally.check(rule.clause.id, true, String::new),
                Some(refused) if (rule.is)(refused) => {
                    tally.check(rule.clause.id, false, || refused.to_string());
                }
                Some(_) => {}
            }
        }
    }
}
