//! Draws the pictures of the documents again: timelines of workloads in virtual time, and the frame
//! that a workload draws.
//!
//! Entry points: [`draw`], which needs a browser; [`PICTURES`].

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::cargo;
use crate::{setup, tree};

/// A timeline as a picture.
struct Picture {
    file: &'static str,
    workload: &'static str,
    /// A line of the workload, and the line that takes its place.
    change: Option<(&'static str, &'static str)>,
    window: &'static str,
}

const PIPELINED: &str = "workloads/pipelined-compute-graphics.toml";

const PICTURES: &[Picture] = &[
    Picture {
        file: "docs/images/timeline.png",
        workload: PIPELINED,
        change: None,
        window: "1400,800",
    },
    Picture {
        file: "docs/guide/src/images/pipelined.png",
        workload: PIPELINED,
        change: None,
        window: "1280,640",
    },
    Picture {
        file: "docs/guide/src/images/taking-turns.png",
        workload: PIPELINED,
        change: Some(("compute_graphics_latency = 2", "compute_graphics_latency = 0")),
        window: "1280,640",
    },
];

/// The picture that a workload draws itself, and the workload.
const FRAME: (&str, &str) = ("docs/images/frame.png", "workloads/frame-graph.toml");

/// Draws every picture.
///
/// # Errors
///
/// No browser; a build, a run or a file that fails.
pub fn draw(root: &Path) -> Result<(), String> {
    let browser = setup::browser_on_path().ok_or("no chromium on PATH: install it")?;
    cargo(root, &["build", "--quiet", "--package", "tidegate-cli"], &[])?;
    let folder = tree::build_folder(root).join("pictures");
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for picture in PICTURES {
        draw_timeline(root, &folder, &browser, picture)?;
        println!("{}", picture.file);
    }
    let (file, workload) = FRAME;
    run_workload(root, &folder, &root.join(workload), &[])?;
    let drawn = folder.join(Path::new(file).file_name().unwrap_or_default());
    fs::copy(&drawn, root.join(file)).map_err(|e| format!("{}: {e}", drawn.display()))?;
    println!("{file}");
    Ok(())
}

fn draw_timeline(
    root: &Path,
    folder: &Path,
    browser: &Path,
    picture: &Picture,
) -> Result<(), String> {
    let workload = changed(root, folder, picture)?;
    let page = folder.join("page.html");
    let page_name = page.to_string_lossy();
    run_workload(root, folder, &workload, &["--timeline", &page_name])?;
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"])
        .args(["--hide-scrollbars", "--disable-background-networking", "--disable-sync"])
        .arg(format!("--window-size={}", picture.window))
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("--screenshot={}", root.join(picture.file).display()))
        .arg(format!("file://{page_name}"))
        .output()
        .map_err(|e| format!("cannot run {}: {e}", browser.display()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{}: {}", picture.file, String::from_utf8_lossy(&output.stderr)))
}

/// Returns the picture's workload, or a changed copy of it with the same name.
fn changed(root: &Path, folder: &Path, picture: &Picture) -> Result<PathBuf, String> {
    let original = root.join(picture.workload);
    let Some((line, instead)) = picture.change else { return Ok(original) };
    let text = fs::read_to_string(&original).map_err(|e| format!("{}: {e}", picture.workload))?;
    if !text.lines().any(|other| other == line) {
        return Err(format!("{}: it has no line '{line}'", picture.workload));
    }
    let copy = folder.join(original.file_name().unwrap_or_default());
    let text = text.replace(line, instead);
    fs::write(&copy, text).map_err(|e| format!("{}: {e}", copy.display()))?;
    Ok(copy)
}

/// Runs a workload in virtual time. Its own files go into `folder`.
fn run_workload(root: &Path, folder: &Path, workload: &Path, more: &[&str]) -> Result<(), String> {
    let program = tree::build_folder(root).join("debug/tidegate");
    let output = Command::new(&program)
        .arg("run")
        .arg(workload)
        .args(["--clock", "virtual"])
        .args(more)
        .current_dir(folder)
        .output()
        .map_err(|e| format!("cannot run {}: {e}", program.display()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{}: {}", workload.display(), String::from_utf8_lossy(&output.stderr)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each picture of the documents is drawn by the task, and each that the task draws is there.
    #[test]
    fn the_pictures_of_the_documents_are_those_that_are_drawn() {
        let root = tree::root();
        let mut there: Vec<String> = ["docs/images", "docs/guide/src/images"]
            .iter()
            .flat_map(|folder| tree::paths(&root, folder).unwrap())
            .map(|path| path.to_string_lossy().into_owned())
            .collect();
        let mut drawn: Vec<String> =
            PICTURES.iter().map(|picture| picture.file.to_owned()).collect();
        drawn.push(FRAME.0.to_owned());
        there.sort();
        drawn.sort();
        assert_eq!(there, drawn);
    }

    #[test]
    fn each_changed_line_stands_in_its_workload() {
        let root = tree::root();
        for picture in PICTURES {
            let text = fs::read_to_string(root.join(picture.workload)).unwrap();
            let there = picture.change.is_none_or(|(line, _)| text.lines().any(|l| l == line));
            assert!(there, "{}", picture.file);
        }
    }
}
