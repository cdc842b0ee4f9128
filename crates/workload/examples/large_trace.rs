//! Writes a generated PyTorch profiler trace: `large_trace EVENTS > trace.json`.

#[path = "../tests/generated/mod.rs"]
mod generated;

fn main() -> std::io::Result<()> {
    let events = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(100_000);
    std::io::copy(&mut generated::Trace::new(events), &mut std::io::stdout().lock()).map(drop)
}
