//! Reaches a service: the socket, and the first message.

use super::channel::Channel;
use super::kernel::RemoteKernel;
use super::notices::Notices;
use crate::server::Sessions;
use crate::transport::{Attachment, Bell, GuestDevice, GuestEnd, Life, Link};
use crate::wire::{self, Hello, Purpose, Refusal, Welcome};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde::de::DeserializeOwned;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate_calls::{ClientKind, Status};
use tidegate_platform::Platform;

/// Why a client did not reach a service.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No service listens there.
    #[error(
        "no service listens at {path}: {error} (start one with `tidegate serve --socket PATH`)"
    )]
    NoService {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The folder belongs to no device that this process may map.
    #[error("{path} is not a device of a service: {error} (is this root in a guest?)")]
    NoDevice {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The path is too long for a socket, or not absolute where it must be.
    #[error("{path} cannot be the name of a socket: {error}")]
    BadPath {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The service turned the client away.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The service ended, or closed the connection.
    #[error("the service has ended")]
    Ended,
    /// The service does not show what was wanted.
    #[error("the service shows no such adapter: {0}")]
    NotViewed(Status),
    /// What answered is not a service, or the connection broke.
    #[error("the service did not answer as one does: {0}")]
    Protocol(io::Error),
}

/// Opens a process on adapter `adapter`, counted from 0, of the service that listens at `path`. In
/// a guest `path` may be the folder of the PCI device in sysfs ([`GuestDevice::open`]).
///
/// # Errors
/// No service listens there, it turns the client away, or it does not speak the protocol.
pub fn connect(
    platform: &Platform,
    path: &Path,
    adapter: u32,
    process_name: &str,
) -> Result<Arc<RemoteKernel>, ConnectError> {
    connect_as(platform, path, (adapter, ClientKind::default()), process_name)
}

/// As [`connect`], for a process of this kind.
///
/// # Errors
/// As [`connect`].
pub fn connect_as(
    platform: &Platform,
    path: &Path,
    (adapter, kind): (u32, ClientKind),
    process_name: &str,
) -> Result<Arc<RemoteKernel>, ConnectError> {
    let purpose = Purpose::Process { adapter, name: process_name.to_owned(), kind };
    if path.is_dir() {
        let no_device = |error| ConnectError::NoDevice { path: path.to_owned(), error };
        let device = GuestDevice::open(platform, path).map_err(no_device)?;
        return open_device(platform, device, purpose);
    }
    let (link, welcome, files) = first_message(path, purpose)?;
    become_process(platform, link, welcome, files)
}

/// Reads the counters of the service that listens at `path`, in the text format of Prometheus.
///
/// # Errors
/// As [`connect`].
pub fn counts(path: &Path) -> Result<String, ConnectError> {
    first_message(path, Purpose::Counts).map(|(_, counts, _)| counts)
}

fn broken(why: &str) -> ConnectError {
    ConnectError::Protocol(io::Error::new(io::ErrorKind::InvalidData, why))
}

/// Returns a socket that is connected to the service at `path`.
fn socket(path: &Path) -> Result<OwnedFd, ConnectError> {
    let bad_path = |error: rustix::io::Errno| ConnectError::BadPath {
        path: path.to_owned(),
        error: error.into(),
    };
    let address = SocketAddrUnix::new(path).map_err(bad_path)?;
    let no_service = |error: rustix::io::Errno| ConnectError::NoService {
        path: path.to_owned(),
        error: error.into(),
    };
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .map_err(no_service)?;
    rustix::net::connect(&socket, &address).map_err(no_service)?;
    Ok(socket)
}

/// Connects, and says what for. Returns the connection, and the answer with its files.
pub(super) fn first_message<T: DeserializeOwned>(
    path: &Path,
    purpose: Purpose,
) -> Result<(Link, T, Vec<Attachment>), ConnectError> {
    let link = Link::Socket(socket(path)?);
    let (answer, files) = say_hello(&link, purpose)?;
    Ok((link, answer, files))
}

/// Sends the first message. Returns the answer with its files.
fn say_hello<T: DeserializeOwned>(
    link: &Link,
    purpose: Purpose,
) -> Result<(T, Vec<Attachment>), ConnectError> {
    let hello = Hello { magic: wire::MAGIC, version: wire::VERSION, purpose };
    // A service that turns the client away at once may have closed the socket: its answer is there.
    let sent = link.send(&wire::encode(&hello), []);
    let mut buffer = Vec::new();
    let received = link.receive(&mut buffer).map_err(ConnectError::Protocol)?;
    let Some(received) = received else {
        sent.map_err(ConnectError::Protocol)?;
        return Err(broken("the connection was closed"));
    };
    let answer: Result<T, Refusal> =
        wire::decode(received.body).ok_or_else(|| broken("the first answer is not understood"))?;
    Ok((answer?, received.attached))
}

/// Opens a process on adapter `adapter` of the service whose device a guest has. A process that the
/// guest had before has ended.
///
/// # Errors
/// As [`connect`].
pub fn connect_device(
    platform: &Platform,
    device: GuestDevice,
    adapter: u32,
    process_name: &str,
) -> Result<Arc<RemoteKernel>, ConnectError> {
    let (name, kind) = (process_name.to_owned(), ClientKind::default());
    let purpose = Purpose::Process { adapter, name, kind };
    open_device(platform, device, purpose)
}

fn open_device(
    platform: &Platform,
    device: GuestDevice,
    purpose: Purpose,
) -> Result<Arc<RemoteKernel>, ConnectError> {
    let end = GuestEnd::new(platform, device).map_err(ConnectError::Protocol)?;
    let link = Link::Guest(end);
    let (welcome, files) = say_hello(&link, purpose)?;
    become_process(platform, link, welcome, files)
}

/// Opens a process on adapter `adapter` of a service on the caller's cooperative platform. Called
/// by an agent. Returns with it what ends the process as a SIGKILL does.
///
/// # Errors
/// As [`connect`].
pub fn connect_agent(
    sessions: &Sessions,
    adapter: u32,
    process_name: &str,
) -> Result<(Arc<RemoteKernel>, Life), ConnectError> {
    let platform = sessions.platform();
    let (link, session, life) = Link::pair(platform);
    sessions.take(session);
    let (name, kind) = (process_name.to_owned(), ClientKind::default());
    let purpose = Purpose::Process { adapter, name, kind };
    let (welcome, files) = say_hello(&link, purpose)?;
    Ok((become_process(platform, link, welcome, files)?, life))
}

fn become_process(
    platform: &Platform,
    link: Link,
    welcome: Welcome,
    files: Vec<Attachment>,
) -> Result<Arc<RemoteKernel>, ConnectError> {
    let Ok([page, bell]) = <[Attachment; 2]>::try_from(files) else {
        return Err(broken("the first answer lacks its files"));
    };
    let (words, access) = (welcome.notices.words as usize, welcome.notices.access);
    let page = page.map_page(platform, words, access).map_err(ConnectError::Protocol)?;
    let bell = Bell::of(bell).map_err(ConnectError::Protocol)?;
    let channel = Arc::new(Channel::new(platform, link));
    let notices = Notices::start(platform, &channel, page, bell).map_err(ConnectError::Protocol)?;
    let clock_ahead_ns =
        i128::from(welcome.clock_origin_ns) - i128::from(platform.clock_origin_ns());
    let about = (welcome.info, welcome.adapters);
    Ok(Arc::new(RemoteKernel::new(platform, channel, notices, about, clock_ahead_ns)))
}
