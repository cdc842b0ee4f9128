//! The settings in which explored machines differ from the machine that ships, as data.
//!
//! Invariants: a machine of a scenario is [`MachineConfig::standard`] with the settings of
//! [`EVERYWHERE`] and those of its `Race`, in this order. Only a planted bug changes more. Each
//! setting has a reason. The grouping of engines into threads and the place of ISR and DPC are as
//! shipped: one thread, inline.

use tidegate::MachineConfig;
use tidegate::ddi::PeerSignalCaps;
use tidegate::ddi::feature::NativeFenceOsCaps;
use tidegate::dxgkrnl::{InterruptDelivery, PowerManagement};
use tidegate::kmd::{DoorbellModel, IdlePolicy, InterruptMode};
use tidegate::softgpu::{EngineClass, NodeConfig};

/// A setting in which an explored machine differs from the machine that ships.
#[derive(Clone, Copy)]
pub struct Setting {
    /// The field, and its value in the explored machine.
    pub what: &'static str,
    /// Why it differs.
    pub why: &'static str,
    pub(crate) apply: fn(&mut MachineConfig),
}

/// What a scenario explores.
#[derive(Clone, Copy)]
pub(crate) enum Shape {
    /// A model of one protocol, without a machine.
    Model,
    /// The machine that ships, with the settings of [`EVERYWHERE`] and these.
    Machine(&'static [Setting]),
}

impl Shape {
    /// Returns the scenario's own settings.
    pub(crate) fn own(self) -> &'static [Setting] {
        match self {
            Shape::Model => &[],
            Shape::Machine(settings) => settings,
        }
    }
}

const FEW_STATES: &str = "a machine is built for every run, so its parts are few and small";

/// The settings of every machine.
pub(crate) const EVERYWHERE: &[Setting] = &[
    Setting {
        what: "gpu.nodes = 1 copy engine",
        why: "each engine multiplies the states; a race of engines states its number",
        apply: |config| engines(config, 1),
    },
    Setting {
        what: "ring slots of a user-mode queue = 16",
        why: FEW_STATES,
        // An option of the device.
        apply: |_| (),
    },
    Setting {
        what: "kernel.log_entries = 8",
        why: FEW_STATES,
        apply: |config| config.kernel.log_entries = 8,
    },
    Setting {
        what: "driver.kernel_ring_slots = 2",
        why: FEW_STATES,
        apply: |config| config.driver.kernel_ring_slots = 2,
    },
    Setting {
        what: "gpu.kept_translations = 32",
        why: FEW_STATES,
        apply: |config| config.gpu.kept_translations = 32,
    },
    Setting {
        what: "driver.idle = no reports",
        why: "time passes only where no agent can move, so every quiet engine would report itself idle",
        apply: |config| {
            config.driver.idle = IdlePolicy { engine_after_ns: 0, looks_at_queues: false };
        },
    },
    Setting {
        what: "kernel.native_fence_os_caps without OPTIMIZED_DEFAULT_FENCE_TYPE",
        why: "fence storage in local memory is moved in demote-against-signal alone",
        apply: |config| {
            let optimized = NativeFenceOsCaps::OPTIMIZED_DEFAULT_FENCE_TYPE;
            config.kernel.native_fence_os_caps.remove(optimized);
        },
    },
];

/// Provides `count` copy engines.
fn engines(config: &mut MachineConfig, count: usize) {
    config.gpu.nodes = NodeConfig::of_classes(&vec![EngineClass::Copy; count]);
}

pub(crate) const TWO_ENGINES: Setting = Setting {
    what: "gpu.nodes = 2 copy engines",
    why: "the race is between two engines",
    apply: |config| engines(config, 2),
};

pub(crate) const COMPUTE_ENGINES: Setting = Setting {
    what: "gpu.nodes = 2 compute engines",
    why: "the race is between atomic operations of two engines",
    apply: |config| config.gpu.nodes = NodeConfig::of_classes(&[EngineClass::Compute; 2]),
};

pub(crate) const COMPUTE_AND_COPY: Setting = Setting {
    what: "gpu.nodes = 1 compute and 1 copy engine",
    why: "a queue of both classes moves from one engine to the other",
    apply: |config| {
        config.gpu.nodes = NodeConfig::of_classes(&[EngineClass::Compute, EngineClass::Copy]);
    },
};

pub(crate) const ONE_3D_ENGINE: Setting = Setting {
    what: "gpu.nodes = 1 3D engine",
    why: "the race is about the save areas of contexts, which copy engines lack",
    apply: |config| config.gpu.nodes = NodeConfig::of_classes(&[EngineClass::ThreeD]),
};

