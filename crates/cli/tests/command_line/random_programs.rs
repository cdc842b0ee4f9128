//! What `swarm` runs, prints and refuses, and the replay of its lines.

use crate::{place, ran, refused, text, tidegate};

fn swarm(place_name: &str, line: &str) -> serde_json::Value {
    let output = ran(&place(place_name), &format!("swarm {line} --json -"));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{line}: {error}"))
}

#[test]
fn each_ground_has_a_line_and_a_row() {
    let place = place("swarm-grounds");
    let line = "swarm --on all --programs 4 --seed 1 --coverage --json swarm.json";
    let said = text(&ran(&place, line));
    let lines: Vec<&str> = said.lines().collect();
    for (line, ground) in lines.iter().zip(["virtual time", "explored", "threads", "processes"]) {
        assert!(line.starts_with(&format!("{ground}: 4 programs of ")), "{said}");
        assert!(line.ends_with(", none failed"), "{said}");
    }
    assert!(lines[4].contains(" pairs of operations have overlapped in time"), "{said}");
    let bytes = std::fs::read(place.join("swarm.json")).unwrap();
    let results: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let grounds = results["grounds"].as_array().unwrap();
    assert_eq!(grounds.len(), 4);
    for row in grounds {
        assert_eq!((&row["programs"], &row["failed"]), (&4.into(), &0.into()), "{row}");
    }
    let never = |what: &str| results[what].as_array().unwrap().len();
    assert_eq!(lines.len(), 7 + never("never_overlapped") + never("never_entered"), "{said}");
}

/// The programs of a seed are the same in every run, and shards share none.
#[test]
fn shards_are_parts_of_the_seeds() {
    let operations = |line: &str| {
        let results = swarm("swarm-shards", line);
        results["grounds"][0]["operations"].as_u64().unwrap()
    };
    let whole = operations("--programs 12 --seed 5");
    let parts =
        ["0/3", "1/3", "2/3"].map(|s| operations(&format!("--programs 4 --seed 5 --shard {s}")));
    assert_eq!(parts.iter().sum::<u64>(), whole, "{parts:?}");
}

/// The number of operations is at most what is asked for: a program of few kinds stays short.
#[test]
fn programs_have_the_number_of_operations_that_is_asked_for() {
    for (asked, programs) in [(1, 12), (120, 3)] {
        let line = format!("--operations {asked} --programs {programs} --seed 5");
        let row = &swarm("swarm-operations", &line)["grounds"][0];
        let found = row["operations"].as_u64().unwrap();
        let most = asked * programs;
        assert!((most * 9 / 10..=most).contains(&found), "{found} of {most}: {row}");
    }
    refused(&["swarm", "--operations", "0"], &["--operations", "0 is not in 1..=2000"]);
}

#[test]
fn wrong_bounds_and_shards_are_refused() {
    for shard in ["3/3", "1", "a/b", "0/0"] {
        refused(&["swarm", "--shard", shard], &[shard, "write I/N, where I is from 0 to N - 1"]);
    }
    refused(&["swarm", "--programs", "0"], &["--programs", "0 is not in 1.."]);
    refused(&["swarm", "--seconds", "0"], &["--seconds", "0 is not in 1.."]);
    refused(&["swarm", "--on", "moon"], &["moon", "virtual, explored, threads, processes, all"]);
    for ground in ["threads", "processes"] {
        refused(&["swarm", "--on", ground, "--coverage"], &["--coverage", "not counted"]);
    }
    refused(&["swarm", "--client"], &["--client", "standard input is no socket"]);
}

const HOLDS: &str = "swarm/virtual | adapter standard; process a0 steady; thread p0; \
                     t0 queue q0 raw user direct normal; t0 execute q0 100; t0 drain q0";

