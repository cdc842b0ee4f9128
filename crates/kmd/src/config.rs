//! The configuration of the reference driver: which of the documented hardware models it
//! implements. `Config::check` checks it once, when the adapter starts.

use crate::KmdError;
use tidegate_d3dukmdt::fence_cell::MAX_ANNEX_PEAKS;
use tidegate_ddi::PeerSignalCaps;
use tidegate_gpu_abi::regs::DeviceTraits;
use tidegate_gpu_abi::ring::MAX_RING_SLOTS;

/// How many doorbells can be connected at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoorbellModel {
    /// One location that all queues share. No doorbell is ever victimised.
    Global,
    /// One per connected queue. When all are taken, the least recently rung doorbell is victimised.
    Dedicated {
        /// The number of physical doorbells, at least 1.
        physical: u32,
    },
}

/// The object that the fault report of a hardware queue names. Some hardware does not know
/// the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FaultNaming {
    /// The queue, and the progress value of the command buffer.
    #[default]
    HwQueue,
    /// The hardware context.
    HwContext,
    /// The process.
    Process,
    /// The engine only.
    Engine,
}

/// What a fence-signalled interrupt names. A device that cannot tell fence kinds apart always
/// reports that any fence may be signalled, monitored fences included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptMode {
    /// Each signalled fence.
    FenceArray,
    /// No fence: the kernel scans all of them.
    NullArray,
    /// The hardware queue whose logs name the fences (OptimizedNativeFenceSignaledInterrupt).
    HwQueue,
    /// Several hardware queues whose logs name the fences, an extension of the published interrupt.
    HwQueueArray,
}

/// When the driver requests a lower power state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdlePolicy {
    /// Idle time in nanoseconds after which an engine is offered for F1; 0 for never.
    pub engine_after_ns: u64,
    /// Whether the driver reads the hardware's queues before it removes power, and refuses while
    /// there is work. Without this check the kernel decides alone, by what processes have
    /// announced. A ring with waits and signals only announces no work.
    pub looks_at_queues: bool,
}

/// The configuration of a [`crate::ReferenceDriver`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The adapter's display name.
    pub description: String,
    /// Bit n: hardware queues of node n may be fed from user mode.
    pub user_mode_nodes: u64,
    /// How many doorbells can be connected.
    pub doorbells: DoorbellModel,
    /// Whether a doorbell can have a second address (SecondaryDoorbellSupported).
    pub secondary_doorbells: bool,
    /// Whether connected doorbells have the status CONNECTED_NOTIFY: the notification wakes the
    /// engine, and a ring alone does not.
    pub notify_submissions: bool,
    /// Whether native fences are declared when the kernel has enabled them.
    pub native_fence: bool,
    /// Distance in bytes between two fences packed into a page; a power of two from 8 to 4096.
    pub fence_stride_bytes: u32,
    /// Whether the CMP finds fences in the system process's address space. Otherwise it uses the
    /// address in a client process.
    pub system_process_mapping: bool,
    /// The inclusive address range, in every address space, in which fence values may be mapped.
    pub fence_window: (Option<u64>, Option<u64>),
    /// Whether MonitoredValues of DEFAULT fences may be in CPU-visible local memory.
    pub local_monitored_values: bool,
    /// What fence-signalled interrupts name.
    pub interrupt: InterruptMode,
    /// The object that the fault report of a hardware queue names.
    pub faults_name: FaultNaming,
    /// Whether the hardware keeps the histories of fence values, so that a wait stays satisfied
    /// over a rewind.
    pub fence_history: bool,
    /// Values of a fence's history beyond those in its page.
    pub fence_history_peaks: u32,
    /// Whether the kernel may store CurrentValue and MonitoredValue of a native fence itself for a
    /// CPU signal ([`FenceWaitDdi`](tidegate_ddi::driver::FenceWaitDdi)). Otherwise each CPU signal
    /// and each change of MonitoredValue is a call of the driver.
    pub kernel_stores_fence_values: bool,
    /// Signals between GPUs that the hardware supports; none in the standard configuration.
    pub peer_signal: PeerSignalCaps,
    /// When the driver requests a lower power state; never in the standard configuration.
    pub idle: IdlePolicy,
    /// Whether the driver supports preemption of packets (PreemptionAware). The kernel preempts no
    /// packets of a driver that does not.
    pub preemption_aware: bool,
    /// Whether the kernel reports packets that it will never submit (CancelCommandAware).
    pub cancel_command_aware: bool,
    /// Whether an engine keeps its last context until the kernel switches it away.
    pub lazy_context_switch: bool,
    /// Whether the driver also accepts commands that name allocations, and patches their physical
    /// addresses in.
    pub dma_patching: bool,
    /// Whether allocations of processes are objects of the driver, which devices open.
    pub opens_allocations: bool,
    /// Whether a packet context gets a save area on nodes that preempt in the middle of a packet.
    /// Without one, a packet of such a node that has begun runs to its end, and no other queue
    /// interrupts it.
    pub save_areas: bool,
    /// Slots in each ring that the driver writes (one ring per engine, one per kernel-mode
    /// hardware queue). A power of two, at least 2, because the kernel keeps two packets on a node
    /// by default.
    pub kernel_ring_slots: u32,
}

