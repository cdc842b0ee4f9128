//! The command line as a user meets it: every ready workload under every model, bad input, exit
//! codes, JSON, files.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[path = "command_line/bench.rs"]
mod bench;
#[path = "command_line/drivers.rs"]
mod drivers;
#[path = "command_line/exploration.rs"]
mod exploration;
#[path = "command_line/explored_drivers.rs"]
mod explored_drivers;
#[path = "command_line/kernels.rs"]
mod kernels;
#[path = "command_line/manners.rs"]
mod manners;
#[path = "command_line/outputs.rs"]
mod outputs;
#[path = "command_line/random_programs.rs"]
mod random_programs;
#[path = "command_line/recordings.rs"]
mod recordings;
#[path = "command_line/what_if.rs"]
mod what_if;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A directory of the test's own, so that pictures and timelines of two tests do not meet.
fn place(name: &str) -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&place).unwrap();
    place
}

/// Runs the binary as in a terminal that is wide enough for every cell to stay on one line.
fn tidegate(place: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.env("COLUMNS", "200").args(arguments).current_dir(place).output().unwrap()
}

/// The words of a command line. Paths below `workloads/` are in the repository.
fn words(line: &str) -> Vec<String> {
    let word = |word: &str| match word.strip_prefix("workloads/") {
        Some(_) => root().join(word).to_str().unwrap().to_owned(),
        None => word.to_owned(),
    };
    line.split_whitespace().map(word).collect()
}

