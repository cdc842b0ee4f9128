//! Waits and signals that a hardware queue carries in its command buffers. A wait needs no
//! separate kernel call, and a signal interrupts only for an armed value.
//!
//! Invariants: a wait is held back until the next command buffer, signal or present, and is then
//! the first command. Such a queue is not idle. A wait knows its fence weakly until it is encoded,
//! and ends with it (NF-107, `decisions/0057`). A refused submission takes no log entries, loses no
//! wait and leaves no record. `decisions/0163` has the rest.
//!
//! Entry points: [`FenceCommands::hold_back`], [`FenceCommands::put_waits`],
//! [`FenceCommands::put_signal`], [`FenceCommands::accept`]. The caller holds the queue's submitter
//! lock.

use crate::umd::encode::{self, LogCursor};
use crate::umd::fence::FenceObject;
use crate::umd::queue_identity::QueueIdentity;
use std::sync::{Arc, Weak};
use tidegate_calls::LogDetail;
use tidegate_d3dukmdt::fence_cell::FenceWait;
use tidegate_gpu_abi::{Command, CommandWriter};
use tidegate_platform::{QueueNumber, Queued, Step, SubmissionKey};
use tidegate_trace::Kind;

/// Maximum number of waits that are held back.
const MOST_HELD_BACK: usize = 16;

struct HeldBack {
    fence: Weak<FenceObject>,
    wait: FenceWait,
    queued: Queued,
}

/// The fence commands of one hardware queue.
pub(crate) struct FenceCommands {
    number: QueueNumber,
    waits: Vec<HeldBack>,
    logs: Logs,
}

/// The next entries of the two logs.
#[derive(Clone, Copy)]
struct Logs {
    wait: LogCursor,
    signal: LogCursor,
}

/// A wait or signal that was encoded.
struct Encoded {
    kind: Kind,
    fence: Arc<FenceObject>,
    value: u64,
    log_entry: u32,
    queued: Queued,
}

/// The command buffer that is encoded: its progress value, and its commands so far.
pub(crate) struct FenceBuffer {
    progress: u64,
    writer: CommandWriter,
    /// Its waits and signals. Their fences live until the kernel has the command buffer.
    operations: Vec<Encoded>,
    /// The next log entries after its operations, once it has any.
    logs: Option<Logs>,
}

impl FenceBuffer {
    pub(crate) fn new(progress: u64) -> FenceBuffer {
        let writer = CommandWriter::new();
        FenceBuffer { progress, writer, operations: Vec::new(), logs: None }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.writer.as_bytes()
    }

    fn key(&self) -> SubmissionKey {
        SubmissionKey::Command(self.progress, self.operations.len() as u32 + 1)
    }

    fn put(&mut self, id: &QueueIdentity, command: &Command, operation: Encoded) {
        id.device.platform.spend(Step::UmdEncode);
        self.writer.push(command);
        self.operations.push(operation);
    }
}

impl FenceCommands {
    pub(crate) fn new(number: QueueNumber, logs: &LogDetail) -> FenceCommands {
        FenceCommands {
            number,
            waits: Vec::new(),
            logs: Logs { wait: LogCursor::new(logs.numbers), signal: LogCursor::new(logs.numbers) },
        }
    }

    /// Holds a wait back until the next command buffer. Returns whether the limit of waits that are
    /// held back is reached.
    pub(crate) fn hold_back(
        &mut self,
        fence: &Arc<FenceObject>,
        wait: FenceWait,
        queued: Queued,
    ) -> bool {
        self.waits.push(HeldBack { fence: Arc::downgrade(fence), wait, queued });
        self.waits.len() >= MOST_HELD_BACK
    }

    pub(crate) fn holds_back(&self) -> bool {
        !self.waits.is_empty()
    }

    /// Encodes the waits that are held back. A wait whose fence has ended is left out. They stay
    /// held back until [`FenceCommands::accept`]: a refused submission must not lose them.
    pub(crate) fn put_waits(&self, id: &QueueIdentity, buffer: &mut FenceBuffer) {
        for &HeldBack { ref fence, wait, queued } in &self.waits {
            let Some(fence) = fence.upgrade() else { continue };
            let at = (self.number, buffer.key());
            let log_entry = buffer.logs.get_or_insert(self.logs).wait.take();
            let command = encode::wait_command(id, &fence, wait, log_entry, (at, &queued));
            let (kind, value) = (Kind::WaitQueued, wait.value);
            buffer.put(id, &command, Encoded { kind, fence, value, log_entry, queued });
        }
    }

    pub(crate) fn put_signal(
        &self,
        id: &QueueIdentity,
        buffer: &mut FenceBuffer,
        fence: &Arc<FenceObject>,
        value: u64,
        queued: Queued,
    ) {
        let at = (self.number, buffer.key());
        let log_entry = buffer.logs.get_or_insert(self.logs).signal.take();
        let command = encode::signal_command(id, fence, value, log_entry, (at, &queued));
        let (kind, fence) = (Kind::SignalQueued, Arc::clone(fence));
        buffer.put(id, &command, Encoded { kind, fence, value, log_entry, queued });
    }

    /// The kernel has the command buffer: forgets the waits that were held back, and takes the log
    /// entries of its operations.
    pub(crate) fn accept(&mut self, id: &QueueIdentity, buffer: &FenceBuffer) {
        self.waits.clear();
        self.logs = buffer.logs.unwrap_or(self.logs);
        for Encoded { kind, fence, value, log_entry, queued } in &buffer.operations {
            encode::record_on_timeline(id, *kind, fence, *value, *log_entry, queued);
        }
    }
}
