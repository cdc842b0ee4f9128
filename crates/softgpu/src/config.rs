//! The variants of the hardware: nodes, engine classes, work per turn, and reports. A variant is
//! fixed when the GPU is created.

use tidegate_d3dukmdt::{ComputePreemption, GraphicsPreemption};
use tidegate_gpu_abi::EngineKind;
use tidegate_gpu_abi::regs::NodePreemption;
use tidegate_platform::PhysicalAddress;

/// A node: an engine that is scheduled independently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    /// The name on timelines and in reports.
    pub name: String,
    /// The class of its engines.
    pub class: EngineKind,
    /// Whether its command streams can write a fence. If not, stores of values, signals and
    /// progress values are commands that this engine cannot run.
    pub writes_fences: bool,
    /// Whether it interrupts after a store to a page of words, which holds fences (advanced
    /// monitoring). If not, a plain store to a monitored fence interrupts when its packet is
    /// complete (basic monitoring).
    pub notifies_fence_writes: bool,
    /// The granularity at which it is preempted, by a queue of higher priority or by a preemption
    /// of its ring.
    pub preemption: NodePreemption,
}

impl NodeConfig {
    /// Returns nodes of these classes, named by [`EngineKind::node_names`].
    pub fn of_classes(classes: &[EngineKind]) -> Vec<NodeConfig> {
        let names = EngineKind::node_names(classes);
        names.into_iter().zip(classes).map(|(name, class)| NodeConfig::new(name, *class)).collect()
    }

    /// Returns a node of `class` with this name. It writes fences, does not notify of writes, and
    /// is preempted at triangles and thread groups.
    pub fn new(name: impl Into<String>, class: EngineKind) -> NodeConfig {
        let preemption = NodePreemption {
            graphics: GraphicsPreemption::Triangle,
            compute: ComputePreemption::ThreadGroup,
        };
        NodeConfig {
            name: name.into(),
            class,
            writes_fences: true,
            notifies_fence_writes: false,
            preemption,
        }
    }
}

/// The cost of real work in virtual time, where computing otherwise takes no time. By default all
/// are 0, so that only timed work takes time. On the host clock, work takes the time it takes, and
/// these are not used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkRates {
    /// Picoseconds to copy or fill one byte.
    pub byte_ps: u64,
    /// Nanoseconds for one thread group or tile.
    pub group_ns: u64,
    /// Additional nanoseconds for each thread, triangle, pixel or instruction, on nodes preempted
    /// at that granularity.
    pub grain_ns: u64,
}

/// The configuration of a display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DisplayConfig {
    /// The refresh period in nanoseconds, at least 1,000.
    pub refresh_period_ns: u64,
    /// Whether a new surface is latched at the vertical sync. If not, the display switches
    /// immediately, even inside a refresh: a broken variant whose frames tear.
    pub latches_at_vsync: bool,
}

impl Default for DisplayConfig {
    /// 60 refreshes per second.
    fn default() -> DisplayConfig {
        DisplayConfig { refresh_period_ns: 16_666_667, latches_at_vsync: true }
    }
}

/// The shortest refresh period. A shorter one cannot be divided into slices.
pub const MIN_REFRESH_PERIOD_NS: u64 = 1_000;

