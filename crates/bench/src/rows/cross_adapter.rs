//! Measures links from one adapter to another: a chain over a fence that both have open, in which
//! each adapter's queue waits for the value that the other adapter's queue signals. The kernel
//! propagates each signal by its interrupts, or the GPUs signal each other.
//!
//! The floor of GPU-to-GPU links is the same chain between two engines of one adapter. The floor of
//! the kernel's links is the GPU-to-GPU chain. No thread is bound to a processor, because there are
//! more threads than processors.

use super::chain::Ends;
use crate::aim::{Aimed, row};
use tidegate::d3d12::{
    CommandListType, Device, DeviceOptions, Fence, FenceDesc, FenceFlags, Queue, QueueDesc,
};
use tidegate::ddi::PeerSignalCaps;
use tidegate::{Machine, MachineConfig, Platform, Submission};
use tidegate_measure::{Count, CpuMeter, Found, Measured, Samples, floor};

/// Rows of links between adapters.
pub(super) const ROWS: &[Aimed] = &[
    row(
        "cross_adapter_gpu_to_gpu",
        "one wait and signal of a chain that alternates between two adapters whose GPUs signal each other",
        floor("same_adapter_link", || measure(Form::SameAdapter).map(|m| m.samples)),
        |_| measure(Form::GpuToGpu),
    )
    .within(1.5),
    row(
        "cross_adapter_by_cpu",
        "the same where the kernel propagates: interrupt, deferred routine, relay to the other adapter",
        floor("gpu_to_gpu_link", || measure(Form::GpuToGpu).map(|m| m.samples)),
        |_| measure(Form::ByCpu),
    )
    .within(10.0),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Two adapters; the kernel propagates.
    ByCpu,
    /// Two adapters; the GPUs signal each other.
    GpuToGpu,
    /// One adapter with two service threads.
    SameAdapter,
}

const LINKS: u64 = 1_000;
const CHAINS: u64 = 8;

struct Chain {
    machine: Machine,
    ends: Ends,
    /// Of the first end's adapter; opens the chain.
    gate: Fence,
    /// Of the last link's adapter; says that the chain is over.
    mark: Fence,
}

impl Chain {
    fn new(platform: &Platform, form: Form) -> Found<Chain> {
        let peer = form == Form::GpuToGpu;
        let adapters = if form == Form::SameAdapter { 1 } else { 2 };
        let config = |index: usize| {
            let mut config = MachineConfig::standard(platform);
            config.gpu.lane_group = format!("GPU {index}");
            config.gpu.service_threads = 2 / adapters;
            config.driver.peer_signal =
                PeerSignalCaps { common_doorbell: peer, shared_fence_storage: peer };
            config
        };
        let builder = (0..adapters)
            .map(config)
            .fold(Machine::builder(platform), |machine, config| machine.reference(config));
        let machine = builder.start()?;
        let devices =
            [machine.device_on(0, options())?, machine.device_on(adapters - 1, options())?];
        let flags = match form {
            Form::SameAdapter => FenceFlags::SHARED,
            Form::ByCpu | Form::GpuToGpu => FenceFlags::SHARED | FenceFlags::SHARED_CROSS_ADAPTER,
        };
        let made = devices[0].create_fence_with(FenceDesc::new("chain").flags(flags))?;
        let handle = devices[0].create_shared_handle(&made)?;
        let opened = devices[1].open_shared_handle("chain", &handle)?;
        let ends = Ends([
            (queue(&devices[0], CommandListType::Compute)?, made),
            (queue(&devices[1], CommandListType::Copy)?, opened),
        ]);
        let gate = devices[0].create_fence("gate", 0)?;
        let mark = devices[((LINKS - 1) % 2) as usize].create_fence("mark", 0)?;
        Ok(Chain { machine, ends, gate, mark })
    }

    /// Queues a chain of links and opens it; returns when it is over.
    fn run(&self, number: u64) -> Found<()> {
        self.ends.at(0).0.wait(&self.gate, number + 1)?;
        (number * LINKS..(number + 1) * LINKS).try_for_each(|value| self.ends.link(value))?;
        Ok(self.ends.at(LINKS - 1).0.signal(&self.mark, number + 1)?)
    }

    /// Interrupts and relays so far.
    fn counted(&self) -> (u64, u64) {
        let adapters = 0..self.machine.adapter_count();
        adapters.fold((0, 0), |(interrupts, relays), index| {
            let (gpu, kernel) =
                (self.machine.gpu_at(index).stats(), self.machine.adapter_at(index).stats());
            (interrupts + gpu.interrupts_raised, relays + kernel.relays)
        })
    }
}

fn options() -> DeviceOptions {
    DeviceOptions {
        process_name: "bench".to_owned(),
        ring_slots: 4_096,
        ..DeviceOptions::default()
    }
}

fn queue(device: &Device, list_type: CommandListType) -> Found<Queue> {
    let desc = QueueDesc::new(list_type).submission(Submission::User);
    Ok(device.create_queue(desc)?)
}

fn measure(form: Form) -> Found<Measured> {
    let platform = Platform::host();
    let chain = Chain::new(&platform, form)?;
    let mut samples = Samples::default();
    let (mut interrupts, mut relays, mut cpu_ns) = (0, 0, 0.0);
    for number in 0..=CHAINS {
        chain.run(number)?;
        let (before, cpu, start) = (chain.counted(), CpuMeter::start(), platform.now().0);
        chain.gate.signal(number + 1)?;
        chain.mark.wait(number + 1)?;
        let (took, after) = (platform.now().0 - start, chain.counted());
        if number == 0 {
            continue;
        }
        samples.push_batch(took, LINKS);
        cpu_ns += cpu.per(LINKS * CHAINS);
        interrupts += after.0 - before.0;
        relays += after.1 - before.1;
    }
    let relays = match form {
        Form::ByCpu => Count::of("relays", relays),
        Form::GpuToGpu | Form::SameAdapter => Count::exactly("relays", relays, 0),
    };
    let counts =
        vec![Count::of("links", LINKS * CHAINS), Count::of("interrupts", interrupts), relays];
    Ok(Measured { counts, ..Measured::of(samples, cpu_ns) })
}
