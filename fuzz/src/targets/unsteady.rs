//! Target `unsteady`: the explored scenario of a hostile client, with the input as the strategy. It
//! chooses the next agent, when stores become visible, and the values read from hostile memory.

use crate::input::Input;
use tidegate::explorer::{Scenario, Strategy, machine};
use tidegate::platform::{MemoryModel, Point};

struct Chosen {
    bytes: Vec<u8>,
    at: usize,
}

impl Strategy for Chosen {
    fn begin(&mut self) -> bool {
        true
    }

    fn choose(&mut self, point: &Point<'_>) -> usize {
        let byte = self.bytes.get(self.at).copied();
        self.at += 1;
        match byte {
            Some(byte) => usize::from(byte) % point.choices.len(),
            // The current agent continues. Later all agents take turns, because one may poll.
            None if self.at < 4096 => 0,
            None => self.at % point.choices.len(),
        }
    }
}

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let model = if input.flag() {
        MemoryModel::SequentiallyConsistent
    } else {
        MemoryModel::TotalStoreOrder
    };
    let chosen = Chosen { bytes: input.take(usize::MAX).to_vec(), at: 0 };
    let scenario: Box<dyn Scenario> =
        tidegate_scenarios::find("hostile-client-against-neighbour").expect("the scenario exists");
    let platform = machine(chosen, model);
    let (_, failure) = scenario.prepare(&platform).run(&platform);
    assert_eq!(failure, None);
}
