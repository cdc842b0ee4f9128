//! Floors of several processes: the end of a process as its socket says it, a process that starts
//! and listens, and a page that comes over a socket.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;
use tidegate::Platform;
use tidegate::platform::ClientAccess;
use tidegate::service::server;
use tidegate_measure::floors::{ns, pair, two_sides};
use tidegate_measure::{Found, Samples};

/// What a process of this program says when it is ready.
pub(crate) const READY: &str = "ready";

const KILLS: u64 = 30;

/// Floor of the end of a process: from its kill to the end of the socket that it held.
pub(crate) fn kill_to_end_of_socket() -> Found<Samples> {
    let mut samples = Samples::default();
    for _ in 0..KILLS {
        let (held, other) = pair()?;
        // Reads the socket until it ends.
        let mut process =
            Command::new("cat").stdin(Stdio::from(other)).stdout(Stdio::null()).spawn()?;
        // It runs, once its socket's buffer is empty.
        rustix::net::send(&held, b"go", SendFlags::empty())?;
        while rustix::io::ioctl_fionread(&held).is_ok_and(|unread| unread > 0) {}
        std::thread::sleep(std::time::Duration::from_millis(2));
        let start = Instant::now();
        process.kill()?;
        let ended = rustix::net::recv(&held, &mut [0u8; 8], RecvFlags::empty());
        let took = ns(start);
        // Its status says nothing that the end of its socket has not said.
        let _status = process.wait();
        if ended.is_ok_and(|(bytes, _)| bytes == 0) {
            samples.push(took as f64);
        }
    }
    Ok(samples)
}

/// A process that listens at a socket: the floor of a service that starts.
pub(crate) fn listen(path: &Path) -> Found<()> {
    let listener = server::listen(path)?;
    println!("{READY}");
    loop {
        let client = rustix::net::accept(&listener)?;
        let mut bytes = [0u8; 64];
        // A client that has left needs no answer.
        let _ = rustix::net::recv(&client, &mut bytes, RecvFlags::empty())
            .and_then(|_| rustix::net::send(&client, &bytes, SendFlags::empty()));
    }
}

/// Sends a message to a process that listens, and waits for its answer.
pub(crate) fn answered(path: &Path) -> Found<()> {
    let address = SocketAddrUnix::new(path)?;
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?;
    rustix::net::connect(&socket, &address)?;
    let mut bytes = [0u8; 64];
    rustix::net::send(&socket, &bytes, SendFlags::empty())?;
    rustix::net::recv(&socket, &mut bytes, RecvFlags::empty())?;
    Ok(())
}

/// Floor of opening a shared fence: a message to the other processor, a page in a file back, mapped
/// and read. The platform maps it, which looks at its seals.
pub(crate) fn page_over_a_socket() -> Found<Samples> {
    const PAGES: u64 = 500;
    const WORDS: usize = 512;
    let (client, server) = pair()?;
    let owner = Platform::sharing_host();
    let page = owner.client_page(WORDS, ClientAccess::ReadOnly);
    let service = || {
        let Some(shared) = page.shared() else { return };
        let mut bytes = [0u8; 64];
        for _ in 0..PAGES {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut files = SendAncillaryBuffer::new(&mut space);
            let file = [shared.as_fd()];
            files.push(SendAncillaryMessage::ScmRights(&file));
            let asked = rustix::net::recv(&server, &mut bytes, RecvFlags::empty());
            let body = [IoSlice::new(&bytes)];
            if asked.is_err()
                || rustix::net::sendmsg(&server, &body, &mut files, SendFlags::empty()).is_err()
            {
                return;
            }
        }
    };
    two_sides(service, || {
        let platform = Platform::host();
        let (mut samples, mut bytes) = (Samples::default(), [0u8; 64]);
        for _ in 0..PAGES {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut files = RecvAncillaryBuffer::new(&mut space);
            let start = Instant::now();
            rustix::net::send(&client, &bytes, SendFlags::empty())?;
            let mut into = [IoSliceMut::new(&mut bytes)];
            rustix::net::recvmsg(&client, &mut into, &mut files, RecvFlags::CMSG_CLOEXEC)?;
            let file = files.drain().find_map(|part| match part {
                RecvAncillaryMessage::ScmRights(mut files) => files.next(),
                _ => None,
            });
            let file: OwnedFd = file.ok_or("no file came with the message")?;
            let page = platform.map_page(file, WORDS, ClientAccess::ReadOnly)?;
            std::hint::black_box(page.word(0).load());
            samples.push(ns(start) as f64);
        }
        Ok(samples)
    })?
}
