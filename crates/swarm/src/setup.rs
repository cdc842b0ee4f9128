//! The configuration of an adapter of a program: a named variant and the switches that a run draws.
//!
//! Invariant: a switch at its default is what ships, and the text leaves it out. A shrunk program
//! therefore names only the switches that its failure needs.
//!
//! Entry points: [`AdapterSetup`], [`SWITCHES`].

use crate::words::{Class, Model};
use std::fmt;
use tidegate::d3d12::{HardwareFences, Submission};
use tidegate::d3dukmdt::fence_cell::{MAX_ANNEX_PEAKS, peaks_in_page};
use tidegate::dxgkrnl::{InterruptDelivery, PowerManagement};
use tidegate::kmd::{DoorbellModel, FaultNaming, IdlePolicy};
use tidegate::softgpu::EngineKind;
use tidegate::variants::{self, Caps, Variant};
use tidegate::{MachineConfig, Platform};
use tidegate_conform::{Clause, UnknownClause};

/// The adapter line of a program is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSetup {
    /// No variant has the name.
    #[error(transparent)]
    Variant(#[from] variants::UnknownVariant),
    /// No clause has the name.
    #[error(transparent)]
    Clause(#[from] UnknownClause),
    /// No switch has the name.
    #[error("'{0}' is no switch of an adapter; crates/swarm/src/setup.rs lists them")]
    Switch(String),
    /// A value that the switch does not have.
    #[error("{switch}={value}: its values are {allowed:?}")]
    Value {
        /// The switch.
        switch: &'static str,
        /// What was written.
        value: String,
        /// The values of the switch.
        allowed: &'static [u64],
    },
}

/// A switch of an adapter.
pub struct Switch {
    /// Its name in the text.
    pub name: &'static str,
    /// The shipped value.
    pub shipped: u64,
    /// The values that a run draws from; the shipped one is among them.
    pub values: &'static [u64],
    apply: fn(&mut MachineConfig, u64),
}

/// The switches in the order of the text.
pub static SWITCHES: &[Switch] = &[
    Switch {
        name: "direct",
        shipped: 1,
        values: &[1, 2],
        apply: |config, count| config.gpu.nodes = nodes_with(config, 0, count),
    },
    Switch {
        name: "compute",
        shipped: 1,
        values: &[1, 2, 3],
        apply: |config, count| config.gpu.nodes = nodes_with(config, 1, count),
    },
    Switch {
        name: "copy",
        shipped: 1,
        values: &[1, 2],
        apply: |config, count| config.gpu.nodes = nodes_with(config, 2, count),
    },
    Switch {
        name: "service-threads",
        shipped: 1,
        values: &[1, 2, 8],
        apply: |config, count| config.gpu.service_threads = count as usize,
    },
    Switch {
        name: "worker-interrupts",
        shipped: 0,
        values: &[0, 1],
        apply: |config, on| {
            config.kernel.interrupts = match on {
                0 => InterruptDelivery::Inline,
                _ => InterruptDelivery::Worker,
            };
        },
    },
    Switch {
        name: "ring-slots",
        shipped: 1024,
        values: &[8, 16, 1024],
        // The ring of a queue is an option of the device: `AdapterSetup::ring_slots`.
        apply: |_, _| (),
    },
    Switch {
        name: "doorbells",
        shipped: 64,
        values: &[1, 2, 64],
        apply: |config, physical| {
            if let DoorbellModel::Dedicated { .. } = config.driver.doorbells {
                config.driver.doorbells = DoorbellModel::Dedicated { physical: physical as u32 };
            }
        },
    },
    Switch {
        name: "kernel-ring-slots",
        shipped: 64,
        values: &[2, 4, 64],
        apply: |config, slots| config.driver.kernel_ring_slots = slots as u32,
    },
    Switch {
        name: "slots-per-turn",
        shipped: 16,
        values: &[1, 2, 16],
        apply: |config, slots| config.gpu.slots_per_turn = slots as u32,
    },
    Switch {
        name: "log-entries",
        shipped: 84,
        values: &[4, 84],
        apply: |config, entries| config.kernel.log_entries = entries as u32,
    },
    Switch {
        name: "signalled-list",
        shipped: 64,
        values: &[1, 4, 64],
        apply: |config, entries| config.gpu.signaled_list_entries = entries as usize,
    },
    Switch {
        name: "moderation-ns",
        shipped: 100_000,
        values: &[0, 100_000],
        apply: |config, ns| config.gpu.interrupt_moderation_ns = ns,
    },
    Switch {
        name: "local-memory-kib",
        shipped: 1 << 26,
        values: &[128, 4096, 1 << 26],
        apply: |config, kib| config.gpu.local_memory_bytes = kib * 1024,
    },
    Switch {
        name: "fence-budget-kib",
        shipped: 0,
        values: &[0, 8],
        apply: |config, kib| {
            if kib != 0 {
                config.kernel.fence_storage_budget_bytes = kib * 1024;
            }
        },
    },
    Switch {
        name: "managed-power",
        shipped: 0,
        values: &[0, 1],
        apply: |config, on| {
            if on != 0 {
                config.kernel.power = PowerManagement::Managed;
            }
        },
    },
    Switch {
        name: "idle-engine-ns",
        shipped: 0,
        values: &[0, 20_000],
        apply: |config, ns| {
            config.driver.idle = IdlePolicy { engine_after_ns: ns, ..config.driver.idle };
        },
    },
    Switch {
        name: "lazy-context-switch",
        shipped: 0,
        values: &[0, 1],
        apply: |config, on| config.driver.lazy_context_switch = on != 0,
    },
    Switch {
        name: "cancels-commands",
        shipped: 0,
        values: &[0, 1],
        apply: |config, on| config.driver.cancel_command_aware = on != 0,
    },
    Switch {
        name: "refresh-ns",
        shipped: 0,
        values: &[0, 1_000_000],
        apply: |config, ns| *config = config.clone().with_display(ns),
    },
    Switch {
        name: "quantum-ns",
        shipped: 10_000_000,
        values: &[50_000, 10_000_000],
        apply: |config, ns| config.kernel.quantum_ns = ns,
    },
    Switch {
        name: HISTORY,
        shipped: MAX_ANNEX_PEAKS as u64,
        values: &[0, 1, MAX_ANNEX_PEAKS as u64],
        // Two values beside the fence's own, unless the variant has another stride.
        apply: |config, peaks| {
            (config.driver.fence_stride_bytes, config.driver.fence_history_peaks) =
                (8, peaks as u32);
        },
    },
    Switch {
        name: SCHEDULER_FENCES,
        shipped: 0,
        values: &[0, 1],
        // An option of the device: `AdapterSetup::hardware_fences`.
        apply: |_, _| (),
    },
    Switch {
        name: OPENED_ALLOCATIONS,
        shipped: 0,
        values: &[0, 1],
        apply: |config, opens| config.driver.opens_allocations |= opens != 0,
    },
    Switch {
        name: VERIFY,
        shipped: 0,
        values: &[0, 1],
        // A layer in front of the driver: `AdapterSetup::is_verified`.
        apply: |_, _| (),
    },
];

/// The switch that has the driver judged by the clauses of `tidegate conform`. It is not drawn.
pub(crate) const VERIFY: &str = "verify-driver";

/// The word of an adapter whose driver makes the mistake of a clause.
const FAULTY: &str = "faulty";

/// The switch that shortens the histories of fences. The generator draws it apart from the others.
pub(crate) const HISTORY: &str = "history-peaks";

/// The switch that gives waits and signals of hardware queues to the scheduler. It is drawn apart.
pub(crate) const SCHEDULER_FENCES: &str = "scheduler-fences";

/// The switch that makes allocations objects of the driver. It is drawn apart.
pub(crate) const OPENED_ALLOCATIONS: &str = "opened-allocations";

/// Returns the nodes with `count` nodes of the class `class` instead of one.
fn nodes_with(
    config: &MachineConfig,
    class: usize,
    count: u64,
) -> Vec<tidegate::softgpu::NodeConfig> {
    let wanted = EngineKind::STANDARD[class];
    let mut nodes = Vec::new();
    for node in &config.gpu.nodes {
        let copies = if node.class == wanted { count } else { 1 };
        for copy in 0..copies {
            let mut node = node.clone();
            if copy > 0 {
                node.name = format!("{} {}", node.name, copy + 1);
            }
            nodes.push(node);
        }
    }
    nodes
}

/// An adapter of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterSetup {
    variant: &'static str,
    /// The value of each switch, in the order of [`SWITCHES`].
    values: Vec<u64>,
    /// The clause whose mistake the driver makes.
    mistake: Option<&'static str>,
}

