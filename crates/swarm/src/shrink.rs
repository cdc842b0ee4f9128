//! Shrinks a failing program: fewest steps, then processes and switches.
//!
//! Each candidate is repaired (`model::repaired`) and run. It is kept if it fails in the same way.
//! The order: 1. halves, quarters, … of the steps are left out, down to single steps; 2. switches
//! and variants become as shipped; 3. numbers become small; 4. threads and processes without steps
//! are left out. The passes repeat until none helps, or the budget of runs is spent.

use crate::failure::Failure;
use crate::model::repaired;
use crate::operation::Operation;
use crate::program::Program;
use crate::setup::SWITCHES;
use crate::words::{Costs, ProcessId, ThreadId};
use tidegate::variants;

/// A shrunk failure.
pub struct Shrunk {
    /// The smallest program found.
    pub program: Program,
    /// Its failure.
    pub failure: Failure,
    /// Runs made.
    pub runs: u32,
}

/// Shrinks `program`, which fails with `failure`. `run` runs a candidate. At most `budget` runs.
pub fn shrink(
    program: &Program,
    failure: &Failure,
    budget: u32,
    run: &mut dyn FnMut(&Program) -> Option<Failure>,
) -> Shrunk {
    let mut shrinker = Shrinker {
        best: program.clone(),
        failure: failure.clone(),
        wanted: failure.clone(),
        left: budget,
        run,
    };
    loop {
        let before = shrinker.best.clone();
        shrinker.leave_out_steps();
        shrinker.reset_switches();
        shrinker.lower_numbers();
        shrinker.leave_out_threads();
        if shrinker.best == before || shrinker.left == 0 {
            break;
        }
    }
    let runs = budget - shrinker.left;
    Shrunk { program: shrinker.best, failure: shrinker.failure, runs }
}

struct Shrinker<'r> {
    best: Program,
    failure: Failure,
    wanted: Failure,
    left: u32,
    run: &'r mut dyn FnMut(&Program) -> Option<Failure>,
}

impl Shrinker<'_> {
    /// Takes the candidate if it is another program and fails in the same way.
    fn try_one(&mut self, candidate: Program) -> bool {
        let candidate = repaired(&candidate);
        if self.left == 0 || candidate == self.best {
            return false;
        }
        self.left -= 1;
        match (self.run)(&candidate) {
            Some(failure) if failure.is_like(&self.wanted) => {
                self.best = candidate;
                self.failure = failure;
                true
            }
            _ => false,
        }
    }

    fn leave_out_steps(&mut self) {
        let mut chunk = (self.best.steps.len() / 2).max(1);
        loop {
            let mut end = self.best.steps.len();
            while end > 0 {
                let start = end.saturating_sub(chunk);
                let mut candidate = self.best.clone();
                candidate.steps.drain(start..end.min(candidate.steps.len()));
                self.try_one(candidate);
                end = start.min(self.best.steps.len());
            }
            if chunk == 1 {
                return;
            }
            chunk /= 2;
        }
    }

    fn reset_switches(&mut self) {
        let in_process = Program { served: false, ..self.best.clone() };
        self.try_one(in_process);
        self.try_one(Program { costs: Costs::Nominal, ..self.best.clone() });
        for adapter in 0..self.best.adapters.len() {
            let mut candidate = self.best.clone();
            candidate.adapters[adapter].set_variant(&variants::ALL[0]);
            self.try_one(candidate);
            for switch in self.best.adapters[adapter].changed() {
                let mut candidate = self.best.clone();
                candidate.adapters[adapter].set(switch, SWITCHES[switch].shipped);
                self.try_one(candidate);
            }
        }
    }

    fn lower_numbers(&mut self) {
        for index in 0..self.best.steps.len() {
            let Some(step) = self.best.steps.get(index) else { return };
            let lower = match step.operation {
                Operation::Execute { queue, ns } if ns > 0 => {
                    [0, 1_000].map(|ns| Operation::Execute { queue, ns })
                }
                Operation::Rest { ns } if ns > 0 => [0, 1_000].map(|ns| Operation::Rest { ns }),
                Operation::StopProcess { ns } if ns > 0 => {
                    [0, ns / 2].map(|ns| Operation::StopProcess { ns })
                }
                Operation::Suspend { ns } if ns > 0 => {
                    [0, 1_000].map(|ns| Operation::Suspend { ns })
                }
                Operation::Flood { queue, count, ns, signals } => [count / 2, count - 1]
                    .map(|count| Operation::Flood { queue, count: count.max(1), ns, signals }),
                _ => continue,
            };
            for operation in lower {
                let mut candidate = self.best.clone();
                candidate.steps[index].operation = operation;
                if self.try_one(candidate) {
                    break;
                }
            }
        }
    }

    /// Leaves out a thread, and a process without threads, when no step needs it.
    fn leave_out_threads(&mut self) {
        for thread in (0..self.best.threads.len() as u16).rev().map(ThreadId) {
            let has_steps = self.best.steps.iter().any(|step| step.thread == thread);
            if has_steps || self.best.threads.len() == 1 {
                // The steps of two threads of one process may fail on one thread, too.
                self.merge_thread(thread);
                continue;
            }
            let mut candidate = self.best.clone();
            candidate.threads.remove(usize::from(thread.0));
            for step in &mut candidate.steps {
                if step.thread > thread {
                    step.thread.0 -= 1;
                }
            }
            self.try_one(candidate);
        }
        for process in (0..self.best.processes.len() as u16).rev().map(ProcessId) {
            let is_used = self.best.threads.contains(&process)
                || self.best.steps.iter().any(|step| names_process(step.operation, process));
            if is_used || self.best.processes.len() == 1 {
                continue;
            }
            let mut candidate = self.best.clone();
            candidate.processes.remove(usize::from(process.0));
            for owner in &mut candidate.threads {
                if *owner > process {
                    owner.0 -= 1;
                }
            }
            for step in &mut candidate.steps {
                if let Operation::Kill { process: target }
                | Operation::MarkDevice { process: target } = &mut step.operation
                    && *target > process
                {
                    target.0 -= 1;
                }
            }
            self.try_one(candidate);
        }
        self.leave_out_adapters();
    }

    fn leave_out_adapters(&mut self) {
        for adapter in (0..self.best.adapters.len()).rev() {
            let is_used = self.best.processes.iter().any(|p| usize::from(p.adapter.0) == adapter);
            if is_used || self.best.adapters.len() == 1 {
                continue;
            }
            let mut candidate = self.best.clone();
            candidate.adapters.remove(adapter);
            for process in &mut candidate.processes {
                if usize::from(process.adapter.0) > adapter {
                    process.adapter.0 -= 1;
                }
            }
            self.try_one(candidate);
        }
    }

    fn merge_thread(&mut self, thread: ThreadId) {
        let process = self.best.process_of(thread);
        let into = (0..thread.0).map(ThreadId).find(|t| self.best.process_of(*t) == process);
        if let Some(into) = into {
            let mut candidate = self.best.clone();
            for step in candidate.steps.iter_mut().filter(|step| step.thread == thread) {
                step.thread = into;
            }
            self.try_one(candidate);
        }
    }
}

