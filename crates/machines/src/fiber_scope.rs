//! Agents whose bodies borrow from the agent that starts them.
//!
//! Invariant: [`scope`] returns only after every agent of the scope has ended and so dropped its
//! body, also when the closure panics and when the machine stops. An unwinding that would leave
//! the scope earlier ends the process.

#![allow(unsafe_code)]

use crate::explorer::{AgentIx, Site};
use crate::world;
use std::any::Any;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The agents of a scope. Both lifetimes are invariant, as std's are.
pub struct AgentScope<'scope, 'env: 'scope> {
    agents: RefCell<Vec<AgentIx>>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl<'scope> AgentScope<'scope, '_> {
    /// Starts a straight-line agent on the running machine.
    pub fn spawn(&self, name: String, body: Box<dyn FnOnce() + Send + 'scope>) -> AgentIx {
        // SAFETY: only the lifetime changes. `scope` waits for the end of every agent that is
        // added to `agents` here, so the body is dropped before `'scope` ends.
        let body: Box<dyn FnOnce() + Send + 'static> = unsafe { std::mem::transmute(body) };
        let agent = world::spawn(name, world::Role::Script, body);
        self.agents.borrow_mut().push(agent);
        agent
    }
}

/// Ends the process when dropped.
struct MustNotUnwind;

impl Drop for MustNotUnwind {
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// Calls `body` with a scope, and waits for the scope's agents, with `site` as the place of the
/// wait.
///
/// # Panics
/// `body` panicked.
pub fn scope<'env, R>(
    site: Site,
    report_panic: impl FnOnce(&(dyn Any + Send)),
    body: impl for<'scope> FnOnce(&'scope AgentScope<'scope, 'env>) -> R,
) -> R {
    let scope = AgentScope { agents: RefCell::default(), scope: PhantomData, env: PhantomData };
    let result = catch_unwind(AssertUnwindSafe(|| body(&scope)));
    let guard = MustNotUnwind;
    // The agents may wait for what the body did not do: its panic comes before their standstill.
    if let Err(payload) = &result {
        report_panic(payload.as_ref());
    }
    let agents = scope.agents.take();
    world::at(site, || agents.into_iter().for_each(world::join_to_the_end));
    std::mem::forget(guard);
    result.unwrap_or_else(|payload| resume_unwind(payload))
}
