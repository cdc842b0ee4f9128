//! `tidegate adapters`: the named machines and what they can do, as a table or as JSON.

use crate::output::{self, Outputs};
use crate::streams::outln;
use crate::tables::table;
use crate::{BadInput, End, arguments};
use serde::Serialize;
use tidegate::Platform;
use tidegate::variants::{self, Caps};

#[derive(Serialize)]
struct Row {
    name: &'static str,
    about: &'static str,
    native_fences: bool,
    atomics_bits: u32,
    interrupts: &'static str,
    /// Per node: basic, or advanced where engines interrupt for their writes to monitored fences.
    advanced_nodes: usize,
    fence_writing_nodes: usize,
    nodes: usize,
    /// Linked: each has all the nodes.
    physical_gpus: u32,
    fence_stride_bytes: u32,
    /// 0: one that all queues share.
    doorbells: u32,
    fence_history: bool,
    io_coherent: bool,
    io_mmu: bool,
    /// 0: signals are compared with MonitoredValue in memory.
    shadow_entries: u32,
    posted_fence_writes: bool,
    submissions: Vec<&'static str>,
}

/// `tidegate adapters`.
pub(crate) fn command(arguments: &arguments::Adapters) -> Result<End, BadInput> {
    let outputs = Outputs::check(&[("--json", arguments.json.as_deref())])?;
    let platform = Platform::host();
    let row = |v: &'static variants::Variant| Row::new(v, Caps::of(&v.config(&platform)));
    let rows: Vec<Row> = variants::ALL.iter().map(row).collect();
    if let Some(path) = &arguments.json {
        output::write_json(path, &rows)?;
    }
    if !outputs.take_stdout() {
        print(&rows);
    }
    Ok(End::Right)
}

impl Row {
    fn new(variant: &variants::Variant, caps: Caps) -> Row {
        Row {
            name: variant.name,
            about: variant.about,
            native_fences: caps.native_fences,
            atomics_bits: if caps.atomics_64bit { 64 } else { 32 },
            interrupts: caps.interrupts,
            advanced_nodes: caps.advanced_nodes,
            fence_writing_nodes: caps.fence_writing_nodes,
            nodes: caps.nodes,
            physical_gpus: caps.physical_gpus,
            fence_stride_bytes: caps.fence_stride_bytes,
            doorbells: caps.doorbells,
            fence_history: caps.fence_history,
            io_coherent: caps.io_coherent,
            io_mmu: caps.io_mmu,
            shadow_entries: caps.shadow_entries,
            posted_fence_writes: caps.posted_fence_writes,
            submissions: caps.submissions.iter().map(|s| s.name()).collect(),
        }
    }
}

fn print(rows: &[Row]) {
    let mut table = table([
        "adapter",
        "GPUs",
        "native",
        "atomics",
        "interrupts",
        "advanced",
        "fence writes",
        "stride",
        "doorbells",
        "history",
        "coherent",
        "addresses",
        "shadows",
        "stores",
        "submission",
    ]);
    let yes = |set: bool| if set { "yes" } else { "no" }.to_owned();
    for row in rows {
        table.add_row([
            row.name.to_owned(),
            row.physical_gpus.to_string(),
            yes(row.native_fences),
            format!("{} bit", row.atomics_bits),
            row.interrupts.to_owned(),
            format!("{} of {}", row.advanced_nodes, row.nodes),
            format!("{} of {}", row.fence_writing_nodes, row.nodes),
            row.fence_stride_bytes.to_string(),
            if row.doorbells == 0 { "shared".to_owned() } else { row.doorbells.to_string() },
            yes(row.fence_history),
            yes(row.io_coherent),
            if row.io_mmu { "CPU" } else { "GPU" }.to_owned(),
            if row.shadow_entries == 0 { "none".to_owned() } else { row.shadow_entries.to_string() },
            if row.posted_fence_writes { "posted" } else { "plain" }.to_owned(),
            row.submissions.join(" "),
        ]);
    }
    outln!("{table}");
    for row in rows {
        outln!("{}: {}", row.name, row.about);
    }
}
