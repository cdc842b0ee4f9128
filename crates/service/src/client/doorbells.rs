//! Doorbells of a client: the address stays, and shows the page of the present connect.
//!
//! Invariant: a thread that reads CONNECTED rings the page of the present connect. The client maps
//! a page before it says so to the service, which stores CONNECTED then. An answer that comes late
//! maps no page over a later one.

use super::channel::Channel;
use super::memory::Mapped;
use crate::transport::Attachment;
use crate::wire::{ConnectionView, DoorbellView, OwnMessage};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_calls::{
    Connection, Doorbell, DoorbellStatus, Handle, ReadOnly, RingBits, RingHint, Status,
};
use tidegate_platform::planted;
use tidegate_platform::{Mapping, Mutex, Page, Platform};

/// Words of the page that a doorbell shows before its first connect.
const DUMMY_WORDS: usize = 8;

struct Shown {
    mapping: Mapping,
    secondary: Option<Mapping>,
    status: ReadOnly,
    /// The number of the connection whose page is mapped; 0 for none.
    number: u64,
}

/// The doorbells of a process, by handle.
pub(super) struct Doorbells {
    platform: Platform,
    shown: Mutex<BTreeMap<Handle, Shown>>,
}

impl Doorbells {
    pub(super) fn new(platform: &Platform) -> Doorbells {
        let shown = platform.mutex("doorbells of a client", BTreeMap::new());
        Doorbells { platform: platform.clone(), shown }
    }

    pub(super) fn forget(&self, doorbell: Handle) {
        self.shown.lock().remove(&doorbell);
    }

    /// Removes those that have ended with their device. No connect shows them any more.
    pub(super) fn forget_ended(&self) {
        let is_aborted = |status: &ReadOnly| {
            DoorbellStatus::from_word(status.load()) == DoorbellStatus::DisconnectedAbort
        };
        self.shown.lock().retain(|_, shown| !is_aborted(&shown.status));
    }

    pub(super) fn enter(
        &self,
        mapped: &Mapped,
        view: DoorbellView,
        files: &[Attachment],
    ) -> Result<Doorbell, Status> {
        let window = || Mapping::new(&self.platform, self.platform.page(DUMMY_WORDS));
        let (mapping, secondary) = (window(), view.has_secondary.then(window));
        let doorbell = Doorbell {
            handle: view.handle,
            mapping: mapping.clone(),
            secondary: secondary.clone(),
            status: mapped.read_only(view.status, files)?,
            last_queued: mapped.word(view.last_queued, files)?,
            private_data: view.private_data,
        };
        let status = doorbell.status.clone();
        let shown = Shown { mapping, secondary, status, number: 0 };
        self.shown.lock().insert(view.handle, shown);
        Ok(doorbell)
    }

    /// Maps the pages of a connect, and says so to the service.
    pub(super) fn show(
        &self,
        (mapped, channel): (&Mapped, &Arc<Channel>),
        doorbell: Handle,
        view: ConnectionView,
        files: &[Attachment],
    ) -> Result<Connection, Status> {
        let map = |page| mapped.page(page, files);
        let (page, secondary) =
            (view.page.map(map).transpose()?, view.secondary.map(map).transpose()?);
        let bits = match view.bits {
            None => None,
            Some(bits) => {
                let word = |view| mapped.word(view, files);
                let [(leaf, in_leaf), (root, in_root)] = bits.bits;
                let (leaf, root) = (Some((word(leaf)?, in_leaf)), (word(root)?, in_root));
                Some(RingBits { leaf, root, sleeper: word(bits.sleeper)? })
            }
        };
        if let Some(page) = page {
            self.map(doorbell, view.number, page, secondary);
            let number = view.number;
            channel.call::<()>(OwnMessage::PageIsMapped { doorbell, number })?;
        }
        let hint = Arc::new(Hint { channel: channel.clone(), doorbell, bits });
        Ok(Connection { value_base: view.value_base, hint, announcement: None })
    }

    /// Maps the pages of the connection with this number, unless it or a later one is mapped.
    // spec: UMS-204
    fn map(&self, doorbell: Handle, number: u64, page: Page, secondary: Option<Page>) {
        let mut shown = self.shown.lock();
        let Some(shown) = shown.get_mut(&doorbell) else { return };
        // The fault is the mistake that the scenario served-connect-against-connect must find.
        if shown.number >= number && !planted!(self.platform, OlderPageIsMapped) {
            return;
        }
        shown.number = number;
        shown.mapping.rotate(page);
        if let (Some(mapping), Some(page)) = (&shown.secondary, secondary) {
            mapping.rotate(page);
        }
    }
}

/// What follows a ring. Without bits, the status says that each ring is notified.
struct Hint {
    channel: Arc<Channel>,
    doorbell: Handle,
    bits: Option<RingBits>,
}

impl RingHint for Hint {
    fn rung(&self) {
        let Some(ring) = &self.bits else { return };
        ring.set();
        let asleep = ring.sleeper.load() != 0;
        if asleep && !planted!(ring.sleeper.platform(), SleepingEngineIsNotWoken) {
            self.channel.wake_engine(self.doorbell);
        }
    }

    fn bits(&self) -> Option<RingBits> {
        self.bits.clone()
    }
}