/// Runs a command line that ends with this exit code.
fn ended(place: &Path, code: i32, line: &str) -> Output {
    let words = words(line);
    let output = tidegate(place, &words.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(output.status.code(), Some(code), "{line}: {}", text(&output));
    output
}

/// Runs a command line that succeeds.
fn ran(place: &Path, line: &str) -> Output {
    ended(place, 0, line)
}

fn file(place: &Path, name: &str) -> String {
    std::fs::read_to_string(place.join(name)).unwrap()
}

fn json(place: &Path, name: &str) -> Value {
    serde_json::from_str(&file(place, name)).unwrap()
}

fn printed(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Fails unless `said` holds every word.
fn holds(said: &str, words: &[&str]) {
    for word in words {
        assert!(said.contains(word), "'{word}' is missing in {said}");
    }
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn ready_workloads() -> Vec<PathBuf> {
    let files = std::fs::read_dir(root().join("workloads")).unwrap().map(|e| e.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|p| p.extension().is_some_and(|e| e == "toml")).collect();
    files.sort();
    assert!(files.len() >= 12, "{files:?}");
    files
}

fn run_all(clock: &str) {
    let place = place(clock);
    for workload in ready_workloads() {
        for model in ["packet", "hardware", "user"] {
            let path = workload.to_str().unwrap();
            let arguments = ["run", path, "--submission", model, "--clock", clock, "--json", "-"];
            let output = tidegate(&place, &arguments);
            if path.ends_with("presenting.toml") && model == "user" {
                assert_eq!(output.status.code(), Some(2), "{}", text(&output));
                assert!(
                    text(&output).contains("packet or hardware submission"),
                    "{}",
                    text(&output)
                );
                continue;
            }
            assert_eq!(output.status.code(), Some(0), "{path} under {model}: {}", text(&output));
            let report = printed(&output);
            assert!(report["completed"] == true && report["verified"] == true, "{report}");
            assert_eq!(report["submission"], model);
        }
    }
}

#[test]
fn every_workload_is_right_under_every_model_in_virtual_time() {
    run_all("virtual");
}

#[test]
fn every_workload_is_right_under_every_model_on_threads() {
    run_all("wall");
}

#[test]
fn compare_without_argument_says_first_what_user_mode_submission_changes() {
    let place = place("compare");
    let said = text(&ran(&place, "compare"));
    holds(
        &said,
        &[
            "packet",
            "hardware",
            "user",
            "makespan",
            "kernel calls",
            "interrupts",
            "GPU work",
            "sync",
        ],
    );
    let line = |word: &str| said.lines().position(|line| line.contains(word)).expect(word);
    assert!(line("user: ") < line("makespan"), "the verdict is first: {said}");
    assert!(
        said.contains("faster than packet") && said.contains("holds on 13 of 13 cost settings"),
        "{said}"
    );
    let page = file(&place, "compare.html");
    holds(&page, &["<canvas", "faster than packet", "GPU work", "calls that submit take the CPU"]);
    assert!(!page.contains("http://") && !page.contains("https://"));
    assert!(said.contains(&format!("wrote {}", place.join("compare.html").display())), "{said}");
    assert_eq!(said, text(&tidegate(&place, &["compare"])), "virtual time is the same each time");
}

/// Every number of the verdict follows from the reports, the accounts and the measurements beside
/// it.
#[test]
fn the_verdict_follows_from_the_json_beside_it() {
    let (said, json) = compared("verdict", "ring-buffer.toml");
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("a number: {value}"));
    let (verdict, runs) = (&json["verdict"], json["runs"].as_array().unwrap());
    let steady = |model: &Value| number(&model["makespan_ns"]) - number(&model["start_up_ns"]);
    let base = steady(&verdict["models"][0]);
    assert_eq!(verdict["baseline"], runs[0]["submission"]);
    for (model, run) in verdict["models"].as_array().unwrap().iter().zip(runs) {
        let makespan = number(&run["makespan_ns"]);
        assert_eq!(
            (&model["model"], number(&model["makespan_ns"])),
            (&run["submission"], makespan)
        );
        for (ours, theirs) in [
            ("kernel_calls", "kernel_calls"),
            ("interrupts", "interrupts"),
            ("wake_ups", "cpu_wakes"),
        ] {
            assert_eq!(model[ours], run[theirs], "{ours}");
        }
        let account = model["account"].as_object().unwrap();
        let parts = account.iter().filter(|(name, _)| !name.starts_with("cpu_") && *name != "busy");
        assert_eq!(parts.map(|(_, ns)| number(ns)).sum::<u64>(), makespan, "{account:?}");
        assert_eq!(account["start_up_ns"], model["start_up_ns"]);
        assert!(number(&run["first_work_ns"]) >= number(&model["start_up_ns"]));
        // Both engines' work is the same under each model, but for the part of a draw that a path
        // leaves to the other engine; what differs is how it gets there.
        let of_packet = number(&verdict["models"][0]["account"]["gpu_ns"]);
        let apart = number(&account["gpu_ns"]).abs_diff(of_packet);
        assert!(apart * 1_000 <= of_packet, "{account:?}");
        let against = &model["against"];
        if against.is_null() {
            continue;
        }
        let change = |own: u64, base: u64| (own as i64 - base as i64) * 1_000 / base as i64;
        assert_eq!(against["change_permille"].as_i64(), Some(change(steady(model), base)));
        // A run of twice and of ten times the frames.
        let lengths = against["lengths"].as_array().unwrap();
        assert_eq!(lengths.iter().map(|at| &at["length"]).collect::<Vec<_>>(), ["2x", "10x"]);
        let machines = json["ranking"]["measurements"].as_array().unwrap();
        assert_eq!(number(&against["settings"]), machines.len() as u64);
        let held = machines.len() - against["not_on"].as_array().unwrap().len();
        assert_eq!(number(&against["held_on"]), held as u64);
        assert!(
            said.contains(&format!("holds on {held} of {} cost settings", machines.len())),
            "{said}"
        );
    }
}

#[test]
fn the_report_has_its_fields() {
    let place = place("fields");
    let files = "--timeline t.html --perfetto t.pftrace --chrome t.json --json report.json";
    ran(&place, &format!("run workloads/ring-buffer.toml {files}"));
    for file in ["t.html", "t.pftrace", "t.json"] {
        assert!(std::fs::metadata(place.join(file)).unwrap().len() > 500, "{file}");
    }
    let report = json(&place, "report.json");
    let numbers = [
        "makespan_ns",
        "kernel_calls",
        "interrupts",
        "interrupts_suppressed",
        "cpu_waits",
        "cpu_wakes",
        "gpu_waits",
        "gpu_signals",
        "log_entries_lost",
    ];
    for field in numbers {
        assert!(report[field].is_u64(), "{field}: {}", report[field]);
    }
    assert!(report["recorded_ns"].is_null() && report["elapsed_ns"].is_u64());
    for field in ["name", "engine", "packets", "busy_ns", "blocked_ns"] {
        assert!(!report["queues"][0][field].is_null(), "queues[].{field}");
    }
    for field in ["name", "final_value"] {
        assert!(!report["fences"][0][field].is_null(), "fences[].{field}");
    }
}

/// Exit 2, one screen, and the words that say what, where and what to do.
fn refused(arguments: &[&str], words: &[&str]) {
    let place = place("refused");
    let output = tidegate(&place, arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.lines().count() <= 30, "more than one screen: {said}");
    holds(&said, words);
    assert!(output.stdout.is_empty());
}

#[test]
fn adapters_are_listed_and_taken_by_name() {
    let place = place("adapters");
    let said = text(&tidegate(&place, &["adapters"]));
    holds(
        &said,
        &["standard", "32-bit", "monitored-advanced", "packet hardware user", "posted-logs"],
    );
    let rows = printed(&tidegate(&place, &["adapters", "--json", "-"]));
    assert!(rows[0]["name"] == "standard" && rows[0]["native_fences"] == true, "{rows}");
    let workload = root().join("workloads/ring-buffer.toml");
    let path = workload.to_str().unwrap();
    for name in ["32-bit", "null-array", "packets-only"] {
        let compare = "compare workloads/ring-buffer.toml --clock virtual --json -";
        let compared = printed(&ran(&place, &format!("{compare} --adapter {name}")));
        let row = rows.as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
        let models: Vec<&Value> =
            compared["runs"].as_array().unwrap().iter().map(|r| &r["submission"]).collect();
        assert_eq!(
            models,
            row["submissions"].as_array().unwrap().iter().collect::<Vec<_>>(),
            "{name}"
        );
    }
    // The log of command buffers is on the timeline.
    for (name, is_shown) in [("standard", false), ("verbose-logs", true)] {
        let run = "run workloads/ring-buffer.toml --clock virtual --quiet --chrome t.json";
        ran(&place, &format!("{run} --adapter {name}"));
        let timeline = file(&place, "t.json");
        assert_eq!(timeline.contains("command buffer"), is_shown, "{name}");
    }
    refused(
        &["run", path, "--adapter", "one-dorbell"],
        &["one-dorbell", "one-doorbell", "tidegate adapters"],
    );
    let user = ["run", path, "--adapter", "monitored", "--submission", "user", "--quiet"];
    refused(&user, &["user-mode submission", "packet or hardware"]);
}

/// A thread that is forty submissions ahead of its queue.
const AHEAD: &str = r#"
[[queue]]
name = "a"
engine = "copy"
[[fence]]
name = "f"
[[thread]]
name = "main"
program = [
    { loop = "i", from = 1, to = 40, do = [{ execute = [{ work_us = 100 }], queue = "a" }] },
    { signal = "f", queue = "a", value = 1 }, { cpu_wait = "f", value = 1 },
]
"#;

#[test]
fn time_with_full_rings_is_shown() {
    let place = place("rings");
    std::fs::write(place.join("ahead.toml"), AHEAD).unwrap();
    let run = |more: &str| {
        ran(&place, &format!("run ahead.toml --submission user --clock virtual --quiet {more}"))
    };
    let full = |more: &str| {
        let report = printed(&run(&format!("{more} --json -")));
        assert!(report["ring_slots"].is_u64() && report["queues"][0]["ring_wait_ns"].is_u64());
        (report["ring_slots"].clone(), report["ring_wait_ns"].as_u64().unwrap())
    };
    assert_eq!(full(""), (Value::from(1024), 0));
    let (slots, ns) = full("--ring-slots 8");
    assert!(slots == 8 && ns > 0, "{slots} {ns}");
    holds(&text(&run("--ring-slots 8")), &["rings full"]);
    refused(
        &["run", "ahead.toml", "--ring-slots", "1000"],
        &["--ring-slots", "power of two", "8 to 1048576"],
    );
}

/// A workload of three user-mode queues that take turns.
const TURNS: &str = r#"
name = "turns"
description = "three queues take turns"
[[buffer]]
name = "b"
bytes = 64
[[queue]]
name = "a"
engine = "copy"
[[queue]]
name = "b"
engine = "copy"
[[queue]]
name = "c"
engine = "compute"
[[fence]]
name = "f"
[[thread]]
name = "main"
program = [
    { execute = [{ work_us = 1 }], queue = "a" }, { signal = "f", queue = "a", value = 1 },
    { cpu_wait = "f", value = 1 },
    { execute = [{ work_us = 2 }], queue = "b" }, { signal = "f", queue = "b", value = 2 },
    { cpu_wait = "f", value = 2 },
    { execute = [{ work_us = 3 }], queue = "c" }, { signal = "f", queue = "c", value = 3 },
    { cpu_wait = "f", value = 3 },
    { execute = [{ work_us = 4 }], queue = "a" }, { signal = "f", queue = "a", value = 4 },
    { cpu_wait = "f", value = 4 },
]
"#;

#[test]
fn doorbells_are_chosen_and_their_victims_shown() {
    let place = place("doorbells");
    std::fs::write(place.join("turns.toml"), TURNS).unwrap();
    let run = |more: &str| ran(&place, &format!("run turns.toml --clock virtual --quiet {more}"));
    let one = "--submission user --doorbells 1 --doorbell-model dedicated";
    let said = text(&run(&format!("{one} --json one.json --chrome one.trace.json")));
    holds(&said, &["doorbell connects", "doorbells victimised", "rings repeated", "connects"]);
    let report = json(&place, "one.json");
    let number = |name: &str| report[name].as_u64().unwrap();
    assert!(number("doorbell_connects") >= 4 && number("doorbell_victims") >= 3, "{report}");
    assert!(number("doorbell_retries") >= 1, "{report}");
    let of_queue = |n: usize, name: &str| report["queues"][n][name].as_u64().unwrap();
    assert!(
        of_queue(0, "doorbell_connects") >= 2 && of_queue(0, "doorbell_retries") >= 1,
        "{report}"
    );
    assert_eq!(of_queue(1, "doorbell_retries"), 0, "{report}");
    let trace = file(&place, "one.trace.json");
    holds(&trace, &["doorbell connected", "doorbell taken away", "ring repeated"]);
    for more in ["--doorbell-model global", "--doorbells 3", "--doorbell-model dedicated", ""] {
        run(&format!("{more} --json roomy.json"));
        let report = json(&place, "roomy.json");
        assert_eq!(
            (report["doorbell_victims"].as_u64(), report["doorbell_retries"].as_u64()),
            (Some(0), Some(0))
        );
        assert_eq!(report["doorbell_connects"], 3, "{more:?}");
    }
    let said = text(&run("--submission hardware"));
    assert!(!said.contains("doorbell"), "no doorbell was rung: {said}");
    let compared = ran(&place, "compare turns.toml --clock virtual --quiet --doorbells 1");
    holds(&text(&compared), &["doorbells victimised"]);
}

#[test]
fn doorbells_that_make_no_sense_are_refused_by_the_name_of_the_flag() {
    let workload = root().join("workloads/ring-buffer.toml");
    let run = |more: &[&str], words: &[&str]| {
        for command in ["run", "compare"] {
            if command == "compare" && more.contains(&"--submission") {
                continue;
            }
            let mut arguments = vec![command, workload.to_str().unwrap(), "--quiet"];
            arguments.extend(more);
            refused(&arguments, words);
        }
    };
    run(&["--doorbells", "0"], &["--doorbells 0", "1 or more"]);
    run(
        &["--doorbells", "3", "--doorbell-model", "global"],
        &["--doorbells 3", "--doorbell-model global"],
    );
    run(&["--doorbell-model", "shared"], &["--doorbell-model", "dedicated", "global"]);
    run(&["--doorbells", "2", "--submission", "packet"], &["--doorbells", "--submission user"]);
    run(
        &["--doorbell-model", "global", "--submission", "hardware"],
        &["--doorbell-model", "--submission user"],
    );
    run(&["--doorbells", "2", "--adapter", "monitored"], &["--doorbells", "--adapter monitored"]);
}

#[test]
fn preemption_is_chosen_and_shown_in_words_as_data_and_on_the_timeline() {
    let place = place("preemption");
    let run = |granularity: &str| {
        let line = "run workloads/priorities.toml --clock virtual --quiet --json report.json";
        let said =
            text(&ran(&place, &format!("{line} --chrome trace.json --preemption {granularity}")));
        (said, json(&place, "report.json"), file(&place, "trace.json"))
    };
    let (said, report, trace) = run("compute=thread-group,graphics=primitive");
    let preempted = ["preempted at thread-group and primitive", "13 preemption requests"];
    holds(&said, &[&preempted[..], &["left its work", "priority", "idle", "high"]].concat());
    assert!(trace.contains("\"preempted\""), "the preempted queue is marked");
    let engine = &report["engines"][0];
    assert!(engine["engine"] == "3D" && engine["preemptions_requested"] == 13, "{engine}");
    assert_eq!(engine["preemptions"]["count"], 13);
    let queue = |name: &str| {
        report["queues"].as_array().unwrap().iter().find(|q| q["name"] == name).unwrap().clone()
    };
    let urgent = queue("urgent");
    assert!(urgent["priority"] == "high" && urgent["fate"] == "went_on", "{urgent}");
    assert_eq!(urgent["preempts"]["count"], 12);
    assert!(queue("frames")["preempted"].as_u64().unwrap() > 0);
    for none in ["hangs", "recoveries"] {
        assert_eq!(report[none], Value::from(Vec::<u32>::new()), "{none}");
    }
    let longest = |report: &Value| report["engines"][0]["preemptions"]["max_ns"].as_u64().unwrap();
    let (fine, coarse) = (longest(&report), longest(&run("compute=dma-buffer").1));
    assert!(
        coarse > fine + 500_000,
        "a whole submission is more than a part of a dispatch: {coarse} and {fine}"
    );
}

/// A process that uses the engine of the others.
const NEIGHBOUR: &str = r#"
name = "neighbour"
description = "short work on the 3D engine"
[[fence]]
name = "done"
[[queue]]
name = "steady"
engine = "3d"
program = [{ loop = "k", from = 1, to = 20, do = [
    { work_us = 100 }, { signal = "done", value = "k" }, { cpu_wait = "done", value = "k" }, { sleep_us = 400 },
] }]
[[expect]]
fence = "done"
value = 20
"#;

#[test]
fn a_hang_is_recovered_from_and_explained_and_costs_its_own_process_alone() {
    let place = place("hang");
    std::fs::write(place.join("neighbour.toml"), NEIGHBOUR).unwrap();
    let run = |model: &str, clock: &str, more: &str| {
        let flags =
            format!("run workloads/priorities.toml --quiet --submission {model} --clock {clock}");
        let hang = "--inject hang:frames@3 --tdr-delay 50ms --json hang.json --chrome hang.trace";
        let line = format!("{flags} {hang} --beside neighbour.toml {more}");
        let said = text(&ended(&place, 1, &line));
        (said, json(&place, "hang.json"), file(&place, "hang.trace"))
    };
    let explained = [
        "recovery 0x141 of engine 3D",
        "queue 'frames' hangs in submission 3, before 'saxpy'",
        "behind it are the signals of 'drawn' to 3",
        "thread 'frames' waits for fence 'drawn' to reach 3 (it is at 2), which queue 'frames' should have signalled",
        "the engine was reset",
        "the device of queue 'frames' is lost: its work was the reason (HUNG)",
        "lost: it hung",
        "the device was lost",
        "injected: hang:frames@3",
    ];
    for (model, clock) in
        [("packet", "virtual"), ("hardware", "virtual"), ("user", "virtual"), ("user", "wall")]
    {
        let (said, report, trace) = run(model, clock, "");
        holds(&said, &explained);
        assert_eq!(report["hangs"], Value::from(vec!["hang:frames@3"]));
        let recovery = &report["recoveries"][0];
        assert!(recovery["code"] == 0x141 && recovery["engine"] == "3D", "{recovery}");
        let fates: Vec<&Value> =
            report["queues"].as_array().unwrap().iter().map(|q| &q["fate"]).collect();
        assert_eq!(fates, ["lost", "hung", "lost"], "{model} {clock}: one device has all three");
        let neighbour = &report["beside"];
        assert!(neighbour["completed"] == true && neighbour["verified"] == true, "{neighbour}");
        assert_eq!(neighbour["queues"][0]["fate"], "went_on");
        assert!(trace.contains("injected hang") && trace.contains("recovery"), "{model} {clock}");
    }
    let (said, report, _) = run("user", "virtual", "--inject hang:urgent@12");
    assert!(said.contains("hang:urgent@12 was not reached"), "{said}");
    assert_eq!(report["hangs_not_reached"], Value::from(vec!["hang:urgent@12"]));
}

/// The renderer waits for the copy of each frame. Of its later waits only the first one is named.
#[test]
fn a_queue_that_waits_for_a_signal_behind_a_hang_is_named() {
    let place = place("hang-of-a-signaller");
    for model in ["packet", "hardware", "user"] {
        let line = format!(
            "run workloads/ring-buffer.toml --quiet --submission {model} --clock virtual \
             --inject hang:copy@5 --tdr-delay 50ms --json hang.json"
        );
        let said = text(&ended(&place, 1, &line));
        let waits = "queue 'render' waits for fence 'fence2' to reach 5 (it is at 4), which queue \
                     'copy' should have signalled";
        assert_eq!(said.matches("which queue 'copy'").count(), 1, "{model}: {said}");
        assert!(said.contains(waits), "{model}: {said}");
        let rows = json(&place, "hang.json")["recoveries"][0]["held_back"].clone();
        let [row] = rows.as_array().unwrap().as_slice() else { panic!("{model}: {rows}") };
        assert_eq!((&row["kind"], &row["waiter"]), (&"queue".into(), &"render".into()), "{row}");
    }
}

#[test]
fn flags_of_preemption_that_make_no_sense_say_what_there_is() {
    std::fs::write(place("refused").join("turns.toml"), TURNS).unwrap();
    let run = |more: &[&str], words: &[&str]| {
        let mut arguments = vec!["run", "turns.toml", "--quiet", "--clock", "virtual"];
        arguments.extend(more);
        refused(&arguments, words);
    };
    run(&["--preemption", "compute=warp"], &["'warp'", "thread-group"]);
    run(&["--preemption", "copy=dispatch"], &["'copy'", "compute and graphics"]);
    run(&["--preemption", "graphics=dispatch"], &["graphics", "'dispatch'", "primitive"]);
    run(&["--tdr-delay", "2"], &["--tdr-delay", "with its unit", "500ms"]);
    run(&["--inject", "a@1"], &["--inject", "hang:QUEUE@N"]);
    run(&["--inject", "hang:z@1"], &["hang:z@1", "'a', 'b', 'c'"]);
    run(&["--inject", "hang:a@0"], &["counted from 1"]);
    run(&["--inject", "hang:a@3"], &["hang:a@3", "2 submissions", "@1 to @2"]);
    run(&["--inject", "hang:b@2"], &["hang:b@2", "one submission", "@1"]);
}

#[test]
fn bad_input_says_what_and_where() {
    let bad = |name: &str| root().join("workloads/bad").join(name).to_str().unwrap().to_owned();
    refused(&["run", "nowhere.toml"], &["nowhere.toml"]);
    refused(
        &["run", &bad("unknown-fields.toml")],
        &["unknown-fields.toml:", "unknown field", "did you mean"],
    );
    refused(&["run", &bad("lengths.toml")], &["lengths.toml:"]);
    refused(&["replay", "no such line"], &["no such line"]);
    refused(&["explore", "no-such-scenario"], &["no-such-scenario"]);
    let place = place("refused");
    for (name, content) in
        [("cut.json", "{\"traceEvents\": [{\"ph\": \"X\", \"na"), ("other.json", "{\"a\": 1}")]
    {
        std::fs::write(place.join(name), content).unwrap();
        refused(&["run", name], &[name]);
    }
}

#[test]
fn a_deadlock_is_reported_with_its_chain_and_ends() {
    let place = place("deadlock");
    for clock in ["virtual", "wall"] {
        for model in ["packet", "hardware", "user"] {
            let line =
                format!("run workloads/bad/deadlock.toml --clock {clock} --submission {model}");
            holds(&text(&ended(&place, 1, &line)), &["deadlock", "deadlock.toml:"]);
        }
    }
}

#[test]
fn what_validate_finds_is_named_with_the_page_that_shows_it() {
    let place = place("validate");
    let ready = std::fs::read_to_string(root().join("workloads/ring-buffer.toml")).unwrap();
    let wait = "wait = \"fence2\", value = \"i\"";
    let unordered = ready.replace(wait, "wait = \"fence2\", value = 0");
    assert_ne!(ready, unordered);
    std::fs::write(place.join("unordered.toml"), unordered).unwrap();
    let line = "run unordered.toml --clock virtual --validate";
    for model in ["packet", "hardware", "user"] {
        let said = text(&ended(&place, 1, &format!("{line} --submission {model}")));
        holds(&said, &["missing: wait for value", "--timeline FILE shows the findings"]);
        let page = format!("{line} --submission {model} --timeline page.html --chrome run.json");
        holds(
            &text(&ended(&place, 1, &page)),
            &["findings on the timeline", ", page.html#finding=1"],
        );
        holds(&file(&place, "page.html"), &["\"findings\":[[\"hazard\""]);
        let run = json(&place, "run.json");
        let events = run["traceEvents"].as_array().unwrap();
        let found: Vec<&Value> = events.iter().filter(|e| e["cat"] == "finding").collect();
        let arrows = found.iter().filter(|e| e["ph"] == "s").count();
        let texts = found.iter().filter(|e| e["ph"] == "i").count();
        assert!(arrows > 0 && texts > 0, "{model}: {arrows} arrows of {texts} findings");
    }
    let said = text(&ran(&place, "run workloads/ring-buffer.toml --clock virtual --validate"));
    holds(&said, &["hazard check: 0 missing edges"]);
    assert!(!said.contains("--timeline"), "{said}");
}

/// A workload gets the privileges that it needs: its process is opened with the one for realtime.
#[test]
fn a_workload_with_a_realtime_queue_runs() {
    let place = place("realtime");
    let ready =
        std::fs::read_to_string(root().join("workloads/high-priority-compute.toml")).unwrap();
    let realtime = ready.replace("priority = \"high\"", "priority = \"realtime\"");
    assert_ne!(ready, realtime);
    std::fs::write(place.join("realtime.toml"), realtime).unwrap();
    for model in ["packet", "hardware", "user"] {
        ran(&place, &format!("run realtime.toml --submission {model} --clock virtual"));
    }
}

#[test]
fn a_page_fault_names_queue_command_and_address() {
    let place = place("fault");
    for model in ["packet", "hardware", "user"] {
        let line =
            format!("run workloads/bad/page-fault.toml --submission {model} --clock virtual");
        holds(&text(&ended(&place, 1, &line)), &["page fault", "0x", "page-fault.toml:"]);
    }
}

/// Names and a label with the words of a fault report in them. The copy leaves its source, so it
/// faults with a load.
const CONFUSING_NAMES: &str = r#"
[[buffer]]
name = "store"
bytes = 4096
[[buffer]]
name = "queue"
bytes = 65536
[[queue]]
name = "a"
engine = "copy"
program = [
    { execute = [
        { work_us = 1, label = "queue 'b', store to 0x77: all" },
        { copy = "store", to = "queue", bytes = 8192 },
    ] },
]
"#;

#[test]
fn names_do_not_change_what_a_page_fault_says() {
    let place = place("confusing");
    let labelled = "        { work_us = 1, label = \"queue 'b', store to 0x77: all\" },\n";
    for (file, first, culprit) in [("label.toml", labelled, (14, 2)), ("name.toml", "", (13, 1))] {
        let toml = CONFUSING_NAMES.replace(labelled, first);
        std::fs::write(place.join(file), toml).unwrap();
        let (line, command) = culprit;
        for model in ["packet", "hardware", "user"] {
            let run = format!("run {file} --submission {model} --clock virtual");
            let parts = [
                &format!("{file}:{line}:"),
                &format!(
                    "GPU page fault in queue 'a', submission 1, command {command} (copy store to queue)"
                ),
                ": load from 0x",
                "the first byte beyond the end of buffer 'store' of 4096 bytes",
            ];
            holds(&text(&ended(&place, 1, &run)), &parts);
        }
    }
}

#[test]
fn real_traces_run_under_every_model() {
    let Some(traces) = std::env::var_os("TIDEGATE_TRACES") else {
        println!("skipped: TIDEGATE_TRACES is not set, so there are no recorded traces to run");
        return;
    };
    let place = place("traces");
    let traces = std::fs::read_dir(traces).unwrap().map(|e| e.unwrap().path());
    let traces: Vec<PathBuf> =
        traces.filter(|p| p.extension().is_some_and(|e| e == "gz")).collect();
    assert!(!traces.is_empty());
    for trace in traces {
        for gaps in ["keep", "drop"] {
            let path = trace.to_str().unwrap();
            let output = tidegate(&place, &["compare", path, "--gaps", gaps, "--json", "-"]);
            assert_eq!(output.status.code(), Some(0), "{path}: {}", text(&output));
            let comparison: Value = serde_json::from_slice(&output.stdout).unwrap();
            let trust = &comparison["verdict"]["trust"];
            assert_eq!(trust["recorded_as"], "user");
            assert!(trust["makespan_error_permille"].as_u64().unwrap() <= 10, "{path}: {trust}");
            assert!(
                ["good", "fair"].contains(&trust["grade"].as_str().unwrap()),
                "{path}: {trust}"
            );
            for run in comparison["runs"].as_array().unwrap() {
                assert_eq!(
                    (&run["completed"], &run["clock"]),
                    (&Value::Bool(true), &Value::from("virtual"))
                );
                assert!(run["recorded_ns"].as_u64().unwrap() > 0);
            }
        }
    }
}

/// Each picture has its own row of the horizon: which of `frames` it is, and that it is that one
/// from top to bottom.
fn sunrise(rgba: &[u8], width: usize, frames: std::ops::Range<usize>) -> usize {
    // The horizon is where the picture is brightest; above and below it gets darker.
    let rows: Vec<u64> =
        rgba.chunks(width * 4).map(|row| row.iter().map(|byte| u64::from(*byte)).sum()).collect();
    let brightest = (0..rows.len()).max_by_key(|row| rows[*row]).unwrap();
    frames.min_by_key(|frame| (180 - 20 - frame * 4).abs_diff(brightest)).unwrap()
}

// spec: PRE-018
#[test]
fn a_presenting_workload_writes_the_pictures_that_were_shown() {
    let place = place("presenting");
    let line = "run workloads/presenting.toml --clock virtual";
    let output = ran(&place, &format!("{line} --frames shown --json r.json --chrome t.json"));
    holds(&text(&output), &["display: 24 of 24 frames shown", "wrote 24 files", "frame-0024.png"]);
    let report = json(&place, "r.json");
    assert_eq!(
        (&report["display"]["frames_shown"], &report["display"]["missed_vsyncs"]),
        (&24.into(), &0.into())
    );
    holds(&file(&place, "t.json"), &["display (display)", "flip", "vsync"]);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(place.join("shown")).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), 24);
    for (number, file) in files.iter().enumerate() {
        let decoder =
            png::Decoder::new(std::io::BufReader::new(std::fs::File::open(file).unwrap()));
        let mut reader = decoder.read_info().unwrap();
        let mut rgba = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut rgba).unwrap();
        assert_eq!((info.width, info.height), (320, 180));
        assert_eq!(sunrise(&rgba, 320, 0..24), number, "{}", file.display());
    }
    let refused = ended(&place, 2, "run workloads/hello.toml --frames none");
    holds(&text(&refused), &["'hello' has no display"]);
    std::fs::write(place.join("file"), "").unwrap();
    let refused = ended(&place, 2, "run workloads/presenting.toml --frames file");
    holds(&text(&refused), &["--frames file: cannot create the folder"]);
    ran(&place, "compare workloads/presenting.toml --clock virtual");
}