pub(crate) const OWN_THREADS: Setting = Setting {
    what: "gpu.service_threads = one for each engine",
    why: "engines of one thread take turns, so they never race; more threads are a supported choice",
    apply: |config| config.gpu.service_threads = config.gpu.nodes.len(),
};

pub(crate) const WORKER_INTERRUPTS: Setting = Setting {
    what: "kernel.interrupts = Worker",
    why: "ISR and DPC race with the engine, as on another processor; a supported choice",
    apply: |config| config.kernel.interrupts = InterruptDelivery::Worker,
};

pub(crate) const MANAGED_POWER: Setting = Setting {
    what: "kernel.power = Managed",
    why: "the race is about power, which the standard machine keeps on",
    apply: |config| config.kernel.power = PowerManagement::Managed,
};

pub(crate) const QUEUES_ARE_READ: Setting = Setting {
    what: "driver.idle.looks_at_queues = true, as shipped",
    why: "only the hardware knows of a ring that announces no progress value",
    apply: |config| config.driver.idle.looks_at_queues = true,
};

pub(crate) const ONE_DOORBELL: Setting = Setting {
    what: "driver.doorbells = 1 physical doorbell",
    why: "each connect then victimises the previous owner",
    apply: |config| config.driver.doorbells = DoorbellModel::Dedicated { physical: 1 },
};

pub(crate) const NO_SAVE_AREAS: Setting = Setting {
    what: "driver.save_areas = false",
    why: "the kernel's packets for save areas are not part of the race",
    apply: |config| config.driver.save_areas = false,
};

pub(crate) const LITTLE_LOCAL_MEMORY: Setting = Setting {
    what: "gpu.local_memory_bytes = 64",
    why: "the second allocation evicts the first",
    apply: |config| config.gpu.local_memory_bytes = 64,
};

pub(crate) const PEER_SIGNALS: Setting = Setting {
    what: "driver.peer_signal = common doorbell and shared fence storage",
    why: "the race is between the hardware of two adapters, which the standard driver does not use",
    apply: |config| {
        config.driver.peer_signal =
            PeerSignalCaps { common_doorbell: true, shared_fence_storage: true };
    },
};

pub(crate) const LOCAL_MONITORED_VALUES: Setting = Setting {
    what: "driver.local_monitored_values, kernel.native_fence_os_caps with OPTIMIZED_DEFAULT_FENCE_TYPE",
    why: "the race is about the move of such storage",
    apply: |config| {
        let optimized = NativeFenceOsCaps::OPTIMIZED_DEFAULT_FENCE_TYPE;
        config.kernel.native_fence_os_caps.insert(optimized);
        config.driver.local_monitored_values = true;
    },
};

pub(crate) const FEW_VALUES_A_PAGE: Setting = Setting {
    what: "driver.fence_stride_bytes = 1024",
    why: "a move of a page then takes few steps",
    apply: |config| config.driver.fence_stride_bytes = 1024,
};

pub(crate) const POSTED_LOG_ENTRIES: Setting = Setting {
    what: "gpu.posted_log_entries = true",
    why: "the race is about hardware whose entries arrive after their index",
    apply: |config| config.gpu.posted_log_entries = true,
};

pub(crate) const NAMED_QUEUES: Setting = Setting {
    what: "driver.interrupt = HwQueueArray",
    why: "an interrupt then has the kernel read the logs of all queues that it names",
    apply: |config| config.driver.interrupt = InterruptMode::HwQueueArray,
};

pub(crate) const SHADOWS: Setting = Setting {
    what: "gpu.shadow_entries, gpu.posted_fence_writes",
    why: "the race is about hardware that compares with a copy of MonitoredValue",
    apply: |config| {
        config.gpu.shadow_entries = crate::shadow_against_signal::SHADOWS;
        config.gpu.posted_fence_writes = true;
    },
};

pub(crate) const PREEMPTION_BETWEEN_BUFFERS: Setting = Setting {
    what: "gpu.nodes[0].preemption.compute = DmaBuffer",
    why: "the race is about an engine that a queue may not leave in the middle of a buffer",
    apply: |config| {
        config.gpu.nodes[0].preemption.compute = tidegate::d3dukmdt::ComputePreemption::DmaBuffer;
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::{Platform, ThreadShape};

    #[test]
    fn explored_machines_have_the_threads_of_the_machine_that_ships() {
        let shipped = MachineConfig::standard(&Platform::host());
        assert_eq!(shipped.thread_shape(), ThreadShape::SHIPPED);
        let mut explored = shipped.clone();
        EVERYWHERE.iter().for_each(|setting| (setting.apply)(&mut explored));
        assert_eq!(explored.thread_shape(), ThreadShape::SHIPPED);
    }
}
