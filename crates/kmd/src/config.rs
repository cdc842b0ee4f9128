//! Owns the configuration of the reference driver: which of the documented hardware models it
//! plays.
//!
//! `Config::check` checks a configuration once, when the adapter starts.

use crate::KmdError;
use tidegate_ddi::PeerSignalCaps;
use tidegate_gpu_abi::regs::DeviceTraits;
use tidegate_gpu_abi::ring::MAX_RING_SLOTS;

/// How many doorbells can be connected at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoorbellModel {
    /// One location that all queues share: nothing is ever taken away.
    Global,
    /// One per connected queue; when all are taken, the least recently rung one is victimised.
    Dedicated {
        /// How many there are; at least 1.
        physical: u32,
    },
}

/// The object that the report of a hardware queue's page fault names. Hardware may not know the
/// queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FaultNaming {
    /// The queue, and the progress value of the command buffer.
    #[default]
    HwQueue,
    /// The hardware context.
    HwContext,
    /// The process.
    Process,
    /// The engine alone.
    Engine,
}

/// What the driver says in a fence signalled interrupt. A device that cannot tell fence kinds apart
/// says less whatever is chosen here: that any fence may be meant, monitored ones too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptMode {
    /// The fences, one by one.
    FenceArray,
    /// Nothing: the kernel scans.
    NullArray,
    /// The hardware queue whose logs tell (OptimizedNativeFenceSignaledInterrupt).
    HwQueue,
    /// The hardware queues whose logs tell, several at once: beyond the published interrupt.
    HwQueueArray,
}

/// When the driver asks for less power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdlePolicy {
    /// An engine that had nothing to do for so many nanoseconds is offered for F1; 0 for never.
    pub engine_after_ns: u64,
    /// Whether the driver reads the hardware's queues before it removes power, and refuses when
    /// there is work. Without it the kernel alone decides, by what processes have announced: a
    /// ring of waits and signals alone announces nothing.
    pub looks_at_queues: bool,
}

/// The configuration of a [`crate::ReferenceDriver`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The adapter's name for people.
    pub description: String,
    /// Bit n: hardware queues of node n may be fed from user mode.
    pub user_mode_nodes: u64,
    /// How doorbells are given out.
    pub doorbells: DoorbellModel,
    /// Whether a doorbell can have a second address (SecondaryDoorbellSupported).
    pub secondary_doorbells: bool,
    /// Whether connected doorbells say CONNECTED_NOTIFY: the notification wakes the engine, a ring
    /// alone does not.
    pub notify_submissions: bool,
    /// Whether native fences are declared when the kernel has enabled them.
    pub native_fence: bool,
    /// Bytes between two fences packed into a page; a power of two from 8 to 4096.
    pub fence_stride_bytes: u32,
    /// Whether the CMP finds fences in the system process's address space; else it takes the
    /// address of a process.
    pub system_process_mapping: bool,
    /// Where in every address space fence values may be mapped: from the first address up to the
    /// second, itself included.
    pub fence_window: (Option<u64>, Option<u64>),
    /// Whether MonitoredValues of DEFAULT fences may stand in local memory that the CPU sees.
    pub local_monitored_values: bool,
    /// What fence signalled interrupts say.
    pub interrupt: InterruptMode,
    /// The object that the fault of a hardware queue names.
    pub faults_name: FaultNaming,
    /// Whether the hardware keeps the histories of fence values, so that waits latch over a rewind.
    pub fence_history: bool,
    /// What the hardware can do with other GPUs of its kind; nothing in the standard configuration.
    pub peer_signal: PeerSignalCaps,
    /// When it asks for less power; never in the standard configuration.
    pub idle: IdlePolicy,
    /// Whether it is written for preemption (PreemptionAware): without it the kernel asks for no
    /// packets.
    pub preemption_aware: bool,
    /// Whether the kernel reports packets that it will never submit (CancelCommandAware).
    pub cancel_command_aware: bool,
    /// Whether its engines keep the context that they worked for last, until the kernel turns them
    /// away from it.
    pub lazy_context_switch: bool,
    /// Whether it takes commands that name allocations and patches their physical addresses in,
    /// besides those with virtual addresses.
    pub dma_patching: bool,
    /// Whether a packet context of a node that stops in the middle of packets gets an area for its
    /// state. Without it packets of such a node are given up where they end.
    pub save_areas: bool,
    /// Slots in each ring that the driver writes (one per engine, one per kernel-mode hardware
    /// queue); a power of two, at least 2, since the kernel keeps two packets on a node unless told
    /// otherwise.
    pub kernel_ring_slots: u32,
}

impl Config {
    /// User-mode submission on all nodes; 64 dedicated doorbells; native fences, reported one by
    /// one.
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
            peer_signal: PeerSignalCaps::default(),
            idle: IdlePolicy { engine_after_ns: 0, looks_at_queues: true },
            preemption_aware: true,
            cancel_command_aware: false,
            lazy_context_switch: false,
            dma_patching: false,
            save_areas: true,
            kernel_ring_slots: 64,
        }
    }

    /// Whether hardware queues of this node may be fed from user mode.
    pub(crate) fn feeds_from_user_mode(&self, node: u32) -> bool {
        1_u64.checked_shl(node).is_some_and(|bit| self.user_mode_nodes & bit != 0)
    }

    /// Whether a device with these traits, and `device_nodes` nodes on each of its physical GPUs,
    /// can be driven like this.
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

/// Bits 8 to 63 of the cause register.
const MAX_ENGINES: u64 = 56;
