//! Every printed schedule can be parsed back.

use tidegate_explorer::{MemoryModel, Schedule, StrategyKind};

fn schedule(choices: Vec<u16>) -> Schedule {
    Schedule {
        scenario: "frame-graph".to_owned(),
        bug: None,
        model: MemoryModel::TotalStoreOrder,
        strategy: StrategyKind::Pct(3),
        choices,
        checksum: Some(u32::MAX),
    }
}

#[test]
fn a_schedule_is_one_short_line() {
    let mut choices = vec![0, 0, 0, 1, 2, 25, 26];
    choices.extend(std::iter::repeat_n(0, 1000));
    choices.push(u16::MAX);
    let line = schedule(choices).to_string();
    assert_eq!(line, "frame-graph/tso/pct-3:3ABYZ0.rsZ1ejp.-1z141z3");
}

#[test]
fn printed_schedules_are_parsed_back() {
    let mut state = 1u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    for length in 0..300 {
        let mut choices: Vec<u16> = (0..length)
            .map(|_| match next() % 4 {
                0 => (next() % 4) as u16,
                1 => (next() % 70_000).min(65_535) as u16,
                _ => 0,
            })
            .collect();
        while choices.last() == Some(&0) {
            choices.pop();
        }
        for (bug, model) in [
            (None, MemoryModel::TotalStoreOrder),
            (Some("no-barrier"), MemoryModel::SequentiallyConsistent),
        ] {
            for strategy in
                [StrategyKind::Exhaustive, StrategyKind::Bounded(7), StrategyKind::Random]
            {
                let bug = bug.map(str::to_owned);
                let before = Schedule { bug, model, strategy, ..schedule(choices.clone()) };
                let line = before.to_string();
                assert!(line.chars().all(|c| c.is_ascii_graphic()), "{line}");
                assert_eq!(line.parse::<Schedule>().unwrap(), before, "{line}");
            }
        }
    }
}
