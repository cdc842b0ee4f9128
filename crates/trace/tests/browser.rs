//! Opens timelines in headless Chromium and asserts on what the page's self-test wrote down.
//!
//! Needs `chromium`, `chromium-browser` or `google-chrome` on PATH; without one each test prints
//! one line and passes. How long a redraw takes is printed by the functional test and asserted only
//! by the ignored one, because tests are not timed: `cargo test -p tidegate-trace --test browser --
//! --ignored`.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tidegate_trace::{Kind, Trace, compare_page, html};

mod sample;

/// The largest page, for 100,000 and for 1,000,000 boxes.
const LARGEST_PAGE_BYTES: u64 = 12 << 20;
/// The slowest median redraw of 100,000 and of 1,000,000 boxes, on two cores.
const SLOWEST_REDRAW_MS: f64 = 33.0;
/// The sizes of a window that the page is made for.
const WINDOWS: [&str; 4] = ["480,800", "800,900", "1280,800", "1920,1000"];

fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = std::env::split_paths(&path)
        .flat_map(|directory| names.map(|name| directory.join(name)))
        .find(|file| file.is_file());
    if found.is_none() {
        println!("skipped: no chromium, chromium-browser or google-chrome on PATH");
    }
    found
}

/// A directory of this test's own below the build's, empty.
fn workplace(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

fn page(trace: &Trace, directory: &Path) -> PathBuf {
    let file = directory.join("page.html");
    html::write(trace, File::create(&file).unwrap()).unwrap();
    file
}

fn open(browser: &Path, directory: &Path, window: &str, action: &str, url: &str) -> String {
    let mut profile = OsString::from("--user-data-dir=");
    profile.push(directory.join("profile"));
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--hide-scrollbars",
        ])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args([&format!("--window-size={window}"), "--timeout=120000", action])
        .arg(profile)
        .arg(url)
        .output()
        .expect("the browser starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("the page is text")
}

/// Queues so few and so deep that boxes fill the screen: the most there can be to draw.
const FEW_QUEUES: usize = 6;

/// What the page in `file` says about itself in a window of the given size.
fn report_of(browser: &Path, file: &Path, window: &str) -> Value {
    let url = format!("file://{}#selftest", file.display());
    let dom = open(browser, file.parent().unwrap(), window, "--dump-dom", &url);
    let (_, rest) = dom.split_once("<pre id=\"selftest\">").expect("the self-test ran to its end");
    let (text, _) = rest.split_once("</pre>").unwrap();
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let report: Value = serde_json::from_str(&text).unwrap();
    for (check, outcome) in report["checks"].as_object().unwrap() {
        assert_eq!(*outcome, true, "{} at {window}: {check}", file.display());
    }
    assert_eq!(report["ok"], true);
    report
}

/// What the page of `trace` says about itself.
fn selftest(browser: &Path, trace: &Trace, name: &str) -> Value {
    let file = page(trace, &workplace(name));
    let report = report_of(browser, &file, "1400,800");
    assert_eq!(report["records"], trace.records.len());
    assert_eq!(report["arrows"], trace.flows().len());
    report
}

#[test]
fn a_frame_graph_can_be_zoomed_panned_searched_and_clicked() {
    let Some(browser) = browser() else { return };
    selftest(&browser, &sample::frames(6), "frames");
}

#[test]
fn every_width_of_a_window_works() {
    let Some(browser) = browser() else { return };
    let file = page(&sample::troubled(), &workplace("widths"));
    for window in WINDOWS {
        report_of(&browser, &file, window);
    }
}

#[test]
fn findings_are_listed_and_their_missing_edges_drawn() {
    let Some(browser) = browser() else { return };
    let trace = sample::unsynchronised();
    let file = page(&trace, &workplace("findings"));
    for window in WINDOWS {
        assert_eq!(report_of(&browser, &file, window)["findings"], trace.findings.len());
    }
    let traces = [sample::frames(3), trace.clone(), trace];
    let file = workplace("findings of bands").join("page.html");
    compare_page::write(&sample::comparison(&traces), File::create(&file).unwrap()).unwrap();
    assert_eq!(report_of(&browser, &file, "1280,800")["findings"], 8);
}

#[test]
fn a_wait_shows_the_chain_of_what_it_waited_for() {
    let Some(browser) = browser() else { return };
    let trace = sample::chain();
    let directory = workplace("chain");
    let file = page(&trace, &directory);
    for window in WINDOWS {
        report_of(&browser, &file, window);
    }
    let wait = trace.records.iter().position(|record| record.kind == Kind::CpuWait).unwrap();
    let url = format!("file://{}#select={wait}", file.display());
    let dom = open(&browser, &directory, "1280,800", "--dump-dom", &url);
    let (_, list) = dom.split_once("<ol id=\"chain\">").expect("the chain is shown");
    let (list, _) = list.split_once("</ol>").unwrap();
    let hops: Vec<&str> = list.split("<li ").skip(1).collect();
    let times = hops.iter().map(|hop| hop.split('"').nth(1).unwrap());
    let times: Vec<u64> = times.map(|ns| ns.parse().unwrap()).collect();
    // From 100 ns back to 40, when the wait began to block.
    assert_eq!(times, [8, 2, 35, 3, 2, 10]);
    for (hop, text) in hops.iter().zip([
        "CPU wait done \u{2265} 1 on main: released at 100 ns",
        "signal done = 1 on compute: done at 92 ns",
        "shade on compute: ran 60 ns to 90 ns",
        "wait uploaded \u{2265} 1 on compute: blocked 22 ns to 55 ns",
        "signal uploaded = 1 on copy: done at 52 ns",
        "upload on copy: ran 15 ns to 50 ns",
    ]) {
        assert!(hop.contains(text), "{hop} lacks {text}");
    }
}

