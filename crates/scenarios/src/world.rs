//! Owns the machine that a scenario races on: as few engines as it needs, one process, small rings.
//! It is built outside the run, so none of it is explored, and it is taken down after the check,
//! outside the run as well.
//!
//! The order that matters: what a run uses is kept by the check too, so that the last handle of a
//! queue or a fence is not dropped inside the run, where its teardown would be explored.

use crate::seam::{
    FirstDoorbell, LeftOut, Monitored, Omission, QueuesMade, Routine, Seam, Watched,
};
use std::sync::Arc;
use tidegate::calls::{
    AllocationKind, AllocationMemory, CreateAllocation, CreateHwContext, CreateHwQueue, Handle,
    HwQueue, Kernel, Placement, Priority, SubmitCommandToHwQueue,
};
use tidegate::d3d12::{
    ClosedList, CommandListType, Device, DeviceOptions, Error, Fence, FenceChoice, Queue, QueueDesc,
};
use tidegate::d3dukmdt::ComputePreemption;
use tidegate::ddi::feature::NativeFenceOsCaps;
use tidegate::ddi::{EngineType, PeerSignalCaps};
use tidegate::dxgkrnl::{InterruptDelivery, PowerManagement, TdrLevel};
use tidegate::explorer::{Probe, Verdict};
use tidegate::gpu_abi::{Command, CommandWriter};
use tidegate::kmd::{DoorbellModel, IdlePolicy, InterruptMode};
use tidegate::platform::Bulk;
use tidegate::softgpu::EngineClass;
use tidegate::trace::LaneKind;
use tidegate::{Machine, MachineConfig, Platform, Submission};

/// What the machine of a scenario is like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// Copy engines.
    pub(crate) engines: u32,
    /// Where interrupts run.
    pub(crate) interrupts: InterruptDelivery,
    /// Which fences the device makes.
    pub(crate) fences: FenceChoice,
    /// Whether the hardware keeps the histories of fences.
    pub(crate) fence_history: bool,
    /// Copies of MonitoredValue that the hardware keeps; with any, it posts its stores of fence
    /// values as well.
    pub(crate) shadow_entries: u32,
    /// What the driver leaves out.
    pub(crate) left_out: LeftOut,
    /// Physical doorbells.
    pub(crate) doorbells: u32,
    /// Whether MonitoredValues stand in local memory.
    pub(crate) local_monitored_values: bool,
    /// Bytes of local memory.
    pub(crate) local_memory_bytes: u64,
    /// Whether log entries may become visible after the index that counts them.
    pub(crate) posted_log_entries: bool,
    /// What the driver reports when a fence is signalled.
    pub(crate) interrupt: InterruptMode,
    /// Interrupts that name hardware queues name them all.
    pub(crate) names_all_queues: bool,
    /// What the GPU can tell others by itself.
    pub(crate) peer_signal: PeerSignalCaps,
    /// The driver says inside every connect that the doorbell which was made first is lost.
    pub(crate) first_doorbell_lost: bool,
    /// Whether adapter and engines may lose power. The driver's own look at its queues is off where
    /// they may.
    pub(crate) power: PowerManagement,
    /// Where engines may leave compute work.
    pub(crate) compute_preemption: ComputePreemption,
    /// Whether the driver makes save areas for contexts of packets.
    pub(crate) save_areas: bool,
}

impl Default for Setting {
    fn default() -> Setting {
        Setting {
            engines: 1,
            interrupts: InterruptDelivery::Inline,
            fences: FenceChoice::Native,
            fence_history: true,
            shadow_entries: 0,
            left_out: LeftOut::Nothing,
            doorbells: 64,
            local_monitored_values: false,
            local_memory_bytes: 1 << 36,
            posted_log_entries: false,
            interrupt: InterruptMode::FenceArray,
            names_all_queues: false,
            peer_signal: PeerSignalCaps::default(),
            first_doorbell_lost: false,
            power: PowerManagement::AlwaysOn,
            compute_preemption: ComputePreemption::ThreadGroup,
            save_areas: true,
        }
    }
}

/// Slots of a ring: so few that it is quickly made, so many that three submissions need no
/// checkpoint among them.
const RING_SLOTS: u64 = 16;

/// Entries of a fence log. No queue of a scenario fills so many, and so small a log is quickly
/// made.
const LOG_ENTRIES: u32 = 8;

/// Few, since machines are made by the thousand.
const KEPT_TRANSLATIONS: u32 = 32;

/// A machine with one process.
pub(crate) struct World {
    /// Before the machine: kernel objects end while it is there.
    pub(crate) device: Device,
    pub(crate) machine: Machine,
    /// What passed through the DDI, and the scenario's own notes.
    pub(crate) probe: Probe,
    /// The MonitoredValues that the kernel had updated.
    pub(crate) monitored: Monitored,
    /// What is looked at when a context was suspended.
    pub(crate) watched: Watched,
    /// The doorbell that was made first.
    pub(crate) first: FirstDoorbell,
    left_out: Omission,
}

