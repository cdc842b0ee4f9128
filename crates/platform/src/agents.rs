//! Straight-line agents: threads of the application, workers and tasks of the machine.

use crate::event::Event;
use crate::platform::{Handover, Platform, PlatformKind};
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use tidegate_machines::{AgentIx, Step, WaitEnd, host, world};

impl Platform {
    /// Starts a straight-line agent (an application thread). It blocks in calls, and ends when
    /// it returns.
    pub fn spawn(
        &self,
        name: impl Into<Cow<'static, str>>,
        body: impl FnOnce() + Send + 'static,
    ) -> AgentHandle {
        let name = name.into();
        let (platform, started) = (self.clone(), self.hand_over());
        let ended = Arc::new(OnceLock::new());
        let set_ended = Arc::clone(&ended);
        let body = move || {
            platform.take_over(&started);
            body();
            let _ = set_ended.set(platform.end_agent());
        };
        let handle = |end| AgentHandle { end, platform: self.clone(), ended };
        if self.is_cooperative() {
            return handle(End::Fiber(world::spawn(name, world::Role::Script, Box::new(body))));
        }
        let done = self.event(true);
        let signal_done = done.clone();
        let body = move || {
            let _done = SetAtEnd(signal_done);
            body();
        };
        host::spawn(self, name.into_owned(), Box::new(body));
        handle(End::Thread(done))
    }

    /// Starts a straight-line agent that a run does not wait for, such as a driver's thread. It
    /// ends when it returns. At the end of the run it is released like every blocked agent.
    pub fn spawn_worker(&self, name: impl Into<String>, body: impl FnOnce() + Send + 'static) {
        let (name, body) = (name.into(), Box::new(body));
        match self.inner.kind {
            PlatformKind::Host => host::spawn(self, name, body),
            _ => {
                world::spawn(name, world::Role::Worker, body);
            }
        }
    }

    /// Starts a thread that no run waits for: for work that waits outside of the platform, such as
    /// for a socket. It may call in as any thread of an application may. On a cooperative platform
    /// it is an agent that is released at the end of the run.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn spawn_outside(
        &self,
        name: &str,
        body: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<()> {
        match self.inner.kind {
            PlatformKind::Host => {
                std::thread::Builder::new().name(name.to_owned()).spawn(body).map(drop)
            }
            _ => {
                world::spawn(name.to_owned(), world::Role::Worker, Box::new(body));
                Ok(())
            }
        }
    }

    /// Starts a straight-line agent that does work of the machine itself, and ends without help of
    /// the application. Every run waits for it, also on the host where it rests.
    pub fn spawn_task(&self, name: impl Into<String>, body: impl FnOnce() + Send + 'static) {
        let (name, body) = (name.into(), Box::new(body));
        match self.inner.kind {
            PlatformKind::Host => host::spawn_task(self, name, body),
            _ => {
                world::spawn(name, world::Role::Script, body);
            }
        }
    }
}

/// A started straight-line agent.
pub struct AgentHandle {
    end: End,
    platform: Platform,
    /// What the agent had done when it ended, for the hazard check.
    ended: Arc<OnceLock<Handover>>,
}

enum End {
    Thread(Event),
    Fiber(AgentIx),
}

/// An event that is set when this is dropped, also by a panic.
struct SetAtEnd(Event);

impl Drop for SetAtEnd {
    fn drop(&mut self) {
        self.0.set(Step::ThreadWake);
    }
}

impl AgentHandle {
    /// Blocks until the agent has returned or panicked, or the machine is stopped.
    pub fn join(&self) -> WaitEnd {
        let end = match &self.end {
            End::Thread(done) => done.wait(),
            End::Fiber(agent) => world::join(*agent),
        };
        if let Some(ended) = self.ended.get() {
            self.platform.take_over(ended);
        }
        end
    }
}
