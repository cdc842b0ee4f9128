//! Sessions and calls of a service whose processes are opened on a machine of the test.

mod answers;
mod recordings;
mod sessions;
mod views;

use super::config::{Limits, ServerConfig};
use super::counts::Counters;
use super::shared::{Adapters, Opened, OpenedProcess, Processes, Recorder, Shared};
use crate::nt_handles::NtHandles;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate::dxgkrnl::{Process, ProcessKind};
use tidegate::{Machine, MachineConfig};
use tidegate_calls::snapshot::{
    DoorbellRow, FenceRow, MachineRow, Page, PageRequest, QueueRow, WaiterRow,
};
use tidegate_calls::{ClientKind, Grant, Status};
use tidegate_platform::{Event, Platform, Step, Word};

/// A machine as a service sees it. Its tables are empty.
#[derive(Clone)]
struct Served {
    machine: Arc<Machine>,
    /// Processes that were opened, and those that have ended.
    opened: Word,
    ended: Word,
    /// Those that began to close.
    closing: Word,
    /// Set when the first one began to close.
    begun: Event,
    /// Set while the work of processes is complete.
    work: Event,
    /// What the next process is refused with; 0 for none, 1 for a panic.
    refusal: Word,
    /// The size of the logs, as the last call has said, and how often they were read.
    large_logs: Word,
    logs_read: Word,
}

impl Served {
    fn new(change: impl FnOnce(&mut MachineConfig)) -> Served {
        let platform = Platform::sharing_host();
        let mut config = MachineConfig::standard(&platform);
        change(&mut config);
        let machine = Arc::new(Machine::new(&platform, config).unwrap());
        let words = platform.page(6);
        let [opened, ended, closing, refusal, large_logs, logs_read] =
            [0, 1, 2, 3, 4, 5].map(|index| words.word(index));
        let work = platform.event(true);
        work.set(Step::ThreadWake);
        let begun = platform.event(true);
        Served { machine, opened, ended, closing, begun, work, refusal, large_logs, logs_read }
    }

    fn platform(&self) -> &Platform {
        self.machine.platform()
    }

    /// What sessions of this machine share.
    fn shared(&self, config: ServerConfig) -> Arc<Shared> {
        let platform = self.platform();
        Arc::new(Shared {
            platform: platform.clone(),
            adapters: Box::new(self.clone()),
            config,
            nt_handles: NtHandles::new(platform),
            links: platform.mutex("links", BTreeMap::new()),
            processes: platform.mutex("processes", Processes::default()),
            live: platform.page(1).word(0),
            counts: Counters::new(platform),
            recorder: platform.mutex("recorder", Recorder::default()),
        })
    }
}

/// A process whose end is counted.
struct CountedEnd {
    process: Arc<Process>,
    served: Served,
}

impl OpenedProcess for CountedEnd {
    fn close(&self) {
        self.served.closing.fetch_add(1);
        self.served.begun.set(Step::ThreadWake);
        self.served.work.wait();
        self.process.close();
    }

    fn terminate(&self) {
        self.process.terminate();
        self.served.ended.fetch_add(1);
    }

    fn end_waits_for_work(&self) {
        self.served.work.set(Step::ThreadWake);
        self.process.end_waits_for_work();
    }
}

fn no_rows<R>() -> Page<R> {
    Page { rows: Vec::new(), next: None }
}

impl Adapters for Served {
    fn count(&self) -> u32 {
        2
    }

    fn open(&self, _: u32, name: &str, client: ClientKind, grant: Grant) -> Result<Opened, Status> {
        match self.refusal.load() {
            0 => {}
            1 => panic!("a kernel with a fault"),
            status => return Err(Status((status as u32).cast_signed())),
        }
        self.opened.fetch_add(1);
        let kind = ProcessKind::from((client, grant));
        let process = self.machine.process_of_kind(0, name, kind).unwrap();
        let (kernel, number) = (process.clone(), process.number());
        let process = Arc::new(CountedEnd { process, served: self.clone() });
        Ok(Opened { kernel, process, number })
    }

    fn machine(&self, adapter: u32) -> MachineRow {
        MachineRow { at_ns: u64::from(adapter), ..MachineRow::default() }
    }

    fn queues(&self, adapter: u32, request: &PageRequest) -> Page<QueueRow> {
        match adapter {
            0 => self.machine.adapter().queue_rows(request),
            _ => no_rows(),
        }
    }

    fn fences(&self, _: u32, _: &PageRequest) -> Page<FenceRow> {
        no_rows()
    }

    fn waiters(&self, _: u32, _: &PageRequest) -> Page<WaiterRow> {
        no_rows()
    }

    fn doorbells(&self, _: u32, _: &PageRequest) -> Page<DoorbellRow> {
        no_rows()
    }

    fn enlarge_logs(&self, adapter: u32, large: bool) {
        match large {
            true => self.large_logs.fetch_or(1 << adapter),
            false => self.large_logs.fetch_and(!(1 << adapter)),
        };
    }

    fn read_logs(&self, _: u32) {
        self.logs_read.fetch_add(1);
    }
}

/// A configuration with changed limits.
fn limited(change: impl FnOnce(&mut Limits)) -> ServerConfig {
    let mut config = ServerConfig::default();
    change(&mut config.limits);
    config
}
