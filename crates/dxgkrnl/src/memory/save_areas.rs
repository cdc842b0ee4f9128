//! Context allocations of an adapter, by context and by device.

use super::allocation::AllocationObject;
use super::ports::OwningDevice;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_ddi::OsHandle;
use tidegate_platform::{Mutex, Platform};

/// The allocations of one owner, by their handles.
pub(super) type Areas = BTreeMap<OsHandle, Arc<AllocationObject>>;

/// How the allocations of a context are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SaveAreaUse {
    /// They move as other allocations do.
    Movable,
    /// They never move: an engine may use them at any time.
    Fixed,
    /// They never move, and the memory manager's context initialises its own.
    Paging,
}

/// The allocations of one context.
pub(super) struct OfContext {
    pub(super) device: Arc<dyn OwningDevice>,
    pub(super) kind: SaveAreaUse,
    /// Whether the context exists, so that new allocations are initialised immediately.
    pub(super) made: bool,
    pub(super) areas: Areas,
}

/// All context allocations of an adapter.
pub(crate) struct SaveAreas {
    pub(super) contexts: Mutex<BTreeMap<OsHandle, OfContext>>,
    pub(super) devices: Mutex<BTreeMap<OsHandle, Areas>>,
}

impl SaveAreas {
    pub(super) fn new(platform: &Platform) -> SaveAreas {
        SaveAreas {
            contexts: platform.mutex("context allocations", BTreeMap::new()),
            devices: platform.mutex("context allocations of devices", BTreeMap::new()),
        }
    }

    /// Returns the allocations of a context, with their handles.
    pub(super) fn of(&self, context: OsHandle) -> Vec<(OsHandle, Arc<AllocationObject>)> {
        let contexts = self.contexts.lock();
        let areas = contexts.get(&context).into_iter().flat_map(|of| &of.areas);
        areas.map(|(handle, area)| (*handle, area.clone())).collect()
    }

    /// Returns the contexts of a device.
    pub(super) fn contexts_of(&self, device: OsHandle) -> Vec<OsHandle> {
        let contexts = self.contexts.lock();
        let of_device = contexts.iter().filter(|(_, of)| of.device.os_handle() == device);
        of_device.map(|(context, _)| *context).collect()
    }

    /// Returns the number of allocations, and how many are in local memory.
    pub(crate) fn census(&self) -> (usize, usize) {
        let mut areas: Vec<Arc<AllocationObject>> = {
            let contexts = self.contexts.lock();
            contexts.values().flat_map(|of| of.areas.values().cloned()).collect()
        };
        areas.extend(self.devices.lock().values().flat_map(|areas| areas.values().cloned()));
        (areas.len(), areas.iter().filter(|area| area.is_local()).count())
    }
}
