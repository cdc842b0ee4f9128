//! Cross-adapter fences: one CurrentValue in system memory, and one member per adapter that has the
//! fence open.
//!
//! A member is native where its adapter declares native fences, else monitored. An unlinked
//! member's MonitoredValue is always 0, so every GPU signal interrupts and the kernel can relay it
//! (`relay`). `link` covers GPUs that signal each other directly.
//!
//! A member ends with the last hold on its adapter. Waits left in rings there read the adapter's
//! ended fence. The cell is condemned with the last member.

use super::instance::is_narrow;
use super::link;
use super::object::{CrossAdapterFence, Fence, Fences};
use super::storage::{FenceStorage, StorageKind};
use super::value::FenceValue;
use crate::memory::FenceValuePage;
use std::sync::Arc;
use tidegate_calls::{Status, SyncObjectFlags};
use tidegate_ddi::Passive;
use tidegate_ddi::memory::FenceStorageValueType;

impl CrossAdapterFence {
    /// Creates the shared state of a fence that is created on this adapter.
    pub(super) fn new(
        fences: &Fences,
        name: &str,
        flags: SyncObjectFlags,
    ) -> Arc<CrossAdapterFence> {
        let (platform, memory) = (&fences.port.platform, &fences.port.system_memory);
        Arc::new(CrossAdapterFence {
            // Another adapter may keep value histories even if this one does not.
            current: Arc::new(FenceValuePage::fixed(
                memory,
                FenceStorageValueType::CurrentValue,
                true,
            )),
            memory: memory.clone(),
            name: name.to_owned(),
            flags,
            narrow: is_narrow(fences, flags).then(|| FenceValue::shared(platform)),
            traced: platform.trace_fence(name),
            joining: platform.mutex("joining a cross-adapter fence", ()),
            linked: platform.mutex("link of a cross-adapter fence", link::is_capable(fences)),
            members: platform.mutex("members of a cross-adapter fence", Vec::new()),
            relayed: platform.mutex("last relay of a cross-adapter fence", None),
        })
    }

    /// Returns the cells of a member: the shared CurrentValue and its private MonitoredValue.
    // spec: NF-031, NF-145, NF-146, NF-165
    pub(super) fn storage_on(
        &self,
        level: &Passive,
        fences: &Fences,
    ) -> Result<FenceStorage, Status> {
        FenceStorage::around(level, &fences.memory, StorageKind::Default, &self.current)
    }

    /// Adds a newly created member.
    pub(super) fn enter(&self, member: &Arc<Fence>) {
        self.members.lock().push(Arc::downgrade(member));
    }

    /// Removes an ending member. Returns whether it was the last.
    pub(super) fn leave(&self, level: &Passive, member: &Fence) -> bool {
        let _one_at_a_time = self.joining.lock_device();
        let last = {
            let mut members = self.members.lock();
            members
                .retain(|known| known.strong_count() > 0 && !std::ptr::eq(known.as_ptr(), member));
            members.is_empty()
        };
        if self.is_linked() {
            let left = self.members();
            // A driver that fails to forget a peer keeps a link that is never signalled.
            for other in &left {
                let _ = link::name_peers(level, other, &left);
            }
            link::forget_peers(level, member);
        }
        last
    }

    /// The initial MonitoredValue of a member.
    pub(super) fn first_monitored_value(&self) -> u64 {
        link::first_monitored_value(self.is_linked())
    }

    /// Unlinks the members, so the kernel relays their signals. Returns the members that must
    /// collect once more.
    pub(super) fn unlink(&self, level: &Passive) -> Vec<Arc<Fence>> {
        if !std::mem::replace(&mut *self.linked.lock(), false) {
            return Vec::new();
        }
        let members = self.members();
        members.iter().for_each(|member| link::unlink(level, member));
        members
    }
}
