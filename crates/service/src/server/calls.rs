//! Carries out the messages of one process, and counts its objects against its limits. The calls
//! that are more than passed on are in `special`.

use super::ledger::{Charge, Ledger};
use super::notices::Notices;
use super::shared::{Opened, Shared};
use super::views::Files;
use super::waiting_calls::WaitingCalls;
use crate::arguments::Lend;
use crate::transport::GuestRing;
use crate::wire::{self, Call, Message, OwnMessage, WaitingCall};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_calls::snapshot::QueueKind;
use tidegate_calls::{
    ConnectAnnouncement, Handle, Kernel, RingHint, SlotKey, Status, WaitCallback, WaitMode,
    WaitNotice,
};
use tidegate_platform::Mapping;

/// Memory that a file takes at least.
pub(super) const PAGE_BYTES: u64 = 4096;
/// A doorbell of the process, as the kernel shows it.
pub(super) struct Rung {
    pub(super) mapping: Mapping,
    pub(super) secondary: Option<Mapping>,
    /// Of the present connect.
    pub(super) hint: Option<Arc<dyn RingHint>>,
    pub(super) announcement: Option<Arc<dyn ConnectAnnouncement>>,
    /// Has the ring vector of a guest wake the engine.
    pub(super) guest: Option<GuestRing>,
}

/// What a service does for a call of the table.
macro_rules! answer {
    (passed $answerer:ident $files:ident $f:ident ($($arg:ident),*)) => {
        encode($answerer.kernel().$f($($arg.lend()),*))
    };
    (queues $($call:tt)*) => { answer!(passed $($call)*) };
    (adapts $answerer:ident $files:ident $f:ident ($($arg:ident),*)) => {
        encode($answerer.kernel().$f($($arg.lend()),*).into_result())
    };
    (ends $answerer:ident $files:ident $f:ident ($object:ident)) => {
        encode($answerer.destroy($object, |kernel, object| kernel.$f(object)))
    };
    (forgets $($call:tt)*) => { answer!(ends $($call)*) };
    (makes $answerer:ident $files:ident $f:ident ($($arg:ident),*)) => {
        encode($answerer.$f($($arg),*))
    };
    (refused $answerer:ident $files:ident $f:ident ($($arg:ident),*)) => {{
        $(let _ = $arg;)*
        encode::<()>(Err(Status::NOT_SUPPORTED))
    }};
    (special $answerer:ident $files:ident $f:ident ($($arg:ident),*)) => {
        encode($answerer.$f($($arg,)* $files))
    };
}

