//! Costs of the steps of the stack in virtual time, each with its source and its range.
//!
//! - Nominal values are for a desktop machine with a discrete GPU. Low and high bound what is
//!   reported for such machines. A comparison of submission models holds where its ranking is the
//!   same at both ends.
//! - Sources: published figures, the recorded A100 traces, and `docs/performance.md`.
//! - Modelled work takes as long as the workload says; [`WORK`] is the rate of computed work.
//! - Entry points: [`CostModel`], [`COSTS`], [`import_options_for`].

use tidegate_platform::{Step, StepCosts};

use tidegate_workload::model::Submission;
use tidegate_workload::recording::{ImportOptions, ImportReport};

/// One constant of the model. Times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// The step that it prices.
    pub step: Step,
    /// What it costs on an ordinary machine.
    pub value_ns: u64,
    /// The least that is reported.
    pub low_ns: u64,
    /// The most that is reported.
    pub high_ns: u64,
    /// Where the numbers come from.
    pub source: &'static str,
}

const fn cost(step: Step, value_ns: u64, low_ns: u64, high_ns: u64, source: &'static str) -> Cost {
    Cost { step, value_ns, low_ns, high_ns, source }
}

/// Every step with its price.
pub const COSTS: [Cost; Step::COUNT] = [
    cost(
        Step::KernelCall,
        1_200,
        300,
        3_000,
        "a null system call is 85 ns here (docs/performance.md); a graphics call adds handle look-up, locks and the \
         copy of its arguments, and mitigations on older processors triple the entry",
    ),
    cost(
        Step::DdiCall,
        300,
        50,
        1_000,
        "an indirect call with argument checks in the kernel, between a function call and a light system call",
    ),
    cost(
        Step::VidSchDispatch,
        1_500,
        500,
        4_000,
        "one decision of a software scheduler under its lock; an ordered list gives a waiter in 0.3 to 1.3 us here \
         (docs/performance.md, rows of the herd)",
    ),
    cost(
        Step::PacketDecode,
        500,
        100,
        1_500,
        "front end of a GPU; three quarters of the distances between queued kernels in the recorded A100 traces are \
         1 to 4 us, of which this is the part before the work",
    ),
    cost(
        Step::RingFetch,
        700,
        300,
        1_500,
        "one read over PCIe: about 0.5 to 1 us for 64 bytes (Neugebauer et al., Understanding PCIe performance for \
         end host networking, SIGCOMM 2018)",
    ),
    cost(
        Step::DoorbellStore,
        150,
        50,
        500,
        "an uncached posted write from the processor; it retires long before it arrives",
    ),
    cost(
        Step::DoorbellToFetch,
        1_000,
        500,
        2_500,
        "half a PCIe round trip (SIGCOMM 2018, as above) and the scheduling firmware's read of its run list",
    ),
    cost(
        Step::FenceStore,
        400,
        100,
        1_000,
        "a posted write of the GPU with a barrier; the store itself is 7 ns on this processor (docs/performance.md), \
         the rest is the way over PCIe",
    ),
    cost(
        Step::GpuWaitUnblock,
        1_000,
        300,
        3_000,
        "an event between two streams without the processor: 1 us where the recorded A100 traces show one, 1 to 4 us \
         from kernel to kernel on one stream",
    ),
    cost(
        Step::InterruptDelivery,
        2_500,
        1_000,
        6_000,
        "message-signalled interrupt to its routine: 1 to 2 us on an awake core, more from a sleep state",
    ),
    cost(
        Step::Dpc,
        2_500,
        1_000,
        8_000,
        "deferred routine after the interrupt; Microsoft's guidance bounds it at 100 us, a graphics driver's usual \
         run is single microseconds",
    ),
    cost(
        Step::ThreadWake,
        12_000,
        1_500,
        30_000,
        "futex wake to run: 1.5 us on the same processor and 19 to 21 us on another one (docs/performance.md)",
    ),
    cost(
        Step::UmdEncode,
        250,
        50,
        1_000,
        "a user-mode driver writes one command; streaming a packet into a ring is 10 ns here (docs/performance.md), \
         state and residency tracking are the rest",
    ),
    cost(
        Step::DmaCompletion,
        1_000,
        300,
        3_000,
        "the engine stores its progress fence and reports the packet, as FenceStore with the way to the interrupt",
    ),
    cost(
        Step::NotifyWorkSubmission,
        2_000,
        800,
        5_000,
        "a kernel call that looks up the queue and has the driver read its ring",
    ),
    cost(
        Step::ConnectDoorbell,
        15_000,
        5_000,
        50_000,
        "a kernel call that may disconnect another queue and changes a mapping; a request with a new shared mapping \
         is 7 to 49 us here (docs/performance.md)",
    ),
    cost(
        Step::MapWritePerKib,
        100,
        60,
        400,
        "copying at 5.8 to 13 GB/s into cached memory (docs/performance.md); uncached write-combined memory is \
         slower",
    ),
    cost(
        Step::ContextSwitch,
        20_000,
        5_000,
        100_000,
        "NVIDIA's Pascal white paper gives less than 100 us for a switch with pre-emption; idle engines switch in a \
         fraction of that",
    ),
];