impl Setting {
    /// The adapter that it describes.
    pub(crate) fn config(self, platform: &Platform) -> MachineConfig {
        let setting = self;
        let mut config = MachineConfig::standard(platform);
        config.kernel.interrupts = setting.interrupts;
        config.kernel.log_entries = LOG_ENTRIES;
        config.gpu.posted_log_entries = setting.posted_log_entries;
        config.gpu.local_memory_bytes = setting.local_memory_bytes;
        config.driver.interrupt = setting.interrupt;
        config.gpu.shadow_entries = setting.shadow_entries;
        config.gpu.posted_fence_writes = setting.shadow_entries > 0;
        config.driver.doorbells = DoorbellModel::Dedicated { physical: setting.doorbells };
        config.driver.kernel_ring_slots = 2;
        config.driver.save_areas = setting.save_areas;
        config
            .kernel
            .native_fence_os_caps
            .set(NativeFenceOsCaps::OPTIMIZED_DEFAULT_FENCE_TYPE, setting.local_monitored_values);
        config.driver.local_monitored_values = setting.local_monitored_values;
        if setting.local_monitored_values {
            // Few places in a page, so that its move has few steps.
            config.driver.fence_stride_bytes = 1024;
        }
        config.driver.fence_history = setting.fence_history;
        config.driver.peer_signal = setting.peer_signal;
        if setting.left_out == LeftOut::CpuBarrier || platform.fault("no shadow barrier") {
            // The driver's gate is a locked operation at the end of each call, which stands in for
            // either barrier. Without recovery there is no gate.
            config.kernel.tdr.level = TdrLevel::Off;
        }
        config.kernel.power = setting.power;
        config.gpu.kept_translations = KEPT_TRANSLATIONS;
        config.driver.idle = IdlePolicy { engine_after_ns: 0, looks_at_queues: false };
        config.gpu.nodes.clear();
        config.driver.nodes.clear();
        for number in 0..setting.engines {
            let name = format!("copy {number}");
            let mut node = tidegate::softgpu::NodeConfig::new(name.clone(), EngineClass::Copy);
            node.preemption.compute = setting.compute_preemption;
            config.gpu.nodes.push(node);
            config.driver.nodes.push(tidegate::kmd::NodeConfig {
                engine_type: EngineType::Copy,
                friendly_name: name,
                user_mode_submission: true,
            });
        }
        config
    }

    /// A process on it.
    pub(crate) fn device_options(self) -> DeviceOptions {
        DeviceOptions { fences: self.fences, ring_slots: RING_SLOTS, ..DeviceOptions::default() }
    }
}

/// A queue of copies on engine `node`.
pub(crate) fn queue_on(device: &Device, name: &str, submission: Submission, node: u32) -> Queue {
    queue_of(device, name, Priority::Normal, submission, node)
}

/// The same of any priority.
pub(crate) fn queue_of(
    device: &Device,
    name: &str,
    priority: Priority,
    submission: Submission,
    node: u32,
) -> Queue {
    let desc = QueueDesc {
        name: name.to_owned(),
        priority,
        node: Some(node),
        ..QueueDesc::new(CommandListType::Copy, submission)
    };
    device.create_queue(desc).expect("a queue")
}

/// A hardware context on engine 0 with a kernel-mode queue.
pub(crate) fn hw_context(kernel: &dyn Kernel, device: Handle) -> (Handle, HwQueue) {
    let args = CreateHwContext { device, node_ordinal: 0, engine_affinity: 0 };
    let hw_context = kernel.create_hw_context(args).expect("a context");
    let (user_mode_submission, priority) = (false, Priority::Normal);
    let args = CreateHwQueue { hw_context, user_mode_submission, priority, tag: 0 };
    (hw_context, kernel.create_hw_queue(args).expect("a queue"))
}

/// Bytes that engines reach, and where.
pub(crate) fn allocate_bytes(kernel: &dyn Kernel, device: Handle, bytes: u64) -> (Bulk, u64) {
    let args = CreateAllocation {
        device,
        bytes,
        kind: AllocationKind::Bulk,
        placement: Placement::System,
    };
    let made = kernel.create_allocation(args).expect("memory");
    let AllocationMemory::Bulk(memory) = made.memory else { panic!("bytes were asked for") };
    (memory, made.gpu_va)
}

