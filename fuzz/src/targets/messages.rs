//! Target `messages`: messages with files over the socket of a service, from clients that keep no
//! rule of it: bytes of any kind, calls with any fields and with handles of its own and of nothing,
//! files that are no handles, answers that are not read, and memory of the service that is changed,
//! cut and sealed.

use crate::any::any;
use crate::input::Input;
use crate::series::Series;
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use tidegate::calls::{
    AllocationKind, BroadcastExclusions, CreateAllocation, CreateHwContext, CreateHwQueue, Handle,
    Placement, Priority, SyncObjectAccess, SyncObjectFlags,
};
use tidegate::service::PROTOCOL_VERSION;
use tidegate::service::hostile::{
    Call, CreateDoorbellMessage, CreateMonitoredFenceMessage, Message, encode,
};

pub(crate) fn run(series: &mut Series, data: &[u8]) {
    series.served(|socket| {
        let mut input = Input::new(data);
        let mut client = Client::new(socket);
        for _ in 0..MOST_STEPS {
            if input.is_over() {
                break;
            }
            client.step(&mut input);
        }
    });
}

/// Each step may be a call of the system and a turn of a thread.
const MOST_STEPS: usize = 200;
/// Most files, handles and connections that it keeps.
const MOST_KEPT: usize = 16;
/// One more than a message may bring.
const MOST_FILES: usize = 9;
const LONGEST_ANSWER: usize = 160 << 10;
/// Calls of the set-up.
pub(super) const SET_UP_STEPS: usize = 9;

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number > 0x7F {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn bytes(bytes: &[u8], out: &mut Vec<u8>) {
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// A hostile client: its connections, and what it was given.
struct Client<'a> {
    socket: &'a Path,
    links: Vec<Link>,
    known: Vec<Handle>,
    came: Vec<OwnedFd>,
}

struct Link {
    socket: OwnedFd,
    /// Messages without an answer so far.
    unanswered: usize,
}

impl Client<'_> {
    fn new(socket: &Path) -> Client<'_> {
        Client { socket, links: Vec::new(), known: Vec::new(), came: Vec::new() }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        if self.links.is_empty() {
            self.connect();
            let hello = match input.byte() {
                0 => input.take(40).to_vec(),
                byte => hello(byte),
            };
            self.send(&hello, &[]);
            self.read();
            return self.set_up(input.byte());
        }
        match input.byte() % 16 {
            0 => {
                let len = usize::from(input.byte());
                self.send_with_files(input.take(len), input);
            }
            1 => self.send(&vec![input.byte(); usize::from(input.byte()) << 10], &[]),
            2 => {
                let mut call = self.call(input);
                let at = input.below(call.len().min(256));
                call[at] ^= 1 << input.below(8);
                self.send(&call, &[]);
            }
            3 => {
                let call = self.call(input);
                self.send_with_files(&call, input);
                self.read();
            }
            4 => {
                let (call, kind) = (self.call(input), input.byte());
                for _ in 0..2 * u32::from(input.byte()) {
                    let file = self.file(&mut Input::new(&[kind]));
                    self.send(&call, file.as_slice());
                }
            }
            5 => self.change_memory(input),
            6 => match input.byte() % 4 {
                0 => self.links.clear(),
                1 => drop(self.links.pop()),
                2 => {
                    self.connect();
                    self.send(&hello(input.byte()), &[]);
                }
                _ => {
                    let how = input.one_of(&[Shutdown::Read, Shutdown::Write, Shutdown::Both]);
                    let shut =
                        self.links.last().map(|link| rustix::net::shutdown(&link.socket, how));
                    assert!(shut.is_some(), "there is a connection");
                    self.links.pop();
                }
            },
            7 => self.came.clear(),
            _ => {
                let call = self.call(input);
                self.send(&call, &[]);
                self.read();
            }
        }
    }

    fn connect(&mut self) {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None);
        let socket = socket.expect("a socket");
        let address = SocketAddrUnix::new(self.socket).expect("a short path");
        rustix::net::connect(&socket, &address).expect("the service listens");
        self.links.truncate(MOST_KEPT);
        self.known.clear();
        self.links.push(Link { socket, unanswered: 0 });
    }

    /// Makes what most calls need, up to the step that the input chooses: a device, a shared fence
    /// with its file, and a connected user-mode queue with its memory.
    fn set_up(&mut self, steps: u8) {
        for number in 0..usize::from(steps).min(SET_UP_STEPS) {
            let call = set_up_call(&self.known, number);
            self.send(&encode(&Message::Call(call)), &[]);
            self.read();
        }
    }

    /// Returns any message.
    fn call(&self, input: &mut Input<'_>) -> Vec<u8> {
        encode(&any::<Message>(input, &self.known))
    }

    /// Sends a message, unless the service does not take it now. A service that reads nothing is
    /// waiting for this client.
    fn send(&mut self, body: &[u8], files: &[OwnedFd]) {
        let Some(link) = self.links.last_mut() else { return };
        let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(&files)), "there is room");
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match rustix::net::sendmsg(&link.socket, &[IoSlice::new(body)], &mut ancillary, flags) {
            Ok(_) => link.unanswered += 1,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::MSGSIZE) => {}
            Err(_) => drop(self.links.pop()),
        }
    }

    fn send_with_files(&mut self, body: &[u8], input: &mut Input<'_>) {
        let count = input.below(MOST_FILES + 1);
        let files: Vec<OwnedFd> = (0..count).filter_map(|_| self.file(input)).collect();
        self.send(body, &files);
    }

    /// Returns a file of any kind.
    fn file(&self, input: &mut Input<'_>) -> Option<OwnedFd> {
        let came = |input: &mut Input<'_>| {
            let file = self.came.get(input.below(self.came.len()))?;
            file.try_clone().ok()
        };
        match input.byte() % 8 {
            0 => std::fs::File::open("/dev/null").ok().map(OwnedFd::from),
            1 => std::fs::File::open("/").ok().map(OwnedFd::from),
            2 => std::io::pipe().ok().map(|(reader, _)| reader.into()),
            3 => rustix::fs::memfd_create("hostile", MemfdFlags::ALLOW_SEALING).ok(),
            // A socket in its own messages.
            4 => self.links.last().and_then(|link| link.socket.try_clone().ok()),
            _ => came(input),
        }
    }

    /// Reads an answer, if one is due. A connection that the service has ended is forgotten.
    fn read(&mut self) {
        let Some(link) = self.links.last_mut() else { return };
        let Some(unanswered) = link.unanswered.checked_sub(1) else { return };
        link.unanswered = unanswered;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut answer = vec![0; LONGEST_ANSWER];
        let mut into = [IoSliceMut::new(&mut answer)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let read = rustix::net::recvmsg(&link.socket, &mut into, &mut ancillary, flags);
        let Some(bytes) = read.ok().map(|read| read.bytes).filter(|bytes| *bytes > 0) else {
            self.links.pop();
            return;
        };
        for part in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = part {
                self.came.extend(files);
            }
        }
        let excess = self.came.len().saturating_sub(MOST_KEPT);
        self.came.drain(..excess);
        self.keep_handles(&answer[..bytes]);
    }

    fn keep_handles(&mut self, answer: &[u8]) {
        self.known.extend(handles_of(answer));
        let excess = self.known.len().saturating_sub(MOST_KEPT);
        self.known.drain(..excess);
    }

    /// Writes to a file that came, cuts it, takes its memory away, or seals it.
    fn change_memory(&self, input: &mut Input<'_>) {
        let Some(file) = self.came.get(input.below(self.came.len())) else { return };
        let at = input.number() & 0xFFF;
        let what = input.byte() % 5;
        let len = usize::from(input.byte());
        let _refused_or_done = match what {
            0 => rustix::fs::ftruncate(file, at),
            1 => rustix::fs::ftruncate(file, input.number() >> 1),
            2 => {
                let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                rustix::fs::fallocate(file, hole, 0, 4096)
            }
            3 => rustix::fs::fcntl_add_seals(file, SealFlags::from_bits_retain(len as u32)),
            // Eight bytes, as for the counter of an eventfd, or more.
            _ if len < 8 => rustix::io::write(file, &input.raw().to_ne_bytes()).map(drop),
            _ => rustix::io::pwrite(file, input.take(len), at).map(drop),
        };
    }
}

