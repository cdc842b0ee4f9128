//! The first agent of a run: starts an agent for each thread of the workload, joins them, then
//! waits until every queue is idle and the last picture has been shown.

use std::sync::Arc;

use tidegate_d3d12::SwapChain;
use tidegate_platform::{AgentHandle, Platform};

use crate::prepare::Prepared;
use crate::thread;

impl Prepared {
    /// Returns the first agent's body, for [`Platform::run`]. It starts an agent for each thread of
    /// the workload, joins them, and waits until every queue is idle. Run it once.
    pub fn main(self: &Arc<Self>, platform: &Platform) -> impl FnOnce() + Send + 'static + use<> {
        let (prepared, platform) = (Arc::clone(self), platform.clone());
        move || {
            prepared.begin(&platform);
            let threads: Vec<AgentHandle> = (0..prepared.workload.threads.len())
                .map(|number| {
                    let (run, on) = (Arc::clone(&prepared), platform.clone());
                    let name = prepared.workload.threads[number].name.clone();
                    platform.spawn(name, move || thread::run(&run, &on, number))
                })
                .collect();
            for thread in &threads {
                thread.join();
            }
            prepared.end(&platform);
        }
    }

    fn begin(&self, platform: &Platform) {
        self.align_with_vertical_sync(platform);
        let before = self.count_now();
        let started_ns = platform.stamp_ns();
        let mut state = self.state.lock();
        (state.before, state.started_ns) = (before, started_ns);
    }

    /// Waits until the display's vertical syncs are in phase with the recorded ones.
    fn align_with_vertical_sync(&self, platform: &Platform) {
        let Some(display) = &self.workload.display else { return };
        let Some(at_ns) = display.vsync_at_ns.filter(|_| display.refresh_ns > 0) else { return };
        let now = platform.now();
        // Vertical syncs are at multiples of the period since the platform's start.
        let past_ns = now.0.saturating_add(at_ns) % display.refresh_ns;
        if past_ns > 0 {
            // A stopped platform ends the threads of the workload as well.
            let _ = platform.sleep_precisely_until(now.after(display.refresh_ns - past_ns));
        }
    }

    fn end(&self, platform: &Platform) {
        let calls = self.device.counters();
        self.state.lock().calls = calls;
        // The last picture is scanned completely.
        let seen = self.screen.as_ref().map_or(Ok(()), SwapChain::wait_shown);
        let idle = self.device.wait_idle().and(seen);
        let (ended_ns, after) = (platform.stamp_ns(), self.count_now());
        let (removed, display) = (self.device.removed_reason(), self.probe.display());
        let mut state = self.state.lock();
        (state.ended_ns, state.is_idle) = (Some(ended_ns), idle.is_ok());
        (state.after, state.display) = (after, display);
        if let Some(reason) = removed {
            state.removed.get_or_insert(reason);
        }
        match idle {
            Ok(())
            | Err(tidegate_d3d12::Error::Stopped | tidegate_d3d12::Error::DeviceRemoved(_)) => {}
            Err(error) => state.failures.push(format!("{}: {error}", self.workload.file)),
        }
    }
}
