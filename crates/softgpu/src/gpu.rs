//! The GPU as a whole, and the services on which its engines take their turns.

use crate::bus::Bus;
use crate::config::{Config, MAX_ENGINES, MAX_PHYSICAL_GPUS, MIN_REFRESH_PERIOD_NS};
use crate::display::{DisplayStats, FrameSink, ScanOut};
use crate::engine::Engine;
use crate::hardware::Hardware;
use crate::stats::{Census, ParkedWait, Stats};
use std::sync::Arc;
use tidegate_gpu_abi::regs::NodePreemption;
use tidegate_platform::{Agent, Mutex, PhysicalMemory, Platform, ServiceHandle};

/// The software GPU. Its driver sees it as a [`tidegate_gpu_abi::Device`].
///
/// It runs nothing before [`SoftGpu::start`]; commands in the mailbox are obeyed before that, too.
pub struct SoftGpu {
    hardware: Arc<Hardware>,
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
        let hardware = Arc::new(Hardware::new(platform, bus, config));
        Arc::new(SoftGpu { hardware, services: platform.mutex("gpu services", Vec::new()) })
    }

    pub(crate) fn hardware(&self) -> &Hardware {
        &self.hardware
    }

    // spec: ME-001
    /// Starts the engines, each with a lane of the group "GPU" on the timeline. A GPU that runs
    /// already is left alone.
    pub fn start(&self) {
        let mut services = self.services.lock();
        if !services.is_empty() {
            return;
        }
        let platform = &self.hardware.platform;
        let mut agents: Vec<Vec<Box<dyn Agent>>> =
            self.hardware.wakes.iter().map(|_| Vec::new()).collect();
        let mut names: Vec<String> = agents.iter().map(|_| "gpu".to_owned()).collect();
        for (engine, port) in self.hardware.nodes.iter().enumerate() {
            agents[port.service].push(Box::new(Engine::new(Arc::clone(&self.hardware), engine)));
            names[port.service] += &format!(" {}", self.hardware.config.engine_name(engine));
        }
        for ((agents, name), wake) in agents.into_iter().zip(names).zip(&self.hardware.wakes) {
            services.push(platform.spawn_service(name, wake.clone(), agents));
        }
        if let Some(display) = &self.hardware.display {
            let (bus, line) = (&self.hardware.bus, &self.hardware.line);
            let agent = Box::new(ScanOut::new(platform, bus, line, display));
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
        self.hardware.cmp.lock().parked_waits()
    }

    /// How many queues, address spaces and doorbells there are now.
    pub fn census(&self) -> Census {
        self.hardware.cmp.lock().census()
    }

    /// Calls `sink` with every frame that the display scans from now on. Without a sink nothing is
    /// scanned.
    pub fn show_frames_to(&self, sink: FrameSink) {
        if let Some(display) = &self.hardware.display {
            display.connect(sink);
        }
    }

    /// What the display did so far; nothing without one.
    pub fn display_stats(&self) -> DisplayStats {
        self.hardware.display.as_ref().map_or_else(DisplayStats::default, |display| display.stats())
    }

    /// How many nodes each physical GPU has.
    pub fn nodes_of_each(&self) -> u32 {
        self.hardware.config.nodes.len() as u32
    }

    /// How finely each engine is preempted, by number.
    pub fn preemption(&self) -> Vec<NodePreemption> {
        let config = &self.hardware.config;
        (0..config.engines()).map(|engine| config.node_of(engine).preemption).collect()
    }

    /// What was counted so far. An engine hands its counts over before it interrupts and at the end
    /// of each turn. Waits that head their queues count as blocked time until now.
    pub fn stats(&self) -> Stats {
        let (now, gpu_now) = (self.hardware.platform.now().0, self.hardware.clock.now());
        let cmp = self.hardware.cmp.lock();
        let mut stats = cmp.stats.clone();
        for (queue, since) in cmp.held_back() {
            stats.queues.entry(queue).or_default().blocked_ns += gpu_now.0.saturating_sub(since.0);
        }
        stats.overlap_ns = cmp.overlap.as_of(now);
        drop(cmp);
        stats.interrupts_raised = self.hardware.line.times_raised();
        stats
    }
}
