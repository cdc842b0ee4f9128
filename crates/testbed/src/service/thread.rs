//! A service that a thread of this process serves. It ends when it is dropped.

use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;
use tidegate::platform::{Event, Step, Word};
use tidegate::service::client::{self, ConnectError, RemoteKernel};
use tidegate::service::server::{self, ServerConfig, Stopper};
use tidegate::{Machine, MachineConfig, Platform};

/// A service of a machine, on a socket in a folder.
pub struct Service {
    stopper: Stopper,
    ended: Event,
    /// 1 once the service has returned without an error.
    served: Word,
    folder: TempDir,
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
        let folder = TempDir::new().unwrap();
        let listener = server::listen(&folder.path().join("socket")).unwrap();
        let server = machine.service(listener, config).unwrap();
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
