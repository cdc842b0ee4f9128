//! The table of the clauses: each goal of the project's performance, in numbers of one run.
//!
//! An id is the goal's number and a letter in the order of the goal's text. `decisions/0101` says
//! where the text leaves a choice.

use crate::clause::Value::{
    Count, Figure, Floor, Growth, Median, More, Ns, One, P99, Peer, Sum, Times,
};
use crate::clause::{Clause, Sense, Value};
use crate::rows::explore::{MEDIAN_PCT, MEDIAN_RANDOM, MOST_OF_ANY, SETUP};
use crate::rows::preemption::UNDISTURBED;
use crate::rows::processes::{OWN_END, UNDISTURBED as NEIGHBOUR_UNDISTURBED};
use crate::rows::signal::SIGNAL_STEP;
use crate::rows::waiters::CPU_OF_A_SIGNAL;
use crate::rows::wake_costs::MOST_INTERRUPTS;
use tidegate_measure::rows::submit::PROCESSORS;

const fn clause(
    id: &'static str,
    text: &'static str,
    figure: Value,
    against: Value,
    sense: Sense,
    limit: f64,
) -> Clause {
    Clause { id, text, figure, against, sense, limit, is_stretch: false, needs: None, later: None }
}

const fn at_most(
    id: &'static str,
    text: &'static str,
    figure: Value,
    against: Value,
    limit: f64,
) -> Clause {
    clause(id, text, figure, against, Sense::AtMost, limit)
}

const fn at_least(
    id: &'static str,
    text: &'static str,
    figure: Value,
    against: Value,
    limit: f64,
) -> Clause {
    clause(id, text, figure, against, Sense::AtLeast, limit)
}

/// At most `limit` times the floor of the row.
const fn times_floor(
    id: &'static str,
    text: &'static str,
    row: &'static str,
    limit: f64,
) -> Clause {
    at_most(id, text, Median(row), Floor(row), limit)
}

/// At least `limit` times faster than a peer beside the row.
const fn faster(
    id: &'static str,
    text: &'static str,
    row: &'static str,
    key: &'static str,
    limit: f64,
) -> Clause {
    at_least(id, text, Median(row), Peer(row, key), limit)
}

/// At least this many operations of the row in a second.
const fn per_second(id: &'static str, text: &'static str, row: &'static str, limit: f64) -> Clause {
    at_least(id, text, Median(row), Ns(1e9), limit)
}

const fn stretch(clause: Clause) -> Clause {
    Clause { is_stretch: true, ..clause }
}

const fn later(id: &'static str, text: &'static str, limit: f64, why: &'static str) -> Clause {
    Clause { later: Some(why), ..at_most(id, text, One, One, limit) }
}

const NO_BARRIER: &str = "the barrier is the signaller's; tried when waits are rarer than signals";

const DOORBELL: &str = "doorbell_to_fence_seen";
const PROCESS: &str = "process_doorbell_to_fence_seen";
const STREAM: &str = "submissions_streamed";
const SIGNALS: &str = "signals_by_the_million";
const MANY_TASKS: &str = "tasks_release_1_of_100000";
const FEW_TASKS: &str = "tasks_release_1_of_10";
const MANY_THREADS: &str = "threads_release_1_of_10000";
const FEW_THREADS: &str = "threads_release_1_of_10";
const LINK: &str = "link_one_thread";
const LONG_CHAIN: &str = "chain_10000";
const STEP: Value = Figure("signal_unwaited", SIGNAL_STEP);
const LOGGED_STEP: Value = Figure("signal_unwaited_logged", SIGNAL_STEP);
const SAME_PROCESSOR: &str = "wake_same_processor";
const KILLED: &str = "process_killed";
const KILLS: &str = "process_beside_kills";
const LOSS: &str = "preempted_1000_times_a_second";
const PENDING: &str = "virtual_time_100";
const MANY_PENDING: &str = "virtual_time_10000";
const STATIONS: &str = "seven_stations_schedules";
const BARRIER: &str = "missing_barrier_found";
/// Signals whose interrupts are counted.
const COUNTED_SIGNALS: f64 = 1e8;

