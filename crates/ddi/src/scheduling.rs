//! Owns the arguments by which the kernel tells a driver how its context management processor is to
//! schedule: what holds for each band, and where a context stands. Times are in units of 100 ns.

use crate::{DriverHandle, Priority, Status};

/// A priority band. REALTIME runs before FOCUS, FOCUS before NORMAL, NORMAL before IDLE.
#[doc(alias = "DXGK_SCHEDULING_PRIORITY_BAND")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum PriorityBand {
    /// When nothing else runs.
    Idle = 0,
    /// The default.
    #[default]
    Normal = 1,
    /// What the user looks at.
    Focus = 2,
    /// Before everything.
    Realtime = 3,
}

/// How many bands there are.
pub const BANDS: usize = 4;
/// The highest level inside the REALTIME band.
pub const MAX_REALTIME_LEVEL: u32 = 31;
/// In-process priorities go from minus this to this.
pub const MAX_IN_PROCESS_PRIORITY: i32 = 7;
/// The highest percentage that can be promised to NORMAL.
pub const MAX_NORMAL_BAND_PERCENTAGE: u32 = 50;

/// DXGKARG_SETUPPRIORITYBANDS, by band.
// spec: HS-001
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetupPriorityBands {
    /// The longest that a lower band may go on when this one asks for the engine.
    pub grace_period_for_band: [u64; BANDS],
    /// How long a process goes on while others of the band wait; 0 for a packet.
    pub process_quantum_for_band: [u64; BANDS],
    /// The longest that a process may go on after that.
    pub process_grace_period_for_band: [u64; BANDS],
    /// What NORMAL gets of an engine that FOCUS wants all of, from 0 to 50.
    pub target_normal_band_percentage: u32,
}

/// The quanta are ours: 1 ms, so that processes of a band do not switch contexts at every packet;
/// grace periods are 0.
impl Default for SetupPriorityBands {
    fn default() -> SetupPriorityBands {
        SetupPriorityBands {
            grace_period_for_band: [0; BANDS],
            process_quantum_for_band: [10_000; BANDS],
            process_grace_period_for_band: [0; BANDS],
            target_normal_band_percentage: 10,
        }
    }
}

impl SetupPriorityBands {
    /// INVALID_PARAMETER for a percentage above 50.
    pub fn check(&self) -> Result<(), Status> {
        let in_range = self.target_normal_band_percentage <= MAX_NORMAL_BAND_PERCENTAGE;
        if in_range { Ok(()) } else { Err(Status::INVALID_PARAMETER) }
    }
}

/// Where a context stands among others: what DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES says besides
/// the context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedulingProperties {
    /// Its band.
    pub priority_band: PriorityBand,
    /// From 0 to 31; counts in the REALTIME band.
    pub realtime_band_priority_level: u32,
    /// From -7 to 7; counts among the contexts of its process.
    pub in_process_priority: i32,
    /// How long it goes on while equals of its process wait; 0 for a turn.
    pub quantum: u64,
    /// The longest that it may go on when an equal asks.
    pub grace_period_same_priority: u64,
    /// The longest that a lower one may go on when it asks.
    pub grace_period_lower_priority: u64,
}

impl SchedulingProperties {
    /// INVALID_PARAMETER for a level or priority out of its range.
    pub fn check(&self) -> Result<(), Status> {
        let priorities = -MAX_IN_PROCESS_PRIORITY..=MAX_IN_PROCESS_PRIORITY;
        let in_range = self.realtime_band_priority_level <= MAX_REALTIME_LEVEL
            && priorities.contains(&self.in_process_priority);
        if in_range { Ok(()) } else { Err(Status::INVALID_PARAMETER) }
    }

    /// Whether only a process with the privilege to raise priorities may have them.
    pub fn is_privileged(&self) -> bool {
        self.priority_band >= PriorityBand::Focus
    }
}

/// What a queue or context is made with, as a place among others: HIGH is a matter of its process
/// alone.
impl From<Priority> for SchedulingProperties {
    fn from(priority: Priority) -> SchedulingProperties {
        let (priority_band, in_process_priority) = match priority {
            Priority::Idle => (PriorityBand::Idle, 0),
            Priority::Normal => (PriorityBand::Normal, 0),
            Priority::High => (PriorityBand::Normal, 1),
            Priority::Realtime => (PriorityBand::Realtime, 0),
        };
        SchedulingProperties {
            priority_band,
            in_process_priority,
            ..SchedulingProperties::default()
        }
    }
}

/// DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetContextSchedulingProperties {
    /// The driver's context.
    pub context: DriverHandle,
    /// Where it stands from now on.
    pub properties: SchedulingProperties,
}
