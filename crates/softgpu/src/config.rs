//! Variants of the hardware: its nodes, what each class of engine runs, how much an engine does in
//! one turn, what it reports. A variant is fixed when the GPU is made.

use tidegate_d3dukmdt::{ComputePreemption, GraphicsPreemption};
use tidegate_gpu_abi::EngineClass;
use tidegate_gpu_abi::regs::NodePreemption;
use tidegate_platform::PhysicalAddress;

/// One node: an engine that is scheduled on its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    /// What it is called on a timeline and in reports.
    pub name: String,
    /// What it can run.
    pub class: EngineClass,
    /// Whether its command streams can write a fence. Without it a store of a value, a signal and a
    /// progress value are commands that this engine cannot run.
    pub writes_fences: bool,
    /// Whether it interrupts when it has stored to a page of words, where fences stand (advanced
    /// monitoring). Without it a plain store to a monitored fence interrupts when its packet is
    /// complete (basic monitoring).
    pub notifies_fence_writes: bool,
    /// How finely it gives up what it runs, for a queue of higher priority or a preemption of its
    /// ring.
    pub preemption: NodePreemption,
}

impl NodeConfig {
    /// Nodes of these classes, named by [`EngineClass::node_names`].
    pub fn of_classes(classes: &[EngineClass]) -> Vec<NodeConfig> {
        let names = EngineClass::node_names(classes);
        names.into_iter().zip(classes).map(|(name, class)| NodeConfig::new(name, *class)).collect()
    }

    /// A node of `class` called `name`, which writes fences and notifies of none, and is preempted
    /// at triangles and thread groups.
    pub fn new(name: impl Into<String>, class: EngineClass) -> NodeConfig {
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

/// How long real work takes on the virtual clock, where computing takes no time by itself. All 0 by
/// default: work is free there, unless it is timed. The host's clock measures the work itself and
/// does not read these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkRates {
    /// Picoseconds that an engine takes to copy or fill one byte.
    pub byte_ps: u64,
    /// Nanoseconds that an engine takes for one thread group or tile.
    pub group_ns: u64,
    /// Nanoseconds that it takes besides for each thread, triangle, pixel or instruction, where it
    /// is preempted as finely as that.
    pub grain_ns: u64,
}

/// What a display is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DisplayConfig {
    /// How long a refresh takes, in nanoseconds; from 1,000 on.
    pub refresh_period_ns: u64,
    /// Whether a new surface is latched at the vertical sync. Without it the display goes over to
    /// it at once, wherever it is: a broken variant, whose frames tear.
    pub latches_at_vsync: bool,
}

impl Default for DisplayConfig {
    /// 60 refreshes a second.
    fn default() -> DisplayConfig {
        DisplayConfig { refresh_period_ns: 16_666_667, latches_at_vsync: true }
    }
}

/// The shortest period: below it a refresh has no slices.
pub const MIN_REFRESH_PERIOD_NS: u64 = 1_000;

