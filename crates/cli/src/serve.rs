//! `tidegate serve`: a machine for other processes.

use crate::arguments;
use crate::streams::{errln, outln};
use crate::{BadInput, End};
use rustix::net::SocketType;
use serde::Deserialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use tidegate::service::client::{self, ConnectError};
use tidegate::service::server::{self, Limits, ServerConfig};
use tidegate::variants;
use tidegate::{Machine, MachineConfig, Platform, platform};

/// The configuration file. What it leaves out is as without it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    adapter: Option<String>,
    engines: Engines,
    clients: Option<u32>,
    any_user: bool,
    limits: FileLimits,
}

/// Engines of each class.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Engines {
    three_d: u32,
    compute: u32,
    copy: u32,
}

impl Default for Engines {
    fn default() -> Engines {
        Engines { three_d: 1, compute: 1, copy: 1 }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FileLimits {
    objects: Option<u32>,
    memory_bytes: Option<u64>,
    queues: Option<u32>,
    waits: Option<u32>,
    nt_handles: Option<u32>,
    queued: Option<u32>,
}

impl FileLimits {
    fn limits(&self) -> Limits {
        let standard = Limits::default();
        Limits {
            objects: self.objects.unwrap_or(standard.objects),
            memory_bytes: self.memory_bytes.unwrap_or(standard.memory_bytes),
            queues: self.queues.unwrap_or(standard.queues),
            waits: self.waits.unwrap_or(standard.waits),
            nt_handles: self.nt_handles.unwrap_or(standard.nt_handles),
            queued: self.queued.unwrap_or(standard.queued),
        }
    }
}

/// `tidegate serve`.
pub(crate) fn command(arguments: &arguments::Serve) -> Result<End, BadInput> {
    if let (true, Some(socket)) = (arguments.counters, &arguments.socket) {
        let counts = client::counts(socket).map_err(|error| BadInput(error.to_string()))?;
        outln!("{}", counts.trim_end());
        return Ok(End::Right);
    }
    tracing_subscriber::fmt().with_writer(io::stderr).with_target(false).init();
    let file = read_config(arguments.config.as_deref())?;
    let platform = Platform::sharing_host();
    let Engines { three_d, compute, copy } = file.engines;
    let mut config = MachineConfig::standard(&platform).with_nodes(three_d, compute, copy);
    if let Some(name) = &file.adapter {
        variants::find(name).map_err(|error| BadInput(error.to_string()))?.apply(&mut config);
    }
    let machine = Machine::new(&platform, config).map_err(|error| BadInput(error.to_string()))?;
    let standard = ServerConfig::default();
    let config = ServerConfig {
        clients: file.clients.unwrap_or(standard.clients),
        limits: file.limits.limits(),
        any_user: file.any_user,
    };
    raise_descriptor_limit();
    let socket = match arguments.socket.as_deref() {
        Some(path) => Socket::listen(path)?,
        None => Socket::passed()?,
    };
    let listener = socket.listener.try_clone().map_err(|error| BadInput(error.to_string()))?;
    let machine = Arc::new(machine);
    let server = machine.service(listener, config).map_err(|e| BadInput(e.to_string()))?;
    let stopper = server.stopper();
    let mut signals =
        Signals::new([SIGTERM, SIGINT]).map_err(|error| BadInput(error.to_string()))?;
    let stop_signals = signals.handle();
    platform
        .spawn_outside("signals", move || {
            if signals.forever().next().is_some() {
                stopper.stop();
            }
        })
        .map_err(|error| BadInput(error.to_string()))?;
    // Scripts wait for this line.
    outln!("serving on {}", socket.name());
    let result = server.serve();
    stop_signals.close();
    tracing::info!(counts = ?server.counts(), "stopped");
    match result {
        Ok(()) => Ok(End::Right),
        Err(error) => {
            errln!("tidegate: the service stopped: {error}");
            Ok(End::Wrong)
        }
    }
}

fn read_config(path: Option<&Path>) -> Result<File, BadInput> {
    let Some(path) = path else { return Ok(File::default()) };
    let bad = |what: &dyn std::fmt::Display| BadInput(format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| bad(&error))?;
    toml::from_str(&text).map_err(|error| bad(&error))
}

/// Each page that clients map is a descriptor here. A limit that cannot be raised stays.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// A listening socket, whose file is removed with it if it was made here.
struct Socket<'a> {
    listener: OwnedFd,
    made: Option<&'a Path>,
}

impl<'a> Socket<'a> {
    fn listen(path: &'a Path) -> Result<Socket<'a>, BadInput> {
        let bad =
            |what: &dyn std::fmt::Display| BadInput(format!("--socket {}: {what}", path.display()));
        // A socket that nothing listens at is left from a service that was killed.
        match client::counts(path) {
            Err(ConnectError::BadPath { error, .. }) => return Err(bad(&error)),
            Err(ConnectError::NoService { error, .. }) => {
                if error.kind() == io::ErrorKind::ConnectionRefused {
                    std::fs::remove_file(path).map_err(|error| bad(&error))?;
                }
            }
            _ => return Err(bad(&"another service listens there")),
        }
        let listener = server::listen(path).map_err(|error| bad(&error))?;
        Ok(Socket { listener, made: Some(path) })
    }

    fn passed() -> Result<Socket<'a>, BadInput> {
        let listener = platform::os::passed_socket().ok_or_else(|| {
            BadInput(
                "name a socket with --socket PATH, or start the service with one of systemd's"
                    .to_owned(),
            )
        })?;
        let kind = rustix::net::sockopt::socket_type(&listener);
        if kind != Ok(SocketType::SEQPACKET) {
            return Err(BadInput(
                "the socket that was passed is not of the type SOCK_SEQPACKET (ListenSequentialPacket)"
                    .to_owned(),
            ));
        }
        Ok(Socket { listener, made: None })
    }

    fn name(&self) -> String {
        self.made
            .map_or_else(|| "the socket that was passed".to_owned(), |p| p.display().to_string())
    }
}

impl Drop for Socket<'_> {
    fn drop(&mut self) {
        if let Some(path) = self.made {
            // It may be gone already.
            let _ = std::fs::remove_file(path);
        }
    }
}