macro_rules! answer_each {
    ([$answerer:ident, $call:ident, $files:ident]
        local { $($local:tt)* }
        sent { $($(#[$meta:meta])* $Name:ident $how:ident
            fn $f:ident($($arg:ident: $ty:ty $(=> $message:ty)?),* $(,)?) -> $out:ty;)* }
    ) => {
        match $call {
            $(Call::$Name { $($arg),* } => answer!($how $answerer $files $f ($($arg),*)),)*
        }
    };
}

/// What a call returns.
trait Answer {
    type Value;

    fn into_result(self) -> Result<Self::Value, Status>;
}

impl<T> Answer for Result<T, Status> {
    type Value = T;

    fn into_result(self) -> Result<T, Status> {
        self
    }
}

impl<T> Answer for Option<T> {
    type Value = Option<T>;

    fn into_result(self) -> Result<Option<T>, Status> {
        Ok(self)
    }
}

pub(super) struct Answerer {
    pub(super) shared: Arc<Shared>,
    pub(super) session: u64,
    pub(super) opened: Opened,
    pub(super) notices: Notices,
    pub(super) waiting: Arc<WaitingCalls>,
    pub(super) ledger: Ledger,
    pub(super) doorbells: BTreeMap<Handle, Rung>,
    /// The commands of the next render call in pieces, as far as they were sent.
    pub(super) commands: Vec<u8>,
    /// Whether commands may come in pieces: only where a message has no file, because no limit
    /// counts them.
    pub(super) takes_pieces: bool,
}

/// The notice of a wait that is entered for its checks.
struct Nothing;

impl WaitCallback for Nothing {
    fn wait_is_over(&self) {}
}

pub(super) fn bytes_in_files(bytes: u64) -> u64 {
    bytes.max(1).checked_next_multiple_of(PAGE_BYTES).unwrap_or(u64::MAX)
}

impl Answerer {
    pub(super) fn new(
        shared: Arc<Shared>,
        session: u64,
        opened: Opened,
        notices: Notices,
        ledger: Ledger,
        takes_pieces: bool,
    ) -> Answerer {
        let (doorbells, commands) = (BTreeMap::new(), Vec::new());
        let waiting = WaitingCalls::new(&shared.platform, &opened.kernel);
        Answerer {
            shared,
            session,
            opened,
            notices,
            waiting,
            ledger,
            doorbells,
            commands,
            takes_pieces,
        }
    }

    pub(super) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(super) fn process(&self) -> Option<u32> {
        self.opened.number
    }

    pub(super) fn kernel(&self) -> &Arc<dyn Kernel> {
        &self.opened.kernel
    }

    /// Cancels the process's waits. Returns the process, for its end.
    pub(super) fn end_waits(&mut self) -> &Opened {
        self.notices.cancel_all();
        &self.opened
    }

    /// Carries out what a message says. Returns the encoded result. `files` has what came with the
    /// message, and gets the memory that the result names.
    pub(super) fn answer(&mut self, message: Message, files: &mut Files) -> Vec<u8> {
        let answer = match message {
            Message::Call(call) => self.answer_call(call, files),
            Message::Own(own) => self.answer_own(own),
        };
        // The service's copies are closed before the client goes on: the name of a shared object is
        // free once no copy of its handle is open.
        files.came_with.clear();
        answer
    }

    fn answer_call(&mut self, call: Call, files: &mut Files) -> Vec<u8> {
        tidegate_calls::for_each_call!(answer_each! { self, call, files })
    }

    fn answer_own(&mut self, own: OwnMessage) -> Vec<u8> {
        match own {
            OwnMessage::RegisterWait { fences, mode, key, announced } => {
                let (kernel, count) = (&self.opened.kernel, fences.len());
                encode(self.notices.register(key, announced, count, |notice| {
                    kernel.register_cpu_wait(&fences, mode, notice)
                }))
            }
            OwnMessage::CancelWait { key } => {
                self.notices.cancel(key);
                encode(Ok(()))
            }
            OwnMessage::Enter { call, key, announced } => encode(self.enter(call, key, announced)),
            OwnMessage::TakeOutcome { key } => encode(self.take_outcome(key)),
            OwnMessage::CheckWait { fences } => {
                let notice = WaitNotice::Callback(Arc::new(Nothing));
                // Entered for its checks, and cancelled.
                let entered = self.kernel().register_cpu_wait(&fences, WaitMode::Any, notice);
                encode(entered.map(drop))
            }
            OwnMessage::ReadAllocation { device, allocation, offset, bytes } => {
                encode(self.read(device, allocation, offset, bytes))
            }
            OwnMessage::WriteAllocation { device, allocation, offset, data } => {
                encode(self.write(device, allocation, offset, &data))
            }
            OwnMessage::WakeEngine { doorbell } => {
                let hint = self.doorbells.get(&doorbell).and_then(|rung| rung.hint.as_ref());
                encode(hint.map(|hint| hint.rung()).ok_or(Status::INVALID_PARAMETER))
            }
            OwnMessage::PageIsMapped { doorbell, number } => {
                let rung = self.doorbells.get(&doorbell);
                let announcement = rung.and_then(|rung| rung.announcement.as_ref());
                // A later connect of the client's own has a later number, and maps its page.
                if let Some(announcement) = announcement.filter(|a| a.number() == number) {
                    announcement.page_is_mapped();
                }
                encode(rung.map(|_| ()).ok_or(Status::INVALID_PARAMETER))
            }
            OwnMessage::SendCommands { piece } => encode(self.take_commands(&piece)),
            // The session takes it, and sends no answer.
            OwnMessage::Goodbye => encode(Ok(())),
        }
    }

    /// Creates an object from `parent` within the limits.
    pub(super) fn create<T>(
        &mut self,
        parent: Handle,
        charge: Charge,
        create: impl FnOnce(&dyn Kernel) -> Result<T, Status>,
        handle: impl FnOnce(&T) -> Handle,
    ) -> Result<T, Status> {
        self.ledger.check(charge)?;
        let made = create(&*self.opened.kernel)?;
        let handle = handle(&made);
        self.ledger.enter(handle, if parent == Handle(0) { handle } else { parent }, charge);
        Ok(made)
    }

    /// Gives a new queue its lane, if there is a recording.
    pub(super) fn draw<T>(
        &self,
        made: Result<T, Status>,
        kind: QueueKind,
        handle: impl FnOnce(&T) -> Handle,
    ) -> Result<T, Status> {
        if let (Ok(queue), true) = (&made, self.shared.platform.tracing())
            && let Some(number) = self.opened.kernel.queue_number(handle(queue))
        {
            let usage = self.shared.processes.lock().usage(self.session).cloned();
            let name = usage.as_ref().map_or("", |usage| usage.name());
            self.shared.draw_queue(number, kind, name);
        }
        made
    }

    /// Ends an object.
    fn destroy(
        &mut self,
        handle: Handle,
        destroy: impl FnOnce(&dyn Kernel, Handle) -> Result<(), Status>,
    ) -> Result<(), Status> {
        destroy(&*self.opened.kernel, handle)?;
        self.forget(handle);
        Ok(())
    }

    /// Forgets an object that has ended, with what belonged to it.
    fn forget(&mut self, handle: Handle) {
        for ended in self.ledger.leave(handle) {
            self.doorbells.remove(&ended);
        }
    }

    fn enter(&mut self, call: WaitingCall, key: SlotKey, announced: bool) -> Result<(), Status> {
        self.waiting.check(key, self.notices.page.len())?;
        let notice = self.notices.notice(key, announced)?;
        self.waiting.enter(key, call, notice);
        Ok(())
    }

    fn take_outcome(&mut self, key: SlotKey) -> Result<(), Status> {
        let (call, outcome) = self.waiting.take(key)?;
        if let (WaitingCall::DestroyDevice { device }, Ok(())) = (call, outcome) {
            self.forget(device);
        }
        outcome
    }

    /// Ends an object whose memory could not be handed over: the client has no handle of it.
    pub(super) fn end_without_view<T>(
        &mut self,
        view: Result<T, Status>,
        handle: Handle,
        destroy: impl FnOnce(&dyn Kernel, Handle) -> Result<(), Status>,
    ) -> Result<T, Status> {
        if view.is_err() {
            self.destroy(handle, destroy)?;
        }
        view
    }
}

fn encode<T: Serialize>(result: Result<T, Status>) -> Vec<u8> {
    wire::encode(&result)
}
