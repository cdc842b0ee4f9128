//! An order of the driver's steps in a situation, as a line of the explorer. An example is
//! `packets+inline/sc/bounded-2:3kA-1x2y`. A choice is a step; `A` stops the running agent there.
//! The checksum is of all steps of the run.

use crate::BadInput;
use tidegate::explorer::{MemoryModel, Schedule, StrategyKind};
use tidegate_ddi_c::StepSeen;

/// A situation, and the numbers of the steps at which agents are stopped.
#[derive(Clone)]
pub(super) struct Order {
    pub(super) situation: String,
    /// Whether interrupts run on the engines that raise them.
    pub(super) is_inline: bool,
    pub(super) switches: Vec<u64>,
}

/// The word after a situation whose interrupts run on the engines.
const INLINE: &str = "inline";

/// The most steps of a run that a line can name.
const MOST_STEPS: u64 = 4_000_000;

impl Order {
    /// Returns the line, with a checksum of the run's steps if they are known.
    pub(super) fn line(&self, seen: Option<&[StepSeen]>) -> String {
        let steps = self.switches.last().map_or(0, |last| last.min(&MOST_STEPS) + 1);
        let choices = (0..steps).map(|step| u16::from(self.switches.contains(&step)));
        let schedule = Schedule {
            scenario: self.situation.clone(),
            bug: self.is_inline.then(|| INLINE.to_owned()),
            // A driver's stores are plain stores of this machine, and one agent runs at a time.
            model: MemoryModel::SequentiallyConsistent,
            strategy: StrategyKind::Bounded(self.switches.len() as u32),
            choices: choices.collect(),
            checksum: seen.map(checksum),
        };
        schedule.to_string()
    }

    /// Reads a line. Returns the order and the checksum.
    pub(super) fn parse(line: &str) -> Result<(Order, Option<u32>), BadInput> {
        let schedule: Schedule =
            line.parse().map_err(|error| BadInput(format!("--schedule: {error}")))?;
        let situation = tidegate_conform::situation(&schedule.scenario)
            .map_err(|error| BadInput(format!("--schedule: {error}")))?;
        let is_inline = match schedule.bug.as_deref() {
            None => false,
            Some(INLINE) => true,
            Some(other) => {
                return Err(BadInput(format!("--schedule: '{other}' is not '{INLINE}'")));
            }
        };
        let stops = |(step, choice): (usize, &u16)| (*choice != 0).then_some(step as u64);
        let switches = schedule.choices.iter().enumerate().filter_map(stops).collect();
        let order = Order { situation: situation.name.into_owned(), is_inline, switches };
        Ok((order, schedule.checksum))
    }
}

/// FNV-1a of all steps. Agents are counted in the order of their first steps.
pub(super) fn checksum(seen: &[StepSeen]) -> u32 {
    let mut agents: Vec<u64> = Vec::new();
    let words = seen.iter().flat_map(|step| {
        let known = agents.iter().position(|agent| *agent == step.agent);
        let agent = known.unwrap_or_else(|| {
            agents.push(step.agent);
            agents.len() - 1
        });
        [agent as u64, step.place]
    });
    let sum = words
        .fold(0xCBF2_9CE4_8422_2325_u64, |sum, word| (sum ^ word).wrapping_mul(0x100_0000_01B3));
    (sum >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_again() {
        let situation = "packets-lost".to_owned();
        let order = Order { situation, is_inline: true, switches: vec![40, 1296] };
        let seen = [StepSeen { agent: 3, place: 9 }, StepSeen { agent: 4, place: 9 }];
        let line = order.line(Some(&seen));
        let (again, sum) = Order::parse(&line).ok().unwrap();
        assert_eq!(again.line(Some(&seen)), line);
        assert_eq!((again.switches, sum), (vec![40, 1296], Some(checksum(&seen))));
        assert!(again.is_inline && line.starts_with("packets-lost+inline/sc/bounded-2:"), "{line}");
        let (none, sum) = Order::parse("packets/sc/bounded-0:").ok().unwrap();
        assert_eq!((none.switches, none.is_inline, sum), (Vec::new(), false, None));
        assert!(Order::parse("nowhere/sc/bounded-0:").is_err());
        assert!(Order::parse("packets+other/sc/bounded-0:").is_err());
    }

    #[test]
    fn a_checksum_is_of_places_and_agents_in_order() {
        fn of<const N: usize>(agents: [u64; N], place: u64) -> u32 {
            checksum(&agents.map(|agent| StepSeen { agent, place }))
        }
        assert_eq!(of([3, 4], 1), of([7, 9], 1), "numbers of agents differ between processes");
        assert_ne!(of([3, 4], 1), of([3, 3], 1));
        assert_ne!(of([3, 4], 1), of([3, 4], 2));
        assert_ne!(of([3, 4, 4], 1), of([3, 4, 5], 1));
    }
}
