//! The words of a program's text: names of objects (`q3`) and of choices (`packet`).
//!
//! Invariant: what [`std::fmt::Display`] writes, [`std::str::FromStr`] reads back.

use std::fmt;
use std::str::FromStr;

/// A word that is not what its place needs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{word}' is no {what}; {allowed}")]
pub struct BadWord {
    pub(crate) word: String,
    pub(crate) what: &'static str,
    pub(crate) allowed: String,
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident, $letter:literal, $what:literal;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u16);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($letter, "{}"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = BadWord;

            fn from_str(word: &str) -> Result<$name, BadWord> {
                let number = word.strip_prefix($letter).and_then(|number| number.parse().ok());
                number.map($name).ok_or_else(|| BadWord {
                    word: word.to_owned(),
                    what: $what,
                    allowed: format!("write {}0, {}1, …", $letter, $letter),
                })
            }
        }
    )+};
}

ids! {
    /// An adapter of the machine.
    AdapterId, "a", "adapter";
    /// A process.
    ProcessId, "p", "process";
    /// A thread of a process.
    ThreadId, "t", "thread";
    /// A queue of any submission model.
    QueueId, "q", "queue";
    /// A fence; each process that uses it has its own instance.
    FenceId, "f", "fence";
    /// A registered CPU wait.
    WaitId, "w", "wait";
    /// A buffer.
    BufferId, "b", "buffer";
}

macro_rules! choices {
    ($($(#[$doc:meta])* $name:ident, $what:literal { $($(#[$vdoc:meta])* $variant:ident $word:literal),+ $(,)? })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// Every value.
            pub const ALL: &[$name] = &[$($name::$variant),+];
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($name::$variant => $word),+ })
            }
        }

        impl FromStr for $name {
            type Err = BadWord;

            fn from_str(word: &str) -> Result<$name, BadWord> {
                match word {
                    $($word => Ok($name::$variant),)+
                    _ => Err(BadWord {
                        word: word.to_owned(),
                        what: $what,
                        allowed: format!("write {}", [$($word),+].join(" or ")),
                    }),
                }
            }
        }
    )+};
}

choices! {
    /// The surface through which an object is made and used.
    Surface, "surface" {
        /// The queue API.
        Api "api",
        /// The D3DKMT calls.
        Raw "raw",
    }
    /// A submission model.
    Model, "submission model" {
        /// Packets of a context.
        Packet "packet",
        /// A kernel-mode hardware queue.
        Hardware "hardware",
        /// A ring with a doorbell.
        User "user",
    }
    /// The class of engine that runs a queue.
    Class, "engine class" {
        /// The 3D engine.
        Direct "direct",
        /// A compute engine.
        Compute "compute",
        /// A copy engine.
        Copy "copy",
    }
    /// The priority of a queue.
    Band, "priority" {
        /// Normal.
        Normal "normal",
        /// High.
        High "high",
    }
    /// The kind of a fence.
    FenceKind, "kind of fence" {
        /// Monitored.
        Monitored "monitored",
        /// Native.
        Native "native",
    }
    /// The processes that can open a fence.
    Sharing, "sharing" {
        /// Its own process only, through one surface.
        Private "private",
        /// Processes of the same adapter.
        Shared "shared",
        /// Processes of every adapter.
        Cross "cross-adapter",
    }
    /// What the steps of the stack cost in virtual time.
    Costs, "cost model" {
        /// An ordinary machine.
        Nominal "nominal",
        /// The least that is reported.
        Low "low",
        /// The most that is reported.
        High "high",
        /// Nothing.
        Free "free",
    }
    /// What becomes of a process.
    Fate, "fate" {
        /// It lives to the end of the program and loses nothing.
        Steady "steady",
        /// It may be killed or lose its device, and its calls may then fail.
        Doomed "doomed",
    }
    /// Where interrupt routines and DPCs run.
    Delivery, "delivery" {
        /// On the raising service thread.
        Inline "inline",
        /// On a worker.
        Worker "worker",
    }
    /// A call that asks without changing anything.
    Question, "question" {
        /// D3DKMTQueryAdapterInfo.
        Adapter "adapter",
        /// D3DKMTQueryClockCalibration.
        Clock "clock",
        /// D3DKMTGetDeviceState.
        Device "device",
        /// D3DKMTQueryVideoMemoryInfo.
        Memory "memory",
    }
}
