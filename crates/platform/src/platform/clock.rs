//! The clock of a platform: reading it, modelled time, and sleeps until a time.

use super::{Platform, PlatformKind};
use crate::level::assert_may_block;
use tidegate_machines::host::Host;
use tidegate_machines::{CpuTime, Step, WaitEnd, spin, world};

impl Platform {
    /// Returns CPU time, in nanoseconds since this platform was created.
    #[inline]
    pub fn now(&self) -> CpuTime {
        match self.inner.kind {
            PlatformKind::Host => self.host_threads().now(),
            _ => world::now(),
        }
    }

    /// Returns the system's clock, which may be set, in nanoseconds since 1 January 1970. A
    /// cooperative platform was created at that date, and nothing sets its clock.
    pub fn system_time_ns(&self) -> u64 {
        match self.inner.kind {
            PlatformKind::Host => self.host_threads().system_time_ns(),
            _ => world::now().0,
        }
    }

    /// Returns the time for a timeline: the clock, or under exploration, where the clock does not
    /// advance, the number of events in the log of steps ([`Platform::take_steps`]). Without
    /// tracing that is the number of visible steps.
    pub fn stamp_ns(&self) -> u64 {
        match self.inner.kind {
            PlatformKind::Explored => world::steps(),
            _ => self.now().0,
        }
    }

    /// Returns the clock and [`Platform::stamp_ns`], reading the clock once if they are the same.
    pub fn now_and_stamp(&self) -> (CpuTime, u64) {
        let now = self.now();
        match self.inner.kind {
            PlatformKind::Explored => (now, world::steps()),
            _ => (now, now.0),
        }
    }

    /// Returns whether work takes modelled time, which [`Platform::spend`] charges to the agent
    /// that does it. Work for another agent then needs its own agent.
    pub fn models_time(&self) -> bool {
        self.inner.kind == PlatformKind::Virtual
    }

    /// Charges the modelled cost of one step to the calling agent. No effect on the host, where
    /// the step itself takes time, and under exploration, where time passes only when no other
    /// event is possible.
    #[inline]
    pub fn spend(&self, step: Step) {
        if self.inner.kind == PlatformKind::Virtual {
            world::spend_step(step);
        }
    }

    /// Charges `ns` of modelled work to the calling agent, as [`Platform::spend`] does for a step.
    pub fn spend_ns(&self, ns: u64) {
        if ns > 0 && self.inner.kind == PlatformKind::Virtual {
            world::spend_ns(ns);
        }
    }

    /// Returns whether the clock may advance while no agent runs, because the process is stopped.
    pub fn can_be_stopped(&self) -> bool {
        self.inner.kind != PlatformKind::Explored
    }

    /// Models a stopped process (SIGSTOP, a paused virtual machine): the clock advances by `ns`,
    /// and no agent runs meanwhile. No effect on the host and under exploration.
    pub fn stop_process(&self, ns: u64) {
        if self.inner.kind == PlatformKind::Virtual {
            world::skip_ns(ns);
        }
    }

    /// Keeps the calling agent busy for `ns` nanoseconds: real time on the host (mostly sleeping,
    /// then spinning), modelled time elsewhere.
    pub fn busy(&self, ns: u64) {
        match self.inner.kind {
            PlatformKind::Host => self.host_threads().busy(ns),
            PlatformKind::Virtual => world::spend_ns(ns),
            PlatformKind::Explored => {}
        }
    }

    /// Blocks the calling agent until `deadline`. Returns [`WaitEnd::Stopped`] early when the
    /// machine stops.
    pub fn sleep_until(&self, deadline: CpuTime) -> WaitEnd {
        assert_may_block("a deadline");
        match self.inner.kind {
            PlatformKind::Host => self.host_threads().sleep_until(deadline),
            _ => world::sleep_until(deadline),
        }
    }

    /// Blocks as [`Platform::sleep_until`] does, and wakes on time: where the system's sleep is
    /// coarse, the last part is spun.
    pub fn sleep_precisely_until(&self, deadline: CpuTime) -> WaitEnd {
        match self.inner.kind {
            PlatformKind::Host => self.host_threads().sleep_precisely_until(deadline),
            _ => world::sleep_until(deadline),
        }
    }

    /// Returns the system's monotonic clock when the platform's clock was 0, in nanoseconds; 0 on a
    /// cooperative platform, whose agents have one clock.
    pub fn clock_origin_ns(&self) -> u64 {
        self.inner.host.as_ref().map_or(0, Host::start_ns)
    }

    /// Polls `is_met` for `ns` nanoseconds at most, if a processor is free for it. Returns whether
    /// it was met. Does not poll on a cooperative platform: a poll would be a step of the machine,
    /// and no time would pass.
    pub fn poll_for(&self, ns: u64, is_met: impl Fn() -> bool) -> bool {
        ns != 0 && self.kind() == PlatformKind::Host && spin::poll_for(ns, || self.now(), is_met)
    }

    /// Lets other processors have the memory that the caller polls, for so many turns of an empty
    /// loop. No effect on a cooperative platform.
    #[inline]
    pub fn pause(&self, turns: u32) {
        if turns != 0 && self.kind() == PlatformKind::Host {
            (0..turns).for_each(|_| std::hint::spin_loop());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_machines::time::StepCosts;

    #[test]
    fn no_agent_runs_while_the_process_is_stopped() {
        let platform = Platform::virtual_time(StepCosts::free());
        platform.run_scoped(|| {
            let clock = platform.clone();
            let sleeper = platform.spawn("sleeper", move || {
                for (until, wakes) in [(100, 1_000), (2_000, 2_000)] {
                    clock.sleep_until(CpuTime(until));
                    assert_eq!(clock.now(), CpuTime(wakes));
                }
            });
            platform.sleep_until(CpuTime(10));
            platform.stop_process(990);
            assert_eq!(platform.now(), CpuTime(1_000));
            sleeper.join();
        });
    }

    #[test]
    fn a_cooperative_platform_does_not_poll() {
        let platform = Platform::virtual_time(StepCosts::free());
        assert!(!platform.poll_for(1_000, || panic!("polled")));
    }
}