/// How long real work takes on a virtual machine, where computing takes no time by itself. The same
/// for every submission model, so no ranking hangs on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkPrice {
    /// Picoseconds to copy or fill one byte.
    pub byte_ps: u64,
    /// Nanoseconds for one thread group of a dispatch or one tile of a draw.
    pub group_ns: u64,
    /// Where the numbers come from.
    pub source: &'static str,
}

/// What work costs.
pub const WORK: WorkPrice = WorkPrice {
    byte_ps: 40,
    group_ns: 500,
    source: "40 ps a byte are 25 GB/s, what PCIe 4.0 x16 carries after its overhead (32 GB/s raw); 500 ns a group is the \
             order of 100,000 operations on one multiprocessor at 1.4 GHz with 128 lanes",
};

/// A whole table of prices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostModel {
    /// Its name in reports.
    pub name: &'static str,
    /// The price of each step.
    pub steps: StepCosts,
}

impl CostModel {
    fn of(name: &'static str, price: fn(&Cost) -> u64) -> Self {
        let steps =
            COSTS.iter().fold(StepCosts::free(), |steps, cost| steps.with(cost.step, price(cost)));
        Self { name, steps }
    }

    /// The ordinary machine.
    pub fn nominal() -> Self {
        Self::of("nominal", |cost| cost.value_ns)
    }

    /// Every step at the least that is reported.
    pub fn low() -> Self {
        Self::of("low", |cost| cost.low_ns)
    }

    /// Every step at the most that is reported.
    pub fn high() -> Self {
        Self::of("high", |cost| cost.high_ns)
    }

    /// This machine with another price for one step, to find the steps that a ranking depends on.
    pub fn but(&self, step: Step, ns: u64) -> Self {
        let mut model = self.clone();
        model.steps = model.steps.with(step, ns);
        model.name = step.name();
        model
    }

    /// The machine on which a recording was made, as far as the recording says: the steps between a
    /// submission and the start of its work on an idle engine, and those between two pieces of
    /// work, take as long together as the recorded medians. Each step stays in its range; what a
    /// recording does not say stays nominal. `report` is of a reading that took nothing off.
    pub fn calibrated(report: &ImportReport) -> Self {
        let mut model = Self::nominal();
        model.name = "calibrated";
        let between = [Step::FenceStore, Step::RingFetch, Step::PacketDecode];
        model.fit(&between, report.median_turnaround_ns);
        // Fetch and decode are part of both distances; the doorbell only of the first.
        let rest = model.ns(Step::RingFetch) + model.ns(Step::PacketDecode);
        model.fit(&[Step::DoorbellToFetch], report.median_launch_ns.saturating_sub(rest));
        model
    }

    /// Makes steps take `target_ns` together, in proportion to their nominal prices and each within
    /// its range. A target of 0 is unknown.
    fn fit(&mut self, steps: &[Step], target_ns: u64) {
        let costs = || COSTS.iter().filter(|cost| steps.contains(&cost.step));
        let nominal: u64 = costs().map(|cost| cost.value_ns).sum();
        if target_ns == 0 || nominal == 0 {
            return;
        }
        for cost in costs() {
            let wanted = u128::from(cost.value_ns) * u128::from(target_ns) / u128::from(nominal);
            let ns = u64::try_from(wanted).unwrap_or(u64::MAX).clamp(cost.low_ns, cost.high_ns);
            self.steps = std::mem::replace(&mut self.steps, StepCosts::free()).with(cost.step, ns);
        }
    }

    /// The price of a step.
    pub fn ns(&self, step: Step) -> u64 {
        self.steps.ns(step)
    }
}

