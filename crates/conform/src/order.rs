//! Orders of a situation. A seed draws what each step of the machine costs, and a delay before each
//! interrupt and DPC. The same seed draws the same numbers, so a run can be repeated.

use std::sync::Arc;
use tidegate::Platform;
use tidegate::ddi::{DdiCall, Driver, DriverLayer, Entry, Status};
use tidegate::platform::{Mutex, Step, StepCosts};

/// The seed of the order in which nothing is drawn.
pub(crate) const AS_IT_IS: u64 = 0;

/// The most that an interrupt or a DPC is late, in nanoseconds.
const MOST_LATE_NS: u64 = 30_000;
/// Factors of a step's cost, in eighths.
const EIGHTHS: [u64; 8] = [0, 1, 2, 4, 8, 16, 32, 64];

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
struct Numbers(u64);

impl Numbers {
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Draws a delay: none in half of the cases.
    fn delay(&mut self, most_ns: u64) -> u64 {
        match self.draw() % 2 {
            0 => 0,
            _ => self.draw() % (most_ns + 1),
        }
    }
}

/// Returns the costs of a seed.
pub(crate) fn costs(of: StepCosts, seed: u64) -> StepCosts {
    if seed == AS_IT_IS {
        return of;
    }
    let mut numbers = Numbers(!seed);
    Step::ALL.iter().fold(of, |costs, step| {
        let eighths = EIGHTHS[(numbers.draw() % EIGHTHS.len() as u64) as usize];
        let ns = costs.ns(*step) * eighths / 8;
        costs.with(*step, ns)
    })
}

/// A layer between kernel and watch that has interrupts and DPCs wait.
struct Delays {
    inner: Arc<dyn Driver>,
    platform: Platform,
    numbers: Mutex<Numbers>,
}

/// Returns the driver with the delays of a seed in front of it.
pub(crate) fn delayed(platform: &Platform, inner: Arc<dyn Driver>, seed: u64) -> Arc<dyn Driver> {
    if seed == AS_IT_IS {
        return inner;
    }
    let numbers = platform.mutex("numbers of an order", Numbers(seed));
    Arc::new(Delays { inner, platform: platform.clone(), numbers })
}

impl DriverLayer for Delays {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn before(&self, entry: Entry, _call: &dyn Fn() -> DdiCall) -> Result<(), Status> {
        if matches!(entry, Entry::InterruptRoutine | Entry::DpcRoutine) {
            let ns = self.numbers.lock_device().delay(MOST_LATE_NS);
            self.platform.spend_ns(ns);
        }
        Ok(())
    }
}
