//! Runs of a machine: the first agent, the rest of services between two runs, and the stop.

use crate::platform::{Platform, PlatformKind, enter};
use tidegate_machines::host::Host;
use tidegate_machines::{ParkingCounts, RunReport, fiber, world};

impl Platform {
    /// Runs `main` as the first agent. On the host it runs on the calling thread. On the others
    /// this call drives all agents until every straight-line agent has returned, or none can move.
    ///
    /// If none can move, [`RunReport::blocked`] names the blocked agents and what each waits for.
    /// They are then released with [`WaitEnd::Stopped`](crate::WaitEnd::Stopped) so that their
    /// calls return. [`Platform::host`] never does this, because an unknown thread may still act.
    /// There, all waits on the platform end when `main` returns, even in other threads.
    pub fn run(&self, main: impl FnOnce() + Send + 'static) -> RunReport {
        let (platform, started) = (self.clone(), self.hand_over());
        let main = move || {
            platform.take_over(&started);
            main();
            platform.end_agent();
        };
        let mut report = match self.inner.kind {
            PlatformKind::Host => self.host_threads().run(|| self.rests(), main),
            _ => self.run_world(Box::new(main)),
        };
        self.take_over_ended();
        report.wait_circles = self.wait_circles().into();
        report
    }

    /// Runs `main` as [`Platform::run`] does. `main` may borrow from the caller, because it has
    /// ended when this call returns. Services rest at the end of the run with all that they know.
    /// The next call continues with them, and with the clock, where this one ended.
    ///
    /// Between two calls the platform is stopped. [`Platform::host`] goes on instead: other threads
    /// may act on it at any time.
    ///
    /// A service rests until it is stopped, so the owner of a
    /// [`ServiceHandle`](crate::ServiceHandle) stops it.
    ///
    /// # Panics
    /// Aborts the process when `main` is blocked for ever by a [`Mutex`](crate::Mutex) in virtual
    /// time.
    pub fn run_scoped(&self, main: impl FnOnce()) -> RunReport {
        self.resume();
        let services = &self.inner.services;
        services.set_rest(true);
        let started = self.hand_over();
        let main = || {
            self.take_over(&started);
            main();
            self.end_agent();
        };
        let mut report = match &self.inner.host {
            Some(host) => host.run(|| self.rests(), main),
            None => fiber::lend(Box::new(main), |main| self.run_world(main)),
        };
        self.take_over_ended();
        services.set_rest(false);
        report.wait_circles = self.wait_circles().into();
        if self.inner.host.as_ref().is_some_and(Host::is_open) {
            self.resume();
        }
        report
    }

    fn run_world(&self, main: Box<dyn FnOnce()>) -> RunReport {
        assert!(!fiber::on_fiber(), "Platform::run inside an agent of the same machine");
        let _running = enter(self);
        world::run(self.rests(), main)
    }

    /// Lets agents block, and starts the services that rest.
    fn resume(&self) {
        match &self.inner.host {
            Some(host) => host.resume(),
            None => world::resume(),
        }
        self.inner.services.restart();
    }

    /// Lets the services of a cooperative platform that never ran rest, so that their owners can
    /// stop them. No effect elsewhere, inside an agent, and after a run.
    pub fn rest_unless_run(&self) {
        self.end_unless_run(|| ());
    }

    /// Calls `begin`, which may block: as an agent, on a cooperative platform that has not run.
    /// What it does is not explored. Other agents move while it waits, and go on in the run. If
    /// none can move, the platform is stopped. Returns `None` if `begin` has panicked.
    pub fn before_run<R>(&self, begin: impl FnOnce() -> R) -> Option<R> {
        if !self.is_cooperative() || fiber::on_fiber() || self.is_stopped() {
            return Some(begin());
        }
        let started = self.hand_over();
        let mut begun = None;
        let first = || {
            self.take_over(&started);
            begun = Some(self.unexplored(begin));
            self.end_agent();
        };
        let _running = enter(self);
        fiber::lend(Box::new(first), world::run_first);
        self.take_over_ended();
        begun
    }

    /// Calls `end`, which may block: as an agent, on a cooperative platform that never ran. All
    /// agents end there, as in [`Platform::run_scoped`].
    pub fn end_unless_run(&self, end: impl FnOnce()) {
        if self.is_cooperative() && !fiber::on_fiber() && !self.is_stopped() {
            self.run_scoped(end);
        } else {
            end();
        }
    }

    /// Releases every blocked agent, and every later blocking call, with
    /// [`WaitEnd::Stopped`](crate::WaitEnd::Stopped).
    pub fn stop(&self) {
        match self.inner.kind {
            PlatformKind::Host => self.host_threads().stop(),
            _ => world::stop(),
        }
    }

    /// Returns whether [`Platform::stop`] was called, or a cooperative run ended.
    pub fn is_stopped(&self) -> bool {
        match self.inner.kind {
            PlatformKind::Host => self.host_threads().is_stopped(),
            _ => world::is_stopped(),
        }
    }

    /// Returns what each blocked agent waits for, as (agent, reason). Empty while an agent can
    /// move, and always on [`Platform::host`].
    pub fn blocked_agents(&self) -> Vec<(String, String)> {
        match self.inner.kind {
            PlatformKind::Host => self.host_threads().blocked_agents(),
            _ => world::blocked_agents(),
        }
    }

    /// Returns the number of system calls made so far to put threads to sleep and to wake them
    /// (host), or of their modelled equivalents.
    pub fn parking_counts(&self) -> ParkingCounts {
        self.inner.host.as_ref().map_or_else(ParkingCounts::default, Host::parking_counts)
    }
}
