//! The CPU clock's type, the steps with modelled time, and their costs.
//!
//! A [`Step`] takes time on a real machine but none in virtual time by itself: a kernel call, a
//! doorbell's way to the engine, an interrupt. The cost model of the workloads owns the costs and
//! their sources. `Platform::spend` reads the table in this file.

use serde::{Deserialize, Serialize};

/// A time on the CPU clock, in nanoseconds since the platform was created. The GPU clock has a
/// separate type.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct CpuTime(pub u64);

impl CpuTime {
    /// Returns this time plus `ns`, saturating.
    pub fn after(self, ns: u64) -> CpuTime {
        CpuTime(self.0.saturating_add(ns))
    }

    /// Returns the nanoseconds from `earlier` to this time, 0 if it is not later.
    pub fn since(self, earlier: CpuTime) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

macro_rules! steps {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// A step that takes time on a real machine; see [`StepCosts`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Step { $($(#[$doc])* $name),+ }

        impl Step {
            /// All steps, in order of their number.
            pub const ALL: &'static [Step] = &[$(Step::$name),+];
            /// The number of steps.
            pub const COUNT: usize = Step::ALL.len();

            /// Returns the step's name in the cost model's tables.
            pub fn name(self) -> &'static str {
                match self { $(Step::$name => stringify!($name)),+ }
            }
        }
    };
}

steps! {
    /// User to kernel and back: one D3DKMT call's entry and exit.
    KernelCall,
    /// Kernel to driver: one DDI call.
    DdiCall,
    /// VidSch selects one packet or one software command of a queue.
    VidSchDispatch,
    /// An engine decodes one packet.
    PacketDecode,
    /// An engine fetches the next ring slot.
    RingFetch,
    /// The CPU's store to a doorbell.
    DoorbellStore,
    /// From the doorbell's store to the engine's first fetch, if the engine was idle.
    DoorbellToFetch,
    /// An engine's store of a fence value, with its barrier and comparison.
    FenceStore,
    /// The context management processor puts a waiting queue back on the run list.
    GpuWaitUnblock,
    /// From the raised line to the first instruction of the interrupt routine.
    InterruptDelivery,
    /// A DPC.
    Dpc,
    /// From a wake to the first instruction of the thread.
    ThreadWake,
    /// The user-mode driver encodes one command.
    UmdEncode,
    /// An engine reports the completion of a DMA packet.
    DmaCompletion,
    /// The kernel's part of a notified submission.
    NotifyWorkSubmission,
    /// The kernel's part of connecting a doorbell.
    ConnectDoorbell,
    /// The CPU writes one KiB of a mapped buffer.
    MapWritePerKib,
    /// An engine switches contexts.
    ContextSwitch,
}

/// The cost of each [`Step`] in virtual time, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepCosts {
    ns: [u64; Step::COUNT],
}

impl StepCosts {
    /// Returns a table of zero costs.
    pub fn free() -> StepCosts {
        StepCosts { ns: [0; Step::COUNT] }
    }

    /// Returns this table with `step` costing `ns` nanoseconds.
    pub fn with(mut self, step: Step, ns: u64) -> StepCosts {
        self.ns[step as usize] = ns;
        self
    }

    /// Returns the cost of `step` in nanoseconds.
    #[inline]
    pub fn ns(&self, step: Step) -> u64 {
        self.ns[step as usize]
    }
}
