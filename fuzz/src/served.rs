//! A service in this process: a machine behind a socket, with a neighbour that is its client.
//!
//! Invariants
//! - The service, its sessions and the engines are threads, so a failure may need its input again.
//! - After an input, machine and service are as empty as at the beginning: every table of kernel,
//!   driver and hardware, NT handles, and the open files of the process.
//!
//! Entry points: [`Served::new`], [`Served::run`].

use crate::census::Census;
use crate::neighbour::Neighbour;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use tidegate::platform::{Step, Word};
use tidegate::service::client;
use tidegate::service::server::{self, Counts, Limits, Server, ServerConfig};
use tidegate::{Machine, MachineConfig, Platform};

/// Inputs that one service runs.
pub(crate) const INPUTS: usize = 64;

/// Few of everything, so that inputs meet each limit.
const CONFIG: ServerConfig = ServerConfig {
    clients: 8,
    limits: Limits {
        objects: 48,
        memory_bytes: 1 << 20,
        queues: 6,
        waits: 8,
        wait_fences: 16,
        nt_handles: 4,
        queued: 64,
    },
    any_user: false,
    may_raise_priority: Vec::new(),
};

/// Memory of a guest, in bytes.
const GUEST_BYTES: u64 = 1 << 20;

/// How often the end of an input is checked before what is left counts as left. Each time is a
/// round of the neighbour, together seconds for all of them: the process of a client that hangs an
/// engine ends with the engine's timeout. Far below the time after which the fuzzer calls an input
/// hung.
const CHECKS: usize = 100_000;

/// A service with its machine.
pub(crate) struct Served {
    /// `None` while the service ends.
    neighbour: Option<Neighbour>,
    machine: Arc<Machine>,
    server: Arc<Server>,
    /// 1 once the service has ended.
    ended: Word,
    folder: TempDir,
    pub(crate) inputs_left: usize,
    /// What there was before the first input: objects and open files. A region of memory that the
    /// kernel makes once and keeps has a file.
    at_first: (Census, usize),
}

/// Returns the number of open files of the kinds that a service and its clients make.
pub(crate) fn open_files() -> usize {
    names_of_open_files().len()
}

fn names_of_open_files() -> Vec<String> {
    let kinds = ["/memfd:", "pipe:", "socket:", "anon_inode:[eventfd]"];
    let files = std::fs::read_dir("/proc/self/fd").expect("the files of this process");
    let names = files.flatten().filter_map(|file| std::fs::read_link(file.path()).ok());
    names
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| kinds.iter().any(|kind| name.starts_with(kind)))
        .collect()
}

impl Served {
    pub(crate) fn new(inputs_left: usize) -> Served {
        let platform = Platform::hosting_guests();
        let machine = Machine::new(&platform, MachineConfig::standard(&platform));
        let machine = Arc::new(machine.expect("a machine"));
        let folder = TempDir::new().expect("a folder");
        let listener = server::listen(&socket_in(&folder)).expect("the path is free");
        let server = Arc::new(machine.service(listener, CONFIG).expect("a service"));
        let guests = server::listen_for_guests(&folder.path().join("guests"));
        let guests = server.serve_guests(guests.expect("the path is free"), GUEST_BYTES);
        guests.expect("a thread");
        let ended = platform.page(1).word(0);
        let (served, end) = (server.clone(), ended.clone());
        let thread = platform.spawn_outside("service", move || {
            served.serve().expect("the service serves until it is stopped");
            drop(served);
            end.store(1);
            end.wake(u32::MAX, Step::ThreadWake);
        });
        thread.expect("a thread");
        let own = Platform::host();
        let kernel = client::connect(&own, &socket_in(&folder), 0, "neighbour");
        let mut neighbour = Neighbour::of(&own, kernel.expect("the neighbour connects"), 2);
        // Its first rounds connect its doorbell and make what stays.
        (0..3).for_each(|_| neighbour.round());
        let at_first = (Census::of(&machine), open_files());
        let neighbour = Some(neighbour);
        Served { neighbour, machine, server, ended, folder, inputs_left, at_first }
    }

    /// Order: 1. hostile clients follow the input; 2. the neighbour does a round beside what is
    /// left of them; 3. the service is as empty as before, with no session that failed.
    pub(crate) fn run(&mut self, act: impl FnOnce(&Path)) {
        self.inputs_left -= 1;
        // 1.
        act(&socket_in(&self.folder));
        // 2.
        let neighbour = self.neighbour.as_mut().expect("the service has a neighbour");
        neighbour.round();
        neighbour.assert_active();
        // 3. Connections are accepted in their order. Until one that comes after all of the input's
        //    is answered, the service can be empty only because it has not met the others yet.
        let _refused_or_read = client::counts(&socket_in(&self.folder));
        for _ in 0..CHECKS {
            if self.is_empty() {
                break;
            }
            // An engine drops what was unmapped in its next turn.
            self.neighbour.iter_mut().for_each(Neighbour::round);
        }
        let Counts { connections, processes, nt_handles, sessions_failed, .. } =
            self.server.counts();
        let found = (connections, processes, nt_handles, sessions_failed);
        assert_eq!(found, (1, 1, 0, 0), "the sessions end");
        let (before, after) = (&self.at_first.0, Census::of(&self.machine));
        before.assert_left(after, &mut 0);
        let (files, allowed) = (open_files(), self.at_first.1 + after.regions_since(before));
        let names = names_of_open_files();
        assert!(files <= allowed, "{files} files are open, {allowed} before: {names:?}");
        assert_eq!(self.machine.adapter().bug_checks(), [], "no contract was broken");
        assert_eq!(self.machine.driver().violations(), []);
    }

    fn is_empty(&self) -> bool {
        let counts = self.server.counts();
        let (before, after) = (&self.at_first.0, Census::of(&self.machine));
        (counts.connections, counts.processes, counts.nt_handles) == (1, 1, 0)
            && before.is_left_in(after)
            && open_files() <= self.at_first.1 + after.regions_since(before)
    }
}

fn socket_in(folder: &TempDir) -> PathBuf {
    folder.path().join("socket")
}

impl Drop for Served {
    fn drop(&mut self) {
        self.neighbour = None;
        self.server.stopper().stop();
        while self.ended.load() == 0 {
            self.ended.wait_while(0, None, "the end of the service");
        }
    }
}
