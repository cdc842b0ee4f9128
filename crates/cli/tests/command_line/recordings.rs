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

#[test]
fn frames_of_a_windows_program_are_compared_under_the_models_that_present() {
    let place = place("presentmon");
    let mut table = "Application,ProcessID,SwapChainAddress,SyncInterval,PresentMode,CPUStartTime,CPUBusy,CPUWait,\
                     GPULatency,GPUTime,GPUBusy,DisplayLatency\r\n"
        .to_owned();
    for frame in 0..30 {
        let start = 16.667 * f64::from(frame);
        table += &format!("game.exe,12,0xA0,1,x,{start:.4},16.167,0.5,8,9,6.5,30\r\n");
    }
    std::fs::write(place.join("game.csv"), table).unwrap();
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