/// The comparison of a workload in virtual time: what was printed, and its JSON.
fn compared(name: &str, workload: &str) -> (String, Value) {
    let place = place(name);
    let line = format!("compare workloads/{workload} --clock virtual --quiet --json c.json");
    (text(&ran(&place, &line)), json(&place, "c.json"))
}

#[test]
fn an_expectation_is_shown_with_the_value_of_the_model_that_it_is_for() {
    let (said, json) = compared("expectations", "stress-many-queues.toml");
    let user =
        json["runs"].as_array().unwrap().iter().find(|run| run["submission"] == "user").unwrap();
    let line = format!("interrupts = {} under user (at most 10)", user["interrupts"]);
    assert!(said.contains(&line), "{line} is missing in {said}");
    let bounded: Vec<&str> = said.lines().filter(|line| line.contains("(at most 10)")).collect();
    assert_eq!(bounded.len(), 1, "{said}");
}

/// A longer run of a verdict, as a user makes it: `--let` sets the constant.
#[test]
fn the_length_of_a_run_can_be_given() {
    let place = place("lengths");
    let base = json_of_compare(&place, "");
    let longer = json_of_compare(&place, "--let frames=48");
    let steady = |json: &Value, model: usize| {
        let model = &json["verdict"]["models"][model];
        model["makespan_ns"].as_i64().unwrap() - model["start_up_ns"].as_i64().unwrap()
    };
    for model in 1..3 {
        let at = &base["verdict"]["models"][model]["against"]["lengths"][0];
        let (own, packet) = (steady(&longer, model), steady(&longer, 0));
        assert_eq!(at["change_permille"].as_i64(), Some((own - packet) * 1_000 / packet), "{at}");
    }
    let refused = |line: &str, why: &str| holds(&text(&ended(&place, 2, line)), &[why]);
    refused("compare --let frame=240", "[let] has no constant 'frame'; did you mean 'frames'?");
    refused("compare --let frames=many", "'frames=many' is not NAME=VALUE with a whole number");
}

