//! Stackful coroutines. An agent of a cooperative machine is a fiber, so its blocking calls are
//! plain calls.
//!
//! Invariants: a fiber is never unwound from outside; an abandoned run is finished instead. Stacks
//! are pooled per thread. A switch takes a few nanoseconds.

#![allow(unsafe_code)]

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Enough for deep call chains of debug builds. Untouched pages cost nothing.
const STACK_BYTES: usize = 512 * 1024;
const POOLED_FIBERS: usize = 64;

thread_local! {
    static CURRENT: Cell<*const Yielder<(), ()>> = const { Cell::new(std::ptr::null()) };
    /// Where on its stack the last fiber that suspended has left.
    static LEFT_AT: Cell<*const u8> = const { Cell::new(std::ptr::null()) };
    /// Ended fibers with their stacks.
    #[allow(clippy::vec_box)] // The boxes are what is reused.
    static SPARE: RefCell<Vec<Box<Fiber>>> = const { RefCell::new(Vec::new()) };
}

/// A suspended function with its own stack. The run loop moves it by its address.
pub(crate) struct Fiber {
    coroutine: Option<Coroutine<(), (), (), DefaultStack>>,
    /// Null before its first run.
    yielder: *const Yielder<(), ()>,
    /// The stack of an ended fiber.
    stack: Option<DefaultStack>,
}

impl Fiber {
    /// Returns a fiber that will run `body`. `body` must not panic.
    pub(crate) fn new(body: impl FnOnce() + 'static) -> Box<Fiber> {
        let spare = SPARE.with_borrow_mut(Vec::pop);
        let mut fiber = spare.unwrap_or_else(|| {
            Box::new(Fiber { coroutine: None, yielder: std::ptr::null(), stack: None })
        });
        let stack = fiber.stack.take().unwrap_or_else(|| {
            DefaultStack::new(STACK_BYTES).expect("no memory for a fiber's stack")
        });
        fiber.yielder = std::ptr::null();
        fiber.coroutine =
            Some(Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
                CURRENT.set(std::ptr::from_ref(yielder));
                body();
            }));
        fiber
    }

    /// Runs the fiber until it suspends or ends. Returns whether it ended.
    #[inline]
    pub(crate) fn resume(&mut self) -> bool {
        let Some(coroutine) = self.coroutine.as_mut() else { return true };
        let outer = CURRENT.replace(self.yielder);
        let result = coroutine.resume(());
        self.yielder = CURRENT.replace(outer);
        matches!(result, CoroutineResult::Return(()))
    }

    /// Keeps the stack of an ended fiber for another one.
    pub(crate) fn recycle(mut self: Box<Fiber>) {
        self.stack = self.coroutine.take().map(Coroutine::into_stack);
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < POOLED_FIBERS {
                spare.push(self);
            }
        });
    }
}

/// Lends `body`, which may borrow from the caller, to `run` as a function without borrows.
///
/// `body` has ended, or was dropped unrun, when this function returns or unwinds. If `run` breaks
/// that, the process is aborted: a suspended `body` could otherwise use what the caller has freed.
pub fn lend<R>(body: Box<dyn FnOnce() + '_>, run: impl FnOnce(Box<dyn FnOnce()>) -> R) -> R {
    let ended = Rc::new(Cell::new(false));
    // SAFETY: the box is only reachable through `lent`. `lent` is consumed by its call or dropped,
    // and either way `ended` is set after `body` and everything in it is gone. `_check` is dropped
    // before this function is left, by a return or by a panic, and aborts the process if `ended`
    // is not set. So `body` is never used or dropped after the borrows in it end. A leak of `lent`
    // leaves `ended` unset and aborts too.
    let body = unsafe { std::mem::transmute::<Box<dyn FnOnce() + '_>, Box<dyn FnOnce()>>(body) };
    let lent = Lent { body, _ended: SetOnDrop(Rc::clone(&ended)) };
    let _check = AbortUnlessSet(ended);
    run(Box::new(move || lent.call()))
}

/// A lent function. Its fields are dropped in their order.
struct Lent {
    body: Box<dyn FnOnce()>,
    _ended: SetOnDrop,
}

impl Lent {
    fn call(self) {
        let Lent { body, _ended } = self;
        body();
    }
}

struct SetOnDrop(Rc<Cell<bool>>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

struct AbortUnlessSet(Rc<Cell<bool>>);

impl Drop for AbortUnlessSet {
    fn drop(&mut self) {
        if !self.0.get() {
            eprintln!("the run ended while its main agent is blocked by a lock; aborting");
            std::process::abort();
        }
    }
}

/// Returns where on its stack the fiber that suspended last has left.
#[inline]
pub(crate) fn left_at() -> LeftAt {
    LeftAt(LEFT_AT.get())
}

/// A place on the stack of a suspended fiber, of its innermost calls.
#[derive(Clone, Copy)]
pub(crate) struct LeftAt(*const u8);

impl LeftAt {
    pub(crate) const NOWHERE: LeftAt = LeftAt(std::ptr::null());

    /// Starts to load the lines of the innermost calls, which the fiber touches when it resumes.
    #[inline]
    pub(crate) fn prefetch(self) {
        for line in 0..PREFETCHED_LINES {
            prefetch(self.0.wrapping_add(line * LINE_BYTES));
        }
    }
}

const LINE_BYTES: usize = 64;
const PREFETCHED_LINES: usize = 8;

/// Starts to load the line of `value`.
#[inline]
pub(crate) fn prefetch<T>(value: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch is a hint. It may name any address, accesses no memory as far as the
    // program can tell, and never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(value.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = value;
}

/// Returns whether the caller runs on a fiber.
pub fn on_fiber() -> bool {
    !CURRENT.get().is_null()
}

/// Returns to the fiber or thread that resumed this fiber, until it is resumed again.
pub(crate) fn suspend() {
    let yielder = CURRENT.get();
    assert!(
        !yielder.is_null(),
        "only an agent of a cooperative machine can block here: call it inside Platform::run"
    );
    let here = 0u8;
    LEFT_AT.set(&raw const here);
    // SAFETY: CURRENT holds the yielder of the running fiber: `resume` sets it on entry and
    // restores the outer one on return. The yielder lives on that fiber's stack until the
    // fiber ends.
    unsafe { (*yielder).suspend(()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_lent_function_ends_before_the_loan_does() {
        let mut calls = 0;
        assert_eq!(lend(Box::new(|| calls += 1), |lent| Box::new(lent)()), ());
        // Dropped unrun, and unwound.
        lend(Box::new(|| calls += 10), drop);
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            lend(Box::new(|| panic!("a panic of the test")), |lent| lent());
        }));
        assert!(unwound.is_err());
        assert_eq!(calls, 1);
    }

    const ABORTS: &str = "TIDEGATE_TEST_LEAVES_A_LENT_FUNCTION";

    #[test]
    fn a_lent_function_that_outlives_the_loan_aborts_the_process() {
        if std::env::var_os(ABORTS).is_some() {
            let borrowed = Cell::new(0);
            return lend(Box::new(|| borrowed.set(1)), std::mem::forget);
        }
        let name = "fiber::tests::a_lent_function_that_outlives_the_loan_aborts_the_process";
        let program = std::env::current_exe().expect("the test program has a path");
        let mut child = std::process::Command::new(program);
        child.args([name, "--exact", "--nocapture"]).env(ABORTS, "1");
        let output = child.output().expect("the test program starts again");
        const SIGABRT: i32 = 6;
        assert_eq!(output.status.signal(), Some(SIGABRT), "{output:?}");
    }
}