/// The configuration of a software GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The group of its lanes on the timeline. Each GPU of a machine has its own.
    pub lane_group: String,
    /// The nodes of each physical GPU, by ordinal. There are 1 to 48 nodes on all physical
    /// GPUs together.
    pub nodes: Vec<NodeConfig>,
    /// The number of linked physical GPUs, from 1 to 4. Each has all the nodes, its own translation
    /// and its own local memory. They are bridged, and one CMP schedules all engines.
    pub physical_gpus: u32,
    /// A physical GPU whose engines write no times into log entries, which the documents allow on
    /// linked adapters.
    pub skips_log_times_on: Option<u32>,
    /// The bus address of local memory, physical GPU 0's first. System memory is below.
    pub local_memory_base: PhysicalAddress,
    /// The size in bytes of the local memory of each physical GPU.
    pub local_memory_bytes: u64,
    /// The maximum number of thread groups that an engine runs in one turn. A group of a program
    /// whose groups take more than a part of a microsecond counts as four.
    pub groups_per_turn: u32,
    /// The maximum number of threads, triangles, pixels or instructions that an engine runs in one
    /// turn, on nodes preempted at that granularity. A turn may then end in the middle of a group.
    /// At the end of a turn the engine serves an equal queue if the slice is over.
    pub grains_per_turn: u32,
    /// The maximum number of ring slots and small commands that an engine takes in one turn. A
    /// higher number spreads the cost of a turn over more packets. It bounds how long a queue of
    /// higher priority, or another engine of the same service, waits.
    pub slots_per_turn: u32,
    /// The number of threads that the engines share, and of agents under exploration. In virtual
    /// time each engine has its own agent, because the modelled times of one agent add up.
    pub service_threads: usize,
    /// The time in nanoseconds after an interrupt for a fence signal in which an engine holds
    /// further ones back, while it goes on with ring slots that take no time; 0 for an interrupt
    /// for each signal. In a stream of them the time grows to four times this one.
    pub interrupt_moderation_ns: u64,
    /// The capacity of the signalled list. One more signal collapses it into "any fence".
    pub signaled_list_entries: usize,
    /// Whether it can tell a native fence signal from a write to a monitored fence. If not, an
    /// interrupt only reports that any fence may be signalled.
    pub tells_fence_kinds: bool,
    /// Whether an engine stores fence values atomically with 64 bits. If not, the store writes the
    /// low 32 bits and clears the rest.
    pub atomics_64bit: bool,
    /// Whether accesses to system memory are coherent with the CPUs' caches if the page table entry
    /// requests it.
    pub io_coherent: bool,
    /// The number of translations of each kind (pages, loaded words, stored words) that an engine
    /// caches, rounded up to a power of two.
    pub kept_translations: u32,
    /// Whether it is behind an IoMmu that shares the CPU's page tables, so that its engines use a
    /// process's CPU addresses.
    pub io_mmu: bool,
    /// The display, if there is one.
    pub display: Option<DisplayConfig>,
    /// Whether a fence log entry may become visible after the index that counts it: at the barrier
    /// of the next signal, or at a flush by the driver. The documents allow both, so no driver may
    /// rely on either.
    pub posted_log_entries: bool,
    /// Whether an engine's store of a fence value is posted: other agents may not see it before a
    /// barrier of the engine or the CMP.
    pub posted_fence_writes: bool,
    /// The number of copies of MonitoredValue that the CMP keeps for its engines; 0 for hardware
    /// that compares with memory. A fence without a copy is compared with memory.
    pub shadow_entries: u32,
    /// The seed of the order in which engines overlap the copies, fills and dispatches of a command
    /// buffer that no barrier separates; `None` runs them one after the other. Draws are never
    /// overlapped, and copies and fills keep their order.
    pub out_of_order: Option<u64>,
    /// Whether a global doorbell is one location for all processes. Otherwise each process has its
    /// location.
    pub one_global_doorbell: bool,
    /// Whether doorbells lie in system memory. Otherwise those of a guest lie in the device's BAR,
    /// which is the only memory that a guest can map.
    pub doorbells_in_system_memory: bool,
    /// The cost of work in virtual time.
    pub rates: WorkRates,
}

impl Default for Config {
    /// One node each of 3D, compute and copy; 64 GiB of local memory at 1 TiB; one service thread.
    fn default() -> Config {
        Config {
            lane_group: "GPU".to_owned(),
            nodes: NodeConfig::of_classes(&EngineKind::STANDARD),
            physical_gpus: 1,
            skips_log_times_on: None,
            local_memory_base: PhysicalAddress(1 << 40),
            local_memory_bytes: 1 << 36,
            groups_per_turn: 32,
            grains_per_turn: 4_096,
            slots_per_turn: 16,
            service_threads: 1,
            interrupt_moderation_ns: 100_000,
            signaled_list_entries: 64,
            tells_fence_kinds: true,
            atomics_64bit: true,
            io_coherent: true,
            kept_translations: 1_024,
            io_mmu: false,
            display: None,
            posted_log_entries: false,
            posted_fence_writes: false,
            shadow_entries: 0,
            out_of_order: None,
            one_global_doorbell: false,
            doorbells_in_system_memory: false,
            rates: WorkRates::default(),
        }
    }
}

impl Config {
    /// Returns the number of engines. One CMP serves them all.
    // spec: NF-322
    pub(crate) fn engines(&self) -> usize {
        self.nodes.len() * self.physical_gpus as usize
    }

    /// Returns the node of an engine.
    #[inline]
    pub(crate) fn node_of(&self, engine: usize) -> &NodeConfig {
        &self.nodes[engine % self.nodes.len()]
    }

    /// Returns the physical GPU of an engine.
    #[inline]
    pub(crate) fn physical_gpu_of(&self, engine: usize) -> u32 {
        (engine / self.nodes.len()) as u32
    }

    /// Returns the name of an engine on timelines and in reports.
    pub(crate) fn engine_name(&self, engine: usize) -> String {
        let name = &self.node_of(engine).name;
        match self.physical_gpus {
            1 => name.clone(),
            _ => format!("{name} of GPU {}", self.physical_gpu_of(engine)),
        }
    }
}

/// The maximum number of engines. The cause register has a bit for each, starting at bit 8, and a
/// wake-up names services in one word.
pub const MAX_ENGINES: usize = 48;

/// The maximum number of linked physical GPUs.
pub const MAX_PHYSICAL_GPUS: u32 = 4;
