//! `tidegate serve`: a machine for other processes.

use crate::arguments;
use crate::driver::DriverFile;
use crate::streams::{errln, outln};
use crate::{BadInput, End};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::net::SocketType;
use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::Permissions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use tidegate::d3dukmdt::EngineKind;
use tidegate::service::client::{self, ConnectError};
use tidegate::service::server::{self, Limits, ServerConfig};
use tidegate::variants;
use tidegate::{Machine, MachineConfig, Platform, platform, softgpu};
use tidegate_conform::{RunEnd, Verifier};

/// The configuration file. What it leaves out is as without it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    adapter: Option<Names>,
    engines: BTreeMap<Kind, Bounded<MOST_ENGINES>>,
    display: Option<Display>,
    clients: Option<Bounded<{ u32::MAX }>>,
    any_user: bool,
    /// User IDs.
    may_raise_priority: Vec<u32>,
    limits: FileLimits,
}

/// The name of one adapter, or of each of several.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "the name of an adapter, or a list of names")]
enum Names {
    One(String),
    Each(Vec<String>),
}

/// A number from 1 to `MOST`. The error of the parser names its line and what is allowed.
#[derive(Clone, Copy, Debug)]
struct Bounded<const MOST: u32>(u32);

impl<'de, const MOST: u32> Deserialize<'de> for Bounded<MOST> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let number = i64::deserialize(from)?;
        match u32::try_from(number) {
            Ok(bounded) if (1..=MOST).contains(&bounded) => Ok(Bounded(bounded)),
            _ => {
                let allowed = format!("a number from 1 to {MOST}");
                Err(D::Error::invalid_value(Unexpected::Signed(number), &allowed.as_str()))
            }
        }
    }
}

/// Most engines of a kind, and of all kinds.
const MOST_ENGINES: u32 = softgpu::MAX_ENGINES as u32;
/// Most refreshes of a display in a second: one each microsecond.
const MOST_REFRESHES: u32 = 1_000_000;
/// Most CPU waits of a client. Each has a word in memory that is reserved when the client connects.
const MOST_WAITS: u32 = 1 << 20;

/// A kind of engine, by the word that workloads use.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind(EngineKind);

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let word = String::deserialize(from)?;
        EngineKind::from_word(&word).map(Kind).ok_or_else(|| {
            let words: Vec<_> = EngineKind::ALL.iter().map(|kind| kind.word()).collect();
            D::Error::custom(format!(
                "'{word}' is no kind of engine: use one of {}",
                words.join(", ")
            ))
        })
    }
}

/// The display of each adapter.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Display {
    refresh_hz: Bounded<MOST_REFRESHES>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FileLimits {
    objects: Option<Bounded<{ u32::MAX }>>,
    memory_bytes: Option<u64>,
    queues: Option<u32>,
    waits: Option<Bounded<MOST_WAITS>>,
    wait_fences: Option<u32>,
    nt_handles: Option<u32>,
    queued: Option<u32>,
}

impl FileLimits {
    fn limits(&self) -> Limits {
        let standard = Limits::default();
        Limits {
            objects: self.objects.map_or(standard.objects, |most| most.0),
            memory_bytes: self.memory_bytes.unwrap_or(standard.memory_bytes),
            queues: self.queues.unwrap_or(standard.queues),
            waits: self.waits.map_or(standard.waits, |most| most.0),
            wait_fences: self.wait_fences.unwrap_or(standard.wait_fences),
            nt_handles: self.nt_handles.unwrap_or(standard.nt_handles),
            queued: self.queued.unwrap_or(standard.queued),
        }
    }
}

