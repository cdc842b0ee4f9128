//! Stackful coroutines. An agent of a cooperative machine is a fiber, so that its blocking calls
//! are plain calls.
//!
//! Invariants: a fiber is never unwound from outside; an abandoned run is finished. Stacks are
//! pooled for each thread. A switch takes a few nanoseconds.

#![allow(unsafe_code)]

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::{Cell, RefCell};

/// Enough for deep call chains of debug builds; untouched pages cost nothing.
const STACK_BYTES: usize = 512 * 1024;
const POOLED_STACKS: usize = 64;

thread_local! {
    static CURRENT: Cell<*const Yielder<(), ()>> = const { Cell::new(std::ptr::null()) };
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// A suspended piece of straight-line code with a stack of its own.
pub(crate) struct Fiber {
    coroutine: Option<Coroutine<(), (), (), DefaultStack>>,
    /// Null until it has run.
    yielder: *const Yielder<(), ()>,
}

impl Fiber {
    /// A fiber that will run `body`; `body` must not panic through.
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

    /// Runs it until it suspends or ends; returns whether it ended.
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

/// Whether the caller runs on a fiber.
pub(crate) fn on_fiber() -> bool {
    !CURRENT.get().is_null()
}

/// Gives the thread back to the fiber that resumed this one, until it is resumed again.
pub(crate) fn suspend() {
    let yielder = CURRENT.get();
    assert!(
        !yielder.is_null(),
        "only an agent of a cooperative machine can block here: call it inside Platform::run"
    );
    // SAFETY: CURRENT holds the yielder of the fiber that runs now: `resume` sets it on entry and
    // restores the outer one on return, and the yielder lives on that fiber's stack for as long as
    // the fiber has not ended.
    unsafe { (*yielder).suspend(()) };
}
