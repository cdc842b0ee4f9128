//! A service for the programs of these tests, in a thread.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use tidegate::platform::once;
use tidegate::service::server::{self, Server, ServerConfig};
use tidegate::{Machine, MachineConfig, Platform};

/// The socket of the service, which lives as long as the tests.
pub fn socket() -> &'static Path {
    static SOCKET: OnceLock<PathBuf> = OnceLock::new();
    once::make_alone(&SOCKET, start).as_path()
}

fn start() -> PathBuf {
    let path = std::env::temp_dir().join(format!("tidegate-{}.socket", std::process::id()));
    let platform = Platform::sharing_host();
    let server = server(&platform, &path);
    platform.spawn_outside("service", move || server.serve().unwrap()).unwrap();
    path
}

fn server(platform: &Platform, path: &Path) -> Server {
    // A killed service leaves its socket behind.
    let _absent = std::fs::remove_file(path);
    let listener = server::listen(path).unwrap();
    let machine = Machine::new(platform, MachineConfig::standard(platform)).unwrap();
    Arc::new(machine).service(listener, ServerConfig::default()).unwrap()
}

/// Serves in this thread. Clients can connect when `listens` is called.
pub fn serve(path: &Path, listens: impl FnOnce()) {
    let server = server(&Platform::sharing_host(), path);
    listens();
    server.serve().unwrap();
}
