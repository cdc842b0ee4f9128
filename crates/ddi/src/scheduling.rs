//! Arguments of the priority entries for the context management processor: rules of each band, and
//! properties of a context. Times are in units of 100 ns.

use crate::{DriverHandle, Priority, Status};

/// A priority band. REALTIME runs before FOCUS, FOCUS before NORMAL, NORMAL before IDLE.
#[doc(alias = "DXGK_SCHEDULING_PRIORITY_BAND")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum PriorityBand {
    /// Runs when no other band has work.
    Idle = 0,
    /// The default.
    #[default]
    Normal = 1,
    /// The application in the foreground.
    Focus = 2,
    /// Before all other bands.
    Realtime = 3,
}

/// Number of bands.
pub const BANDS: usize = 4;
/// The highest level inside the REALTIME band.
pub const MAX_REALTIME_LEVEL: u32 = 31;
/// In-process priorities go from minus this to this.
pub const MAX_IN_PROCESS_PRIORITY: i32 = 7;
/// The highest percentage that can be reserved for NORMAL.
pub const MAX_NORMAL_BAND_PERCENTAGE: u32 = 50;

/// DXGKARG_SETUPPRIORITYBANDS, by band.
// spec: HS-001
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetupPriorityBands {
    /// Longest time that a lower band keeps the engine when this band has work.
    pub grace_period_for_band: [u64; BANDS],
    /// Quantum of a process while other processes of the band wait; 0 for one packet.
    pub process_quantum_for_band: [u64; BANDS],
    /// Longest time that a process keeps the engine after its quantum.
    pub process_grace_period_for_band: [u64; BANDS],
    /// Share of an engine that NORMAL gets while FOCUS has work, from 0 to 50 percent.
    pub target_normal_band_percentage: u32,
}

/// The quanta are not published: 1 ms, so that processes of a band do not switch contexts at every
/// packet. Grace periods are 0.
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

/// Priority of a context: the fields of DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES except the context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedulingProperties {
    /// Its band.
    pub priority_band: PriorityBand,
    /// From 0 to 31; used in the REALTIME band.
    pub realtime_band_priority_level: u32,
    /// From -7 to 7; orders the contexts of a process.
    pub in_process_priority: i32,
    /// Quantum while equal contexts of its process wait; 0 for one turn.
    pub quantum: u64,
    /// Longest time that it keeps the engine when an equal context has work.
    pub grace_period_same_priority: u64,
    /// Longest time that a lower context keeps the engine when this one has work.
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

    /// Whether they require the privilege to raise priorities.
    pub fn is_privileged(&self) -> bool {
        self.priority_band >= PriorityBand::Focus
    }
}

/// The properties of a priority at creation. HIGH counts inside the process only.
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
    /// The new properties.
    pub properties: SchedulingProperties,
}
