//! Measures the import of a recording: events of a PyTorch profile, made here, in a second.

use crate::measure::{CLIENT_CPU, Count, CpuMeter, Found, Measured, Samples, pin};
use crate::row::Scale;
use serde::de::IgnoredAny;
use std::fmt::Write as _;
use tidegate::Platform;
use tidegate::workload::{LoadOptions, load_bytes};

/// Launches of the profile. Each is three events: an operator, a call, a kernel.
const LAUNCHES: u64 = 20_000;
const PASSES: u64 = 3;

fn profile(launches: u64) -> String {
    let mut text = "{\"traceEvents\": [\n".to_owned();
    let event = |category: &str, name: &str, thread: &str, start: u64, length: u64, more: &str| {
        format!(
            "{{\"ph\": \"X\", \"cat\": \"{category}\", \"name\": \"{name}\", \"pid\": 7, \"tid\": {thread}, \
             \"ts\": {start}.125, \"dur\": {length}.5, \"args\": {{{more}}}}}"
        )
    };
    for n in 0..launches {
        let (at, correlation) = (1_000_000 + 40 * n, format!("\"correlation\": {}", n + 1));
        let placed = format!("\"device\": 0, \"stream\": 7, {correlation}");
        let events = [
            event("cpu_op", "aten::linear", "70", at, 30, "\"External id\": 5"),
            event("cuda_runtime", "cudaLaunchKernel", "70", at + 5, 10, &correlation),
            event("kernel", "gemm_128x64_nn", "7", at + 20, 15, &placed),
        ];
        let comma = if n == 0 { "" } else { ",\n" };
        // Writing to a text cannot fail.
        let _ = write!(text, "{comma}{}", events.join(",\n"));
    }
    text + "\n]}"
}

/// Times `read` of the profile, by its events.
fn times(launches: u64, mut read: impl FnMut(&str) -> Found<()>) -> Found<Samples> {
    pin(CLIENT_CPU)?;
    let (text, host, mut samples) = (profile(launches), Platform::host(), Samples::default());
    for _ in 0..PASSES {
        let start = host.now();
        read(&text)?;
        samples.push_batch(host.now().since(start), 3 * launches);
    }
    Ok(samples)
}

/// Row `import_kineto`.
pub(super) fn kineto(scale: Scale) -> Found<Measured> {
    let launches = scale.of(LAUNCHES, 10);
    let (cpu, mut queues) = (CpuMeter::start(), 0);
    let samples = times(launches, |text| {
        let (workload, _) = load_bytes(text.as_bytes(), "profile.json", &LoadOptions::default())?;
        queues = workload.queues.len() as u64;
        Ok(())
    })?;
    let counts = vec![Count::of("events", 3 * launches), Count::exactly("queues", queues, 1)];
    Ok(Measured { counts, ..Measured::of(samples, cpu.per(3 * launches * PASSES)) })
}

/// Floor: the text is checked as JSON, and nothing of it is kept.
pub(super) fn json_skipped() -> Found<Samples> {
    times(LAUNCHES, |text| Ok(serde_json::from_str::<IgnoredAny>(text).map(drop)?))
}
