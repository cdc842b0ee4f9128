//! A service for the programs of these tests, in a thread.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use tempfile::TempDir;
use tidegate::platform::once;
use tidegate::service::server::{self, Counts, Server, ServerConfig};
use tidegate::{Machine, MachineBuilder, MachineConfig, Platform, variants};

/// The socket of the service, which lives as long as the tests.
pub fn socket() -> &'static Path {
    static SOCKET: OnceLock<PathBuf> = OnceLock::new();
    once::make_alone(&SOCKET, start).as_path()
}

fn start() -> PathBuf {
    serve_beside_tests("", |platform| vec![MachineConfig::standard(platform)])
}

/// The socket of a service whose adapters differ from the standard one: two linked physical GPUs
/// with a display that use CPU addresses, and the oldest adapter.
pub fn variants_socket() -> &'static Path {
    static SOCKET: OnceLock<PathBuf> = OnceLock::new();
    let start = || {
        serve_beside_tests("-variants", |platform| {
            let config = |name| variants::find(name).unwrap().config(platform);
            vec![config("iommu").linked(2).with_display(16_000_000), config("oldest")]
        })
    };
    once::make_alone(&SOCKET, start).as_path()
}

/// The socket of a service that waits for an hour before it ends a process by force, so that no
/// program depends on the speed of its host.
pub fn patient_socket() -> &'static Path {
    static SOCKET: OnceLock<PathBuf> = OnceLock::new();
    let start = || {
        serve_beside_tests("-patient", |platform| {
            let mut config = MachineConfig::standard(platform);
            config.kernel.tdr.delay_ns = 3_600_000_000_000;
            vec![config]
        })
    };
    once::make_alone(&SOCKET, start).as_path()
}

fn serve_beside_tests(
    name: &str,
    adapters: impl FnOnce(&Platform) -> Vec<MachineConfig>,
) -> PathBuf {
    let path = std::env::temp_dir().join(format!("tidegate-{}{name}.socket", std::process::id()));
    let platform = Platform::sharing_host();
    let server = server(&platform, &path, adapters(&platform));
    platform.spawn_outside("service", move || server.serve().unwrap()).unwrap();
    path
}

fn server(platform: &Platform, path: &Path, adapters: Vec<MachineConfig>) -> Server {
    // A killed service leaves its socket behind.
    let _absent = std::fs::remove_file(path);
    let listener = server::listen(path).unwrap();
    let builder = adapters.into_iter().fold(Machine::builder(platform), MachineBuilder::reference);
    let machine = builder.start().unwrap();
    Arc::new(machine).service(listener, ServerConfig::default()).unwrap()
}

/// A service with a socket for a guest.
pub struct GuestService {
    server: Arc<Server>,
    folder: TempDir,
}

impl GuestService {
    pub fn start() -> GuestService {
        let folder = TempDir::new().unwrap();
        let platform = Platform::hosting_guests();
        let adapters = vec![MachineConfig::standard(&platform)];
        let server = Arc::new(server(&platform, &folder.path().join("socket"), adapters));
        let service = GuestService { server: server.clone(), folder };
        let listener = server::listen_for_guests(&service.socket()).unwrap();
        server.serve_guests(listener, 16 << 20).unwrap();
        platform.spawn_outside("service", move || server.serve().unwrap()).unwrap();
        service
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("guests")
    }

    pub fn counts(&self) -> Counts {
        self.server.counts()
    }
}

impl Drop for GuestService {
    fn drop(&mut self) {
        self.server.stopper().stop();
    }
}

/// Serves in this thread. Clients can connect when `listens` is called.
pub fn serve(path: &Path, listens: impl FnOnce()) {
    let platform = Platform::sharing_host();
    let server = server(&platform, path, vec![MachineConfig::standard(&platform)]);
    listens();
    server.serve().unwrap();
}