/// A command buffer for a kernel-mode hardware queue, to be submitted.
pub(crate) fn command_buffer(
    kernel: &dyn Kernel,
    device: Handle,
    queue: &HwQueue,
    progress_fence_id: u64,
    commands: &[Command],
) -> SubmitCommandToHwQueue {
    let mut writer = CommandWriter::new();
    commands.iter().for_each(|command| writer.push(command));
    let (memory, commands_gpu_va) = allocate_bytes(kernel, device, writer.bytes());
    memory.write(0, &writer.to_bytes()).expect("it was made for them");
    SubmitCommandToHwQueue {
        hw_queue: queue.handle,
        progress_fence_id,
        commands_gpu_va,
        command_bytes: writer.bytes() as u32,
    }
}

/// Gives a command buffer to a kernel-mode hardware queue.
pub(crate) fn submit_commands(
    kernel: &dyn Kernel,
    device: Handle,
    queue: &HwQueue,
    progress_fence_id: u64,
    commands: &[Command],
) {
    let args = command_buffer(kernel, device, queue, progress_fence_id, commands);
    kernel.submit_command_to_hw_queue(args).expect("a submission");
}

impl World {
    pub(crate) fn new(platform: &Platform, setting: Setting) -> World {
        let config = setting.config(platform);
        let (probe, monitored, watched) = (Probe::new(), Monitored::default(), Watched::default());
        let looked_at = watched.clone();
        let first = FirstDoorbell::default();
        let first_doorbell = first.clone();
        let left_out = Omission::new(setting.left_out);
        let (seen, published, omission) = (probe.clone(), monitored.clone(), left_out.clone());
        let machine = Machine::builder(platform).reference_behind(config, |inner| {
            let names_queues = setting.names_all_queues.then(QueuesMade::default);
            Arc::new(Seam {
                platform: platform.clone(),
                inner,
                probe: seen,
                monitored: published,
                watched: looked_at,
                left_out: omission,
                names_queues,
                first: first_doorbell,
                told_again: setting.first_doorbell_lost,
                routine: Routine::new(platform),
                late_end: Default::default(),
            })
        });
        let machine = machine.start().expect("the machine of a scenario starts");
        let mut device = machine.device(setting.device_options()).expect("a device");
        if platform.tracing() {
            device = device.with_lane(platform.lane(LaneKind::CpuThread, "app", "main"));
        }
        World { device, machine, probe, monitored, watched, first, left_out }
    }

    /// The driver leaves something out from here on; only for a world that leaves out nothing so
    /// far.
    pub(crate) fn leave_out(&self, left_out: LeftOut) {
        self.left_out.begin(left_out);
    }

    /// A queue on engine `node`.
    pub(crate) fn queue(&self, name: &str, submission: Submission, node: u32) -> Queue {
        queue_on(&self.device, name, submission, node)
    }

    /// Packets of `queues` that engines have completed. The kernel's own are not among them.
    pub(crate) fn packets_of(&self, queues: &[&Queue]) -> u64 {
        let tags = self.machine.gpu().stats().tags;
        let of = |queue: &&Queue| tags.get(&queue.tag()).map_or(0, |tag| tag.packets);
        queues.iter().map(of).sum()
    }

    /// A fence at 0.
    pub(crate) fn fence(&self, name: &str) -> Fence {
        self.device.create_fence(name, 0).expect("a fence")
    }

    /// A list that does nothing, for its completion.
    pub(crate) fn empty_list(&self) -> ClosedList {
        let mut list = self.device.create_command_list(CommandListType::Copy);
        list.label("nothing").expect("a label");
        list.close().expect("a list")
    }

    /// What every run of every scenario must keep: the driver kept its contract, and the kernel saw
    /// no broken one.
    pub(crate) fn must_be_sound(&self, end: &mut Verdict<'_>) {
        end.always("the driver keeps its contract", self.machine.driver().violations().is_empty());
        end.always(
            "the kernel sees no broken contract",
            self.machine.adapter().bug_checks().is_empty(),
        );
        // The timer's agent releases a waiter that was missed, and reports the driver for it.
        end.always(
            "the kernel reports no fault of the driver",
            self.machine.adapter().driver_faults().is_empty(),
        );
        end.always("no destroy call is refused", self.machine.refused_destroys().is_empty());
    }
}

/// Plants the fault that stands for the bug, if one does.
pub(crate) fn plant(
    platform: &Platform,
    bug: Option<&'static str>,
    faults: &[(&'static str, &'static str)],
) {
    let fault = faults.iter().find(|(name, _)| Some(*name) == bug);
    fault.into_iter().for_each(|(_, fault)| platform.plant(fault));
}

/// Sleeps until nothing else in the machine can move: under exploration time passes only then.
pub(crate) fn until_quiet(platform: &Platform) {
    platform.sleep_until(platform.now().after(1));
}

/// For calls of the run. A call that ends because the machine stopped says nothing: who was blocked
/// is the failure.
pub(crate) fn ends_well(call: Result<(), Error>) {
    match call {
        Ok(()) | Err(Error::Stopped) => {}
        Err(error) => panic!("{error}"),
    }
}
