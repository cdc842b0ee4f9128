//! The named machines: every switch of the hardware and of its driver that the documents allow, by
//! itself, and the combinations that go together in real devices.
//!
//! A variant is a change of a configuration, so it goes with any number of engines. [`Caps`] says
//! what a configuration comes to without starting it; [`crate::MachineConfig::check`] finds
//! contradictions. The caller chooses the variant.

use crate::machine::{BadConfig, MachineConfig};
use tidegate_d3d12::Submission;
use tidegate_ddi::feature::NativeFenceOsCaps;
use tidegate_dxgkrnl::PowerManagement;
use tidegate_kmd::{DoorbellModel, FaultNaming, InterruptMode};
use tidegate_softgpu::MIN_REFRESH_PERIOD_NS;
use tidegate_softgpu::{EngineKind, MAX_ENGINES, MAX_PHYSICAL_GPUS};

/// A named machine.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// What it is called.
    pub name: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
    change: fn(&mut MachineConfig),
}

impl Variant {
    /// Makes a configuration one of this variant; its nodes, doorbells and costs may have been
    /// chosen before.
    pub fn apply(&self, config: &mut MachineConfig) {
        (self.change)(config);
    }

    /// The submission models that every node of its standard machine takes.
    pub fn submissions(&self) -> Vec<Submission> {
        Caps::of(&self.config(&tidegate_platform::Platform::host())).submissions
    }

    /// The standard machine as this variant.
    pub fn config(&self, platform: &tidegate_platform::Platform) -> MachineConfig {
        let mut config = MachineConfig::standard(platform);
        self.apply(&mut config);
        config
    }
}

/// There is no variant of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no adapter is called '{name}'; {}, and `tidegate adapters` lists all", near_text(.near))]
pub struct UnknownVariant {
    /// The name.
    pub name: String,
    /// Names that are like it.
    pub near: Vec<&'static str>,
}