/// What a software GPU is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// What its lanes on the timeline are grouped under: another name for each GPU of a machine.
    pub lane_group: String,
    /// The nodes of each physical GPU, by ordinal. Nodes times physical GPUs are from 1 to 48.
    pub nodes: Vec<NodeConfig>,
    /// Physical GPUs that are linked into this one, from 1 to 4: each has all the nodes, a
    /// translation and local memory of its own. They are bridged: one CMP schedules all their
    /// engines.
    pub physical_gpus: u32,
    /// A physical GPU whose engines write no times into log entries: the documents allow it on
    /// linked adapters.
    pub skips_log_times_on: Option<u32>,
    /// Where local memory begins on the bus, that of physical GPU 0 first. System memory lies
    /// below.
    pub local_memory_base: PhysicalAddress,
    /// How many bytes of it each of them has.
    pub local_memory_bytes: u64,
    /// Most thread groups that an engine runs in one turn.
    pub groups_per_turn: u32,
    /// Most threads, triangles, pixels or instructions that an engine runs in one turn, where it is
    /// preempted as finely as that: it may then end its turn in the middle of a group. At the end
    /// of a turn the engine serves an equal queue if the slice is over.
    pub grains_per_turn: u32,
    /// Most ring slots and small commands that an engine takes in one turn. More of them spread the
    /// cost of a turn over more packets; a queue of higher priority, or another engine of the same
    /// service, waits no longer than these.
    pub slots_per_turn: u32,
    /// On the host: threads that the engines share. Cooperative platforms give each engine a fiber
    /// of its own.
    pub service_threads: usize,
    /// Entries of the signalled list; one more signal collapses it into "any fence".
    pub signaled_list_entries: usize,
    /// Whether it can tell a signal of a native fence from a write to a monitored one. Without it
    /// an interrupt says that any fence may be meant, and nothing else.
    pub tells_fence_kinds: bool,
    /// Whether an engine updates a word where fences stand as a whole. Without it such a store
    /// lands as its low 32 bits.
    pub atomics_64bit: bool,
    /// Whether its accesses to system memory can be coherent with the CPUs' caches, where a page
    /// table entry asks for it.
    pub io_coherent: bool,
    /// Translations of each kind (pages, loaded words, stored words) that an engine keeps; rounded
    /// up to a power of two.
    pub kept_translations: u32,
    /// Whether it is behind an IoMmu that shares the CPU's page tables, so that its engines use a
    /// process's CPU addresses.
    pub io_mmu: bool,
    /// The display, if there is one.
    pub display: Option<DisplayConfig>,
    /// Whether the entry of a fence log may become visible after the index that counts it: until
    /// the barrier of the next signal, or until the driver flushes. The documents allow it; no
    /// driver may rely on the other.
    pub posted_log_entries: bool,
    /// Whether an engine's store of a fence value is posted: other agents may not see it before the
    /// engine's barrier, or the CMP's.
    pub posted_fence_writes: bool,
    /// Copies of MonitoredValue that the CMP keeps for its engines to compare with; 0 for hardware
    /// that compares with memory. A fence that finds no room among them is compared in memory.
    pub shadow_entries: u32,
    /// How long work takes on the virtual clock.
    pub rates: WorkRates,
}

impl Default for Config {
    /// One node each of 3D, compute and copy; 64 GiB of local memory from 1 TiB; one service
    /// thread.
    fn default() -> Config {
        Config {
            lane_group: "GPU".to_owned(),
            nodes: NodeConfig::of_classes(&EngineClass::ALL),
            physical_gpus: 1,
            skips_log_times_on: None,
            local_memory_base: PhysicalAddress(1 << 40),
            local_memory_bytes: 1 << 36,
            groups_per_turn: 8,
            grains_per_turn: 4_096,
            slots_per_turn: 16,
            service_threads: 1,
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
            rates: WorkRates::default(),
        }
    }
}

impl Config {
    /// How many engines there are, all served by one CMP.
    // spec: NF-322
    pub(crate) fn engines(&self) -> usize {
        self.nodes.len() * self.physical_gpus as usize
    }

    /// The node that an engine is.
    #[inline]
    pub(crate) fn node_of(&self, engine: usize) -> &NodeConfig {
        &self.nodes[engine % self.nodes.len()]
    }

    /// The physical GPU that an engine belongs to.
    #[inline]
    pub(crate) fn physical_gpu_of(&self, engine: usize) -> u32 {
        (engine / self.nodes.len()) as u32
    }

    /// What an engine is called on a timeline and in reports.
    pub(crate) fn engine_name(&self, engine: usize) -> String {
        let name = &self.node_of(engine).name;
        match self.physical_gpus {
            1 => name.clone(),
            _ => format!("{name} of GPU {}", self.physical_gpu_of(engine)),
        }
    }
}

/// Most engines: the cause register has a bit for each from bit 8 on, and every wake-up names
/// services in one word.
pub const MAX_ENGINES: usize = 48;

/// Most physical GPUs that can be linked.
pub const MAX_PHYSICAL_GPUS: u32 = 4;
