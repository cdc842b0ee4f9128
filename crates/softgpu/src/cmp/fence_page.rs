//! Owns what the CMP does to fences by their place on the bus, which no CPU may reach: a page of
//! them moves, one begins, one ends.
//!
//! The order of a move that loses nothing: 1. engines are held, and none is in a turn; 2. what
//! stands in the page is copied, histories and their annexes included; 3. waits are entered under
//! their new place; 4. outside, page tables are written and translations forgotten; 5. engines are
//! released, and every wait is looked at anew. Until 5 nobody stores to either place.
//!
//! The mailbox calls in.

use super::Shared;
use super::admin::{Answer, NOTHING};
use tidegate_d3dukmdt::FenceCell;
use tidegate_d3dukmdt::fence_cell::{PAGE_WORDS, VALUE_BYTES};
use tidegate_gpu_abi::AdminError;
use tidegate_platform::{Page, PhysicalAddress, Target};

impl Shared {
    pub(super) fn hold_engines(&self) -> Answer {
        let mut cmp = self.cmp.lock();
        cmp.holds += 1;
        for node in 0..self.nodes.len() {
            self.publish(&mut cmp, node as u32);
        }
        let turns: Vec<u64> = cmp.nodes.iter().map(|n| n.turns).collect();
        drop(self.await_turns(cmp, |cmp| {
            cmp.nodes.iter().zip(&turns).all(|(node, seen)| seen % 2 == 0 || node.turns != *seen)
        }));
        NOTHING
    }

    pub(super) fn release_engines(&self) -> Answer {
        let mut cmp = self.cmp.lock();
        if cmp.holds == 0 {
            return Err(AdminError::BadValue);
        }
        cmp.holds -= 1;
        if cmp.holds > 0 {
            return NOTHING;
        }
        self.recall_all(cmp);
        self.platform.fence();
        self.unblock(None, None);
        NOTHING
    }

    pub(super) fn move_fence_page(&self, from: PhysicalAddress, to: PhysicalAddress) -> Answer {
        let (old, new) = (self.whole_page(from)?, self.whole_page(to)?);
        let mut cmp = self.cmp.lock();
        if cmp.holds == 0 || old.len() != new.len() {
            return Err(AdminError::BadValue);
        }
        for word in 0..old.len() {
            let value = old.word(word).load();
            if value != 0 {
                new.word(word).store(value);
            }
        }
        new.take_annexes(&old);
        let range = from..PhysicalAddress(from.0 + VALUE_BYTES);
        let moved = cmp.waits.rekey(&self.armed, range, |at| {
            let offset = at.0 - from.0;
            (PhysicalAddress(to.0 + offset), cell_of(&new, offset))
        });
        for (queue, key) in moved {
            if let Some(entry) = cmp.queue(queue) {
                entry.waiting = Some(key);
            }
        }
        drop(cmp);
        self.platform.fence();
        NOTHING
    }

    /// A page of words that begins at `at`.
    fn whole_page(&self, at: PhysicalAddress) -> Result<Page, AdminError> {
        match self.bus.resolve(at) {
            Some(Target::Protocol(page, 0)) => Ok(page),
            _ => Err(AdminError::BadAddress),
        }
    }

    pub(super) fn renew_fence(
        &self,
        current_value: PhysicalAddress,
        monitored_value: PhysicalAddress,
        stride_bytes: u64,
    ) -> Answer {
        let current = self.cell_at(current_value)?;
        let monitored = self.bus.resolve(monitored_value).and_then(|target| target.word());
        let monitored = monitored.ok_or(AdminError::BadAddress)?;
        if !(8..=VALUE_BYTES).contains(&stride_bytes) {
            return Err(AdminError::BadValue);
        }
        current.renew(0, stride_bytes);
        monitored.exchange(u64::MAX);
        NOTHING
    }

    pub(super) fn condemn_fence(&self, current_value: PhysicalAddress) -> Answer {
        self.cell_at(current_value)?.condemn();
        self.platform.fence();
        self.unblock(Some(current_value), None);
        NOTHING
    }

    fn cell_at(&self, at: PhysicalAddress) -> Result<FenceCell, AdminError> {
        match self.bus.resolve(at) {
            Some(Target::Protocol(page, offset))
                if offset.is_multiple_of(8) && offset < VALUE_BYTES =>
            {
                Ok(cell_of(&page, offset))
            }
            _ => Err(AdminError::BadAddress),
        }
    }
}

/// The cell at a byte of a page, which has histories behind its values if it is as long as that.
fn cell_of(page: &Page, offset: u64) -> FenceCell {
    let word = page.word((offset / 8) as usize);
    if page.len() == PAGE_WORDS {
        FenceCell::in_fence_page(word, 0)
    } else {
        FenceCell::plain(word)
    }
}