fn near_text(near: &[&'static str]) -> String {
    if near.is_empty() {
        "nothing is called like it".to_owned()
    } else {
        format!("near are {}", near.join(", "))
    }
}

// spec: NF-303
/// All of them; the first is the standard machine.
pub static ALL: &[Variant] = &[
    Variant {
        name: "standard",
        about: "native fences reported one by one, 64 doorbells, everything on",
        change: |_| {},
    },
    Variant {
        name: "null-array",
        about: "signalled interrupts name no fence: the kernel scans",
        change: |c| c.driver.interrupt = InterruptMode::NullArray,
    },
    Variant {
        name: "queue-interrupt",
        about: "signalled interrupts name the hardware queue whose log tells",
        change: |c| c.driver.interrupt = InterruptMode::HwQueue,
    },
    Variant {
        name: "queue-array-interrupt",
        about: "signalled interrupts name several hardware queues at once",
        change: |c| c.driver.interrupt = InterruptMode::HwQueueArray,
    },
    Variant {
        name: "alike-interrupts",
        about: "cannot tell signals of native fences from writes to monitored ones",
        change: |c| c.gpu.tells_fence_kinds = false,
    },
    Variant {
        name: "advanced-notification",
        about: "every engine interrupts for its writes to monitored fences",
        change: advanced,
    },
    Variant {
        name: "advanced-copy",
        about: "the copy engines alone interrupt for their writes to monitored fences",
        change: |c| of_class(c, EngineKind::Copy, |node| node.notifies_fence_writes = true),
    },
    Variant {
        name: "copy-writes-no-fence",
        about: "copy engines cannot write a fence: packets, and the kernel signals for them",
        change: |c| of_class(c, EngineKind::Copy, |node| node.writes_fences = false),
    },
    Variant {
        name: "no-fence-writes",
        about: "no engine can write a fence",
        change: no_fence_writes,
    },
    Variant {
        name: "stride-8",
        about: "native fences are packed 8 bytes apart, with room for two peaks of history",
        change: |c| c.driver.fence_stride_bytes = 8,
    },
    Variant {
        name: "stride-4096",
        about: "every native fence has a page of its own",
        change: |c| c.driver.fence_stride_bytes = 4096,
    },
    Variant {
        name: "no-history",
        about: "keeps no histories: the hardware tests waits by the level",
        change: |c| c.driver.fence_history = false,
    },
    Variant {
        name: "driver-updates",
        about: "each CPU signal and each change of MonitoredValue is a call of the driver",
        change: |c| c.driver.kernel_stores_fence_values = false,
    },
    Variant {
        name: "local-monitored-value",
        about: "MonitoredValues are in local memory that the CPU sees, cross-adapter fences' too",
        change: |c| c.driver.local_monitored_values = true,
    },
    Variant {
        name: "system-process",
        about: "fences are mapped for the context management processor, too, and all between two addresses",
        change: |c| {
            c.driver.system_process_mapping = true;
            c.driver.fence_window = (Some(1 << 30), Some((1 << 31) - 1));
        },
    },
    Variant {
        name: "one-doorbell",
        about: "one physical doorbell, which each connection takes from the last",
        change: |c| c.driver.doorbells = DoorbellModel::Dedicated { physical: 1 },
    },
    Variant {
        name: "global-doorbell",
        about: "one doorbell that all queues share: nothing is taken away",
        change: |c| c.driver.doorbells = DoorbellModel::Global,
    },
    Variant {
        name: "notify-submissions",
        about: "a ring alone wakes no engine: each submission is notified to the kernel",
        change: |c| c.driver.notify_submissions = true,
    },
    Variant {
        name: "posted-logs",
        about: "log entries may become visible after the index that counts them",
        change: |c| c.gpu.posted_log_entries = true,
    },
    Variant {
        name: "posted-stores",
        about: "stores of fence values are posted: a reader may not see one before the next barrier",
        change: |c| c.gpu.posted_fence_writes = true,
    },
    Variant {
        name: "shadow",
        about: "engines compare signals with copies of MonitoredValue that the CMP keeps",
        change: |c| c.gpu.shadow_entries = SHADOW_ENTRIES,
    },
    Variant {
        name: "posted-shadow",
        about: "copies of MonitoredValue, and posted stores of fence values",
        change: |c| {
            c.gpu.shadow_entries = SHADOW_ENTRIES;
            c.gpu.posted_fence_writes = true;
        },
    },
    Variant {
        name: "not-coherent",
        about: "does not look into the CPU's caches: what engines reach is mapped uncached",
        change: |c| c.gpu.io_coherent = false,
    },
    Variant {
        name: "iommu",
        about: "engines use CPU addresses, fences among them",
        change: |c| c.gpu.io_mmu = true,
    },
    Variant {
        name: "iommu-monitored",
        about: "engines use CPU addresses, and there are no native fences",
        change: |c| {
            c.gpu.io_mmu = true;
            c.driver.native_fence = false;
        },
    },
    Variant {
        name: "no-user-mode",
        about: "native fences without user-mode submission",
        change: |c| c.driver.user_mode_nodes = 0,
    },
    Variant {
        name: "monitored",
        about: "no native fences: packets, and hardware queues with monitored progress",
        change: |c| c.driver.native_fence = false,
    },
    Variant {
        name: "monitored-advanced",
        about: "no native fences, and every engine interrupts for its writes to monitored ones",
        change: |c| {
            c.driver.native_fence = false;
            advanced(c);
        },
    },
    Variant {
        name: "32-bit",
        about: "updates 32 bits atomically: the kernel follows fences through their wrap",
        change: no_64bit_atomics,
    },
    Variant {
        name: "32-bit-advanced",
        about: "32-bit atomics, and every engine interrupts for its writes",
        change: |c| {
            no_64bit_atomics(c);
            advanced(c);
        },
    },
    Variant {
        name: "packets-only",
        about: "no hardware scheduling: the kernel hands every packet over",
        change: |c| c.kernel.hardware_scheduling = tidegate_dxgkrnl::FeatureSetting::OFF,
    },
    Variant {
        name: "oldest",
        about: "32-bit atomics, no fence writes, not coherent, no hardware scheduling",
        change: |c| {
            no_64bit_atomics(c);
            no_fence_writes(c);
            c.gpu.io_coherent = false;
            c.kernel.hardware_scheduling = tidegate_dxgkrnl::FeatureSetting::OFF;
        },
    },
    Variant {
        name: "patching",
        about: "takes packets with physical addresses too, which the driver patches and the kernel may split",
        change: |c| c.driver.dma_patching = true,
    },
    Variant {
        name: "linked",
        about: "two linked physical GPUs, each with all the engines; queues choose by node mask",
        change: |c| c.gpu.physical_gpus = 2,
    },
    Variant {
        name: "posted-queue-interrupt",
        about: "queues named in interrupts, one doorbell, posted log entries",
        change: |c| {
            c.driver.interrupt = InterruptMode::HwQueue;
            c.driver.doorbells = DoorbellModel::Dedicated { physical: 1 };
            c.gpu.posted_log_entries = true;
        },
    },
    Variant {
        name: "managed-power",
        about: "engines that are idle for 20 µs lose power (F1); --sleep-at adds D3",
        change: |c| {
            c.kernel.power = PowerManagement::Managed;
            c.driver.idle.engine_after_ns = 20_000;
        },
    },
    Variant {
        name: "windows-7-preemption",
        about: "not PreemptionAware: a packet that has begun runs to its end, or its engine is reset",
        change: |c| c.driver.preemption_aware = false,
    },
    Variant {
        name: "no-save-areas",
        about: "packets have no memory for their state: one that has begun is not preempted",
        change: |c| c.driver.save_areas = false,
    },
    Variant {
        name: "opened-allocations",
        about: "allocations are objects of the driver, which each device opens",
        change: |c| c.driver.opens_allocations = true,
    },
    Variant {
        name: "lazy-context-switch",
        about: "an engine keeps its last context until the kernel switches it away",
        change: |c| c.driver.lazy_context_switch = true,
    },
    Variant {
        name: "cancel-command-aware",
        about: "the kernel names packets of lost devices that it will never submit",
        change: |c| c.driver.cancel_command_aware = true,
    },
    Variant {
        name: "verbose-logs",
        about: "user-mode queues also log their command buffers, which the timeline shows",
        change: |c| c.kernel.verbose_logs = true,
    },
    Variant {
        name: "peer-doorbells",
        about: "signals other adapters of its kind by their doorbells, without the CPU",
        change: |c| c.driver.peer_signal.common_doorbell = true,
    },
    Variant {
        name: "peer-signals",
        about: "as peer-doorbells, and a doorbell is written only for a waiting queue",
        change: |c| {
            c.driver.peer_signal.common_doorbell = true;
            c.driver.peer_signal.shared_fence_storage = true;
        },
    },
    Variant {
        name: "faults-name-context",
        about: "a page fault of a hardware queue names its context",
        change: |c| c.driver.faults_name = FaultNaming::HwContext,
    },
    Variant {
        name: "faults-name-process",
        about: "a page fault of a hardware queue names its process",
        change: |c| c.driver.faults_name = FaultNaming::Process,
    },
    Variant {
        name: "faults-name-engine",
        about: "a page fault of a hardware queue names its engine only",
        change: |c| c.driver.faults_name = FaultNaming::Engine,
    },
    Variant {
        name: "one-doorbell-address",
        about: "doorbells have no second address",
        change: |c| c.driver.secondary_doorbells = false,
    },
    Variant {
        name: "default-fences-only",
        about: "a kernel with DEFAULT fences in system memory, and no other optimised type",
        change: |c| c.kernel.native_fence_os_caps = NativeFenceOsCaps::empty(),
    },
    Variant {
        name: "untimed-logs",
        about: "linked, and the second GPU writes no times into its log entries",
        change: |c| {
            c.gpu.physical_gpus = 2;
            c.gpu.skips_log_times_on = Some(1);
        },
    },
    Variant {
        name: "out-of-order",
        about: "copies, fills and dispatches of a command buffer without a barrier between them overlap",
        change: |c| c.gpu.out_of_order = Some(1),
    },
    Variant {
        name: "global-doorbell-of-all",
        about: "one doorbell that the queues of all processes share",
        change: |c| {
            c.driver.doorbells = DoorbellModel::Global;
            c.gpu.one_global_doorbell = true;
        },
    },
    Variant {
        name: "doorbells-in-system-memory",
        about: "doorbells lie in system memory and not in a BAR: a guest has kernel queues only",
        change: |c| c.gpu.doorbells_in_system_memory = true,
    },
];

/// Copies of MonitoredValue of the variants that keep any: fewer than a program may have fences, so
/// that some find no room.
const SHADOW_ENTRIES: u32 = 16;

fn advanced(config: &mut MachineConfig) {
    config.gpu.nodes.iter_mut().for_each(|node| node.notifies_fence_writes = true);
}

fn no_fence_writes(config: &mut MachineConfig) {
    config.gpu.nodes.iter_mut().for_each(|node| node.writes_fences = false);
}

fn no_64bit_atomics(config: &mut MachineConfig) {
    config.gpu.atomics_64bit = false;
    config.driver.native_fence = false;
}

fn of_class(
    config: &mut MachineConfig,
    class: EngineKind,
    change: impl Fn(&mut tidegate_softgpu::NodeConfig),
) {
    config.gpu.nodes.iter_mut().filter(|node| node.class == class).for_each(change);
}

/// The variant of this name.
pub fn find(name: &str) -> Result<&'static Variant, UnknownVariant> {
    ALL.iter()
        .find(|v| v.name == name)
        .ok_or_else(|| UnknownVariant { name: name.to_owned(), near: near(name) })
}

