//! The common doorbell: memory of one GPU to which other GPUs write when they signal a fence that
//! it watches. Neither side needs the CPU. The protocol is below, at [`CommonDoorbell`].

use crate::{Ringer, Summary};
use std::sync::Arc;
use tidegate_platform::{Page, PhysicalAddress, Platform, WakeWord, Word};

/// The number of slots, and of words of counts.
pub const COMMON_SLOTS: usize = 64;
/// A payload that stands for any fence.
pub const ANY_FENCE: u64 = u64::MAX;

/// Returns the slot of a fence, by the bus address of its CurrentValue.
#[inline]
pub fn slot_of(current_value: PhysicalAddress) -> usize {
    ((current_value.0 >> 3).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58) as usize % COMMON_SLOTS
}

/// The common doorbell of a GPU, as other GPUs see it.
///
/// The payload is the bus address of the fence's CurrentValue, which is the same for every GPU and
/// the key of waiting queues. It is hashed to a slot. A writer that finds another fence's payload
/// in the slot stores [`ANY_FENCE`]: no signal is lost, but the reader re-evaluates more waits
/// than necessary.
///
/// Order of a write: 1. CurrentValue is stored, with a full barrier, because the stores go to
/// different memories, which a bus does not order; 2. the payload is exchanged into its slot; 3.
/// the slot's bit is set in the summary; 4. the wake. Order of a scan: 1. the bits are taken; 2.
/// the payload is exchanged out of its slot, a full barrier; 3. the waits for it are re-evaluated.
/// A payload written after step 2 also sets its bit afterwards and causes another scan.
///
/// The counts of waiting queues use the same hash. They belong to the watching GPU. A GPU that
/// shares its fence storage lets others load them, so that they write only when a queue waits.
///
/// On PCI this is a page of the watching device's BAR: a write is the wake, and steps 2 to 4 are
/// one posted write.
#[derive(Clone, Debug)]
pub struct CommonDoorbell {
    slots: Page,
    waiting: Page,
    summary: Summary,
    /// The place of each slot in the summary.
    ringers: Arc<[Ringer]>,
}

impl CommonDoorbell {
    /// Returns a doorbell for the watching GPU, scanned by an agent that sleeps on `wake`.
    /// `waiting` counts the GPU's waiting queues.
    pub fn new(platform: &Platform, wake: WakeWord, waiting: Page) -> CommonDoorbell {
        let slots = platform.page(COMMON_SLOTS).named("the common doorbell");
        let summary = Summary::new(platform, wake);
        let ringers = (0..COMMON_SLOTS as u32).map(|slot| summary.ringer(slot)).collect();
        CommonDoorbell { slots, waiting, summary, ringers }
    }

    /// Returns the summary of written slots.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Carries out a signaller's steps 2 to 4.
    pub fn ring(&self, current_value: PhysicalAddress) {
        let slot = slot_of(current_value);
        let before = self.slots.exchange(slot, current_value.0);
        if before != 0 && before != current_value.0 {
            self.slots.exchange(slot, ANY_FENCE);
        }
        self.ringers[slot].ring();
    }

    /// Carries out the watching GPU's step 2: returns the payload of a slot, 0 if there is none.
    pub fn take(&self, slot: u32) -> u64 {
        self.slots.exchange(slot as usize % COMMON_SLOTS, 0)
    }

    /// Returns whether a queue of the watching GPU may wait for the fence. The signaller must have
    /// stored the value and executed a full barrier.
    pub fn may_hold(&self, current_value: PhysicalAddress) -> bool {
        self.waiting_at(current_value).load() != 0
    }

    fn waiting_at(&self, current_value: PhysicalAddress) -> Word {
        self.waiting.word(slot_of(current_value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doorbell() -> CommonDoorbell {
        let platform = Platform::host();
        CommonDoorbell::new(&platform, WakeWord::new(&platform), platform.page(COMMON_SLOTS))
    }

    fn received(doorbell: &CommonDoorbell) -> Vec<u64> {
        let mut slots = Vec::new();
        doorbell.summary().take(|slot| slots.push(slot));
        slots.into_iter().map(|slot| doorbell.take(slot)).collect()
    }

    #[test]
    fn a_payload_names_its_fence_once() {
        let doorbell = doorbell();
        doorbell.ring(PhysicalAddress(0x1000));
        doorbell.ring(PhysicalAddress(0x1000));
        assert_eq!(received(&doorbell), [0x1000]);
        assert_eq!(received(&doorbell), []);
    }

    #[test]
    fn two_fences_in_one_slot_become_any_fence() {
        let doorbell = doorbell();
        let one = PhysicalAddress(0x1000);
        let other =
            (1..).map(|n| PhysicalAddress(0x1000 + n * 8)).find(|a| slot_of(*a) == slot_of(one));
        doorbell.ring(one);
        doorbell.ring(other.unwrap());
        doorbell.ring(one);
        assert_eq!(received(&doorbell), [ANY_FENCE]);
    }
}
