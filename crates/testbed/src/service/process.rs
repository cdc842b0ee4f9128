//! A service in another process, and what that process holds. It is killed when this is dropped.

#![allow(
    clippy::disallowed_methods,
    reason = "waits for a process, which is outside of any machine"
)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;
use tidegate::Platform;
use tidegate::calls::snapshot::PageRequest;
use tidegate::service::client::{self, RemoteKernel, Watch};

/// What a service holds: descriptors, pages of its clients' memory, and objects of the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// Open descriptors.
    pub open_files: usize,
    /// Mapped bytes of files in memory.
    pub mapped_bytes: u64,
    /// Queues, fences, doorbells.
    pub objects: [u64; 3],
}

impl Held {
    /// Returns whether no count is greater than in `most`.
    pub fn is_within(self, most: Held) -> bool {
        let objects = self.objects.into_iter().zip(most.objects);
        self.open_files <= most.open_files
            && self.mapped_bytes <= most.mapped_bytes
            && objects.into_iter().all(|(now, most)| now <= most)
    }
}

/// Starts a process. Returns it once it serves, with its output.
fn serving(mut command: Command) -> (Child, BufReader<ChildStdout>) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = command.spawn().unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("serving on ") {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "the service has ended");
    }
    (process, output)
}

/// A service in another process, with a folder for its socket.
pub struct ServiceProcess {
    process: Child,
    /// Kept: a service that prints its last line to a closed pipe would fail.
    _output: BufReader<ChildStdout>,
    folder: TempDir,
}

impl ServiceProcess {
    /// Starts a service by the command that `command` returns for the service's folder. The service
    /// must listen at `socket` in that folder. Returns once it has printed a line that begins with
    /// "serving on ", as `tidegate serve` does.
    pub fn start(command: impl FnOnce(&Path) -> Command) -> ServiceProcess {
        let folder = TempDir::new().unwrap();
        let (process, output) = serving(command(folder.path()));
        ServiceProcess { process, _output: output, folder }
    }

    /// Starts a service in the folder of this one, which has ended, as [`ServiceProcess::start`]
    /// does.
    pub fn start_again(&mut self, command: impl FnOnce(&Path) -> Command) {
        (self.process, self._output) = serving(command(self.folder.path()));
    }

    /// Returns the process.
    pub fn process(&mut self) -> &mut Child {
        &mut self.process
    }

    /// Returns the number of the process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns its folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the path of its socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Connects a process to the first adapter.
    pub fn client(&self, name: &str) -> Arc<RemoteKernel> {
        client::connect(&Platform::host(), &self.socket(), 0, name).unwrap()
    }

    /// Connects a viewer of the first adapter.
    pub fn watch(&self) -> Watch {
        Watch::connect(&self.socket(), 0).unwrap()
    }

    /// Returns how many descriptors are open in the service.
    pub fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.id())).unwrap().count()
    }

    /// Returns the address space of the service in bytes.
    pub fn address_bytes(&self) -> usize {
        self.bytes_of_field(0)
    }

    /// Returns the resident memory of the service in bytes.
    pub fn resident_bytes(&self) -> usize {
        self.bytes_of_field(1)
    }

    /// Reads a field of `/proc/PID/statm`, whose unit is a page of 4 KiB.
    fn bytes_of_field(&self, field: usize) -> usize {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", self.id())).unwrap();
        4096 * text.split(' ').nth(field).unwrap().parse::<usize>().unwrap()
    }

    /// Returns what the service holds.
    pub fn held(&self) -> Held {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.id())).unwrap();
        let in_files = maps.lines().filter(|line| line.contains("/memfd:"));
        let bytes = |line: &str| {
            let (from, to) = line.split(' ').next()?.split_once('-')?;
            let number = |digits| u64::from_str_radix(digits, 16).ok();
            Some(number(to)? - number(from)?)
        };
        let mapped_bytes = in_files.map(|line| bytes(line).unwrap()).sum();
        let machine = self.watch().machine().unwrap().0;
        let objects = [machine.queues, machine.fences, machine.doorbells];
        Held { open_files: self.open_files(), mapped_bytes, objects }
    }

    /// Returns a counter of the service by its name, without the prefix `tidegate_`.
    pub fn counter(&self, name: &str) -> u64 {
        let text = client::counts(&self.socket()).unwrap();
        let line = text.lines().find(|line| line.starts_with(&format!("tidegate_{name} ")));
        line.and_then(|line| line.rsplit(' ').next()).unwrap().parse().unwrap()
    }

    /// Waits until the processes of all clients have ended and at most this number of descriptors
    /// is open. A leak is a test that does not end.
    pub fn until_left(&self, open_files: usize) {
        while self.counter("processes") > 0 || self.open_files() > open_files {
            std::thread::yield_now();
        }
    }

    /// Waits until at least this number of waits of threads, events and queues is registered.
    pub fn until_waiting(&self, waits: usize) {
        let all = PageRequest { after: 0, process: None };
        let mut watch = self.watch();
        while watch.waiters(all).unwrap().rows.len() < waits {
            std::thread::yield_now();
        }
    }
}

impl Drop for ServiceProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