#[test]
fn a_line_is_replayed_and_drawn() {
    let place = place("swarm-replay");
    let output = tidegate(&place, &["replay", HOLDS, "--timeline", "page.html"]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.starts_with("adapter standard\nprocess a0 steady\n"), "{said}");
    assert!(said.contains("\ndoes not fail\n") && said.contains("page.html"), "{said}");
    let page = std::fs::read_to_string(place.join("page.html")).unwrap();
    assert!(page.contains("tidegate replay"), "the page has the line");
    let on_threads = HOLDS.replace("virtual", "threads");
    let output = tidegate(&place, &["replay", "--once", &on_threads]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
}

/// Runs a program whose processes are real ones, once.
fn holds(line: &str) {
    let output = tidegate(&place("swarm-processes"), &["replay", "--once", line]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
}

#[test]
fn programs_whose_processes_are_clients_hold() {
    let said = text(&ran(&place("swarm-processes"), "swarm --on processes --programs 8 --seed 21"));
    assert!(said.starts_with("processes: 8 programs of "), "{said}");
    assert!(said.trim_end().ends_with(", none failed"), "{said}");
}

/// The killed process has shared a fence, waits on a queue for one that is never signalled in time,
/// and has a registered wait. Its neighbour goes on.
#[test]
fn a_process_that_is_killed_leaves_nothing_and_disturbs_no_neighbour() {
    holds(
        "swarm/processes | service; adapter standard; process a0 steady; process a0 doomed; \
         thread p0; thread p1; thread p1; t0 fence f0 raw native shared 0; t1 open-fence f0 raw; \
         t1 fence f1 api native shared 0; t1 queue q0 raw user direct normal; \
         t1 queue q1 api packet copy normal; t1 buffer b0 raw 4; t1 register w0 f0 raw 9; \
         t0 queue q2 raw user direct normal; t0 buffer b1 raw 2; t0 queue-signal q2 f0 3; \
         t1 queue-wait q0 f0 3; t2 wait f1 api 0; t0 kill p1; t0 store q2 b1 5 77; \
         t0 drain q2",
    );
}

/// A client asks the process of the machine for what no call of its own does.
#[test]
fn a_client_has_an_operator() {
    holds(
        "swarm/processes | service; adapter standard managed-power=1; process a0 doomed; \
         process a0 doomed; thread p0; thread p1; t0 queue q0 raw hardware compute normal; \
         t0 execute q0 50; t1 suspend 1000; t0 sleep-resume 1000; t1 idle-engines; \
         t1 reset-engine copy; t1 reset-adapter; t0 remove-adapter",
    );
}

#[test]
fn a_wrong_line_names_its_item_and_what_is_allowed() {
    for (from, to, parts) in [
        ("swarm/virtual", "swarm/moon", &["'swarm/WHERE | PROGRAM'", "threads, processes"][..]),
        (" | ", " ", &["'swarm/WHERE | PROGRAM'"]),
        ("adapter standard", "adapter standart", &["item 1", "standart"]),
        ("standard", "standard ring-slots=9", &["item 1", "ring-slots=9", "[8, 16, 1024]"]),
        ("standard", "standard rings=9", &["item 1", "'rings'", "setup.rs"]),
        ("a0 steady", "a1 steady", &["item 2", "no a1", "declare it above"]),
        ("steady", "ready", &["item 2", "'ready'", "steady or doomed"]),
        ("thread p0", "thread p3", &["item 3", "no p3"]),
        ("execute q0 100", "run q0 100", &["item 5", "'run'", "operation.rs"]),
        ("execute q0 100", "execute q0", &["item 5", "execute takes queue, ns"]),
        ("execute q0 100", "execute f0 100", &["item 5", "'f0' is no queue"]),
        ("t0 execute", "t9 execute", &["item 5", "no t9"]),
        ("drain q0", "drain q1", &["step 3", "t0 drain q1"]),
    ] {
        assert!(HOLDS.contains(from), "{from}");
        refused(&["replay", &HOLDS.replacen(from, to, 1)], parts);
    }
}

/// Clients judge their own results, which a wrong driver makes wrong.
#[test]
fn wrong_drivers_run_on_grounds_whose_machine_judges() {
    refused(&["swarm", "--on", "all", "--faulty", "packets-known"], &["--faulty", "processes"]);
    refused(&["swarm", "--faulty", "no-clause"], &["--faulty", "no-clause"]);
    let rows = swarm("swarm-faulty", "--faulty packets-known --programs 2 --seed 52");
    assert_eq!(rows["grounds"][0]["failed"], 0, "{rows}");
}
