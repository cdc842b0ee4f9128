//! The explorer: litmus programs, pruning, brute force, schedules and replay.

/// The name of a test's scenario, what it is about, and its marks.
macro_rules! named {
    ($name:literal, $about:literal $(, $marks:expr)?) => {
        fn name(&self) -> &str {
            $name
        }

        fn about(&self) -> &str {
            $about
        }

        $(fn marks(&self) -> &[&'static str] {
            $marks
        })?
    };
}

mod brute_force;
mod dice;
mod events;
mod litmus_book;
mod pair;
mod pruning;
mod reference;
mod schedules;
mod state_lists;
mod statements;
mod worlds;
