//! Messages between the process of the machine and the processes of its clients (`--on processes`).
//!
//! Each client has a socket that keeps the bounds of messages (SOCK_SEQPACKET). It is the client's
//! standard input. An NT handle travels as the file of a message. The process of the machine hands
//! it on, as a parent of real clients would.
//!
//! Invariant: both ends read at all times, so a send does not wait for long. A client whose parent
//! has ended ends itself.
//!
//! Entry points: [`Socket`], [`ToClient`], [`ToMachine`]; [`Parent`] for the threads of a client.

use crate::failure::Failure;
use crate::words::{FenceId, ThreadId};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use tidegate::Platform;
use tidegate::calls::{NtHandle, Status};
use tidegate::platform::{Event, Mutex, Step};
use tidegate::service::client;

/// The longest message. A program of 50 operations takes some thousand bytes.
const MOST_BYTES: usize = 1 << 17;
/// The longest text of a failure. The rest is cut off.
const MOST_TEXT: usize = 1 << 15;

/// The end of a step that the process of the machine has carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    Done,
    Refused(Status),
    /// The object of the step is not there.
    Nothing,
}

/// A message to a client.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToClient {
    /// The first message: the client is this process of the program. It connects to the service.
    Open {
        process: u16,
        service: PathBuf,
        program: String,
    },
    /// All processes are open.
    Start,
    /// A fence of another process was shared. Without a file it could not be.
    Handle {
        fence: u16,
    },
    Answer {
        thread: u16,
        answer: Answer,
    },
    /// All threads have ended. The objects are judged, unless a step has failed.
    Judge {
        objects: bool,
    },
    /// Everything is destroyed.
    Destroy,
    /// Stacks of all threads are wanted on standard error.
    WriteStacks,
}

/// A message of a client.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToMachine {
    Opened,
    /// A thread begins a step: its number in the program.
    Begins(usize),
    Ends(usize),
    /// The step that the thread has begun is the operator's.
    Asks {
        thread: u16,
    },
    /// A fence is shared. Without a file it could not be.
    Handle {
        fence: u16,
    },
    Failed(String),
    ThreadsEnded,
    Judged,
    Destroyed,
    StacksWritten,
}

/// One end of the socket.
pub(crate) struct Socket(OwnedFd);

impl Socket {
    /// Returns both ends.
    pub(crate) fn pair() -> io::Result<(Socket, OwnedFd)> {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (one, other) = rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None)?;
        Ok((Socket(one), other))
    }

    /// Returns the end that is this process's standard input.
    pub(crate) fn of_standard_input() -> io::Result<Socket> {
        Ok(Socket(io::stdin().as_fd().try_clone_to_owned()?))
    }

    /// Sends a message, and a file with it.
    pub(crate) fn send<T: Serialize>(
        &self,
        message: &T,
        file: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        let body = postcard::to_stdvec(message).map_err(io::Error::other)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let files: Vec<BorrowedFd<'_>> = file.into_iter().collect();
        if !files.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(&files));
        }
        let body = [IoSlice::new(&body)];
        loop {
            match rustix::net::sendmsg(&self.0, &body, &mut ancillary, SendFlags::NOSIGNAL) {
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits for a message. Returns it with its file, or `None` when the other end is closed.
    pub(crate) fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<(T, Option<OwnedFd>)>> {
        let mut body = vec![0; MOST_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let mut into = [IoSliceMut::new(&mut body)];
            let flags = RecvFlags::CMSG_CLOEXEC;
            match rustix::net::recvmsg(&self.0, &mut into, &mut ancillary, flags) {
                Err(rustix::io::Errno::INTR) => {}
                // The other end was killed before it had read all.
                Err(rustix::io::Errno::CONNRESET) => return Ok(None),
                other => break other?,
            }
        };
        let files = ancillary.drain().filter_map(|part| match part {
            RecvAncillaryMessage::ScmRights(rights) => Some(rights),
            _ => None,
        });
        let file = files.flatten().next();
        if received.bytes == 0 {
            return Ok(None);
        }
        if received.flags.contains(ReturnFlags::TRUNC) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the message is too long"));
        }
        let message = postcard::from_bytes(&body[..received.bytes]).map_err(io::Error::other)?;
        Ok(Some((message, file)))
    }
}

