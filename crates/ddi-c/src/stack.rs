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

    pub(crate) fn is_at_apc(&self) -> bool {
        self.with_caller(|caller| caller.is_at_apc)
    }

    pub(crate) fn set_apc(&self, is_at_apc: bool) {
        self.with_caller(|caller| caller.is_at_apc = is_at_apc);
    }

    /// Gives the calling agent the address of its thread object.
    pub(crate) fn name_thread(&self, at: u64) {
        self.with_caller(|caller| caller.thread = at);
    }

    /// Returns the address of the calling agent's thread object.
    pub(crate) fn thread_object(&self) -> u64 {
        let number = self.caller();
        self.with_caller(|caller| match caller.thread {
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
        self.with_caller(|caller| caller.regions)
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

    /// Runs code of the driver whose stack begins here.
    pub(crate) fn on_stack<R>(&self, entry: &str, call: impl FnOnce() -> R) -> R {
        let at = address_of(&mut 0_u8);
        self.with_caller(|caller| caller.entries.push((at, entry.to_owned())));
        let result = call();
        self.with_caller(|caller| caller.entries.pop());
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