impl AdapterSetup {
    /// Returns a variant with every switch as shipped.
    pub fn shipped(variant: &'static Variant) -> AdapterSetup {
        let values = SWITCHES.iter().map(|switch| switch.shipped).collect();
        AdapterSetup { variant: variant.name, values, mistake: None }
    }

    /// Reads the words after `adapter`.
    ///
    /// # Errors
    /// Names the word and the allowed values.
    pub fn of_words(words: &[&str]) -> Result<AdapterSetup, BadSetup> {
        let name = words.first().copied().unwrap_or_default();
        let mut setup = AdapterSetup::shipped(variants::find(name)?);
        for word in words.iter().skip(1) {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            if name == FAULTY {
                setup.mistake = Some(tidegate_conform::clause(value)?.id);
                continue;
            }
            let index = SWITCHES.iter().position(|switch| switch.name == name);
            let index = index.ok_or_else(|| BadSetup::Switch(name.to_owned()))?;
            let switch = &SWITCHES[index];
            setup.values[index] =
                value.parse().ok().filter(|v| switch.values.contains(v)).ok_or_else(|| {
                    BadSetup::Value {
                        switch: switch.name,
                        value: value.to_owned(),
                        allowed: switch.values,
                    }
                })?;
        }
        Ok(setup)
    }