/// Names that contain `name`, or that differ from it by few letters, nearest first.
fn near(name: &str) -> Vec<&'static str> {
    let name = name.to_lowercase();
    let mut near: Vec<(usize, &'static str)> = Vec::new();
    for variant in ALL {
        let distance = strsim::levenshtein(&name, variant.name);
        let contains = name.len() > 1 && variant.name.contains(&name);
        if contains || distance <= variant.name.len().max(name.len()) / 3 {
            near.push((if contains { 0 } else { distance }, variant.name));
        }
    }
    near.sort();
    near.into_iter().map(|(_, name)| name).take(6).collect()
}

/// What a configuration comes to, without starting it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caps {
    /// NativeGpuFence.
    pub native_fences: bool,
    /// Not No64BitAtomics.
    pub atomics_64bit: bool,
    /// What signalled interrupts say; "any fence" where kinds cannot be told, "monitored" without
    /// native fences.
    pub interrupts: &'static str,
    /// Nodes that interrupt for their writes to monitored fences.
    pub advanced_nodes: usize,
    /// Nodes whose engines can write a fence.
    pub fence_writing_nodes: usize,
    /// All nodes.
    pub nodes: usize,
    /// Linked physical GPUs, each with all the nodes.
    pub physical_gpus: u32,
    /// Bytes between packed native fences.
    pub fence_stride_bytes: u32,
    /// Physical doorbells; 0 for one that is shared by all.
    pub doorbells: u32,
    /// The hardware keeps the histories of values, so that waits latch.
    pub fence_history: bool,
    /// Accesses to system memory can be coherent with the CPU's caches.
    pub io_coherent: bool,
    /// Engines use the CPU addresses of a process.
    pub io_mmu: bool,
    /// Copies of MonitoredValue that the hardware keeps; 0 where it compares with memory.
    pub shadow_entries: u32,
    /// Stores of fence values are posted.
    pub posted_fence_writes: bool,
    /// What else the driver, the hardware or the kernel does, in words.
    pub settings: Vec<&'static str>,
    /// Submission models that every node takes.
    pub submissions: Vec<Submission>,
}

