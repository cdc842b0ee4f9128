//! Recordings on the command line: the rows of the README that name one, and the frames of a
//! Windows program.

use crate::{holds, json, place, ran, root, text};

/// The command lines in backticks of the README that name a recording of the repository.
fn lines_of_the_readme() -> Vec<String> {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let quoted = readme.split('`').skip(1).step_by(2);
    let commands = quoted.filter_map(|line| line.strip_prefix("tidegate "));
    commands.filter(|line| line.contains("workloads/recordings/")).map(str::to_owned).collect()
}

#[test]
fn every_row_of_the_readme_with_a_recording_runs() {
    let place = place("readme recordings");
    let lines = lines_of_the_readme();
    assert!(lines.len() >= 4, "{lines:?}");
    for command in ["compare", "diff", "run"] {
        assert!(lines.iter().any(|line| line.starts_with(command)), "{command}: {lines:?}");
    }
    for line in &lines {
        let said = text(&ran(&place, line));
        assert!(!said.is_empty(), "{line}");
    }
    assert!(place.join("kernels.csv").exists() && place.join("compare.html").exists());
}

#[test]
fn the_recording_of_the_repository_is_replayed_well() {
    let place = place("recording of the repository");
    ran(&place, "compare workloads/recordings/pipelined.json.gz --json comparison.json");
    let comparison = json(&place, "comparison.json");
    assert_eq!(comparison["verdict"]["trust"]["grade"], "good", "{comparison}");
}

/// A trace of the PyTorch profiler: two kernels, and between them a wait for an event that it does
/// not name.
fn kernels_around_a_wait(us: u64) -> String {
    let call = |name: &str, at: u64, us: u64, correlation: u64| {
        format!(
            r#"{{"ph":"X","cat":"cuda_runtime","name":"{name}","pid":1,"tid":1,"ts":{at},"dur":{us},
                "args":{{"correlation":{correlation}}}}}"#
        )
    };
    let kernel = |at: u64, correlation: u64| {
        format!(
            r#"{{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":{at},"dur":20,
                "args":{{"correlation":{correlation},"stream":7}}}}"#
        )
    };
    let events = [
        call("cudaLaunchKernel", 0, 5, 1),
        kernel(10, 1),
        call("cudaEventSynchronize", 40, us, 2),
        call("cudaLaunchKernel", 50 + us, 5, 3),
        kernel(60 + us, 3),
    ];
    format!(r#"{{"traceEvents":[{}]}}"#, events.join(","))
}

/// The models cannot change a wait whose cause is not recorded, so their times are not ranked then.
#[test]
fn models_are_ranked_only_where_the_replay_can_be_trusted() {
    let place = place("trust");
    for (us, grade, ranked) in [(4, "good", true), (400, "poor", false)] {
        std::fs::write(place.join("kernels.json"), kernels_around_a_wait(us)).unwrap();
        let said = text(&ran(&place, "compare kernels.json --json comparison.json"));
        assert_eq!(json(&place, "comparison.json")["verdict"]["trust"]["grade"], grade);
        assert_eq!(said.contains("fastest first"), ranked, "{said}");
        assert_eq!(said.contains("too far from the recording to rank"), !ranked, "{said}");
    }
}

/// A PresentMon table of frames of 16.667 ms. The columns of each after its start are given.
fn frames(count: u32, columns: &str) -> String {
    let head = "Application,ProcessID,SwapChainAddress,SyncInterval,PresentMode,CPUStartTime,CPUBusy,CPUWait,\
                GPULatency,GPUTime,GPUBusy,DisplayLatency\r\n";
    let frame = |frame: u32| {
        let start = 16.667 * f64::from(frame);
        format!("game.exe,12,0xA0,1,x,{start:.4},{columns}\r\n")
    };
    head.to_owned() + &(0..count).map(frame).collect::<String>()
}

#[test]
fn a_program_that_the_screen_holds_back_waits_and_does_not_work() {
    let place = place("presentmon waits");
    // Each call returns 50 us after the frame before was on the screen.
    std::fs::write(place.join("game.csv"), frames(100, "5,11.667,4,7,6,33.284")).unwrap();
    let said = text(&ran(&place, "compare game.csv --json comparison.json"));
    holds(&said, &["calls of 0 waited for GPU work, of 99 for the screen", "the replay is good"]);
    let comparison = json(&place, "comparison.json");
    for run in comparison["verdict"]["models"].as_array().unwrap() {
        let time = |part: &str| run["account"][part].as_u64().unwrap();
        assert!(time("idle_ns") > 2 * time("host_ns"), "{run}");
    }
}

#[test]
fn frames_of_a_windows_program_are_compared_under_the_models_that_present() {
    let place = place("presentmon");
    std::fs::write(place.join("game.csv"), frames(30, "16.167,0.5,8,9,6.5,30")).unwrap();
    let said = text(&ran(&place, "compare game.csv --json comparison.json"));
    holds(
        &said,
        &[
            "PresentMon CSV, 30 events: 30 kernels",
            "30 presents, 30 shown, 30 replayed on the display",
            "taken as recorded under hardware",
            "the replay is good",
        ],
    );
    let comparison = json(&place, "comparison.json");
    let runs = comparison["runs"].as_array().unwrap();
    let models: Vec<&str> = runs.iter().map(|run| run["submission"].as_str().unwrap()).collect();
    assert_eq!(models, ["packet", "hardware"]);
    for run in runs {
        assert_eq!(run["display"]["frames_shown"], 30, "{run}");
        assert_eq!(run["display"]["missed_vsyncs"], 0, "{run}");
    }
    let said = text(&ran(&place, "run game.csv --kernels kernels.csv"));
    holds(&said, &["display: 30 of 30 frames shown"]);
}