impl Config {
    /// Returns the standard configuration: user-mode submission on all nodes, 64 dedicated
    /// doorbells, and native fences that are reported individually.
    pub fn standard() -> Config {
        Config {
            description: "tidegate reference GPU".into(),
            user_mode_nodes: u64::MAX,
            doorbells: DoorbellModel::Dedicated { physical: 64 },
            secondary_doorbells: true,
            notify_submissions: false,
            native_fence: true,
            fence_stride_bytes: 64,
            system_process_mapping: false,
            fence_window: (None, None),
            local_monitored_values: false,
            interrupt: InterruptMode::FenceArray,
            faults_name: FaultNaming::HwQueue,
            fence_history: true,
            fence_history_peaks: MAX_ANNEX_PEAKS as u32,
            kernel_stores_fence_values: true,
            peer_signal: PeerSignalCaps::default(),
            idle: IdlePolicy { engine_after_ns: 0, looks_at_queues: true },
            preemption_aware: true,
            cancel_command_aware: false,
            lazy_context_switch: false,
            dma_patching: false,
            opens_allocations: false,
            save_areas: true,
            kernel_ring_slots: 64,
        }
    }

    /// Returns whether hardware queues of this node may be fed from user mode.
    pub fn feeds_from_user_mode(&self, node: u32) -> bool {
        1_u64.checked_shl(node).is_some_and(|bit| self.user_mode_nodes & bit != 0)
    }

    /// Checks this configuration against the device's traits and the number of nodes on each of its
    /// physical GPUs.
    pub(crate) fn check(
        &self,
        device_nodes: u32,
        physical_gpus: u32,
        traits: DeviceTraits,
    ) -> Result<(), KmdError> {
        let engines = u64::from(device_nodes) * u64::from(physical_gpus);
        if !(1..=MAX_ENGINES).contains(&engines) {
            return Err(KmdError::Argument(
                "a device has 1 to 56 engines, one bit each in the interrupt cause",
            ));
        }
        if !self.kernel_ring_slots.is_power_of_two()
            || !(2..=MAX_RING_SLOTS).contains(&u64::from(self.kernel_ring_slots))
        {
            return Err(KmdError::Argument(
                "kernel_ring_slots must be a power of two, from 2 to 2^20",
            ));
        }
        if self.doorbells == (DoorbellModel::Dedicated { physical: 0 }) {
            return Err(KmdError::Argument("dedicated doorbells: there must be at least 1"));
        }
        if self.native_fence && traits.has(DeviceTraits::NO_64BIT_ATOMICS) {
            return Err(KmdError::Argument(
                "native fences need 64-bit atomics, which this device lacks: configure native_fence off",
            ));
        }
        Ok(())
    }
}

/// The cause register has bits 8 to 63 for engines.
const MAX_ENGINES: u64 = 56;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_has_1_to_56_engines_and_native_fences_only_with_64_bit_atomics() {
        let checks = |config: &Config, nodes, physical_gpus, traits| {
            config.check(nodes, physical_gpus, traits).is_ok()
        };
        let standard = Config::standard();
        let of_engines =
            |nodes, physical_gpus| checks(&standard, nodes, physical_gpus, DeviceTraits(0));
        assert!([(1, 1), (56, 1), (14, 4)].into_iter().all(|(n, gpus)| of_engines(n, gpus)));
        assert!(
            ![(0, 1), (57, 1), (15, 4), (u32::MAX, 4)].into_iter().any(|(n, g)| of_engines(n, g))
        );
        let narrow = DeviceTraits::NO_64BIT_ATOMICS;
        assert!(!checks(&standard, 1, 1, narrow));
        assert!(checks(&Config { native_fence: false, ..standard }, 1, 1, narrow));
    }
}