/// Returns the words for what else a configuration does.
fn settings(config: &MachineConfig) -> Vec<&'static str> {
    let (gpu, driver, kernel) = (&config.gpu, &config.driver, &config.kernel);
    let peers = driver.peer_signal;
    let words = [
        (driver.preemption_aware, "PreemptionAware"),
        (driver.save_areas, "save areas"),
        (driver.lazy_context_switch, "LazyContextSwitch"),
        (driver.cancel_command_aware, "CancelCommandAware"),
        (kernel.power == PowerManagement::Managed, "F1 when idle"),
        (driver.local_monitored_values, "local MonitoredValues"),
        (driver.secondary_doorbells, "second doorbell addresses"),
        (peers.common_doorbell, "peer doorbells"),
        (peers.shared_fence_storage, "peers share fence storage"),
        (driver.faults_name != FaultNaming::HwQueue, "faults name no queue"),
        (kernel.verbose_logs, "logs of command buffers"),
        (gpu.skips_log_times_on.is_some(), "a GPU without log times"),
        (gpu.out_of_order.is_some(), "overlapping commands"),
        (kernel.native_fence_os_caps.is_empty(), "DEFAULT fences only"),
        (driver.dma_patching, "patching"),
    ];
    words.into_iter().filter(|(is_set, _)| *is_set).map(|(_, words)| words).collect()
}

