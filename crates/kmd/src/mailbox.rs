//! Owns the mailbox, through which the driver sends commands to the CMP.
//!
//! Order, under one lock: 1. the command's words are written to the mailbox registers; 2. a write
//! to MAILBOX_RUN runs it; 3. the status is read, then the result if there is one. The command is
//! complete when the call returns.
//!
//! The lock orders register accesses and guards no policy state, so it may be held while a command
//! waits for the end of an engine's turn. No interrupt path runs inside a command, and the
//! interrupt routine issues none. A register write is ordered after earlier stores to memory, so a
//! ring's packets are visible when the command that announces them arrives.

use crate::KmdError;
use std::sync::Arc;
use tidegate_gpu_abi::admin::Mailbox as Words;
use tidegate_gpu_abi::{AdminCommand, AdminError, Device, QueueId, Register};
use tidegate_platform::{Mutex, Platform};

/// The connection to the CMP.
pub(crate) struct Mailbox {
    device: Arc<dyn Device>,
    /// The contents of the mailbox registers; `None` before the first command. Registers keep what
    /// was written, so only words that differ are written: a kick costs two or three register
    /// writes instead of seventeen.
    held: Mutex<Option<Words>>,
}

impl Mailbox {
    pub(crate) fn new(platform: &Platform, device: Arc<dyn Device>) -> Mailbox {
        Mailbox { device, held: platform.mutex("kmd mailbox", None) }
    }

    /// Runs a command without a result.
    pub(crate) fn run(&self, command: AdminCommand) -> Result<(), KmdError> {
        self.exchange(&command, Register::MAILBOX_STATUS).map(|_| ())
    }

    /// Runs a command whose result is one word.
    pub(crate) fn run_for_word(&self, command: AdminCommand) -> Result<u64, KmdError> {
        self.exchange(&command, Register::MAILBOX_RESULT).map(|[low, _]| low)
    }

    /// Runs a command whose result is two words.
    pub(crate) fn run_for_pair(&self, command: AdminCommand) -> Result<(u64, u64), KmdError> {
        self.exchange(&command, Register::MAILBOX_RESULT_HIGH).map(|[low, high]| (low, high))
    }

    /// Makes a hardware queue.
    pub(crate) fn create_queue(&self, command: AdminCommand) -> Result<QueueId, KmdError> {
        let number = self.run_for_word(command)?;
        u32::try_from(number).map(QueueId).map_err(|_| KmdError::Gone(number))
    }

    /// Runs a command and reads the registers up to `last`: status, result, second word of
    /// the result.
    fn exchange(&self, command: &AdminCommand, last: Register) -> Result<[u64; 2], KmdError> {
        let words = command.encode();
        let mut held = self.held.lock_device();
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
                Ok(results.map(|r| if r.0 <= last.0 { self.device.read_register(r) } else { 0 }))
            }
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