fn names_process(operation: Operation, process: ProcessId) -> bool {
    match operation {
        Operation::Kill { process: target } | Operation::MarkDevice { process: target } => {
            target == process
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shrinks a program that fails as long as `fails` says so.
    fn shrunk(program: &str, fails: &dyn Fn(&str) -> bool) -> String {
        let program: Program = program.parse().unwrap();
        let failure = Failure::Leak("one".to_owned());
        let mut run = |candidate: &Program| {
            fails(&candidate.line()).then(|| Failure::Leak("another".to_owned()))
        };
        assert!(run(&program).is_some(), "the program fails");
        let shrunk = shrink(&program, &failure, 1_000, &mut run);
        assert_eq!(shrunk.failure, Failure::Leak("another".to_owned()));
        shrunk.program.line()
    }

    const WHOLE: &str = "service; costs high; adapter 32-bit copy=2 worker-interrupts=1; \
        adapter oldest lazy-context-switch=1; process a1 steady; process a0 doomed; \
        process a0 steady; thread p0; thread p1; thread p2; thread p2; \
        t0 queue q0 api packet copy normal; t1 queue q1 raw packet compute normal; \
        t3 queue q2 api packet copy high; t3 execute q2 70000; t0 execute q0 1; t2 rest 90000; \
        t0 kill p1; t3 execute q2 5";

    #[test]
    fn what_a_failure_does_not_need_is_left_out_or_as_shipped() {
        let found = shrunk(WHOLE, &|line| line.contains("execute"));
        assert_eq!(
            found,
            "adapter standard; process a0 steady; thread p0; \
             t0 queue q2 api packet copy high; t0 execute q2 0"
        );
    }

    #[test]
    fn what_a_failure_needs_stays() {
        let needs = |line: &str, all: &[&str]| all.iter().all(|part| line.contains(part));
        let of = |parts: &'static [&str]| shrunk(WHOLE, &move |line| needs(line, parts));
        for part in ["service; ", "costs high; ", "adapter 32-bit", "copy=2", "adapter oldest"] {
            let found = shrunk(WHOLE, &|line| needs(line, &["rest", part]));
            assert!(found.contains(part), "{part}: {found}");
        }
        assert_eq!(
            of(&["kill p", "t0 queue q0"]),
            "adapter standard; adapter standard; process a1 steady; process a0 doomed; thread p0; \
             t0 queue q0 api packet copy normal; t0 kill p1"
        );
        let number = shrunk(WHOLE, &|line| needs(line, &["rest"]) && !needs(line, &["rest 0"]));
        assert!(number.ends_with("thread p0; t0 rest 1000"), "{number}");
    }
}