impl Caps {
    /// What `config` comes to.
    pub fn of(config: &MachineConfig) -> Caps {
        let (gpu, driver, kernel) = (&config.gpu, &config.driver, &config.kernel);
        let hardware_scheduling = kernel.hardware_scheduling.enabled;
        let native_fences =
            hardware_scheduling && kernel.native_fence.enabled && driver.native_fence;
        let writing = gpu.nodes.iter().filter(|n| n.writes_fences).count();
        let all_write = writing == gpu.nodes.len();
        let user_mode = native_fences
            && kernel.user_mode_submission.enabled
            && (0..gpu.nodes.len() as u32).all(|node| driver.feeds_from_user_mode(node));
        let offered = |submission: &Submission| match submission {
            Submission::Packet => true,
            Submission::Hardware => hardware_scheduling && all_write,
            Submission::User => user_mode && all_write,
        };
        Caps {
            native_fences,
            atomics_64bit: gpu.atomics_64bit,
            interrupts: match driver.interrupt {
                _ if !native_fences => "monitored",
                _ if !gpu.tells_fence_kinds => "any fence",
                InterruptMode::FenceArray => "fences",
                InterruptMode::NullArray => "none named",
                InterruptMode::HwQueue => "queue",
                InterruptMode::HwQueueArray => "queues",
            },
            advanced_nodes: gpu.nodes.iter().filter(|n| n.notifies_fence_writes).count(),
            fence_writing_nodes: writing,
            nodes: gpu.nodes.len(),
            physical_gpus: gpu.physical_gpus,
            fence_stride_bytes: driver.fence_stride_bytes,
            doorbells: match driver.doorbells {
                DoorbellModel::Global => 0,
                DoorbellModel::Dedicated { physical } => physical,
            },
            fence_history: driver.fence_history && gpu.atomics_64bit,
            io_coherent: gpu.io_coherent,
            io_mmu: gpu.io_mmu,
            shadow_entries: gpu.shadow_entries,
            posted_fence_writes: gpu.posted_fence_writes,
            settings: settings(config),
            submissions: [Submission::Packet, Submission::Hardware, Submission::User]
                .into_iter()
                .filter(offered)
                .collect(),
        }
    }
}

