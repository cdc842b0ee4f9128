//! Bounds of virtual time.
//!
//! They are sums over the program: all work of the machine on one engine, every rest, a recovery
//! for each step that may cause one, and some time for each step. What waits for ever, or for a
//! share that it does not get, takes longer.
//!
//! A `prompt` beside floods has the share of its kind of queue. Packets: NORMAL gets one quantum in
//! ten (PRE-072). Hardware and user-mode queues: processes share an engine evenly (HS-006), equal
//! queues delay each other by a time slice (HS-021), and the packets of a node count as a process.

use crate::operation::Operation;
use crate::program::Program;
use crate::setup::AdapterSetup;
use crate::words::{Band, Model, Surface};
use std::collections::BTreeSet;
use tidegate::Platform;

/// The time of a step and of a packet without its work. Pages and power states are in it.
const STEP_NS: u64 = 2_000_000;
const PACKET_NS: u64 = 200_000;
/// The time of a preemption at the end of a quantum, with the time of the context that comes back.
const SWITCH_NS: u64 = 200_000;
/// The time slice of hardware and user-mode queues, and the process quantum (decision 28).
const SLICE_NS: u64 = 1_000_000;
/// From the start of work that hangs to the end of its recovery: three times TdrDelay (PRE-102),
/// and a reset.
const HANG_NS: u64 = 3 * 2_000_000_000 + 1_000_000_000;
/// What a stop of the process costs beside its length: up to three eighths of TdrDelay of each wait
/// of a recovery are counted again.
const STOP_NS: u64 = 1_000_000_000;
/// Another recovery: TdrDelay for an answer that does not come.
const RECOVERY_NS: u64 = 2_500_000_000;

/// The bounds of a run. `None` outside of virtual time, and where the program makes no promise.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// From the first step to the end of the last object.
    pub(super) run_ns: Option<u64>,
    /// A [`Operation::Prompt`] of packets beside floods of higher bands.
    packet_ns: Option<u64>,
    /// A [`Operation::Prompt`] of a hardware or user-mode queue beside floods of equal queues.
    hardware_ns: Option<u64>,
}

impl Bounds {
    /// Returns the bound of a [`Operation::Prompt`] on a queue of the model.
    pub(super) fn prompt_ns(&self, model: Model) -> Option<u64> {
        match model {
            Model::Packet => self.packet_ns,
            Model::Hardware | Model::User => self.hardware_ns,
        }
    }

