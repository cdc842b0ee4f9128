//! The GPU as a whole, and the services on which its engines take turns.

use crate::bus::Bus;
use crate::cmp::node::Node;
use crate::config::{Config, MAX_ENGINES, MAX_PHYSICAL_GPUS, MIN_REFRESH_PERIOD_NS};
use crate::display::{DisplayStats, FrameSink, ScanOut};
use crate::engine::Engine;
use crate::hardware::Hardware;
use crate::stats::{Census, NodeStats, ParkedWait, Stats};
use std::sync::Arc;
use tidegate_gpu_abi::regs::NodePreemption;
use tidegate_platform::{Agent, Mutex, PhysicalMemory, Platform, ServiceHandle};

/// The software GPU. Its driver uses it as a [`tidegate_gpu_abi::Device`].
///
/// Its engines run only after [`SoftGpu::start`]. Mailbox commands are obeyed before that, too.
pub struct SoftGpu {
    hardware: Arc<Hardware>,
    services: Mutex<Vec<ServiceHandle>>,
}

impl SoftGpu {
    /// Creates a GPU on `platform` with access to `system_memory` and with its own local memory.
    ///
    /// # Panics
    ///
    /// `config` has no engine, more than 48 engines, more than 4 physical GPUs, or a display with a
    /// refresh period below a microsecond.
    pub fn new(
        platform: &Platform,
        system_memory: &PhysicalMemory,
        config: Config,
    ) -> Arc<SoftGpu> {
        let (engines, gpus) = (config.engines(), config.physical_gpus);
        assert!(
            (1..=MAX_ENGINES).contains(&engines),
            "a GPU with {engines} engines: configure from 1 to {MAX_ENGINES}"
        );
        assert!(
            gpus <= MAX_PHYSICAL_GPUS,
            "{gpus} physical GPUs: configure from 1 to {MAX_PHYSICAL_GPUS}"
        );
        let too_fast =
            config.display.filter(|display| display.refresh_period_ns < MIN_REFRESH_PERIOD_NS);
        assert!(
            too_fast.is_none(),
            "{too_fast:?}: configure a period of at least {MIN_REFRESH_PERIOD_NS} ns"
        );
        let bus = Bus::new(platform, system_memory.clone(), &config);
        let hardware = Arc::new(Hardware::new(platform, bus, config));
        Arc::new(SoftGpu { hardware, services: platform.mutex("gpu services", Vec::new()) })
    }

    pub(crate) fn hardware(&self) -> &Hardware {
        &self.hardware
    }

    // spec: ME-001
    /// Starts the engines, each with a lane on the timeline in the configured group. Does nothing
    /// if the GPU is running.
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

    /// Stops the engines after their current turns and waits until they have stopped. Unfinished
    /// work continues when the GPU is started again.
    pub fn stop(&self) {
        let services = std::mem::take(&mut *self.services.lock());
        for service in services {
            service.stop();
        }
    }

    /// Returns the waits that currently block queues.
    pub fn parked_waits(&self) -> Vec<ParkedWait> {
        self.hardware.cmp.lock().parked_waits()
    }

    /// Returns the current numbers of queues, address spaces and doorbells.
    pub fn census(&self) -> Census {
        self.hardware.cmp.lock().census()
    }

    /// Calls `sink` with every frame that the display scans. Without a sink no frame is recorded.
    pub fn show_frames_to(&self, sink: FrameSink) {
        if let Some(display) = &self.hardware.display {
            display.connect(sink);
        }
    }

    /// Returns the display's statistics; all 0 without a display.
    pub fn display_stats(&self) -> DisplayStats {
        self.hardware.display.as_ref().map_or_else(DisplayStats::default, |display| display.stats())
    }

    /// Returns the number of nodes of each physical GPU.
    pub fn nodes_of_each(&self) -> u32 {
        self.hardware.config.nodes.len() as u32
    }

    /// Returns the preemption granularity of each engine, by number.
    pub fn preemption(&self) -> Vec<NodePreemption> {
        let config = &self.hardware.config;
        (0..config.engines()).map(|engine| config.node_of(engine).preemption).collect()
    }

    /// Returns the counts of the engines as of their last turns, with the time for which each is
    /// busy up to now. Waits for no turn.
    pub fn engines(&self) -> Vec<NodeStats> {
        let now = self.hardware.platform.now();
        let cmp = self.hardware.cmp.lock();
        let engines = cmp.stats.nodes.iter().zip(&cmp.nodes);
        let up_to_now = |(stats, node): (&NodeStats, &Node)| {
            let open_ns = node.busy_since.map_or(0, |since| now.since(since));
            NodeStats { busy_ns: stats.busy_ns + open_ns, ..stats.clone() }
        };
        engines.map(up_to_now).collect()
    }

    /// Returns all counts so far, after the turns that engines are in: an engine adds its counts
    /// when it returns its queue. Waits at the head of queues count as blocked time up to now.
    pub fn stats(&self) -> Stats {
        let (now, gpu_now) = (self.hardware.platform.now().0, self.hardware.clock.now());
        let gpu = &self.hardware;
        let cmp = gpu.await_ends_of_turns();
        let mut stats = cmp.stats.clone();
        for (queue, since) in cmp.held_back() {
            stats.queues.entry(queue).or_default().blocked_ns += gpu_now.0.saturating_sub(since.0);
        }
        stats.overlap_ns = cmp.overlap.as_of(now);
        drop(cmp);
        stats.interrupts_raised = self.hardware.line.times_raised();
        stats
    }

    /// Returns how often a command of the driver had its engine wake it at the end of a turn,
    /// without a wait for turns. The kernel's watch for hangs sends such a command to an engine
    /// with work once in each timeout delay.
    pub fn turn_ends_awaited(&self) -> u64 {
        self.hardware.turn_ends.load()
    }
}