/// Returns a call of the set-up. `known`: the handles that the calls before have made.
pub(super) fn set_up_call(known: &[Handle], number: usize) -> Call {
    // In the order in which they are made.
    let known = |number: usize| known.get(number).copied().unwrap_or(Handle(0));
    let memory = |kind| CreateAllocation {
        device: known(0),
        bytes: 4096,
        kind,
        placement: Placement::System,
    };
    let (access, node_ordinal, engine_affinity) = (SyncObjectAccess::all(), 2, 0);
    match number {
        0 => Call::CreateDevice {},
        1 => Call::CreateMonitoredFence {
            args: CreateMonitoredFenceMessage {
                device: known(0),
                initial_value: 0,
                flags: SyncObjectFlags::SHARED | SyncObjectFlags::NT_SECURITY_SHARING,
                engine_affinity,
                name: String::new(),
            },
        },
        2 => Call::CreateAllocation { args: memory(AllocationKind::Bulk) },
        3 => Call::CreateAllocation { args: memory(AllocationKind::Protocol) },
        4 => {
            let args = CreateHwContext { device: known(0), node_ordinal, engine_affinity };
            Call::CreateHwContext { args }
        }
        5 => Call::CreateHwQueue {
            args: CreateHwQueue {
                hw_context: known(4),
                user_mode_submission: true,
                priority: Priority::Normal,
                native_fence_commands: false,
                exclusions: BroadcastExclusions::default(),
            },
        },
        6 => Call::CreateDoorbell {
            args: CreateDoorbellMessage {
                hw_queue: known(5),
                ring: known(2),
                control: known(3),
                flags: 0,
                private_data: Vec::new(),
            },
        },
        7 => Call::ConnectDoorbell { doorbell: known(7) },
        _ => Call::ShareObjects { objects: vec![known(1)], access, name: None },
    }
}

