//! The check of resource states of a device with [`crate::Validation::STATES`]: the lock around the
//! record of the queues' work, and the list of violations.
//!
//! Lock order: the lock is a leaf and is held over no call. Concurrent calls on one queue are
//! checked in one of the orders in which they can run.

use crate::states::execution::DeviceStates;
use crate::states::facts::ResourceFacts;
use crate::states::recording::ListStates;
use crate::states::violation::{StateRule, StateViolation};
use crate::umd::fence::FenceObject;
use crate::umd::queue_identity::QueueIdentity;
use std::sync::Arc;
use tidegate_platform::{Mutex, Platform};

pub(crate) struct StateTracker {
    states: Mutex<DeviceStates>,
    strict: bool,
}

fn key(id: &QueueIdentity) -> (u64, &str) {
    (id.traced.serial(), &id.name)
}

impl StateTracker {
    /// With `strict`, violations are errors of the calls that make them.
    pub(crate) fn new(platform: &Platform, strict: bool) -> StateTracker {
        let states = platform.mutex("resource states", DeviceStates::default());
        StateTracker { states, strict }
    }

    /// Whether violations are errors of the calls that make them.
    pub(crate) fn is_strict(&self) -> bool {
        self.strict
    }

    /// Returns the first violation that is an error of the call.
    pub(crate) fn execute(
        &self,
        queue: &QueueIdentity,
        lists: Vec<Arc<ListStates>>,
    ) -> Option<StateViolation> {
        let mut states = self.states.lock();
        let before = states.violations().len();
        states.execute(key(queue), lists);
        let found = states.violations()[before..].iter();
        let of_call = |violation: &&StateViolation| {
            violation.rule != StateRule::Unordered
                && violation.command.queue.as_deref() == Some(&*queue.name)
        };
        found.filter(|_| self.strict).find(of_call).cloned()
    }

    pub(crate) fn wait(&self, queue: &QueueIdentity, fence: &FenceObject, value: u64) {
        self.states.lock().wait(key(queue), fence.handle().0, value);
    }

    pub(crate) fn signal(&self, queue: &QueueIdentity, fence: &FenceObject, value: u64) {
        self.states.lock().signal(key(queue), fence.handle().0, value);
    }

    pub(crate) fn present(&self, queue: &QueueIdentity, back_buffer: &Arc<ResourceFacts>) {
        self.states.lock().present(key(queue), back_buffer);
    }

    pub(crate) fn idle(&self, queue: &QueueIdentity) {
        self.states.lock().cpu_idle(key(queue).0);
    }

    /// Records that a fence was created or opened. With `external` other devices may signal it.
    pub(crate) fn add_fence(&self, fence: &FenceObject, initial: u64, external: bool) {
        self.states.lock().add_fence(fence.handle().0, initial, external);
    }

    pub(crate) fn cpu_signal(&self, fence: &FenceObject, value: u64) {
        self.states.lock().cpu_signal(fence.handle().0, value);
    }

    /// Records that the CPU has read `value` or waited for it.
    pub(crate) fn cpu_reached(&self, fence: &FenceObject, value: u64) {
        self.states.lock().cpu_reached(fence.handle().0, value);
    }

    /// Records that an event is set when the fence reaches `value`.
    pub(crate) fn arm(&self, fence: &Arc<FenceObject>, value: u64) {
        let weak = Arc::downgrade(fence);
        let reached = move || {
            weak.upgrade().is_none_or(|fence: Arc<FenceObject>| fence.value.load() >= value)
        };
        self.states.lock().arm(fence.handle().0, value, Box::new(reached));
    }

    pub(crate) fn report(&self, violations: Vec<StateViolation>) {
        let mut states = self.states.lock();
        violations.into_iter().for_each(|violation| states.report(violation));
    }

    pub(crate) fn take(&self) -> (Vec<StateViolation>, u64) {
        self.states.lock().take()
    }
}
