//! Owns the common doorbell: memory of one GPU that other GPUs write to when a fence that it
//! watches was signalled, so that neither side needs the CPU.
//!
//! The payload is the place of the fence's CurrentValue on the bus: it means the same to every GPU,
//! and it is what waiting queues are found by. There is a slot for each hash of it. A writer that
//! meets another fence's payload in its slot leaves [`ANY_FENCE`] there instead: nothing is lost,
//! and the reader looks at more than it must.
//!
//! Order of a write: 1. CurrentValue is stored, with a full barrier (the stores go to different
//! memories, which a bus does not order); 2. the payload is exchanged into its slot; 3. the slot's
//! bit in the summary; 4. the wake. Order of a look: 1. the bits are taken; 2. the payload is
//! exchanged out of its slot, a full barrier; 3. what it names is looked at. A payload that comes
//! after step 2 has its bit set after, too, and so another look.
//!
//! Beside the slots stand the counts of waiting queues, by the same hash. They are the watching
//! GPU's; one that shares its fence storage lets others load them, so that they write only when a
//! queue waits.
//!
//! On PCI this is a page of the watching device's BAR: a write is the wake, and 2 to 4 are one
//! posted write.

use crate::Summary;
use tidegate_platform::{Page, PhysicalAddress, Platform, WakeWord, Word};

/// Slots, and words of counts.
pub const COMMON_SLOTS: usize = 64;
/// In the place of a payload: some fence, or several.
pub const ANY_FENCE: u64 = u64::MAX;

/// The slot of a fence, by the place of its CurrentValue.
#[inline]
pub fn slot_of(current_value: PhysicalAddress) -> usize {
    ((current_value.0 >> 3).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58) as usize % COMMON_SLOTS
}

/// The common doorbell of a GPU, as others see it.
#[derive(Clone, Debug)]
pub struct CommonDoorbell {
    slots: Page,
    waiting: Page,
    summary: Summary,
}

impl CommonDoorbell {
    /// For the watching GPU: a doorbell whose look is taken by an agent that sleeps on `wake`;
    /// `waiting` counts its queues.
    pub fn new(platform: &Platform, wake: WakeWord, waiting: Page) -> CommonDoorbell {
        CommonDoorbell {
            slots: platform.page(COMMON_SLOTS).named("the common doorbell"),
            waiting,
            summary: Summary::new(platform, wake),
        }
    }

    /// The bits of slots that were written.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// A signaller's steps 2 to 4.
    pub fn ring(&self, current_value: PhysicalAddress) {
        let slot = slot_of(current_value);
        let before = self.slots.exchange(slot, current_value.0);
        if before != 0 && before != current_value.0 {
            self.slots.exchange(slot, ANY_FENCE);
        }
        self.summary.ring(slot as u32);
    }

    /// The watching GPU's step 2: the payload of a slot, 0 when there is none.
    pub fn take(&self, slot: u32) -> u64 {
        self.slots.exchange(slot as usize % COMMON_SLOTS, 0)
    }

    /// Whether a queue of the watching GPU may wait for the fence. The signaller's store and a full
    /// barrier come before.
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

    fn heard(doorbell: &CommonDoorbell) -> Vec<u64> {
        let mut slots = Vec::new();
        doorbell.summary().take(|slot| slots.push(slot));
        slots.into_iter().map(|slot| doorbell.take(slot)).collect()
    }

    #[test]
    fn a_payload_names_its_fence_once() {
        let doorbell = doorbell();
        doorbell.ring(PhysicalAddress(0x1000));
        doorbell.ring(PhysicalAddress(0x1000));
        assert_eq!(heard(&doorbell), [0x1000]);
        assert_eq!(heard(&doorbell), []);
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
        assert_eq!(heard(&doorbell), [ANY_FENCE]);
    }
}
