//! Owns the target `unsteady`: the explored scenario of a hostile client, with the input in the
//! place of the strategy. It chooses who moves, when stores become visible, and what each look at
//! the hostile process's memory finds.

use crate::input::Input;
use tidegate::Platform;
use tidegate::explorer::Scenario;
use tidegate::platform::{Controller, MemoryModel, Point};

struct Chosen {
    bytes: Vec<u8>,
    at: usize,
}

impl Controller for Chosen {
    fn choose(&mut self, point: &Point<'_>) -> usize {
        let byte = self.bytes.get(self.at).copied();
        self.at += 1;
        match byte {
            Some(byte) => usize::from(byte) % point.choices.len(),
            // Whoever moves goes on, and after a while all take turns, in case somebody waits by
            // looking.
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
    let scenario: Box<dyn Scenario> = tidegate_scenarios::find("hostile-client-against-neighbour")
        .expect("the scenario is there");
    let platform = Platform::explored(Box::new(chosen), model);
    let (_, failure) = scenario.prepare(&platform).run(&platform);
    assert_eq!(failure, None);
}
