//! The address of a doorbell.

use tidegate_platform::{Mapping, Page, Platform};

/// A doorbell address, and the dummy page mapped there while the doorbell is disconnected.
pub(super) struct Window {
    pub(super) mapping: Mapping,
    dummy: Page,
}

impl Window {
    /// `bytes` is the size that the driver states.
    // spec: UMS-014
    pub(super) fn new(platform: &Platform, bytes: u32) -> Window {
        let dummy = platform.page((bytes as usize).div_ceil(8).max(1));
        Window { mapping: Mapping::new(platform, dummy.clone()), dummy }
    }

    /// Returns whether `page` has the size that the driver stated.
    pub(super) fn takes(&self, page: &Page) -> bool {
        page.len() >= self.dummy.len()
    }

    pub(super) fn show(&self, page: &Page) {
        self.mapping.rotate(page.clone());
    }

    pub(super) fn hide(&self) {
        self.mapping.rotate(self.dummy.clone());
    }
}
