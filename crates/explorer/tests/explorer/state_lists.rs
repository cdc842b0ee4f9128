//! The states of a search in words.

use tidegate_explorer::{Litmus, Options, StateList, explore, list_states};

#[test]
fn a_list_has_each_state_and_the_names_of_its_objects() {
    for scenario in [Litmus::new(1, 1), Litmus::new(1, 2)] {
        let (list, report) = list_states(&scenario, &Options::default()).unwrap();
        let plain = explore(&scenario, &Options::default()).unwrap();
        assert_eq!((list.states, report.states), (plain.states, plain.states));
        let text = list.to_string();
        println!("{text}");
        let (counts, agents): (Vec<u64>, Vec<usize>) = (text.lines().skip(1))
            .map(|line| {
                let (count, words) = line.trim().split_once(' ').expect(line);
                (count.parse::<u64>().expect(line), words.split(" | ").count())
            })
            .unzip();
        assert_eq!(counts.iter().sum::<u64>(), plain.states, "each state is on one line:\n{text}");
        assert!(counts.len() > 1 && agents.iter().all(|agents| *agents > 1), "{text}");
        assert!(!text.contains("of page "), "an object has no name:\n{text}");
        assert_eq!(StateList::parse(&text), Some(list));
    }
}

#[test]
fn two_lists_are_compared_line_by_line() {
    let list = |lines: &[&str]| {
        StateList::parse(&format!("9 states\n{}\n", lines.join("\n"))).expect("a list")
    };
    let (old, new) =
        (list(&["3 a ends", "2 a waits", "4 b ends"]), list(&["3 a ends", "1 c ends", "6 b ends"]));
    assert_eq!(
        new.compare(&old),
        ["went: a waits (2 states)", "was 4, is 6: b ends", "came: c ends (1 states)"]
    );
    assert_eq!(new.compare(&new), [""; 0]);
    assert_eq!(StateList::parse("nine states"), None);
}
