//! A virtual machine as a service sees it: the client's side of QEMU's ivshmem server protocol, and
//! a process of its guest.

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tidegate::Platform;
use tidegate::platform::DeviceMemory;
use tidegate::service::client::{self, GuestDevice, RemoteKernel};

/// Vectors of each peer.
const VECTORS: usize = 2;

/// A virtual machine. Its guest is gone when this is dropped.
pub struct VirtualMachine {
    _socket: OwnedFd,
    memory: OwnedFd,
    host: Vec<OwnedFd>,
    own: Vec<OwnedFd>,
}

/// Returns the next message; `None` at the end of the connection.
fn receive(socket: &OwnedFd) -> Option<(i64, Option<OwnedFd>)> {
    let mut bytes = [0; 8];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut into = [IoSliceMut::new(&mut bytes)];
    let message =
        rustix::net::recvmsg(socket, &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC).ok()?;
    let mut files = Vec::new();
    for part in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = part {
            files.extend(rights);
        }
    }
    assert!(files.len() < 2, "a message brings one descriptor at most");
    (message.bytes == 8).then(|| (i64::from_le_bytes(bytes), files.pop()))
}

impl VirtualMachine {
    /// Connects as QEMU does. `None`: it was turned away.
    ///
    /// # Panics
    /// No service listens there, or it breaks the protocol.
    pub fn try_start(path: &Path) -> Option<VirtualMachine> {
        let (kind, flags) = (SocketType::STREAM, SocketFlags::CLOEXEC);
        let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None).unwrap();
        rustix::net::connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
        let (version, _) = receive(&socket)?;
        let (own_number, _) = receive(&socket)?;
        let (what, memory) = receive(&socket)?;
        assert_eq!((version, what), (0, -1));
        let (mut host, mut own) = (Vec::new(), Vec::new());
        for _ in 0..2 * VECTORS {
            let (peer, eventfd) = receive(&socket)?;
            // The vectors of the machine's own come last.
            assert!(peer == own_number || own.is_empty());
            if peer == own_number { &mut own } else { &mut host }.push(eventfd?);
        }
        assert_eq!((host.len(), own.len()), (VECTORS, VECTORS));
        Some(VirtualMachine { _socket: socket, memory: memory?, host, own })
    }

    /// As [`VirtualMachine::try_start`], at a socket without a guest.
    ///
    /// # Panics
    /// It was turned away.
    pub fn start(path: &Path) -> VirtualMachine {
        VirtualMachine::try_start(path).expect("the socket has no guest")
    }

    /// Returns the device as a process of the guest maps it.
    ///
    /// # Panics
    /// The system has no descriptor or mapping left.
    pub fn device(&self) -> GuestDevice {
        let copy = |files: &[OwnedFd]| {
            let files: Vec<_> = files.iter().map(|file| file.try_clone().unwrap()).collect();
            <[OwnedFd; VECTORS]>::try_from(files).unwrap()
        };
        let (host, own) = (copy(&self.host), copy(&self.own));
        GuestDevice::of_files(&Platform::host(), &self.memory, host, own).unwrap()
    }

    /// Returns a path by which this process opens the memory of the device.
    pub fn memory_path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.memory.as_raw_fd()).into()
    }

    /// Opens a process of the guest.
    ///
    /// # Panics
    /// The service turns it away.
    pub fn process(&self, platform: &Platform, name: &str) -> Arc<RemoteKernel> {
        client::connect_device(platform, self.device(), 0, name).unwrap()
    }

    /// Returns the memory of the device.
    ///
    /// # Panics
    /// The system has no mapping left.
    pub fn memory(&self) -> DeviceMemory {
        Platform::host().map_device(&self.memory).unwrap()
    }

    /// Waits for an interrupt of the guest and takes it. Returns whether there was one within the
    /// time.
    ///
    /// # Panics
    /// `vector` is past the last vector.
    pub fn wait_for_interrupt(&self, vector: usize, within: Duration) -> bool {
        let mut polled = [PollFd::new(&self.own[vector], PollFlags::IN)];
        let within =
            Timespec { tv_sec: within.as_secs() as i64, tv_nsec: within.subsec_nanos().into() };
        let ready = rustix::event::poll(&mut polled, Some(&within)).is_ok_and(|ready| ready != 0);
        if ready {
            let _ = rustix::io::read(&self.own[vector], &mut [0; 8]);
        }
        ready
    }

    /// Rings a vector of the host, as the register does.
    ///
    /// # Panics
    /// `vector` is past the last vector.
    pub fn ring(&self, vector: usize) {
        rustix::io::write(&self.host[vector], &1u64.to_ne_bytes()).unwrap();
    }
}
