//! The settings in which explored machines differ from the machine that ships, as data.
//!
//! Invariants: a machine of a scenario is [`MachineConfig::standard`] with the settings of its
//! `Race`. Only a planted bug changes more. Each setting has a reason. Without one, the engines,
//! their grouping into threads, the place of ISR and DPC, rings, logs and caches are as shipped.

use tidegate::MachineConfig;
use tidegate::ddi::PeerSignalCaps;
use tidegate::dxgkrnl::{InterruptDelivery, PowerManagement};
use tidegate::kmd::{DoorbellModel, InterruptMode};

/// Number of shadows that the hardware supports.
pub(crate) const SHADOW_ENTRIES: u32 = 4;

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
    /// The machine that ships, with these settings.
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

pub(crate) const SMALL_HISTORY: Setting = Setting {
    what: "driver.fence_stride_bytes = 8, driver.fence_history_peaks = 0",
    why: "a history is full after two values, not after 16,414",
    apply: |config| {
        (config.driver.fence_stride_bytes, config.driver.fence_history_peaks) = (8, 0);
    },
};

/// An option of the device, which the machine has no field for.
pub(crate) const SMALL_RING: Setting = Setting {
    what: "ring slots of a user-mode queue = 16",
    why: "few signals then fill the ring",
    apply: |_| (),
};

/// An option of the device.
pub(crate) const SCHEDULER_FENCES: Setting = Setting {
    what: "fences of hardware queues = scheduler",
    why: "the race is about a signal of the scheduler; a supported choice",
    apply: |_| (),
};

pub(crate) const QUEUES_ARE_NOT_READ: Setting = Setting {
    what: "driver.idle.looks_at_queues = false",
    why: "the race is about the kernel's own knowledge of announced work; a supported choice",
    apply: |config| config.driver.idle.looks_at_queues = false,
};

pub(crate) const NO_SAVE_AREAS: Setting = Setting {
    what: "driver.save_areas = false",
    why: "the pager's packets for save areas make the states too many to search all",
    apply: |config| config.driver.save_areas = false,
};

pub(crate) const ONE_DOORBELL: Setting = Setting {
    what: "driver.doorbells = 1 physical doorbell",
    why: "each connect then victimises the previous owner",
    apply: |config| config.driver.doorbells = DoorbellModel::Dedicated { physical: 1 },
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
    what: "driver.local_monitored_values = true",
    why: "the race is about the move of such storage",
    apply: |config| config.driver.local_monitored_values = true,
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
        config.gpu.shadow_entries = SHADOW_ENTRIES;
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
    use crate::{all, settings};
    use tidegate::{MachineConfig, Platform, ThreadShape};

    #[test]
    fn a_machine_has_other_threads_than_the_one_that_ships_only_where_a_setting_says_so() {
        let shipped = MachineConfig::standard(&Platform::host());
        assert_eq!(shipped.thread_shape(), ThreadShape::SHIPPED);
        for scenario in all() {
            let Some(own) = settings(scenario.name()) else { continue };
            let mut explored = shipped.clone();
            own.iter().for_each(|setting| (setting.apply)(&mut explored));
            let of_threads = ["gpu.service_threads", "kernel.interrupts"];
            let says = own.iter().any(|s| of_threads.iter().any(|field| s.what.starts_with(field)));
            let has_others = explored.thread_shape() != ThreadShape::SHIPPED;
            assert_eq!(says, has_others, "{}", scenario.name());
        }
    }
}
