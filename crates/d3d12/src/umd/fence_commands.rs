//! Waits and signals that a hardware queue carries in its command buffers. A wait needs no
//! separate kernel call, and a signal interrupts only for an armed value.
//!
//! Invariants: a wait is held back until the next command buffer, signal or present, and is then
//! the first command. Such a queue is not idle. A wait knows its fence weakly until it is encoded,
//! and ends with it (NF-107, `decisions/0057`). `decisions/0163` has the rest.
//!
//! Entry points: [`FenceCommands::hold_back`], [`FenceCommands::put_waits`],
//! [`FenceCommands::put_signal`]. The caller holds the queue's submitter lock.

use crate::umd::encode::{self, LogCursor};
use crate::umd::fence::FenceObject;
use crate::umd::queue_identity::QueueIdentity;
use std::sync::{Arc, Weak};
use tidegate_calls::LogDetail;
use tidegate_d3dukmdt::fence_cell::FenceWait;
use tidegate_gpu_abi::{Command, CommandWriter};
use tidegate_platform::{QueueNumber, Queued, Step, SubmissionKey};

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
    wait_log: LogCursor,
    signal_log: LogCursor,
}

/// The command buffer that is encoded: its progress value, and its commands so far.
pub(crate) struct FenceBuffer {
    progress: u64,
    count: u32,
    writer: CommandWriter,
    /// The fences of its waits. They live until the kernel has the command buffer.
    fences: Vec<Arc<FenceObject>>,
}

impl FenceBuffer {
    pub(crate) fn new(progress: u64) -> FenceBuffer {
        FenceBuffer { progress, count: 0, writer: CommandWriter::new(), fences: Vec::new() }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.writer.as_bytes()
    }

    fn key(&self) -> SubmissionKey {
        SubmissionKey::Command(self.progress, self.count + 1)
    }

    fn put(&mut self, id: &QueueIdentity, command: &Command) {
        id.device.platform.spend(Step::UmdEncode);
        self.writer.push(command);
        self.count += 1;
    }
}

impl FenceCommands {
    pub(crate) fn new(number: QueueNumber, logs: &LogDetail) -> FenceCommands {
        FenceCommands {
            number,
            waits: Vec::new(),
            wait_log: LogCursor::new(logs.numbers),
            signal_log: LogCursor::new(logs.numbers),
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
    /// held back until [`FenceCommands::release`]: a refused submission must not lose them.
    pub(crate) fn put_waits(&mut self, id: &QueueIdentity, buffer: &mut FenceBuffer) {
        for HeldBack { fence, wait, queued } in &self.waits {
            let Some(fence) = fence.upgrade() else { continue };
            let at = (self.number, buffer.key());
            let command = encode::wait_command(id, &fence, *wait, &mut self.wait_log, (at, queued));
            buffer.put(id, &command);
            buffer.fences.push(fence);
        }
    }

    /// Forgets the waits that are held back: the kernel has their command buffer.
    pub(crate) fn release(&mut self) {
        self.waits.clear();
    }

    pub(crate) fn put_signal(
        &mut self,
        id: &QueueIdentity,
        buffer: &mut FenceBuffer,
        (fence, value): (&FenceObject, u64),
        queued: &Queued,
    ) {
        let at = (self.number, buffer.key());
        let command = encode::signal_command(id, fence, value, &mut self.signal_log, (at, queued));
        buffer.put(id, &command);
    }
}