/// The machine of a configuration, with the reference driver or another one.
fn machine(
    platform: &Platform,
    file: &File,
    path: Option<&Path>,
    driver: Option<&DriverFile>,
    verifiers: &mut Vec<Arc<Verifier>>,
    is_verified: bool,
) -> Result<Machine, BadInput> {
    let named = |what: String| match path {
        Some(path) => BadInput(format!("{}: {what}", path.display())),
        None => BadInput(what),
    };
    let engines = file.engines.iter().map(|(kind, count)| (kind.0, count.0)).collect();
    let standard = || MachineConfig::standard(platform).with_engines(&engines);
    let of_name = |name: &String| {
        let variant = variants::find(name).map_err(|error| named(format!("adapter: {error}")))?;
        let mut config = standard();
        variant.apply(&mut config);
        Ok(config)
    };
    let configs = match &file.adapter {
        None => vec![standard()],
        Some(Names::One(name)) => vec![of_name(name)?],
        Some(Names::Each(names)) => names.iter().map(of_name).collect::<Result<_, BadInput>>()?,
    };
    if configs.is_empty() {
        return Err(named("adapter: a machine has at least one adapter".to_owned()));
    }
    let mut builder = Machine::builder(platform);
    for mut config in configs {
        if let Some(display) = &file.display {
            config = config.with_display(1_000_000_000 / u64::from(display.refresh_hz.0));
        }
        let verifier = is_verified.then(|| Arc::new(reporting(verifiers.len())));
        verifiers.extend(verifier.clone());
        let layered = move |driver| match verifier {
            None => driver,
            Some(verifier) => verifier.before(platform, driver),
        };
        builder = match driver.map(DriverFile::make) {
            None => builder.reference_behind(config, layered),
            Some(make) => builder.driven(config, move |bus, gpu| Ok(layered(make(bus, gpu)?))),
        };
    }
    builder.start().map_err(|error| named(error.to_string()))
}

/// Returns the verifier of an adapter, which logs a clause as soon as it is broken.
fn reporting(adapter: usize) -> Verifier {
    Verifier::reporting(move |breach| {
        tracing::error!(adapter, clause = breach.clause.id, "the driver: {}", breach.what);
    })
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
    let platform = match arguments.ivshmem.is_empty() {
        true => Platform::sharing_host(),
        false => Platform::hosting_guests(),
    };
    let device = arguments.device.as_deref();
    let driver = arguments.driver.as_deref().map(|path| DriverFile::new(path, device));
    let mut verifiers = Vec::new();
    let machine = machine(
        &platform,
        &file,
        arguments.config.as_deref(),
        driver.as_ref(),
        &mut verifiers,
        arguments.verify_driver,
    )?;
    let standard = ServerConfig::default();
    let config = ServerConfig {
        clients: file.clients.map_or(standard.clients, |most| most.0),
        limits: file.limits.limits(),
        any_user: file.any_user,
        may_raise_priority: file.may_raise_priority,
    };
    server::raise_descriptor_limit();
    // The listener is closed before the socket's file is removed.
    let (socket, listener) = match arguments.socket.as_deref() {
        Some(path) => Socket::listen(path, config.any_user)?,
        None => Socket::passed()?,
    };
    let machine = Arc::new(machine);
    let server = machine.service(listener, config).map_err(|e| BadInput(e.to_string()))?;
    let mut guest_sockets = Vec::new();
    for path in &arguments.ivshmem {
        let (socket, listener) = Socket::listen_for_guests(path)?;
        let served = server.serve_guests(listener, arguments.ivshmem_mib << 20);
        served.map_err(|error| BadInput(format!("--ivshmem {}: {error}", path.display())))?;
        guest_sockets.push(socket);
    }
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
    guest_sockets.iter().for_each(|socket| outln!("guests connect to {}", socket.name()));
    // Scripts wait for this line.
    outln!("serving on {}", socket.name());
    let result = server.serve();
    stop_signals.close();
    tracing::info!(counts = ?server.counts(), "stopped");
    if !verifiers.is_empty() {
        machine.wait_idle();
    }
    let ends: Vec<RunEnd> =
        (0..machine.adapter_count()).map(|index| RunEnd::of(machine.adapter_at(index))).collect();
    // The driver's findings are complete when it is unloaded.
    drop((server, machine));
    let verified = verifiers.iter().zip(&ends).flat_map(|(verifier, end)| verifier.finish(end));
    let mut broken: Vec<String> = verified.map(|breach| breach.to_string()).collect();
    broken.extend(driver.iter().flat_map(DriverFile::take_problems));
    broken.iter().for_each(|line| errln!("tidegate: {line}"));
    match result {
        Ok(()) if broken.is_empty() => Ok(End::Right),
        Ok(()) => Ok(End::Wrong),
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

/// The name of a listening socket. Its file is removed with it if it was made here and is still the
/// same one. The listener is closed before: a service that starts may hold the lock until its
/// connection ends.
struct Socket<'a> {
    made: Option<MadeFile<'a>>,
}

/// A file, and its device and inode: another service may have taken its place.
struct MadeFile<'a> {
    path: &'a Path,
    number: Option<(u64, u64)>,
}

/// What is at a path where a socket is to be made.
enum Occupant {
    Nothing,
    /// A socket that nothing listens at, left from a service that was killed. The system refuses a
    /// connection to any other file with the same error.
    Remains,
    Service,
}

