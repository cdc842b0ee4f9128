//! Owns stackful coroutines. An agent of a cooperative machine is a fiber, so its blocking calls
//! are plain calls.
//!
//! Invariants: a fiber is never unwound from outside; an abandoned run is finished instead. Stacks
//! are pooled per thread. A switch takes a few nanoseconds.

#![allow(unsafe_code)]

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::{Cell, RefCell};

/// Enough for deep call chains of debug builds. Untouched pages cost nothing.
const STACK_BYTES: usize = 512 * 1024;
const POOLED_STACKS: usize = 64;

thread_local! {
    static CURRENT: Cell<*const Yielder<(), ()>> = const { Cell::new(std::ptr::null()) };
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// A suspended function with its own stack.
pub(crate) struct Fiber {
    coroutine: Option<Coroutine<(), (), (), DefaultStack>>,
    /// Null before its first run.
    yielder: *const Yielder<(), ()>,
}

impl Fiber {
    /// Returns a fiber that will run `body`. `body` must not panic.
    pub(crate) fn new(body: impl FnOnce() + 'static) -> Fiber {
        let stack = STACKS.with(|s| s.borrow_mut().pop()).unwrap_or_else(|| {
            DefaultStack::new(STACK_BYTES).expect("no memory for a fiber's stack")
        });
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
            CURRENT.set(std::ptr::from_ref(yielder));
            body();
        });
        Fiber { coroutine: Some(coroutine), yielder: std::ptr::null() }
    }

    /// Runs the fiber until it suspends or ends. Returns whether it ended.
    pub(crate) fn resume(&mut self) -> bool {
        let Some(coroutine) = self.coroutine.as_mut() else { return true };
        let outer = CURRENT.replace(self.yielder);
        let result = coroutine.resume(());
        self.yielder = CURRENT.replace(outer);
        match result {
            CoroutineResult::Yield(()) => false,
            CoroutineResult::Return(()) => {
                self.recycle();
                true
            }
        }
    }

    fn recycle(&mut self) {
        let Some(coroutine) = self.coroutine.take() else { return };
        let stack = coroutine.into_stack();
        STACKS.with(|s| {
            let mut pool = s.borrow_mut();
            if pool.len() < POOLED_STACKS {
                pool.push(stack);
            }
        });
    }
}

/// Returns whether the caller runs on a fiber.
pub(crate) fn on_fiber() -> bool {
    !CURRENT.get().is_null()
}

/// Returns to the fiber or thread that resumed this fiber, until it is resumed again.
pub(crate) fn suspend() {
    let yielder = CURRENT.get();
    assert!(
        !yielder.is_null(),
        "only an agent of a cooperative machine can block here: call it inside Platform::run"
    );
    // SAFETY: CURRENT holds the yielder of the running fiber: `resume` sets it on entry and
    // restores the outer one on return. The yielder lives on that fiber's stack until the
    // fiber ends.
    unsafe { (*yielder).suspend(()) };
}