const fn counted(id: &'static str, text: &'static str, name: &'static str) -> Clause {
    let needs = Some((Count(SIGNALS, "signals"), COUNTED_SIGNALS));
    Clause { needs, ..at_most(id, text, Count(SIGNALS, name), One, 0.0) }
}

/// Two microseconds or twice the idle start, whichever is more.
const fn preempted(id: &'static str, text: &'static str, row: &'static str) -> Clause {
    at_most(id, text, Median(row), MORE_OF_PREEMPTION, 1.0)
}

const PREEMPT_SHORT: &str = "preempt_10us";
const PREEMPT_LONG: &str = "preempt_1s";
const MORE_OF_PREEMPTION: Value = More(&Ns(2_000.0), &Times(2.0, &Floor(PREEMPT_SHORT)));

/// All clauses, in order of their ids.
pub(crate) const CLAUSES: &[Clause] = &[
    times_floor("1a", "a doorbell until its fence is seen: median", DOORBELL, 1.5),
    at_most("1b", "its p99, of the floor's median", P99(DOORBELL), Floor(DOORBELL), 3.0),
    faster("1c", "than lavapipe without a command buffer", DOORBELL, "submit_wait", 6.0),
    faster("1d", "than lavapipe with one", DOORBELL, "submit_wait_list", 15.0),
    faster("1e", "than that across processors", DOORBELL, "submit_wait_list_other_cpu", 50.0),
    stretch(times_floor("1f", "one line for packet and doorbell", DOORBELL, 1.2)),
    times_floor("2a", "a submission of a stream on one queue", STREAM, 5.0),
    stretch(times_floor("2b", "the same, stretched", STREAM, 2.5)),
    faster("2c", "than lavapipe's streamed submission", STREAM, "submit_stream", 10.0),
    at_most("2d", "of a streamed packet through rtrb", Median(STREAM), Peer(STREAM, "stream"), 1.5),
    at_most("2e", "processors that a stream keeps busy", Figure(STREAM, PROCESSORS), One, 2.0),
    times_floor("3a", "a link between engines of one thread", LINK, 6.0),
    times_floor("3b", "a link between processors", "link_two_threads", 3.0),
    at_least(
        "3c",
        "than PoCL's chain over two queues",
        Median(LINK),
        Peer("chain_100", "cross_queue_chain"),
        5.0,
    ),
    at_most("3d", "system calls of all links", Count(LINK, "system calls to wake"), One, 0.0),
    at_most("3e", "interrupts of all links", Count(LINK, "interrupts"), One, 0.0),
    at_most(
        "4a",
        "a link of a chain of 1,000,000, of one of 100",
        Median("chain_1000000"),
        Median("chain_100"),
        1.5,
    ),
    faster("4b", "than lavapipe at 10,000", LONG_CHAIN, "chain", 200.0),
    faster("4c", "than PoCL at 10,000", LONG_CHAIN, "pocl_chain", 5.0),
    faster("4d", "than tasks on a watch at 10,000", LONG_CHAIN, "watch_chain", 2_000.0),
    faster("4e", "than a Notify for each link at 10,000", LONG_CHAIN, "notify_chain", 1.0),
    at_most(
        "5a",
        "the step of a signal without a waiter, unlogged",
        STEP,
        Floor("signal_unwaited"),
        1.5,
    ),
    at_most("5b", "the same, logged", LOGGED_STEP, Floor("signal_unwaited_logged"), 1.5),
    at_least(
        "5c",
        "than std's Condvar, unlogged",
        STEP,
        Peer("signal_unwaited", "std_condvar_unwaited"),
        10.0,
    ),
    at_least(
        "5d",
        "than tokio's watch, unlogged",
        STEP,
        Peer("signal_unwaited", "watch_unwaited"),
        10.0,
    ),
    at_least(
        "5e",
        "than lavapipe's signal of the host, unlogged",
        STEP,
        Peer("signal_unwaited", "host_signal"),
        3.0,
    ),
    counted("5f", "interrupts of 10^8 signals", "interrupts"),
    counted("5g", "system calls of 10^8 signals", "system calls to wake"),
    stretch(later("5h", "2 ns for a signal with the barrier at the waiter", 1.0, NO_BARRIER)),
    times_floor(
        "6a",
        "the engine's time of a signal that wakes a thread",
        "signal_that_wakes",
        1.1,
    ),
    times_floor("6b", "a wake-up across processors", "wake_parked_thread", 1.15),
    at_most(
        "6c",
        "a wake-up on one processor",
        Median(SAME_PROCESSOR),
        Sum(&Floor(SAME_PROCESSOR), &Ns(1_000.0)),
        1.0,
    ),
    at_most(
        "6d",
        "interrupts of a burst of 1,000 signals",
        Figure("burst_of_1000", MOST_INTERRUPTS),
        One,
        3.0,
    ),
    times_floor("6e", "a signal seen by a wait that spins", "wake_spinning_thread", 2.0),
    at_most(
        "7a",
        "growth of a released task from 10 to 100,000, of the ordered list's",
        Growth(&Median(MANY_TASKS), &Median(FEW_TASKS)),
        Growth(&Floor(MANY_TASKS), &Floor(FEW_TASKS)),
        1.3,
    ),
    times_floor("7b", "a released task of 100,000, of the ordered list", MANY_TASKS, 1.5),
    faster("7c", "than tasks on a watch", MANY_TASKS, "watch_tasks", 10_000.0),
    faster("7d", "than tasks on event-listener", MANY_TASKS, "listener_tasks", 10_000.0),
    times_floor("7e", "a released thread of 10,000, of ordered threads", MANY_THREADS, 1.3),
    faster("7f", "than threads on lavapipe", MANY_THREADS, "blocked_threads", 1_000.0),
    faster("7g", "than threads on a Condvar", MANY_THREADS, "condvar_threads", 30.0),
    at_most(
        "7h",
        "growth of the CPU time of a signal from 10 to 10,000 threads",
        Figure(MANY_THREADS, CPU_OF_A_SIGNAL),
        Figure(FEW_THREADS, CPU_OF_A_SIGNAL),
        1.3,
    ),
    times_floor("8a", "a doorbell beside 4,096 idle queues", "doorbell_beside_4096_queues", 1.3),
    times_floor("8b", "a victimised doorbell connected again", "reconnect_victim", 2.0),
    times_floor("8c", "CPU time of an idle machine", "idle_machine", 1.0),
    times_floor("8d", "the first submission after idling", "first_submit_after_idle", 1.2),
    times_floor("9a", "a submission of another process, of one in the machine's own", PROCESS, 1.2),
    times_floor(
        "9a-2",
        "a submission of a stream of another process, of one in the machine's own",
        "process_submissions_user",
        1.2,
    ),
    at_least(
        "9b",
        "than a message there and back across processors",
        Median(PROCESS),
        Floor("process_call"),
        50.0,
    ),
    at_least("9c", "than that on one processor", Median(PROCESS), Floor("reconnect_victim"), 5.0),
    times_floor("9d", "a shared fence opened through the service", "process_fence_opened", 1.5),
    times_floor("9e", "queues of a killed process torn down", KILLED, 2.0),
    at_most(
        "9e-2",
        "the same, of the end of the killed client's own sockets",
        Median(KILLED),
        Figure(KILLED, OWN_END),
        2.0,
    ),
    at_most(
        "9f",
        "other processes' latency meanwhile",
        Median(KILLS),
        Figure(KILLS, NEIGHBOUR_UNDISTURBED),
        1.2,
    ),
    at_most(
        "9g",
        "a service from its start to its first answer, of 100 ms",
        Median("service_start"),
        Ns(100e6),
        1.0,
    ),
    preempted("10a", "a start beside packets of 10 µs, of 2 µs or 2 idle starts", PREEMPT_SHORT),
    preempted("10b", "the same beside packets of 1 s", PREEMPT_LONG),
    at_most("10c", "its p99, of an idle start", P99(PREEMPT_LONG), Floor(PREEMPT_LONG), 10.0),
    at_most(
        "10d",
        "a start beside packets of 1 s, of one beside packets of 10 µs",
        Median(PREEMPT_LONG),
        Median(PREEMPT_SHORT),
        1.5,
    ),
    at_most(
        "10e",
        "packets that are preempted 1,000 times a second, of undisturbed ones between them",
        Median(LOSS),
        Figure(LOSS, UNDISTURBED),
        1.05,
    ),
    per_second("11a", "events a second at 100 pending timers", PENDING, 5e6),
    times_floor("11b", "an event, of a bare heap", PENDING, 6.0),
    at_most("11c", "an event, of simcore", Median(PENDING), Peer(PENDING, "simcore_timers"), 3.0),
    faster("11d", "than nexosim", PENDING, "nexosim_timers", 1.5),
    faster("11e", "than simpy", PENDING, "simpy_timers", 5.0),
    at_most(
        "11f",
        "growth of an event from 100 to 10,000 pending, of a bare heap's",
        Growth(&Median(MANY_PENDING), &Median(PENDING)),
        Growth(&Floor(MANY_PENDING), &Floor(PENDING)),
        1.3,
    ),
    per_second("12a", "schedules of the litmus pair in a second", "litmus_schedules", 2e6),
    per_second("12b", "schedules of seven stations in a second", STATIONS, 5e4),
    at_most(
        "12b-2",
        "set-up of such a schedule, of 10 µs",
        Figure(STATIONS, SETUP),
        Ns(10_000.0),
        1.0,
    ),
    faster("12c", "than stateright's verdict on the protocol", "litmus_verdict", "verdict", 5.0),
    at_most(
        "12d",
        "schedules until any strategy finds a missing barrier",
        Figure(BARRIER, MOST_OF_ANY),
        One,
        1_000.0,
    ),
    at_most("12d-2", "the median of 100 random seeds", Figure(BARRIER, MEDIAN_RANDOM), One, 100.0),
    at_most("12d-3", "the median of 100 seeds of PCT", Figure(BARRIER, MEDIAN_PCT), One, 100.0),
    at_most(
        "12e",
        "time of four groups that share no word, of four times one group",
        Median("groups_of_4"),
        Times(4.0, &Median("groups_of_1")),
        1.5,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::all_rows;

    /// The rows, and the measurements of peers, that a value names.
    fn named(value: &Value, found: &mut Vec<(&'static str, Option<&'static str>)>) {
        match *value {
            Median(row) | P99(row) | Floor(row) | Figure(row, _) | Count(row, _) => {
                found.push((row, None));
            }
            Peer(row, key) => found.push((row, Some(key))),
            Ns(_) | One => {}
            Growth(a, b) | More(a, b) | Sum(a, b) => {
                named(a, found);
                named(b, found);
            }
            Times(_, value) => named(value, found),
        }
    }

    #[test]
    fn every_clause_names_rows_and_measurements_that_exist() {
        for (index, clause) in CLAUSES.iter().enumerate() {
            assert!(CLAUSES[..index].iter().all(|other| other.id != clause.id), "{}", clause.id);
            let mut found = Vec::new();
            named(&clause.figure, &mut found);
            named(&clause.against, &mut found);
            for (row, key) in found {
                let aimed = all_rows().find(|other| other.row.name == row);
                let aimed = aimed.unwrap_or_else(|| panic!("{}: no row {row}", clause.id));
                let has_key = key.is_none_or(|key| aimed.peers.iter().any(|peer| peer.is(key)));
                assert!(has_key, "{}: {row} has no measurement {key:?}", clause.id);
            }
        }
    }

    #[test]
    fn every_goal_has_a_clause() {
        for goal in 1..=12 {
            let number = goal.to_string();
            let is_of = |clause: &&Clause| {
                clause.id.split(|c: char| c.is_alphabetic()).next() == Some(number.as_str())
            };
            assert!(CLAUSES.iter().any(|clause| is_of(&clause)), "{goal}");
        }
    }
}
