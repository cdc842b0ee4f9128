//! The callers of the driver's code: level APC, critical regions, thread objects, and how much of
//! its stack an entry uses.
//!
//! The lock of the callers is innermost and is held for one look.

use crate::address::address_of;
use crate::callers::{Caller, Callers};
use crate::host::Host;
use crate::rule::Rule;
use tidegate_platform::current;

/// Bytes of a kernel stack on x86-64.
const STACK_BYTES: u64 = 24 * 1024;
/// Addresses of thread objects of agents that the driver has not started.
const OTHERS_AT: u64 = 0x7D6F_8000_0000_0000;

impl Host {
    /// Returns the number of the calling agent.
    pub(crate) fn caller(&self) -> u64 {
        current::identity().0
    }

    fn with_caller<R>(&self, call: impl FnOnce(&mut Caller) -> R) -> R {
        let caller = self.caller();
        call(self.callers.lock().agents.entry(caller).or_default())
    }

    /// Reads what is kept of the calling agent. Nothing is kept of an agent outside of the driver's
    /// code.
    fn read_caller<R>(&self, read: impl FnOnce(&Caller) -> R) -> R {
        let caller = self.caller();
        let callers = self.callers.lock();
        let outside = Caller::default();
        read(callers.agents.get(&caller).unwrap_or(&outside))
    }

    pub(crate) fn is_at_apc(&self) -> bool {
        self.read_caller(|caller| caller.is_at_apc)
    }

    pub(crate) fn set_apc(&self, is_at_apc: bool) {
        if self.is_at_apc() != is_at_apc {
            self.with_caller(|caller| caller.is_at_apc = is_at_apc);
        }
    }

    /// Gives the calling agent the address of its thread object.
    pub(crate) fn name_thread(&self, at: u64) {
        self.with_caller(|caller| caller.thread = at);
    }

    /// Returns the address of the calling agent's thread object.
    pub(crate) fn thread_object(&self) -> u64 {
        let number = self.caller();
        self.read_caller(|caller| match caller.thread {
            0 => OTHERS_AT + 16 * number,
            at => at,
        })
    }

    /// Forgets the calling agent, which ends.
    pub(crate) fn end_caller(&self) {
        let caller = self.caller();
        self.callers.lock().agents.remove(&caller);
    }

    /// KeEnterCriticalRegion.
    pub(crate) fn enter_region(&self) {
        self.with_caller(|caller| caller.regions += 1);
    }

    /// KeLeaveCriticalRegion.
    pub(crate) fn leave_region(&self) {
        let left = self.with_caller(|caller| {
            let was_inside = caller.regions > 0;
            caller.regions = caller.regions.saturating_sub(1);
            was_inside
        });
        if !left {
            self.violation(Rule::Region, "KeLeaveCriticalRegion outside of a critical region");
        }
    }

    pub(crate) fn regions(&self) -> u32 {
        self.read_caller(|caller| caller.regions)
    }

    /// Records a function that needs a critical region, if the caller is in none and below APC
    /// level.
    pub(crate) fn check_region(&self, function: &str) {
        if self.regions() == 0 && self.level() == 0 {
            self.violation(
                Rule::Region,
                format!(
                    "{function} outside of a critical region: call KeEnterCriticalRegion before"
                ),
            );
        }
    }

    /// Runs code of the driver whose stack begins here. A thread of a client that has left the
    /// driver's code is forgotten: a service has many of them.
    pub(crate) fn on_stack<R>(&self, entry: &str, call: impl FnOnce() -> R) -> R {
        let at = address_of(&mut 0_u8);
        self.with_caller(|caller| caller.entries.push((at, entry.to_owned())));
        self.begin_entry(entry);
        let result = call();
        self.end_entry();
        let number = self.caller();
        let mut callers = self.callers.lock();
        let caller = callers.agents.entry(number).or_default();
        caller.entries.pop();
        if *caller == Caller::default() {
            callers.agents.remove(&number);
        }
        result
    }

    /// Checks how much of the stack the entry uses that calls `function`. `at` is an address on the
    /// stack there.
    pub(crate) fn check_stack(&self, function: &str, at: u64) {
        let number = self.caller();
        let mut callers = self.callers.lock();
        let Callers { agents, deep } = &mut *callers;
        let Some((begin, entry)) = agents.get(&number).and_then(|caller| caller.entries.last())
        else {
            return;
        };
        let used = begin.saturating_sub(at);
        if used <= STACK_BYTES || !deep.insert(entry.clone()) {
            return;
        }
        let text = format!(
            "stack overflow in {entry}: {used} bytes are used at {function}, and a kernel stack has \
             {STACK_BYTES}"
        );
        drop(callers);
        self.violation(Rule::Stack, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Registry;
    use crate::code_test::CodeTest;
    use crate::foreign::ROUTINES;
    use crate::hardware::Hardware;
    use std::sync::Arc;
    use tidegate_gpu_abi::{Device, InterruptSink, QueueId, Register, Summary};
    use tidegate_platform::level::Level;
    use tidegate_platform::{Page, PhysicalAddress, PhysicalMemory, Platform, Word};

    /// A device that nothing uses.
    struct Unused(Platform);

    impl Device for Unused {
        fn read_register(&self, _register: Register) -> u64 {
            u64::MAX
        }

        fn write_register(&self, _register: Register, _value: u64) {}

        fn doorbell_page(&self, _queue: QueueId) -> Option<(Page, Summary, u32)> {
            None
        }

        fn turn_ends(&self) -> Word {
            self.0.page(1).word(0)
        }

        fn connect_interrupt(&self, _sink: Arc<dyn InterruptSink>) {}

        fn local_memory(&self, _physical_gpu: u32) -> Option<&PhysicalMemory> {
            None
        }

        fn local_memory_bytes(&self) -> u64 {
            0
        }

        fn node_count(&self) -> u32 {
            1
        }

        fn physical_gpu_count(&self) -> u32 {
            1
        }
    }

    #[test]
    fn nothing_is_kept_of_a_thread_that_has_left_the_driver() {
        let platform = Platform::host();
        let device = Arc::new(Unused(platform.clone()));
        let name = "test".to_owned();
        let setting = (Registry::default(), CodeTest::default());
        let memory = PhysicalMemory::new(&platform, PhysicalAddress(0));
        let hardware = Hardware::of_gpu(device, &memory);
        let host = Host::new(&platform, hardware, name, Vec::new(), ROUTINES, setting);
        let kept = || host.callers.lock().agents.len();
        host.at_level("an entry", Level::Passive, || {
            host.enter_region();
            host.at_level("a nested entry", Level::Dispatch, || assert_eq!(kept(), 1));
            assert_eq!((kept(), host.regions(), host.level()), (1, 1, 0));
            host.leave_region();
        });
        assert_eq!((kept(), host.regions(), host.level()), (0, 0, 0));
        host.at_level("an entry in a region", Level::Passive, || host.enter_region());
        assert_eq!((kept(), host.regions()), (1, 1), "what it left behind is known");
        assert_eq!(host.violations().0, 1);
    }
}