#[test]
fn a_replayed_schedule_counts_steps() {
    let Some(browser) = browser() else { return };
    selftest(&browser, &sample::schedule(), "schedule");
}

#[test]
fn a_comparison_has_bars_and_bands_with_one_zoom() {
    let Some(browser) = browser() else { return };
    let traces = sample::three_models();
    let file = workplace("comparison").join("page.html");
    compare_page::write(&sample::comparison(&traces), File::create(&file).unwrap()).unwrap();
    for window in WINDOWS {
        assert_eq!(report_of(&browser, &file, window)["bands"], 3);
    }
}

#[test]
fn a_hundred_thousand_boxes_work_too() {
    let Some(browser) = browser() else { return };
    let trace = sample::large(100_000, 40);
    let report = selftest(&browser, &trace, "large");
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("large/page.html");
    let bytes = fs::metadata(file).unwrap().len();
    assert!(bytes <= LARGEST_PAGE_BYTES, "{bytes} bytes");
    println!("{bytes} bytes, median redraw {} ms", report["redraw_median_ms"]);
}

#[test]
#[ignore = "half a minute: a hundred thousand boxes are its bounded form"]
fn a_million_boxes_work_too() {
    let Some(browser) = browser() else { return };
    let trace = sample::large(1_000_000, FEW_QUEUES);
    let report = selftest(&browser, &trace, "million");
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("million/page.html");
    let bytes = fs::metadata(file).unwrap().len();
    assert!(bytes <= LARGEST_PAGE_BYTES, "{bytes} bytes");
    println!(
        "{bytes} bytes, {} stretches, median redraw {} ms",
        trace.critical_path.len(),
        report["redraw_median_ms"]
    );
}

#[test]
fn awkward_strings_lost_records_and_nothing_at_all() {
    let Some(browser) = browser() else { return };
    selftest(&browser, &sample::awkward(), "awkward");
    selftest(&browser, &sample::empty(), "empty");
}

#[test]
fn a_screenshot_is_taken_for_a_person_to_look_at() {
    let Some(browser) = browser() else { return };
    let directory = workplace("screenshot");
    let file = page(&sample::frames(6), &directory);
    let picture = directory.join("frames.png");
    let action = format!("--screenshot={}", picture.display());
    open(&browser, &directory, "1400,800", &action, &format!("file://{}", file.display()));
    let bytes = fs::read(&picture).unwrap();
    assert!(bytes.starts_with(b"\x89PNG"));
    // A blank page of this size compresses to a few kilobytes.
    assert!(bytes.len() > 40_000, "{} bytes", bytes.len());
    println!("look at {}", picture.display());
}

#[test]
fn a_page_is_printed_on_a_few_sheets() {
    let Some(browser) = browser() else { return };
    let traces = sample::three_models();
    let directory = workplace("paper");
    let comparison = directory.join("comparison.html");
    compare_page::write(&sample::comparison(&traces), File::create(&comparison).unwrap()).unwrap();
    for (file, most) in [(page(&sample::chain(), &directory), 1), (comparison, 5)] {
        let paper = directory.join("paper.pdf");
        let action = format!("--print-to-pdf={}", paper.display());
        open(&browser, &directory, "1280,800", &action, &format!("file://{}", file.display()));
        let bytes = fs::read(&paper).unwrap();
        assert!(bytes.starts_with(b"%PDF"));
        let text = String::from_utf8_lossy(&bytes);
        // A4 in landscape, in points.
        assert!(text.contains("/MediaBox [0 0 842 595]") || text.contains("841.9"), "{file:?}");
        let sheets = text.matches("/Type /Page\n").count();
        assert!((1..=most).contains(&sheets), "{sheets} sheets of {}", file.display());
    }
}

#[test]
#[ignore = "timed: run it alone"]
fn a_hundred_thousand_and_a_million_boxes_redraw_in_time() {
    let Some(browser) = browser() else { return };
    for boxes in [100_000, 1_000_000] {
        let report = selftest(&browser, &sample::large(boxes, FEW_QUEUES), "timed");
        for median in ["redraw_median_ms", "zoom_redraw_median_ms"] {
            let ms = report[median].as_f64().unwrap();
            println!("{boxes} boxes: {median} of {} redraws: {ms} ms", report["redraws"]);
            assert!(ms <= SLOWEST_REDRAW_MS, "{boxes} boxes: {median} = {ms} ms");
        }
    }
}
