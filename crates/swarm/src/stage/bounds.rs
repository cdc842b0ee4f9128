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
        let (mut normal, mut work, mut longest, mut packets) = (0, 0, 0, 0);
        let (mut rests, mut recoveries) = (0, 0);
        let (mut executes, mut queues) = (0, 0);
        // Processes that want an engine for long, and not by packets.
        let mut rivals = BTreeSet::new();
        for step in &program.steps {
            match step.operation {
                Operation::Execute { queue, ns } | Operation::Prompt { queue, ns } => {
                    work += ns;
                    executes += ns;
                    longest = longest.max(ns);
                    normal += if high.contains(&queue) { 0 } else { ns };
                }
                Operation::Flood { queue, count, ns, .. } => {
                    work += count * ns;
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
        let (work, normal) = (with_switches(work), with_switches(normal));
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
