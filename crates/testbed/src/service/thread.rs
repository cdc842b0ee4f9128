//! A service that a thread of this process serves. It ends when it is dropped.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use tidegate::platform::{Event, Step, Word};
use tidegate::service::client::{self, ConnectError, RemoteKernel};
use tidegate::service::server::{self, Server, ServerConfig, Stopper};
use tidegate::{Machine, MachineConfig, Platform};

/// A service of a machine, on a socket in a folder.
pub struct Service {
    stopper: Stopper,
    ended: Event,
    /// 1 once the service has returned without an error.
    served: Word,
    folder: TempDir,
}

/// Memory of each guest, in bytes.
const GUEST_BYTES: u64 = 4 << 20;

fn guest_socket(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("guest-{number}"))
}

impl Service {
    /// Starts a service of the standard machine.
    pub fn start(config: ServerConfig) -> Service {
        Service::with_machine(config, |_| {})
    }

    /// Starts a service of a machine with a changed configuration.
    pub fn with_machine(config: ServerConfig, change: impl FnOnce(&mut MachineConfig)) -> Service {
        let platform = Platform::sharing_host();
        let mut machine = MachineConfig::standard(&platform);
        change(&mut machine);
        Service::of(Arc::new(Machine::new(&platform, machine).unwrap()), config)
    }

    /// Starts a service of `machine`, whose platform shares its memory.
    pub fn of(machine: Arc<Machine>, config: ServerConfig) -> Service {
        Service::with_server(machine, config, |_, _| {})
    }

    /// Starts a service of the standard machine that takes guests at `guests` sockets, each with a
    /// memory of 4 MiB ([`Service::guest_socket`]).
    pub fn with_guests(config: ServerConfig, guests: usize) -> Service {
        Service::with_guests_of_machine(config, guests, |_| {})
    }

    /// As [`Service::with_guests`], of a machine with a changed configuration.
    pub fn with_guests_of_machine(
        config: ServerConfig,
        guests: usize,
        change: impl FnOnce(&mut MachineConfig),
    ) -> Service {
        let platform = Platform::hosting_guests();
        let mut machine = MachineConfig::standard(&platform);
        change(&mut machine);
        let machine = Machine::new(&platform, machine).unwrap();
        Service::with_server(Arc::new(machine), config, |server, folder| {
            for number in 0..guests {
                let listener = server::listen_for_guests(&guest_socket(folder, number)).unwrap();
                server.serve_guests(listener, GUEST_BYTES).unwrap();
            }
        })
    }

    fn with_server(
        machine: Arc<Machine>,
        config: ServerConfig,
        prepare: impl FnOnce(&Server, &Path),
    ) -> Service {
        let folder = TempDir::new().unwrap();
        let listener = server::listen(&folder.path().join("socket")).unwrap();
        let server = machine.service(listener, config).unwrap();
        prepare(&server, folder.path());
        let (platform, stopper) = (machine.platform().clone(), server.stopper());
        let (ended, served) = (platform.event(true), platform.page(1).word(0));
        let (done, result) = (ended.clone(), served.clone());
        let serve = move || {
            result.store(u64::from(server.serve().is_ok()));
            drop((server, machine));
            done.set(Step::ThreadWake);
        };
        platform.spawn_outside("service", serve).unwrap();
        Service { stopper, ended, served, folder }
    }

    /// Returns the path of its socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Returns the path of a socket for virtual machines.
    pub fn guest_socket(&self, number: usize) -> PathBuf {
        guest_socket(self.folder.path(), number)
    }

    /// Returns a counter of the service by its name.
    ///
    /// # Panics
    /// The service has no counter with this name.
    pub fn count(&self, name: &str) -> u64 {
        let text = client::counts(&self.socket()).unwrap();
        let of_name = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
        text.lines().find_map(of_name).expect("a counter of the service")
    }

    /// Connects a process to the first adapter.
    ///
    /// # Errors
    /// The service turns it away, or has ended.
    pub fn try_client(&self, name: &str) -> Result<Arc<RemoteKernel>, ConnectError> {
        client::connect(&Platform::host(), &self.socket(), 0, name)
    }

    /// Connects a process to the first adapter.
    pub fn client(&self, name: &str) -> Arc<RemoteKernel> {
        self.try_client(name).unwrap()
    }

    /// Ends the service. Returns when all its clients have ended.
    ///
    /// # Panics
    /// The service has failed.
    pub fn stop(&self) {
        self.stopper.stop();
        self.ended.wait();
        assert_eq!(self.served.load(), 1, "the service serves until it is stopped");
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stopper.stop();
        self.ended.wait();
    }
}
