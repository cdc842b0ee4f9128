//! Calls of one context or kernel-mode hardware queue, in order:
//! `client.on(context).wait(&gate, 1).run(&commands).signal(&done, 1)`. They unwrap their results.

use crate::client::{Client, at};
use tidegate::calls::{FenceInstance, Handle, HwQueue};
use tidegate::gpu_abi::Command;

/// Calls of a packet context.
#[derive(Clone, Copy)]
pub struct ContextCalls<'a> {
    client: &'a Client,
    context: Handle,
}

/// Calls of a kernel-mode hardware queue.
#[derive(Clone, Copy)]
pub struct HwQueueCalls<'a> {
    client: &'a Client,
    queue: &'a HwQueue,
    /// The progress value of the last commands.
    last: u64,
}

impl Client {
    /// Begins calls of a packet context.
    pub fn on(&self, context: Handle) -> ContextCalls<'_> {
        ContextCalls { client: self, context }
    }

    /// Begins calls of a kernel-mode hardware queue.
    pub fn on_queue<'a>(&'a self, queue: &'a HwQueue) -> HwQueueCalls<'a> {
        HwQueueCalls { client: self, queue, last: 0 }
    }
}

impl ContextCalls<'_> {
    /// Queues a wait until the fence has reached `value`.
    pub fn wait(self, fence: &FenceInstance, value: u64) -> Self {
        self.client.kernel.wait_from_gpu(self.context, &at(fence, value)).unwrap();
        self
    }

    /// Queues a signal.
    pub fn signal(self, fence: &FenceInstance, value: u64) -> Self {
        self.client.kernel.signal_from_gpu(self.context, &at(fence, value)).unwrap();
        self
    }

    /// Queues a signal, and blocks until it is executed.
    pub fn signal_and_wait(self, fence: &FenceInstance, value: u64) {
        self.signal(fence, value).client.wait(fence.handle, value).unwrap();
    }

    /// Blocks until all work so far is complete, by a new fence.
    pub fn complete(self) {
        let done = self.client.monitored(0);
        self.signal_and_wait(&done, 1);
    }

    /// Submits commands.
    pub fn run(self, commands: &[Command]) -> Self {
        self.client.submit_packet(self.context, commands);
        self
    }
}

impl HwQueueCalls<'_> {
    /// Queues a wait until the fence has reached `value`.
    pub fn wait(self, fence: &FenceInstance, value: u64) -> Self {
        let queue = self.queue.handle;
        self.client.kernel.submit_wait_to_hw_queue(queue, &at(fence, value)).unwrap();
        self
    }

    /// Queues a signal.
    pub fn signal(self, fence: &FenceInstance, value: u64) -> Self {
        let queue = self.queue.handle;
        self.client.kernel.submit_signal_to_hw_queue(queue, &at(fence, value)).unwrap();
        self
    }

    /// Submits commands, which store `progress_fence_id` at their end.
    pub fn run(self, progress_fence_id: u64, commands: &[Command]) -> Self {
        self.client.submit(self.queue, progress_fence_id, commands);
        HwQueueCalls { last: progress_fence_id, ..self }
    }

    /// Blocks until the last commands are complete.
    pub fn complete(self) {
        self.client.wait_progress(self.queue, self.last).unwrap();
    }

    /// Blocks until the last commands are complete. Asserts what [`Client::finish`] does.
    pub fn finish(self) {
        self.client.finish(self.queue, self.last);
    }
}
