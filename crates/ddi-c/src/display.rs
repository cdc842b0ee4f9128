//! Flips, and the surfaces that the driver shows.
//!
//! - A surface is an allocation of the driver: its private data has the words of the device's
//!   registers of size and pitch (`docs/hardware.md`). One allocation serves all surfaces of a
//!   description, because a flip has the address.
//! - A flip and a vertical sync have the address of a surface in its segment. The kernel's
//!   addresses are those of the bus.
//! - The kernel holds its interrupt lock over DxgkDdiSetVidPnSourceAddress, so the interrupt
//!   routine does not run meanwhile.

use crate::CDriver;
use crate::host::Host;
use tidegate_d3dukmdt::Surface;
use tidegate_ddi::{
    Dirql, DisplayDdi, InterruptData, InterruptType, Passive, PrimaryDdi, SetVidPnSourceAddress,
    Status,
};
use tidegate_gpu_abi::display::encode_surface;
use tidegate_platform::PhysicalAddress;
use tidegate_platform::level::Level;
use tidegate_wddm_abi::miniport;

/// Flips whose addresses are kept. A vertical sync reports one of the last two.
const KEPT_FLIPS: usize = 8;
/// The most surfaces that have an allocation of the driver.
const MOST_PRIMARIES: usize = 1024;

impl CDriver {
    fn flip(&self, level: &Dirql<'_>, args: &SetVidPnSourceAddress) -> Result<(), Status> {
        let (allocation, (segment, at)) = {
            let objects = self.objects.lock();
            let allocation = objects.primaries.get(&encode_surface(&args.surface)).copied();
            let place = objects.declared.addresses.of(args.primary_address);
            (allocation.ok_or(Status::INVALID_PARAMETER)?, place)
        };
        self.host().keep_shown(at, args.primary_address);
        let mut c = miniport::SetVidPnSourceAddress {
            vid_pn_source_id: args.vid_pn_source_id,
            primary_segment: segment,
            primary_address: at,
            allocation,
            flags: args.flags.bits(),
            ..miniport::SetVidPnSourceAddress::ZERO
        };
        let line = self.host().line.lock_device();
        let flipped = self.call_at("DxgkDdiSetVidPnSourceAddress", Level::Dirql, |e| {
            e.set_vid_pn_source_address(self.adapter, &mut c)
        });
        self.host().forward(level);
        drop(line);
        flipped
    }

    /// Destroys the driver's allocations of surfaces.
    pub(crate) fn remove_primaries(&self) {
        let primaries = std::mem::take(&mut self.objects.lock().primaries);
        let primaries: Vec<u64> = primaries.into_values().collect();
        if !primaries.is_empty() {
            self.remove_allocations(&primaries);
        }
    }
}

impl Host {
    /// Keeps the address of a surface in its segment, with its address on the bus.
    fn keep_shown(&self, at: u64, on_bus: PhysicalAddress) {
        let mut shown = self.shown.lock();
        shown.truncate(KEPT_FLIPS - 1);
        shown.push_front((at, on_bus));
    }

    /// Gives a report of a vertical sync the address of the bus.
    pub(crate) fn on_bus(&self, data: InterruptData) -> InterruptData {
        let InterruptData::CrtcVsync { vid_pn_target_id, physical_address } = data else {
            return data;
        };
        let shown = self.shown.lock();
        let known = shown.iter().find(|(at, _)| *at == physical_address.0);
        let physical_address = known.map_or(physical_address, |(_, on_bus)| *on_bus);
        InterruptData::CrtcVsync { vid_pn_target_id, physical_address }
    }
}

impl PrimaryDdi for CDriver {
    fn create_primary(&self, _level: &Passive, surface: Surface) -> Result<(), Status> {
        let words = encode_surface(&surface);
        {
            let objects = self.objects.lock();
            if objects.primaries.contains_key(&words) {
                return Ok(());
            }
            // A client chooses the surface, and its allocation lives as long as the adapter.
            if objects.primaries.len() >= MOST_PRIMARIES {
                return Err(Status::NO_MEMORY);
            }
        }
        let allocation = self.add_words(words.0, words.1)?;
        let kept = *self.objects.lock().primaries.entry(words).or_insert(allocation);
        // Another present has described the same surface meanwhile.
        if kept != allocation {
            self.remove_allocations(&[allocation]);
        }
        Ok(())
    }
}

impl DisplayDdi for CDriver {
    fn set_vid_pn_source_address(
        &self,
        level: &Dirql<'_>,
        args: SetVidPnSourceAddress,
    ) -> Result<(), Status> {
        self.flip(level, &args)
    }

    fn set_vid_pn_source_visibility(
        &self,
        _level: &Passive,
        vid_pn_source_id: u32,
        visible: bool,
    ) -> Result<(), Status> {
        let mut c =
            miniport::SetVidPnSourceVisibility { vid_pn_source_id, visible: visible.into() };
        self.call("DxgkDdiSetVidPnSourceVisibility", |e| {
            e.set_vid_pn_source_visibility(self.adapter, &mut c)
        })
    }

    fn control_interrupt(
        &self,
        _level: &Passive,
        interrupt_type: InterruptType,
        enable: bool,
    ) -> Result<(), Status> {
        self.call("DxgkDdiControlInterrupt", |e| {
            e.control_interrupt(self.adapter, interrupt_type as u32, enable.into())
        })
    }
}