/// How a recording is read that is taken as made under `model`, for replay on a machine of these
/// prices: what that machine takes by itself under that model is taken off the recorded distances,
/// so that it is not counted twice.
pub fn import_options_for(costs: &CostModel, model: Submission) -> ImportOptions {
    let sum = |steps: &[Step]| -> u64 { steps.iter().map(|step| costs.ns(*step)).sum() };
    let command_ns = costs.ns(Step::PacketDecode);
    let interrupt_ns = sum(&[Step::InterruptDelivery, Step::Dpc]);
    let scheduler_ns = costs.ns(Step::VidSchDispatch) + 3 * costs.ns(Step::DdiCall);
    // How long a submission keeps its thread.
    let call_ns = match model {
        Submission::User => sum(&[Step::UmdEncode, Step::DoorbellStore]),
        Submission::Packet | Submission::Hardware => {
            sum(&[Step::UmdEncode, Step::KernelCall, Step::VidSchDispatch, Step::DdiCall])
        }
    };
    // From the end of one piece of work to the start of the next on a queue. A packet is dispatched
    // by the scheduler when the one before it has interrupted.
    let turnaround_ns = match model {
        Submission::User | Submission::Hardware => {
            sum(&[Step::FenceStore, Step::RingFetch]) + command_ns
        }
        Submission::Packet => {
            sum(&[Step::DmaCompletion, Step::RingFetch]) + interrupt_ns + scheduler_ns + command_ns
        }
    };
    // From the end of work to the value behind it. The engine stores it for a queue of user mode;
    // else the end of the work interrupts, and VidSch makes the signal.
    let seen_ns = match model {
        Submission::User => sum(&[Step::RingFetch, Step::FenceStore]),
        Submission::Hardware => costs.ns(Step::FenceStore) + interrupt_ns + scheduler_ns,
        Submission::Packet => costs.ns(Step::DmaCompletion) + interrupt_ns + scheduler_ns,
    };
    // From the value to the return of a thread that sleeps; only a store of the engine has still to
    // interrupt.
    let woken_ns = match model {
        Submission::User => interrupt_ns + 3 * costs.ns(Step::DdiCall),
        Submission::Packet | Submission::Hardware => 0,
    };
    ImportOptions {
        launch_ns: call_ns + sum(&[Step::DoorbellToFetch, Step::RingFetch]) + command_ns,
        turnaround_ns,
        wake_ns: seen_ns + woken_ns + costs.ns(Step::ThreadWake),
        seen_ns,
        call_ns,
        command_ns,
        ..ImportOptions::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_has_one_price_a_range_and_a_source() {
        for step in Step::ALL {
            let of_step: Vec<&Cost> = COSTS.iter().filter(|cost| cost.step == *step).collect();
            assert_eq!(of_step.len(), 1, "{}", step.name());
            let cost = of_step[0];
            assert!(cost.low_ns < cost.value_ns && cost.value_ns < cost.high_ns, "{}", step.name());
            assert!(cost.source.len() > 20, "{}", step.name());
        }
    }

    #[test]
    fn a_machine_without_costs_takes_nothing_off_a_recording() {
        let free = CostModel { name: "free", steps: StepCosts::free() };
        for model in Submission::ALL {
            assert_eq!(import_options_for(&free, model), ImportOptions::default());
        }
    }

    #[test]
    fn a_recording_loses_what_the_machine_takes_under_the_model_that_it_was_made_under() {
        let of = |model| import_options_for(&CostModel::nominal(), model);
        let hardware = of(Submission::Hardware);
        assert_eq!((hardware.call_ns, hardware.launch_ns), (3_250, 5_450));
        assert_eq!((hardware.turnaround_ns, hardware.command_ns), (1_600, 500));
        assert_eq!((hardware.seen_ns, hardware.wake_ns), (7_800, 19_800));
        let user = of(Submission::User);
        assert_eq!((user.call_ns, user.launch_ns), (400, 2_600), "no kernel call");
        assert_eq!((user.turnaround_ns, user.seen_ns, user.wake_ns), (1_600, 1_100, 19_000));
        let packet = of(Submission::Packet);
        assert_eq!((packet.call_ns, packet.turnaround_ns), (3_250, 9_600));
    }

    #[test]
    fn a_machine_is_calibrated_by_what_a_recording_says_within_the_ranges() {
        let report = |median_launch_ns, median_turnaround_ns| {
            let report =
                ImportReport { median_launch_ns, median_turnaround_ns, ..ImportReport::default() };
            CostModel::calibrated(&report)
        };
        let of = |model: &CostModel| import_options_for(model, Submission::User);
        let same = report(0, 0);
        assert_eq!(same.steps, CostModel::nominal().steps, "a recording that says nothing");
        let slower = report(3_400, 2_400);
        assert_eq!(of(&slower).turnaround_ns, 2_400);
        assert_eq!(of(&slower).launch_ns - of(&slower).call_ns, 3_400);
        assert_eq!(slower.ns(Step::ThreadWake), CostModel::nominal().ns(Step::ThreadWake));
        let bounded = report(1_000_000, 1);
        assert_eq!(of(&bounded).turnaround_ns, 100 + 300 + 100, "the least of each range");
        assert_eq!(bounded.ns(Step::DoorbellToFetch), 2_500, "the most of its range");
    }

    #[test]
    fn models_take_their_column() {
        let step = Step::ThreadWake;
        assert_eq!(CostModel::nominal().ns(step), 12_000);
        assert_eq!(CostModel::low().ns(step), 1_500);
        assert_eq!(CostModel::high().ns(step), 30_000);
        assert_eq!(CostModel::nominal().but(step, 5).ns(step), 5);
        assert_eq!(CostModel::nominal().but(step, 5).ns(Step::Dpc), 2_500);
    }
}
