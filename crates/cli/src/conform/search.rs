//! The search of `conform --explore`: at which steps of the driver's code agents are stopped.
//!
//! Order: the number of switches, plus the number of earlier runs that stopped agents at the same
//! places of the code. A second switch comes while the first agent is stopped, at a step of
//! another agent, and lets the first one go on.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use tidegate_ddi_c::StepSeen;

/// Runs to make. The lowest comes first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// Switches, and earlier candidates at the same places.
    cost: u64,
    number: u64,
    switches: Vec<u64>,
}

/// A search of one situation.
pub(super) struct Search {
    most: usize,
    candidates: BinaryHeap<Reverse<Candidate>>,
    /// How many candidates there were at these places.
    tried: BTreeMap<Vec<u64>, u64>,
    queued: u64,
}

impl Search {
    /// Begins with the run that has no switch.
    pub(super) fn new(most: u32) -> Search {
        let (candidates, tried) = (BinaryHeap::new(), BTreeMap::new());
        let mut search = Search { most: most as usize, candidates, tried, queued: 0 };
        search.queue(Vec::new(), Vec::new());
        search
    }

    fn queue(&mut self, switches: Vec<u64>, places: Vec<u64>) {
        let tried = self.tried.entry(places).or_default();
        let cost = switches.len() as u64 + *tried;
        *tried += 1;
        let number = self.queued;
        self.queued += 1;
        self.candidates.push(Reverse(Candidate { cost, number, switches }));
    }

    /// Returns the switches of the next run.
    pub(super) fn next(&mut self) -> Option<Vec<u64>> {
        self.candidates.pop().map(|Reverse(candidate)| candidate.switches)
    }

    /// A run with these switches has made these steps: adds the runs with one switch more.
    pub(super) fn ran(&mut self, switches: &[u64], seen: &[StepSeen]) {
        if switches.len() >= self.most {
            return;
        }
        let at = |step: &u64| seen.get(*step as usize);
        let places: Vec<u64> = switches.iter().filter_map(at).map(|step| step.place).collect();
        if places.len() < switches.len() {
            return;
        }
        let (first, stopped) = match switches.last() {
            None => (0, None),
            Some(last) => (*last as usize + 1, at(last).map(|step| step.agent)),
        };
        let rest = seen.iter().enumerate().skip(first);
        let until_it_goes_on = rest.take_while(|(_, step)| Some(step.agent) != stopped);
        for (number, step) in until_it_goes_on {
            let switches = [switches, &[number as u64]].concat();
            self.queue(switches, [&places[..], &[step.place]].concat());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(agent: u64, place: u64) -> StepSeen {
        StepSeen { agent, place }
    }

    #[test]
    fn new_places_come_before_places_that_were_tried() {
        let mut search = Search::new(1);
        assert_eq!(search.next(), Some(Vec::new()));
        search.ran(&[], &[step(1, 7), step(1, 7), step(2, 8), step(1, 7)]);
        let order: Vec<Vec<u64>> = std::iter::from_fn(|| search.next()).collect();
        assert_eq!(order, [[0], [2], [1], [3]]);
    }

    #[test]
    fn a_second_switch_is_at_another_agents_step_before_the_first_goes_on() {
        let mut search = Search::new(2);
        search.next();
        search.ran(&[], &[step(1, 7), step(2, 8)]);
        assert_eq!(search.next(), Some(vec![0]));
        search.ran(&[0], &[step(1, 7), step(2, 8), step(3, 9), step(1, 6), step(2, 5)]);
        let order: Vec<Vec<u64>> = std::iter::from_fn(|| search.next()).collect();
        assert_eq!(order, [vec![1], vec![0, 1], vec![0, 2]]);
        search.ran(&[0, 1], &[step(1, 7), step(2, 8), step(3, 9)]);
        assert_eq!(search.next(), None, "there are two switches at most");
    }
}
