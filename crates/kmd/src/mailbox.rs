//! The mailbox, through which the driver sends commands to the CMP.
//!
//! Order, under one lock: 1. the command's words are written to the mailbox registers; 2. a write
//! to MAILBOX_RUN runs it; 3. the status is read, then the result if there is one. No step waits.
//!
//! A command that needs the end of an engine's turn is pending. Its caller waits with no lock of
//! the driver, because a DPC on the engine's thread may want the mailbox before that turn can end.
//! Only the calls with a [`Passive`] level send such commands. A register write is ordered after
//! earlier stores to memory, so a ring's packets are visible when their command arrives.
//!
//! Entry points: [`Mailbox::run`], [`Mailbox::complete`].

use crate::KmdError;
use std::sync::Arc;
use tidegate_ddi::Passive;
use tidegate_gpu_abi::admin::{Mailbox as Words, PENDING};
use tidegate_gpu_abi::device::END_OF_TURN;
use tidegate_gpu_abi::{AdminCommand, AdminError, Device, QueueId, Register};
use tidegate_platform::planted;
use tidegate_platform::{Mutex, MutexGuard, Platform, WaitEnd, Word, current, level};

/// The connection to the CMP.
pub(crate) struct Mailbox {
    platform: Platform,
    device: Arc<dyn Device>,
    /// Changes at the end of a turn for which a command waits.
    turn_ends: Word,
    /// The contents of the mailbox registers; `None` before the first command. Registers keep what
    /// was written, so only words that differ are written: a kick costs two or three register
    /// writes instead of seventeen.
    held: Mutex<Option<Words>>,
}

/// The two result words, or the ticket of a pending command.
enum Answer {
    Done([u64; 2]),
    Pending(u64),
}

impl Mailbox {
    pub(crate) fn new(platform: &Platform, device: Arc<dyn Device>) -> Mailbox {
        Mailbox {
            platform: platform.clone(),
            turn_ends: device.turn_ends(),
            device,
            held: platform.mutex("kmd mailbox", None),
        }
    }

    /// Runs a command that is never pending and has no result.
    pub(crate) fn run(&self, command: AdminCommand) -> Result<(), KmdError> {
        self.run_for(&command, Register::MAILBOX_STATUS).map(|_| ())
    }

    /// Runs a command that is never pending and whose result is two words.
    pub(crate) fn run_for_pair(&self, command: AdminCommand) -> Result<(u64, u64), KmdError> {
        self.run_for(&command, Register::MAILBOX_RESULT_HIGH).map(|[low, high]| (low, high))
    }

    /// Makes a hardware queue.
    pub(crate) fn create_queue(&self, command: AdminCommand) -> Result<QueueId, KmdError> {
        let [number, _] = self.run_for(&command, Register::MAILBOX_RESULT)?;
        u32::try_from(number).map(QueueId).map_err(|_| KmdError::Gone(number))
    }

    /// Runs a command without a result, and waits until it is complete. The caller holds no lock
    /// that a DPC can want.
    pub(crate) fn complete(&self, level: &Passive, command: AdminCommand) -> Result<(), KmdError> {
        self.complete_for(level, &command, Register::MAILBOX_STATUS).map(|_| ())
    }

    /// As [`Mailbox::complete`], for a command whose result is two words.
    pub(crate) fn complete_for_pair(
        &self,
        level: &Passive,
        command: AdminCommand,
    ) -> Result<(u64, u64), KmdError> {
        let words = self.complete_for(level, &command, Register::MAILBOX_RESULT_HIGH)?;
        Ok((words[0], words[1]))
    }

    fn run_for(&self, command: &AdminCommand, last: Register) -> Result<[u64; 2], KmdError> {
        match self.exchange(command, last, &mut self.held.lock_device())? {
            Answer::Done(words) => Ok(words),
            Answer::Pending(_) => Err(KmdError::Gone(PENDING)),
        }
    }

    fn complete_for(
        &self,
        _level: &Passive,
        command: &AdminCommand,
        last: Register,
    ) -> Result<[u64; 2], KmdError> {
        let mut held = self.held.lock_device();
        match planted!(self.platform, SleepsWithTheMailbox) {
            true => self.platform.may_wait_for(&END_OF_TURN),
            false => held.may_drop_and_wait_for(&END_OF_TURN),
        }
        match self.exchange(command, last, &mut held)? {
            Answer::Done(words) => Ok(words),
            Answer::Pending(ticket) => {
                // As before the wait was moved out of the lock.
                let mut kept = Some(held).filter(|_| planted!(self.platform, SleepsWithTheMailbox));
                self.await_completion(ticket, last, &mut kept)
            }
        }
    }

    /// Waits for a pending command. `held` is the mailbox, if it is locked.
    // spec: PRE-150
    #[cold]
    fn await_completion(
        &self,
        ticket: u64,
        last: Register,
        held: &mut Option<MutexGuard<'_, Option<Words>>>,
    ) -> Result<[u64; 2], KmdError> {
        level::assert_may_block(END_OF_TURN.name());
        current::assert_no_guards(END_OF_TURN.name());
        let mut at_once = false;
        loop {
            // Loaded first: a turn that ends after the command was sent changes it.
            let seen = self.turn_ends.load();
            let command = AdminCommand::Continue { ticket, at_once };
            let answer = match held {
                Some(held) => self.exchange(&command, last, held),
                None => self.exchange(&command, last, &mut self.held.lock_device()),
            };
            if let Answer::Done(words) = answer? {
                return Ok(words);
            }
            at_once =
                self.turn_ends.wait_while(seen as u32, None, &END_OF_TURN) == WaitEnd::Stopped;
        }
    }

    /// Runs a command and reads the registers up to `last`: status, result, second word of
    /// the result.
    fn exchange(
        &self,
        command: &AdminCommand,
        last: Register,
        held: &mut Option<Words>,
    ) -> Result<Answer, KmdError> {
        let words = command.encode();
        for (number, word) in words.iter().enumerate() {
            if held.as_ref().is_none_or(|held| held[number] != *word) {
                self.device.write_register(Register::MAILBOX.offset(number as u32), *word);
            }
        }
        *held = Some(words);
        self.device.write_register(Register::MAILBOX_RUN, 1);
        match self.device.read_register(Register::MAILBOX_STATUS) {
            0 => {
                let results = [Register::MAILBOX_RESULT, Register::MAILBOX_RESULT_HIGH];
                let read =
                    |r: Register| if r.0 <= last.0 { self.device.read_register(r) } else { 0 };
                Ok(Answer::Done(results.map(read)))
            }
            PENDING => Ok(Answer::Pending(self.device.read_register(Register::MAILBOX_RESULT))),
            number => {
                Err(AdminError::from_number(number)
                    .map_or(KmdError::Gone(number), KmdError::Refused))
            }
        }
    }

    /// Forgets the register contents, because the device may have lost power.
    pub(crate) fn forget(&self) {
        *self.held.lock_device() = None;
    }
}

/// Accepts that the queue of a command is destroyed.
pub(crate) fn unless_gone(outcome: Result<(), KmdError>) -> Result<(), KmdError> {
    match outcome {
        Err(KmdError::Refused(AdminError::NoSuchQueue)) => Ok(()),
        other => other,
    }
}
