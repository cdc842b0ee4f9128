//! Clients that speak no protocol: raw sockets against the service.

use super::process::{self, Setting};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use tidegate::calls::Kernel;
use tidegate::service::PROTOCOL_VERSION;

/// Returns a connection to the socket of a service.
pub(crate) fn raw(service: &Path) -> OwnedFd {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None).unwrap();
    rustix::net::connect(&socket, &SocketAddrUnix::new(service).unwrap()).unwrap();
    socket
}

fn send(socket: &OwnedFd, bytes: &[u8]) {
    // The service may have closed the socket.
    let _ = rustix::net::send(socket, bytes, SendFlags::NOSIGNAL);
}

#[test]
fn garbage_ends_its_own_connection_alone() {
    let service = process::start(Setting::Standard);
    let client = service.client("neighbour");
    let before = service.open_files();
    let mut bytes = Vec::new();
    // A fixed sequence that looks like nothing.
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    for length in [0, 1, 7, 8, 12, 40, 400, 4_000, 60_000] {
        bytes.resize(length, 0);
        for byte in &mut bytes {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *byte = state as u8;
        }
        let socket = raw(&service.socket());
        send(&socket, &bytes);
        send(&socket, &bytes);
    }
    // Too long for a message, and left without a word.
    let socket = raw(&service.socket());
    send(&socket, &vec![0; 180_000]);
    drop(raw(&service.socket()));
    drop(socket);
    assert!(client.create_device().is_ok());
    while service.open_files() > before {
        std::thread::yield_now();
    }
}

#[test]
fn files_that_no_call_takes_are_closed() {
    let service = process::start(Setting::Standard);
    let client = service.client("neighbour");
    let before = service.open_files();
    let file = std::fs::File::open("/dev/null").unwrap();
    for count in [1, 8, 64] {
        let socket = raw(&service.socket());
        let files = vec![file.as_fd(); count];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&files)));
        let body = [IoSlice::new(b"not a message")];
        let _ = rustix::net::sendmsg(&socket, &body, &mut ancillary, SendFlags::NOSIGNAL);
    }
    assert!(client.create_device().is_ok());
    while service.open_files() > before {
        std::thread::yield_now();
    }
}

/// The first message of a client.
const HELLO: &[u8] = &{
    let mut hello = *b"tidegate\x00\x00\x00\x04mute\x00\x00";
    hello[8] = PROTOCOL_VERSION as u8;
    hello
};
const CREATE_DEVICE: &[u8] = &[0, 0];

#[test]
fn a_client_that_reads_no_answer_ends_and_leaves_nothing() {
    let service = process::start(Setting::Standard);
    let client = service.client("neighbour");
    let before = service.open_files();
    for sends_itself in [false, true] {
        let socket = raw(&service.socket());
        send(&socket, HELLO);
        let files = [socket.as_fd()];
        loop {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            if sends_itself {
                // The last copy of a killed client's socket may be in a message.
                assert!(ancillary.push(SendAncillaryMessage::ScmRights(&files)));
            }
            let body = [IoSlice::new(CREATE_DEVICE)];
            if rustix::net::sendmsg(&socket, &body, &mut ancillary, SendFlags::NOSIGNAL).is_err() {
                break;
            }
        }
        // The neighbour goes on.
        assert!(client.create_device().is_ok());
    }
    while service.counter("processes") > 1 || service.open_files() > before {
        std::thread::yield_now();
    }
}

#[test]
fn half_of_a_message_ends_its_own_connection_alone() {
    let service = process::start(Setting::Standard);
    let client = service.client("neighbour");
    let before = service.open_files();
    for length in 1..HELLO.len() {
        send(&raw(&service.socket()), &HELLO[..length]);
    }
    // Half of a call, one with more than a call, and a socket that is closed for one direction.
    for call in [&CREATE_DEVICE[..1], &[0, 0, 0]] {
        let socket = raw(&service.socket());
        send(&socket, HELLO);
        send(&socket, call);
    }
    let closed = raw(&service.socket());
    send(&closed, HELLO);
    rustix::net::shutdown(&closed, rustix::net::Shutdown::Read).unwrap();
    send(&closed, CREATE_DEVICE);
    let mute = raw(&service.socket());
    send(&mute, HELLO);
    rustix::net::shutdown(&mute, rustix::net::Shutdown::Write).unwrap();
    assert!(client.create_device().is_ok());
    drop((closed, mute));
    while service.counter("processes") > 1 || service.open_files() > before {
        std::thread::yield_now();
    }
    assert_eq!(service.counter("sessions_failed_total"), 0);
}

#[test]
fn clients_that_never_speak_or_never_read_hold_up_no_other() {
    let service = process::start(Setting::Standard);
    let silent: Vec<OwnedFd> = (0..50).map(|_| raw(&service.socket())).collect();
    let client = service.client("neighbour");
    for _ in 0..100 {
        let device = client.create_device().unwrap();
        client.destroy_device(device).unwrap();
    }
    drop(silent);
    drop(client);
    service.until_left(usize::MAX);
}