/// Returns the first numbers of a success that are as long as handles.
pub(super) fn handles_of(answer: &[u8]) -> Vec<Handle> {
    let mut found = Vec::new();
    let Some((0, mut rest)) = answer.split_first().map(|(first, rest)| (*first, rest)) else {
        return found;
    };
    for _ in 0..2 {
        let Some(last) = rest.iter().position(|byte| byte & 0x80 == 0) else { break };
        let (number, after) = rest.split_at(last + 1);
        if number.len() == 5 {
            let bits = number.iter().rev().fold(0, |bits, byte| bits << 7 | u64::from(byte & 0x7F));
            found.push(Handle(bits as u32));
        }
        rest = after;
    }
    found
}

/// The first message of a client: mostly one that the service takes.
pub(super) fn hello(kind: u8) -> Vec<u8> {
    let mut hello = b"tidegate".to_vec();
    let (version, purpose, adapter) = match kind {
        1 => (0, 0, 0),
        2 => (PROTOCOL_VERSION, 1, 0),
        3 => (PROTOCOL_VERSION, 0, 7),
        4 => (PROTOCOL_VERSION, 2, 0),
        _ => (PROTOCOL_VERSION, 0, 0),
    };
    varint(version.into(), &mut hello);
    hello.push(purpose);
    if purpose == 0 {
        hello.push(adapter);
        bytes(b"hostile", &mut hello);
        // What it knows: stores without a base; kernel queues only.
        hello.extend([kind & 1, u8::from(kind == 6)]);
    }
    hello
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::guests;
    use tidegate::service::hostile::OwnMessage;

    /// One test: the open files of the process are counted.
    #[test]
    fn the_set_up_succeeds_and_each_call_of_the_table_is_decoded_and_no_other() {
        let mut series = Series::default();
        series.served(|socket| {
            let mut client = Client::new(socket);
            client.step(&mut Input::new(&[9, 9]));
            assert_eq!((client.links.len(), client.known.len()), (1, 8));
            let handle = client.came.last().expect("the file of the shared fence");
            let mode = rustix::fs::fstat(handle).unwrap().st_mode;
            assert_eq!(rustix::fs::FileType::from_raw_mode(mode), rustix::fs::FileType::Fifo);
        });
        series.served(|socket| {
            for kind in 0..=u8::MAX {
                let message: Message = any(&mut Input::new(&[kind, kind]), &[]);
                let mut client = Client::new(socket);
                client.step(&mut Input::new(&[9]));
                client.send(&encode(&message), &[]);
                client.read();
                // A goodbye has no answer.
                let stays = !matches!(message, Message::Own(OwnMessage::Goodbye));
                assert_eq!(client.links.len(), usize::from(stays), "{message:?}");
            }
            // More messages than there are.
            for beyond in [[0, 200], [1, 200], [2, 0]] {
                let mut client = Client::new(socket);
                client.step(&mut Input::new(&[9]));
                client.send(&beyond, &[]);
                client.read();
                assert!(client.links.is_empty(), "{beyond:?}");
            }
        });
        guests::tests::the_set_up_of_a_guest_succeeds_but_for_the_descriptor(&mut series);
    }
}