/// The process of the machine, for the threads of a client.
pub(crate) struct Parent {
    platform: Platform,
    socket: Socket,
    started: Event,
    /// Set when `judges` is known.
    judged: Event,
    judges: Mutex<bool>,
    destroyed: Event,
    /// The threads that have asked, and the answers.
    asked: Mutex<BTreeMap<ThreadId, Asked>>,
}

struct Asked {
    answered: Event,
    answer: Answer,
}

impl Parent {
    pub(crate) fn new(platform: &Platform, socket: Socket) -> Parent {
        Parent {
            platform: platform.clone(),
            socket,
            started: platform.event(true),
            judged: platform.event(true),
            judges: platform.mutex("whether objects are judged", false),
            destroyed: platform.event(true),
            asked: platform.mutex("steps of the operator", BTreeMap::new()),
        }
    }

    fn send(&self, message: &ToMachine) {
        // A machine that is gone ends this process, by the reader of its messages.
        let _ = self.socket.send(message, None);
    }

    /// Says that a thread begins a step.
    pub(crate) fn begins(&self, step: usize) {
        self.send(&ToMachine::Begins(step));
    }

    /// Says that a step has ended.
    pub(crate) fn ends(&self, step: usize) {
        self.send(&ToMachine::Ends(step));
    }

    /// Lets the process of the machine carry out the step that the thread has begun.
    pub(crate) fn carry_out(&self, thread: ThreadId) -> Answer {
        let answered = self.platform.event(true);
        let asked = Asked { answered: answered.clone(), answer: Answer::Nothing };
        self.asked.lock().insert(thread, asked);
        self.send(&ToMachine::Asks { thread: thread.0 });
        answered.wait_for(None, "a step of the operator");
        self.asked.lock().remove(&thread).map_or(Answer::Nothing, |asked| asked.answer)
    }

    /// Hands a fence to the processes that open it. `None`: it could not be shared.
    pub(crate) fn hand_over(&self, fence: FenceId, handle: Option<&NtHandle>) {
        let file = handle.and_then(client::nt_handle_file);
        // As in `send`.
        let _ = self.socket.send(&ToMachine::Handle { fence: fence.0 }, file);
    }

    /// Reports what is wrong.
    pub(crate) fn fail(&self, failure: &Failure) {
        let mut text = failure.to_string();
        let end = text.floor_char_boundary(MOST_TEXT);
        text.truncate(end);
        self.send(&ToMachine::Failed(text));
    }

    /// Says that the process is open, and waits until all are.
    pub(crate) fn start(&self) {
        self.send(&ToMachine::Opened);
        self.started.wait_for(None, "the start of the program");
    }

    /// Says that the threads have ended, and waits until the threads of all processes have. Returns
    /// whether the objects are judged.
    pub(crate) fn end_threads(&self) -> bool {
        self.send(&ToMachine::ThreadsEnded);
        self.judged.wait_for(None, "the threads of all processes");
        *self.judges.lock()
    }

    /// Says that the objects are judged, and waits until the objects of all processes are.
    pub(crate) fn end_judging(&self) {
        self.send(&ToMachine::Judged);
        self.destroyed.wait_for(None, "the objects of all processes");
    }

    /// Says that everything is destroyed.
    pub(crate) fn end(&self) {
        self.send(&ToMachine::Destroyed);
    }

    /// Reads messages until the machine's process has ended. `take` takes an NT handle.
    pub(crate) fn read(&self, mut take: impl FnMut(FenceId, Option<NtHandle>)) {
        while let Ok(Some((message, file))) = self.socket.receive() {
            match message {
                ToClient::Open { .. } => {}
                ToClient::Start => self.started.set(Step::ThreadWake),
                ToClient::Handle { fence } => take(FenceId(fence), file.map(client::nt_handle)),
                ToClient::Answer { thread, answer } => {
                    if let Some(asked) = self.asked.lock().get_mut(&ThreadId(thread)) {
                        asked.answer = answer;
                        asked.answered.set(Step::ThreadWake);
                    }
                }
                ToClient::Judge { objects } => {
                    *self.judges.lock() = objects;
                    self.judged.set(Step::ThreadWake);
                }
                ToClient::Destroy => self.destroyed.set(Step::ThreadWake),
                ToClient::WriteStacks => {
                    tidegate::platform::stacks::write_all();
                    self.send(&ToMachine::StacksWritten);
                }
            }
        }
    }
}