impl MachineConfig {
    /// Finds what contradicts itself, before anything is started.
    pub fn check(&self) -> Result<(), BadConfig> {
        let (gpu, driver) = (&self.gpu, &self.driver);
        if !(1..=MAX_PHYSICAL_GPUS).contains(&gpu.physical_gpus) {
            return Err(BadConfig::PhysicalGpus(gpu.physical_gpus));
        }
        let engines = gpu.nodes.len() * gpu.physical_gpus as usize;
        if !(1..=MAX_ENGINES).contains(&engines) {
            return Err(BadConfig::Engines(engines));
        }
        if driver.native_fence && !gpu.atomics_64bit {
            return Err(BadConfig::NativeFencesWithout64BitAtomics);
        }
        if let Some(display) = gpu.display
            && display.refresh_period_ns < MIN_REFRESH_PERIOD_NS
        {
            return Err(BadConfig::RefreshPeriod(display.refresh_period_ns));
        }
        let stride = driver.fence_stride_bytes;
        if !stride.is_power_of_two() || !(8..=4096).contains(&stride) {
            return Err(BadConfig::Stride(stride));
        }
        if driver.doorbells == (DoorbellModel::Dedicated { physical: 0 }) {
            return Err(BadConfig::NoDoorbell);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Machine, MachineError};
    use tidegate_platform::Platform;

    // spec: NF-302
    #[test]
    fn every_variant_is_free_of_contradictions_and_has_a_name_of_its_own() {
        let platform = Platform::host();
        for (number, variant) in ALL.iter().enumerate() {
            assert_eq!(variant.config(&platform).check(), Ok(()), "{}", variant.name);
            assert!(ALL[..number].iter().all(|other| other.name != variant.name));
            assert!(std::ptr::eq(find(variant.name).unwrap(), variant));
        }
    }

    /// How a field of the configuration is chosen without writing Rust.
    enum Chosen {
        /// By a named adapter, which has another value than the standard one.
        Adapter,
        /// By an option of `run` and `compare`, a key of `serve`, or a workload.
        Option,
        /// A size, a name or a place that no document has as a choice of the hardware.
        Internal,
    }

    /// The fields of a configuration with their values. A new field does not compile here.
    fn fields(config: MachineConfig) -> Vec<(&'static str, Chosen, String)> {
        use Chosen::{Adapter, Internal, Option};
        macro_rules! fields {
            ($of:ident, $config:expr, $path:path { $($field:ident: $chosen:expr),* $(,)? }) => {{
                let $path { $($field),* } = $config;
                $($of.push((stringify!($field), $chosen, format!("{:?}", $field)));)*
            }};
        }
        let mut of = Vec::new();
        let MachineConfig { gpu, driver, kernel } = config;
        let first = gpu.nodes[0].clone();
        fields!(
            of,
            first,
            tidegate_softgpu::NodeConfig {
                name: Internal,
                class: Option,
                writes_fences: Adapter,
                notifies_fence_writes: Adapter,
                preemption: Option,
            }
        );
        fields!(
            of,
            gpu,
            tidegate_softgpu::Config {
                lane_group: Internal,
                nodes: Option,
                physical_gpus: Adapter,
                skips_log_times_on: Adapter,
                local_memory_base: Internal,
                local_memory_bytes: Option,
                groups_per_turn: Internal,
                grains_per_turn: Internal,
                slots_per_turn: Internal,
                service_threads: Internal,
                interrupt_moderation_ns: Internal,
                signaled_list_entries: Internal,
                tells_fence_kinds: Adapter,
                atomics_64bit: Adapter,
                io_coherent: Adapter,
                kept_translations: Internal,
                io_mmu: Adapter,
                display: Option,
                posted_log_entries: Adapter,
                posted_fence_writes: Adapter,
                shadow_entries: Adapter,
                out_of_order: Adapter,
                one_global_doorbell: Adapter,
                doorbells_in_system_memory: Adapter,
                rates: Internal,
            }
        );
        fields!(
            of,
            driver,
            tidegate_kmd::Config {
                description: Internal,
                user_mode_nodes: Adapter,
                doorbells: Adapter,
                secondary_doorbells: Adapter,
                notify_submissions: Adapter,
                native_fence: Adapter,
                fence_stride_bytes: Adapter,
                system_process_mapping: Adapter,
                fence_window: Adapter,
                local_monitored_values: Adapter,
                interrupt: Adapter,
                faults_name: Adapter,
                fence_history: Adapter,
                fence_history_peaks: Internal,
                kernel_stores_fence_values: Adapter,
                peer_signal: Adapter,
                idle: Adapter,
                preemption_aware: Adapter,
                cancel_command_aware: Adapter,
                lazy_context_switch: Adapter,
                opens_allocations: Adapter,
                dma_patching: Adapter,
                save_areas: Adapter,
                kernel_ring_slots: Internal,
            }
        );
        fields!(
            of,
            kernel,
            tidegate_dxgkrnl::AdapterConfig {
                hardware_scheduling: Adapter,
                native_fence: Internal,
                user_mode_submission: Internal,
                native_fence_os_caps: Adapter,
                fence_storage_budget_bytes: Internal,
                paging_timeout_ns: Internal,
                paging_buffers: Internal,
                verify_split_buffers: Internal,
                interrupts: Internal,
                log_entries: Internal,
                verbose_logs: Adapter,
                cpu_wait_poll_ns: Internal,
                strict_fence_rewind: Internal,
                power: Adapter,
                tdr: Option,
                priority_bands: Internal,
                quantum_ns: Internal,
                fence_ids_ahead: Internal,
                ordinal: Internal,
            }
        );
        of
    }

    // spec: NF-302
    #[test]
    fn each_switch_that_the_documents_name_has_an_adapter() {
        let platform = Platform::host();
        let all: Vec<_> = ALL.iter().map(|variant| fields(variant.config(&platform))).collect();
        for (place, (name, chosen, standard)) in all[0].iter().enumerate() {
            let differs = all.iter().any(|fields| fields[place].2 != *standard);
            if matches!(chosen, Chosen::Adapter) {
                assert!(differs, "no named adapter changes {name}");
            }
        }
    }

    #[test]
    fn user_mode_submission_counts_on_the_nodes_that_are_there() {
        let mut config = MachineConfig::standard(&Platform::host());
        config.driver.user_mode_nodes = 0b111;
        assert!(Caps::of(&config).submissions.contains(&Submission::User));
        config.driver.user_mode_nodes = 0b101;
        assert!(!Caps::of(&config).submissions.contains(&Submission::User));
    }

    #[test]
    fn a_name_that_is_not_there_is_answered_with_near_ones() {
        let near = |name| find(name).err().unwrap().near;
        assert_eq!(near("standrd"), ["standard"]);
        assert_eq!(near("interrupt").len(), 4);
        assert_eq!(near("qqqqqqqqqq"), [""; 0]);
        let text = find("one-dorbell").err().unwrap().to_string();
        assert!(text.contains("one-doorbell") && text.contains("tidegate adapters"), "{text}");
    }

    // spec: NF-302
    #[test]
    fn contradictions_are_told_apart() {
        let platform = Platform::host();
        let refused = |change: fn(&mut MachineConfig)| {
            let mut config = MachineConfig::standard(&platform);
            change(&mut config);
            match Machine::new(&platform, config) {
                Err(MachineError::Config(what)) => what,
                Err(other) => panic!("started, and refused by the adapter: {other}"),
                Ok(_) => panic!("nothing contradicts anything"),
            }
        };
        assert_eq!(
            refused(|c| c.gpu.atomics_64bit = false),
            BadConfig::NativeFencesWithout64BitAtomics
        );
        assert_eq!(refused(|c| c.driver.fence_stride_bytes = 24), BadConfig::Stride(24));
        assert_eq!(refused(|c| *c = c.clone().with_display(999)), BadConfig::RefreshPeriod(999));
        assert_eq!(MachineConfig::standard(&platform).with_display(1_000).check(), Ok(()));
        assert_eq!(
            refused(|c| c.driver.doorbells = DoorbellModel::Dedicated { physical: 0 }),
            BadConfig::NoDoorbell
        );
        assert_eq!(refused(|c| c.gpu.physical_gpus = 0), BadConfig::PhysicalGpus(0));
        assert_eq!(refused(|c| c.gpu.physical_gpus = 5), BadConfig::PhysicalGpus(5));
        assert_eq!(
            refused(|c| *c = c.clone().with_engines(&[(EngineKind::Copy, 15)].into()).linked(3)),
            BadConfig::Engines(51)
        );
    }
}