    pub(super) fn of(program: &Program, platform: &Platform) -> Bounds {
        if !platform.models_time() {
            return Bounds { run_ns: None, packet_ns: None, hardware_ns: None };
        }
        // Only packets of HIGH queues at the call surface are floods of a higher band.
        let high = program.steps.iter().filter_map(|step| match step.operation {
            Operation::CreateQueue { queue, surface: Surface::Raw, band: Band::High, .. } => {
                Some(queue)
            }
            _ => None,
        });
        let high: BTreeSet<_> = high.collect();
        let contexts = program.steps.iter().filter_map(|step| match step.operation {
            Operation::CreateQueue { queue, model: Model::Packet, .. } => Some(queue),
            _ => None,
        });
        let contexts: BTreeSet<_> = contexts.collect();
        let (mut normal, mut longest, mut packets) = (0, 0, 0);
        let (mut rests, mut recoveries) = (0, 0);
        let (mut executes, mut queues) = (0, 0);
        // Processes that want an engine for long, and not by packets.
        let mut rivals = BTreeSet::new();
        for step in &program.steps {
            match step.operation {
                Operation::Execute { queue, ns } | Operation::Prompt { queue, ns } => {
                    executes += ns;
                    longest = longest.max(ns);
                    normal += if high.contains(&queue) { 0 } else { ns };
                }
                Operation::Flood { queue, count, ns, .. } => {
                    packets += count;
                    if contexts.contains(&queue) {
                        longest = longest.max(ns);
                        normal += if high.contains(&queue) { 0 } else { count * ns };
                    } else {
                        rivals.insert(program.process_of(step.thread));
                    }
                }
                Operation::CreateQueue { .. } => queues += 1,
                Operation::Rest { ns } => rests += ns,
                Operation::StopProcess { ns } => rests += ns + STOP_NS,
                // One that meets a packet which is not preempted waits for it.
                Operation::Suspend { ns } | Operation::SleepResume { ns } => rests += 2 * ns,
                Operation::Vsync {} | Operation::Flip { .. } => rests += 10_000_000,
                Operation::Hang { .. } => recoveries += HANG_NS,
                Operation::ResetEngine { .. }
                | Operation::ResetAdapter {}
                | Operation::RemoveAdapter {}
                | Operation::DestroyDevice {}
                | Operation::MarkDevice { .. }
                | Operation::Kill { .. } => recoveries += RECOVERY_NS,
                _ => {}
            }
        }
        let slack = STEP_NS * (10 + program.steps.len() as u64) + PACKET_NS * packets;
        // Work of equal rank takes turns for a quantum or a slice each.
        let quanta = || program.adapters.iter().map(|adapter| adapter.quantum_ns().max(1));
        let (quantum, shortest) = (quanta().max(), quanta().min().unwrap_or(1).min(SLICE_NS));
        let with_switches = |ns: u64| ns + ns.div_ceil(shortest) * SWITCH_NS;
        let (work, normal) = (with_switches(program.work_ns()), with_switches(normal));
        // NORMAL gets one quantum in ten (PRE-072), from the end of the first tenth on at the
        // latest.
        let turn = quantum.unwrap_or(0) + 2 * SWITCH_NS;
        // Each process has its turn, and the packets of the node have theirs.
        let share = 10 * (normal + 2 * turn + longest) * (1 + rivals.len() as u64);
        let processes = program.processes.len() as u64 + 1;
        // Inside of a process queues of the API's HIGH go first. Floods are never of those.
        // An engine leaves a packet in its middle only with a save area.
        let can_leave = |adapter: &AdapterSetup| adapter.has_save_areas();
        let kept = if program.adapters.iter().all(can_leave) { 0 } else { longest };
        let round = processes * (SLICE_NS + SWITCH_NS) + 2 * kept;
        let slices = (queues + 1) * round + executes;
        let bound = |ns: u64| (recoveries == 0).then_some(ns + rests + slack);
        Bounds {
            run_ns: Some(work + rests + recoveries + slack),
            packet_ns: bound(share),
            hardware_ns: bound(slices),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::platform::StepCosts;

    const MS: u64 = 1_000_000;
    const TWO: &str = "process a0 steady; process a0 steady; thread p0; thread p1; ";

    /// The bounds of a run, of a prompt of packets, and of one of hardware or user-mode queues.
    fn bounds(text: &str) -> [Option<u64>; 3] {
        let program: Program = text.parse().unwrap();
        let bounds = Bounds::of(&program, &Platform::virtual_time(StepCosts::free()));
        assert_eq!(bounds.prompt_ns(Model::Hardware), bounds.prompt_ns(Model::User));
        [bounds.run_ns, bounds.prompt_ns(Model::Packet), bounds.prompt_ns(Model::User)]
    }

    // Worked out by hand. Steps: 7 and 10 of 2 ms, 5 packets of 0.2 ms: 35 ms. Work: 26 ms with 26
    // switches of 0.2 ms. NORMAL packets: 5 ms with 5 switches. HIGH work is not of their share. A
    // share is ten times that, two turns of a quantum and two switches, and the longest packet.
    // Slices: three rounds of two processes, and the work that is awaited.
    #[test]
    fn a_prompt_of_packets_has_a_tenth_beside_a_flood_of_a_higher_band() {
        let text = format!(
            "adapter standard; {TWO} t0 queue q0 raw packet copy normal; \
             t0 queue q1 raw packet copy high; t0 execute q0 3000000; t0 prompt q0 2000000; \
             t0 execute q1 1000000; t1 flood q1 5 4000000 1; t0 rest 700"
        );
        let (slack, rests) = (35 * MS, 700);
        let share = 10 * (6 * MS + 2 * 10_400_000 + 4 * MS);
        let slices = 3 * 3 * 1_200_000 + 6 * MS;
        let bounds = bounds(&text);
        assert_eq!(bounds[0], Some(31_200_000 + rests + slack));
        assert_eq!(bounds[1..], [share, slices].map(|ns| Some(ns + rests + slack)));
    }

    // Quanta of 50 us: the work of 6.4 ms has 128 switches, the NORMAL packet of 0.4 ms has 8. The
    // longest quantum is the other adapter's. Another process floods a hardware queue. A packet
    // cannot be left on an adapter without save areas.
    #[test]
    fn a_prompt_beside_another_process_has_half_and_waits_for_a_packet_that_is_not_left() {
        let text = format!(
            "adapter standard quantum-ns=50000 local-memory-kib=128; adapter standard; {TWO} \
             t0 queue q0 api packet copy high; t1 queue q1 raw hardware copy normal; \
             t1 flood q1 3 2000000 0; t0 execute q0 400000; t0 suspend 100000; \
             t0 sleep-resume 50000; t0 vsync; t0 flip 1"
        );
        let (slack, rests) = (36 * MS + 600_000, 20 * MS + 300_000);
        let share = 10 * (2 * MS + 2 * 10_400_000 + 400_000) * 2;
        let slices = 3 * (3 * 1_200_000 + 2 * 400_000) + 400_000;
        let bounds = bounds(&text);
        assert_eq!(bounds[0], Some(32 * MS + rests + slack));
        assert_eq!(bounds[1..], [share, slices].map(|ns| Some(ns + rests + slack)));
    }

    #[test]
    fn a_step_that_may_cause_a_recovery_leaves_its_time_to_the_run_and_no_promise() {
        let with = |step: &str| {
            let queue = "t0 queue q0 raw user copy normal";
            bounds(&format!("adapter standard; {TWO} {queue}; t0 {step}"))
        };
        let without = 24 * MS;
        assert_eq!(with("rest 0")[0], Some(without));
        assert!(with("rest 0")[1..].iter().all(Option::is_some));
        for (step, ns) in [
            ("hang q0", 7_000 * MS),
            ("reset-engine copy", 2_500 * MS),
            ("reset-adapter", 2_500 * MS),
            ("remove-adapter", 2_500 * MS),
            ("destroy-device", 2_500 * MS),
            ("mark-device p1", 2_500 * MS),
            ("kill p1", 2_500 * MS),
        ] {
            assert_eq!(with(step), [Some(without + ns), None, None], "{step}");
        }
    }

    #[test]
    fn only_virtual_time_is_bounded() {
        let program: Program = format!("adapter standard; {TWO} t0 rest 5").parse().unwrap();
        let bounds = Bounds::of(&program, &Platform::host());
        assert_eq!((bounds.run_ns, bounds.packet_ns, bounds.hardware_ns), (None, None, None));
    }
}
