//! `tidegate adapters`: the named machines and their capabilities, as a table or as JSON.

use crate::output::Outputs;
use crate::streams::outln;
use crate::tables::table;
use crate::{BadInput, End, arguments};
use comfy_table::ColumnConstraint;
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
    /// What else the driver, the hardware or the kernel does.
    settings: Vec<&'static str>,
    submissions: Vec<&'static str>,
}

/// `tidegate adapters`.
pub(crate) fn command(arguments: &arguments::Adapters, outputs: &Outputs) -> Result<End, BadInput> {
    let platform = Platform::host();
    let row = |v: &'static variants::Variant| Row::new(v, Caps::of(&v.config(&platform)));
    let rows: Vec<Row> = variants::ALL.iter().map(row).collect();
    if let Some(path) = &arguments.json {
        outputs.write_json(path, &rows)?;
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
            settings: caps.settings,
            submissions: caps.submissions.iter().map(|s| s.name()).collect(),
        }
    }
}

impl Row {
    /// Capabilities of the adapter, in a fixed order.
    fn facts(&self) -> Vec<String> {
        let no = |set: bool, what: &str| if set { what.to_owned() } else { format!("no {what}") };
        let engines = self.nodes;
        vec![
            if self.physical_gpus == 1 {
                "1 GPU".to_owned()
            } else {
                format!("{} GPUs", self.physical_gpus)
            },
            no(self.native_fences, "native fences"),
            format!("{}-bit atomics", self.atomics_bits),
            format!("interrupts: {}", self.interrupts),
            format!("advanced interrupts of {} of {engines} engines", self.advanced_nodes),
            format!("fence writes by {} of {engines} engines", self.fence_writing_nodes),
            format!("fences {} bytes apart", self.fence_stride_bytes),
            match self.doorbells {
                0 => "one shared doorbell".to_owned(),
                1 => "1 doorbell".to_owned(),
                doorbells => format!("{doorbells} doorbells"),
            },
            no(self.fence_history, "fence history"),
            no(self.io_coherent, "cache coherence"),
            format!("{} addresses", if self.io_mmu { "CPU" } else { "GPU" }),
            if self.shadow_entries == 0 {
                "no shadows".to_owned()
            } else {
                format!("{} shadows", self.shadow_entries)
            },
            format!("{} stores", if self.posted_fence_writes { "posted" } else { "plain" }),
        ]
    }

    /// The capabilities that differ from `other`'s; all for `other` itself.
    fn differences(&self, other: &Row) -> String {
        let facts = self.facts();
        let settings = self.settings.iter().map(|&words| words.to_owned());
        if self.name == other.name {
            return facts.into_iter().chain(settings).collect::<Vec<_>>().join(", ");
        }
        let differ = facts.into_iter().zip(other.facts()).filter(|(own, other)| own != other);
        let without = other.settings.iter().filter(|words| !self.settings.contains(words));
        let more = settings.filter(|words| !other.settings.contains(&words.as_str()));
        let less = without.map(|words| format!("no {words}"));
        differ.map(|(own, _)| own).chain(more).chain(less).collect::<Vec<_>>().join(", ")
    }
}

/// Prints each adapter and its differences from the first.
fn print(rows: &[Row]) {
    let Some(first) = rows.first() else { return };
    let mut table = table([
        "adapter",
        "submission",
        &format!("what it is, and differences from {}", first.name),
    ]);
    for row in rows {
        let differences = row.differences(first);
        let about = if differences.is_empty() {
            row.about.to_owned()
        } else {
            format!("{}\n[{differences}]", row.about)
        };
        table.add_row([row.name.to_owned(), row.submissions.join(" "), about]);
    }
    for column in table.column_iter_mut().take(2) {
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
    outln!("{table}");
}
