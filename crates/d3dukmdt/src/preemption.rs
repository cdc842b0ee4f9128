//! Preemption granularities of engines: published numbers and names.

use std::fmt;
use std::str::FromStr;

macro_rules! granularity {
    ($(#[$meta:meta])* $name:ident, $kind:literal: $($(#[$doc:meta])* $variant:ident = $number:literal $text:literal,)*) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u32)]
        pub enum $name {
            $($(#[$doc])* $variant = $number,)*
        }

        impl $name {
            /// All of them, the coarsest first.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The granularity with this number.
            pub fn from_number(number: u32) -> Option<$name> {
                $name::ALL.iter().copied().find(|g| *g as u32 == number)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $($name::$variant => $text,)*
                })
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<$name, String> {
                $name::ALL.iter().copied().find(|g| g.to_string() == text).ok_or_else(|| {
                    let names: Vec<_> = $name::ALL.iter().map(ToString::to_string).collect();
                    format!(concat!("no ", $kind, " granularity is called '{}'; there are {}"), text, names.join(", "))
                })
            }
        }
    };
}

// spec: PRE-009
granularity! {
    /// Preemption granularity of graphics work: the largest piece that must end first.
    #[doc(alias = "D3DKMDT_GRAPHICS_PREEMPTION_GRANULARITY")]
    GraphicsPreemption, "graphics":
    /// No preemption: queued packets of the engine run first.
    #[default]
    None = 0 "none",
    /// The running packet ends; later packets are held back.
    DmaBuffer = 100 "dma-buffer",
    /// The running draw ends.
    Primitive = 200 "primitive",
    /// The running triangle ends.
    Triangle = 300 "triangle",
    /// The running pixel ends.
    Pixel = 400 "pixel",
    /// The running instruction ends.
    Shader = 500 "shader",
}

// spec: PRE-010
granularity! {
    /// Preemption granularity of compute work: the largest piece that must end first.
    #[doc(alias = "D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY")]
    ComputePreemption, "compute":
    /// No preemption: queued packets of the engine run first.
    #[default]
    None = 0 "none",
    /// The running packet ends; later packets are held back.
    DmaBuffer = 100 "dma-buffer",
    /// The running dispatch ends.
    Dispatch = 200 "dispatch",
    /// The running thread group ends.
    ThreadGroup = 300 "thread-group",
    /// The running thread ends.
    Thread = 400 "thread",
    /// The running instruction ends.
    Shader = 500 "shader",
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: PRE-009, PRE-010
    #[test]
    fn granularities_have_their_published_numbers_and_a_name_each() {
        let graphics = GraphicsPreemption::ALL.iter().map(|g| *g as u32);
        let compute = ComputePreemption::ALL.iter().map(|g| *g as u32);
        assert!(graphics.clone().eq([0, 100, 200, 300, 400, 500]));
        assert!(compute.eq(graphics));
        for g in GraphicsPreemption::ALL {
            assert_eq!(g.to_string().parse(), Ok(*g));
            assert_eq!(GraphicsPreemption::from_number(*g as u32), Some(*g));
        }
        for g in ComputePreemption::ALL {
            assert_eq!(g.to_string().parse(), Ok(*g));
        }
        assert_eq!(ComputePreemption::from_number(150), None);
        let error = "warp".parse::<ComputePreemption>().unwrap_err();
        assert!(error.contains("'warp'") && error.contains("thread-group"), "{error}");
    }
}