/// Returns the device and inode of a file.
fn file_number(path: &Path) -> Option<(u64, u64)> {
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// The lock on a path, which orders the services that check, make and remove a socket there. It is
/// a file beside the socket that exists while the lock is held or waited for.
struct PathLock {
    name: OsString,
    /// Holds the lock until it is closed.
    _file: OwnedFd,
}

impl PathLock {
    fn take(path: &Path) -> io::Result<PathLock> {
        let mut name = path.as_os_str().to_owned();
        name.push(".lock");
        loop {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let file = rustix::fs::open(&name, flags, Mode::RUSR | Mode::WUSR)?;
            rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
            let opened = rustix::fs::fstat(&file)?;
            // The holder before may have removed this file, so that the next one makes another.
            if file_number(Path::new(&name)) == Some((opened.st_dev, opened.st_ino)) {
                return Ok(PathLock { name, _file: file });
            }
        }
    }
}

impl Drop for PathLock {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = std::fs::remove_file(&self.name);
    }
}

impl<'a> Socket<'a> {
    /// Makes a socket for clients. Its mode admits the same users as the service.
    fn listen(path: &'a Path, any_user: bool) -> Result<(Socket<'a>, OwnedFd), BadInput> {
        let occupant = || match client::counts(path) {
            Err(ConnectError::BadPath { error, .. }) => Err(error),
            Err(ConnectError::NoService { error, .. }) => Ok(match error.kind() {
                io::ErrorKind::ConnectionRefused => Occupant::Remains,
                _ => Occupant::Nothing,
            }),
            _ => Ok(Occupant::Service),
        };
        // Connecting needs the right to write.
        let mode = if any_user { 0o666 } else { 0o600 };
        Socket::make("--socket", path, mode, occupant, server::listen)
    }

    /// Makes a socket for virtual machines of the service's user.
    fn listen_for_guests(path: &'a Path) -> Result<(Socket<'a>, OwnedFd), BadInput> {
        let occupant = || match UnixStream::connect(path) {
            Ok(_) => Ok(Occupant::Service),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Occupant::Nothing),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(Occupant::Remains),
            Err(error) => Err(error),
        };
        Socket::make("--ivshmem", path, 0o600, occupant, server::listen_for_guests)
    }

    /// Makes a socket at the path that `option` names, in place of the remains of another one.
    fn make(
        option: &str,
        path: &'a Path,
        mode: u32,
        occupant: impl FnOnce() -> io::Result<Occupant>,
        listen: impl FnOnce(&Path) -> io::Result<OwnedFd>,
    ) -> Result<(Socket<'a>, OwnedFd), BadInput> {
        let bad =
            |what: &dyn std::fmt::Display| BadInput(format!("{option} {}: {what}", path.display()));
        let _lock = PathLock::take(path).map_err(|error| bad(&error))?;
        match occupant().map_err(|error| bad(&error))? {
            Occupant::Service => return Err(bad(&"another service listens there")),
            Occupant::Remains => {
                let found = std::fs::metadata(path).map_err(|error| bad(&error))?;
                if !found.file_type().is_socket() {
                    return Err(bad(&"a file that is no socket is there; name another path"));
                }
                std::fs::remove_file(path).map_err(|error| bad(&error))?;
            }
            Occupant::Nothing => {}
        }
        let listener = listen(path).map_err(|error| bad(&error))?;
        let made = Some(MadeFile { path, number: file_number(path) });
        let socket = Socket { made };
        std::fs::set_permissions(path, Permissions::from_mode(mode)).map_err(|e| bad(&e))?;
        Ok((socket, listener))
    }

    fn passed() -> Result<(Socket<'a>, OwnedFd), BadInput> {
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
        if rustix::net::sockopt::socket_acceptconn(&listener) != Ok(true) {
            return Err(BadInput("the socket that was passed does not listen".to_owned()));
        }
        Ok((Socket { made: None }, listener))
    }

    fn name(&self) -> String {
        match &self.made {
            Some(made) => made.path.display().to_string(),
            None => "the socket that was passed".to_owned(),
        }
    }
}

impl Drop for Socket<'_> {
    fn drop(&mut self) {
        let Some(made) = &self.made else { return };
        // Without the lock a service that starts could put its socket in place after the check.
        let lock = PathLock::take(made.path);
        if lock.is_ok() && made.number.is_some() && file_number(made.path) == made.number {
            // It may be gone already.
            let _ = std::fs::remove_file(made.path);
        }
    }
}
