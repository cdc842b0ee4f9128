//! Writes sample timelines into a directory: a frame graph as page, Chrome JSON and Perfetto file,
//! and large pages.
//!
//! `cargo run -p tidegate-trace --example demo -- DIRECTORY`

use std::fs::File;
use std::io;
use std::path::Path;

use tidegate_trace::{chrome, html, perfetto};

#[path = "../tests/sample/mod.rs"]
mod sample;

fn main() -> io::Result<()> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let directory = Path::new(&directory);
    let frames = sample::frames(6);
    html::write(&frames, File::create(directory.join("frames.html"))?)?;
    chrome::write(&frames, File::create(directory.join("frames.json"))?)?;
    perfetto::write(&frames, File::create(directory.join("frames.pftrace"))?)?;
    html::write(&sample::large(100_000, 40), File::create(directory.join("large.html"))?)?;
    html::write(&sample::large(100_000, 6), File::create(directory.join("dense.html"))?)?;
    html::write(&sample::unsynchronised(), File::create(directory.join("findings.html"))?)?;
    html::write(&sample::awkward(), File::create(directory.join("awkward.html"))?)?;
    html::write(&sample::empty(), File::create(directory.join("empty.html"))?)?;
    println!("eight files in {}", directory.display());
    Ok(())
}
