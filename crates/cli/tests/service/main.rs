//! `tidegate serve` between processes: what clients run, what outlives them, and what a killed or
//! hostile one leaves behind.
//!
//! A child of these tests is this program again, with the socket in its environment.

#![allow(
    clippy::disallowed_methods,
    reason = "threads of the tests wait for processes, outside of any machine"
)]

mod calls;
mod child;
mod crowds;
mod hostile;
mod kills;
mod peers;
mod record;
mod serve;
mod stops;
mod top;
mod waits;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;
use tidegate::Platform;
use tidegate::calls::snapshot::PageRequest;
use tidegate::service::client::{self, RemoteKernel, Watch};

/// What a service holds: descriptors, pages of its clients' memory, and objects of the kernel.
#[derive(Clone, Copy, Debug)]
struct Held {
    open_files: usize,
    mapped_bytes: u64,
    /// Queues, fences, doorbells.
    objects: [u64; 3],
}

impl Held {
    /// Whether it is no more of anything than `most`.
    fn is_within(self, most: Held) -> bool {
        let objects = self.objects.into_iter().zip(most.objects);
        self.open_files <= most.open_files
            && self.mapped_bytes <= most.mapped_bytes
            && objects.into_iter().all(|(now, most)| now <= most)
    }
}

/// A service in a process of its own.
struct Service {
    process: Child,
    folder: TempDir,
}

impl Service {
    fn start() -> Service {
        Service::with_config("")
    }

    fn with_config(config: &str) -> Service {
        Service::of(Command::new(env!("CARGO_BIN_EXE_tidegate")), config)
    }

    /// Starts the service by a command, which takes the words of `tidegate`.
    fn of(mut command: Command, config: &str) -> Service {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("service.toml");
        std::fs::write(&file, config).unwrap();
        let mut process = command
            .args(["serve", "--socket"])
            .arg(folder.path().join("socket"))
            .arg("--config")
            .arg(file)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("serving on "), "{line}");
        Service { process, folder }
    }

    /// Starts a service, and has each kind of client come and go. Returns it with what it holds
    /// without a client: what it makes once for all clients is there.
    fn warm() -> (Service, Held) {
        let service = Service::with_config(child::CONFIG);
        for program in [child::Program::Work, child::Program::Calls] {
            let steps = program.steps();
            let mut client = child::Stepper::start(&service.socket(), program);
            (0..steps).for_each(|_| client.step());
            client.kill();
        }
        kills::Neighbour::new(&service).work();
        // The memory manager's context is made with the first move, which needs room or time
        // elsewhere.
        peers::App::new(&service.socket(), "pages").page();
        service.until_left(usize::MAX);
        let held = service.held();
        (service, held)
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn client(&self, name: &str) -> Arc<RemoteKernel> {
        client::connect(&Platform::host(), &self.socket(), 0, name).unwrap()
    }

    /// The open descriptors of the service.
    fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.process.id())).unwrap().count()
    }

    /// What the service holds.
    fn held(&self) -> Held {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.process.id())).unwrap();
        let in_files = maps.lines().filter(|line| line.contains("/memfd:"));
        let bytes = |line: &str| {
            let (from, to) = line.split(' ').next()?.split_once('-')?;
            let number = |digits| u64::from_str_radix(digits, 16).ok();
            Some(number(to)? - number(from)?)
        };
        let mapped_bytes = in_files.map(|line| bytes(line).unwrap()).sum();
        let machine = Watch::connect(&self.socket(), 0).unwrap().machine().unwrap().0;
        let objects = [machine.queues, machine.fences, machine.doorbells];
        Held { open_files: self.open_files(), mapped_bytes, objects }
    }

    /// A counter of the service.
    fn counter(&self, name: &str) -> u64 {
        let text = client::counts(&self.socket()).unwrap();
        let line = text.lines().find(|line| line.starts_with(&format!("tidegate_{name} ")));
        line.and_then(|line| line.rsplit(' ').next()).unwrap().parse().unwrap()
    }

    /// Waits until the processes of all clients have ended, and so many descriptors are left. A
    /// leak is a hang, which is named.
    fn until_left(&self, open_files: usize) {
        while self.counter("processes") > 0 || self.open_files() > open_files {
            std::thread::yield_now();
        }
    }

    /// Waits until no more is left than it held `before`, without a client. An engine keeps what it
    /// has mapped last until its next turn, which one without power does not take: a client calls
    /// it.
    fn until_empty(&self, before: Held) {
        self.until_left(usize::MAX);
        while !self.held().is_within(before) {
            kills::Neighbour::new(self).work();
            self.until_left(usize::MAX);
        }
    }

    /// Waits until so many waits of threads, events and queues are entered.
    fn until_waiting(&self, waits: usize) {
        let all = PageRequest { after: 0, process: None };
        let mut watch = Watch::connect(&self.socket(), 0).unwrap();
        while watch.waiters(all).unwrap().rows.len() < waits {
            std::thread::yield_now();
        }
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn workload(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads").join(name)
}