    /// Returns the variant's name.
    pub fn variant(&self) -> &'static str {
        self.variant
    }

    /// Sets a switch by its index in [`SWITCHES`].
    pub fn set(&mut self, switch: usize, value: u64) {
        self.values[switch] = value;
    }

    /// Replaces the variant.
    pub fn set_variant(&mut self, variant: &'static Variant) {
        self.variant = variant.name;
    }

    fn value(&self, name: &str) -> u64 {
        let index = SWITCHES.iter().position(|switch| switch.name == name);
        self.values[index.expect("a switch of the table")]
    }

    /// Returns the indices of switches that are not as shipped.
    pub fn changed(&self) -> Vec<usize> {
        let is_changed = |(index, switch): (usize, &Switch)| {
            (self.values[index] != switch.shipped).then_some(index)
        };
        SWITCHES.iter().enumerate().filter_map(is_changed).collect()
    }

    /// Returns the number of slots in the rings of user-mode queues.
    pub fn ring_slots(&self) -> u64 {
        self.value("ring-slots")
    }

    /// Returns the number of values that the history of a private fence has room for.
    pub fn history_room(&self) -> usize {
        let driver = self.config(&Platform::host()).driver;
        let in_page = peaks_in_page(u64::from(driver.fence_stride_bytes));
        in_page + driver.fence_history_peaks as usize
    }

    /// Returns what carries out waits and signals of hardware queues.
    pub fn hardware_fences(&self) -> HardwareFences {
        match self.value(SCHEDULER_FENCES) {
            0 => HardwareFences::Engine,
            _ => HardwareFences::Scheduler,
        }
    }

    /// Returns whether the driver is judged by the clauses of `tidegate conform`.
    pub fn is_verified(&self) -> bool {
        self.value(VERIFY) != 0
    }

    /// Has the driver judged.
    pub fn verify(&mut self) {
        let index = SWITCHES.iter().position(|switch| switch.name == VERIFY);
        self.set(index.expect("a switch of the table"), 1);
    }

    /// Returns the clause whose mistake the driver makes. It is not drawn.
    pub fn mistake(&self) -> Option<&'static Clause> {
        self.mistake.and_then(|id| tidegate_conform::clause(id).ok())
    }

    /// Has the driver make the mistake of a clause, or none.
    pub fn set_mistake(&mut self, clause: Option<&'static Clause>) {
        self.mistake = clause.map(|clause| clause.id);
    }

    /// Returns the quantum of packets.
    pub fn quantum_ns(&self) -> u64 {
        self.value("quantum-ns")
    }

    /// Returns the bytes of local memory that allocations may have together.
    pub fn local_bytes(&self) -> u64 {
        let config = self.config(&Platform::host());
        match config.driver.local_monitored_values && config.gpu.local_memory_bytes < 1 << 20 {
            // Fence storage takes it.
            true => 0,
            false => config.gpu.local_memory_bytes,
        }
    }

    /// Returns the first node of a class.
    pub(crate) fn node(&self, class: Class, platform: &Platform) -> Option<u32> {
        let wanted = match class {
            Class::Direct => EngineKind::ThreeD,
            Class::Compute => EngineKind::Compute,
            Class::Copy => EngineKind::Copy,
        };
        let nodes = self.config(platform).gpu.nodes;
        nodes.iter().position(|node| node.class == wanted).map(|node| node as u32)
    }

    /// Returns what the fault report of a hardware queue names.
    pub(crate) fn faults_name(&self) -> FaultNaming {
        self.config(&Platform::host()).driver.faults_name
    }

    /// Returns whether contexts have save areas.
    pub fn has_save_areas(&self) -> bool {
        self.config(&Platform::host()).driver.save_areas
    }

    /// Returns whether the adapter has a display.
    pub fn has_display(&self) -> bool {
        self.value("refresh-ns") != 0
    }

    /// Returns whether the adapter may lose power.
    pub fn is_power_managed(&self) -> bool {
        self.value("managed-power") != 0
    }

    /// Returns the configuration of the machine.
    pub fn config(&self, platform: &Platform) -> MachineConfig {
        let mut config = MachineConfig::standard(platform);
        for (switch, value) in SWITCHES.iter().zip(&self.values) {
            // Engines first, because a variant changes nodes that exist. The delivery of virtual
            // time is a worker's, and a switch as shipped leaves it.
            if *value != switch.shipped {
                (switch.apply)(&mut config, *value);
            }
        }
        if let Ok(variant) = variants::find(self.variant) {
            variant.apply(&mut config);
        }
        if config.gpu.local_memory_bytes < 1 << 30 {
            // Save areas of contexts would take most of a small local memory.
            config.driver.save_areas = false;
        }
        config
    }

    /// Returns what the adapter can do.
    pub fn caps(&self) -> Caps {
        Caps::of(&self.config(&Platform::host()))
    }
}

impl fmt::Display for AdapterSetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.variant)?;
        for index in self.changed() {
            write!(f, " {}={}", SWITCHES[index].name, self.values[index])?;
        }
        if let Some(mistake) = self.mistake {
            write!(f, " {FAULTY}={mistake}")?;
        }
        Ok(())
    }
}

impl Model {
    /// Returns the submission model of the queue API.
    pub fn submission(self) -> Submission {
        match self {
            Model::Packet => Submission::Packet,
            Model::Hardware => Submission::Hardware,
            Model::User => Submission::User,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_a_class_are_several_and_each_has_a_name() {
        let platform = Platform::virtual_time(tidegate::platform::StepCosts::free());
        let config = MachineConfig::standard(&platform);
        for (class, wanted) in EngineKind::STANDARD.into_iter().enumerate() {
            let nodes = nodes_with(&config, class, 3);
            assert_eq!(nodes.iter().filter(|node| node.class == wanted).count(), 3);
            assert_eq!(nodes.len(), config.gpu.nodes.len() + 2);
            let names: std::collections::BTreeSet<_> = nodes.iter().map(|n| &n.name).collect();
            assert_eq!(names.len(), nodes.len(), "{names:?}");
        }
    }
}
