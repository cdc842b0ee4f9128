//! Owns the GPU as a whole: its memory, its nodes, and the services on which its engines take their
//! turns.

use crate::cmp::Shared;
use crate::config::{Config, MAX_ENGINES, MAX_PHYSICAL_GPUS};
use crate::display::{DisplayStats, FrameSink, MIN_REFRESH_PERIOD_NS, ScanOut};
use crate::engine::Engine;
use crate::memory::Bus;
use crate::stats::{Census, ParkedWait, Stats};
use std::sync::Arc;
use tidegate_gpu_abi::regs::NodePreemption;
use tidegate_platform::{Agent, Mutex, PhysicalMemory, Platform, ServiceHandle};

/// The software GPU. Its driver sees it as a [`tidegate_gpu_abi::Device`].
///
/// It runs nothing before [`SoftGpu::start`]; commands in the mailbox are obeyed before that, too.
pub struct SoftGpu {
    shared: Arc<Shared>,
    services: Mutex<Vec<ServiceHandle>>,
}

impl SoftGpu {
    /// A GPU on `platform` that reaches `system_memory` and has local memory of its own.
    ///
    /// # Panics
    /// When `config` has no engine, or more than 48, or more than 4 physical GPUs, or a display
    /// that refreshes more often than every microsecond.
    pub fn new(
        platform: &Platform,
        system_memory: &PhysicalMemory,
        config: Config,
    ) -> Arc<SoftGpu> {
        let (engines, gpus) = (config.engines(), config.physical_gpus);
        assert!(
            (1..=MAX_ENGINES).contains(&engines),
            "a GPU of {engines} engines: give it from 1 to {MAX_ENGINES}"
        );
        assert!(
            gpus <= MAX_PHYSICAL_GPUS,
            "{gpus} physical GPUs: link from 1 to {MAX_PHYSICAL_GPUS}"
        );
        let too_fast =
            config.display.filter(|display| display.refresh_period_ns < MIN_REFRESH_PERIOD_NS);
        assert!(
            too_fast.is_none(),
            "{too_fast:?}: give it at least {MIN_REFRESH_PERIOD_NS} ns for a refresh"
        );
        let bus = Bus::new(platform, system_memory.clone(), &config);
        let shared = Arc::new(Shared::new(platform, bus, config));
        Arc::new(SoftGpu { shared, services: platform.mutex("gpu services", Vec::new()) })
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    // spec: ME-001
    /// Starts the engines, each with a lane of the group "GPU" on the timeline. A GPU that runs
    /// already is left alone.
    pub fn start(&self) {
        let mut services = self.services.lock();
        if !services.is_empty() {
            return;
        }
        let platform = &self.shared.platform;
        let mut agents: Vec<Vec<Box<dyn Agent>>> =
            self.shared.wakes.iter().map(|_| Vec::new()).collect();
        let mut names: Vec<String> = agents.iter().map(|_| "gpu".to_owned()).collect();
        for (engine, port) in self.shared.nodes.iter().enumerate() {
            agents[port.service].push(Box::new(Engine::new(Arc::clone(&self.shared), engine)));
            names[port.service] += &format!(" {}", self.shared.config.engine_name(engine));
        }
        for ((agents, name), wake) in agents.into_iter().zip(names).zip(&self.shared.wakes) {
            services.push(platform.spawn_service(name, wake.clone(), agents));
        }
        if let Some(display) = &self.shared.display {
            let agent = Box::new(ScanOut::new(Arc::clone(&self.shared)));
            services.push(platform.spawn_service(
                "display".to_owned(),
                display.wake.clone(),
                vec![agent],
            ));
        }
    }

    /// Stops the engines after their present turns and waits until they have stopped. What they
    /// were in the middle of goes on when the GPU is started again.
    pub fn stop(&self) {
        let services = std::mem::take(&mut *self.services.lock());
        for service in services {
            service.stop();
        }
    }

    /// The waits that hold queues back now.
    pub fn parked_waits(&self) -> Vec<ParkedWait> {
        self.shared.cmp.lock().parked_waits()
    }

    /// How many queues, address spaces and doorbells there are now.
    pub fn census(&self) -> Census {
        self.shared.cmp.lock().census()
    }

    /// Has `sink` look at every frame that the display scans from now on; a GPU without a display
    /// shows it none. Without a sink nothing is scanned: nobody would see it.
    pub fn show_frames_to(&self, sink: FrameSink) {
        if let Some(display) = &self.shared.display {
            display.connect(sink);
        }
    }

    /// What the display did so far; nothing without one.
    pub fn display_stats(&self) -> DisplayStats {
        self.shared.display.as_ref().map_or_else(DisplayStats::default, |display| display.stats())
    }

    /// How many nodes each physical GPU has.
    pub fn nodes_of_each(&self) -> u32 {
        self.shared.config.nodes.len() as u32
    }

    /// How finely each engine is preempted, by number.
    pub fn preemption(&self) -> Vec<NodePreemption> {
        let config = &self.shared.config;
        (0..config.engines()).map(|engine| config.node_of(engine).preemption).collect()
    }

    /// What was counted so far. An engine hands its counts over before it interrupts and at the end
    /// of each turn. Waits that head their queues count as blocked time until now.
    pub fn stats(&self) -> Stats {
        let (now, gpu_now) = (self.shared.platform.now().0, self.shared.clock.now());
        let cmp = self.shared.cmp.lock();
        let mut stats = cmp.stats.clone();
        for (queue, since) in cmp.held_back() {
            stats.queues.entry(queue).or_default().blocked_ns += gpu_now.0.saturating_sub(since.0);
        }
        stats.overlap_ns = cmp.overlap.as_of(now);
        drop(cmp);
        stats.interrupts_raised = self.shared.line.times_raised();
        stats
    }
}