/// A length that goes wrong is left out, with the reason, and the comparison stands.
#[test]
fn a_longer_run_that_goes_wrong_is_left_out() {
    let place = place("longer");
    let hello = std::fs::read_to_string(root().join("workloads/hello.toml")).unwrap();
    let compared = |value: &str| {
        let scaled = "scales_with = \"n\"\n[let]\nn = 1\n[[buffer]]";
        let workload = hello.replacen("[[buffer]]", scaled, 1).replace("value = 1\n", value);
        std::fs::write(place.join("w.toml"), workload).unwrap();
        text(&ran(&place, "compare w.toml --quiet"))
    };
    let said = compared("value = \"1 + (n > 5)\"\n");
    let wrong = "not checked at 10x the length ('scales_with'): --let n=10 goes wrong under packet";
    holds(&said, &["packet: ", wrong, "fence 'done'"]);
    let said = compared("value = \"1 - (n > 5) * 2\"\n");
    holds(&said, &["packet: ", "at 10x the length ('scales_with'): --let n=10 "]);
}

fn json_of_compare(place: &Path, more: &str) -> Value {
    ran(place, format!("compare --quiet --json c.json {more}").trim_end());
    json(place, "c.json")
}

/// Recomputes the ranking from the steady work in the JSON: one tie for order, changes and claim.
#[test]
fn the_ranking_follows_from_the_steady_work_that_the_json_states() {
    // Differences on both sides of the tie: none, some on some machines, all on all machines.
    for workload in ["decode-deep-queues.toml", "hello.toml", "ring-buffer.toml"] {
        let (said, json) = compared("ranking", workload);
        let ranking = &json["ranking"];
        let parts = ranking["tie_parts"].as_u64().unwrap();
        let machines = ranking["measurements"].as_array().unwrap();
        let ns = |machine: &Value, model: &str| {
            let rows = machine["steady_ns"].as_array().unwrap();
            rows.iter().find(|row| row[0] == model).unwrap()[1].as_u64().unwrap()
        };
        let relation = |machine: &Value, first: &str, second: &str| {
            let (first, second) = (ns(machine, first), ns(machine, second));
            match first.abs_diff(second) * parts <= first.max(second) {
                true => "no_difference",
                false if first < second => "faster",
                false => "slower",
            }
        };
        let order: Vec<&str> = ranking["order"]
            .as_array()
            .unwrap()
            .iter()
            .map(|model| model.as_str().unwrap())
            .collect();
        let mut same_everywhere = true;
        for (place, first) in order.iter().enumerate() {
            for second in &order[place + 1..] {
                let nominal = relation(&machines[0], first, second);
                assert_ne!(nominal, "slower", "{workload}: {first} before {second}");
                let tied = ranking["ties"].as_array().unwrap().iter().any(|tie| {
                    let tie = tie.as_array().unwrap();
                    tie.contains(&(*first).into()) && tie.contains(&(*second).into())
                });
                assert_eq!(tied, nominal == "no_difference", "{workload}: {first} and {second}");
                same_everywhere &= machines.iter().all(|m| relation(m, first, second) == nominal);
            }
        }
        assert_eq!(ranking["survives"], same_everywhere, "{workload}");
        let claim = format!("the same on all {} cost settings", machines.len());
        assert_eq!(
            said.contains(&format!("; {claim}")) && !said.contains(&format!("not {claim}")),
            same_everywhere,
            "{workload}: {said}"
        );
    }
}
