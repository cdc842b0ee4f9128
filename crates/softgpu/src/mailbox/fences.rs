//! Fences by bus address, for fences that CPUs may not reach: creation, change, and end.

use crate::hardware::Hardware;
use crate::mmu::{self, Space};
use tidegate_d3dukmdt::FenceCell;
use tidegate_d3dukmdt::fence_cell::{MAX_ANNEX_PEAKS, PAGE_WORDS, VALUE_BYTES};
use tidegate_gpu_abi::admin::{AdminAnswer, DONE};
use tidegate_gpu_abi::{AddressSpaceId, AdminError, GpuVa};
use tidegate_platform::{Page, PhysicalAddress, Target};

#[doc(alias = "DxgkDdiUpdateCurrentValuesFromCpu")]
pub(super) fn notify(
    gpu: &Hardware,
    address_space: AddressSpaceId,
    current_value: GpuVa,
) -> AdminAnswer {
    // A fence may be mapped on only some of the physical GPUs. All mappings lead to the same cell.
    let spaces: Vec<Space> = {
        let cmp = gpu.awake()?;
        (0..gpu.config.physical_gpus).map(|gpu| cmp.space(address_space, gpu)).collect()
    };
    let mut words =
        spaces.iter().filter_map(|space| mmu::find_protocol_word(&gpu.bus, *space, current_value));
    let (at, _) = words.next().ok_or(AdminError::BadAddress)?;
    gpu.platform.fence();
    gpu.unblock(Some(at), None);
    DONE
}

pub(super) fn renew(
    gpu: &Hardware,
    current_value: PhysicalAddress,
    monitored_value: PhysicalAddress,
    stride_bytes: u64,
) -> AdminAnswer {
    let current = cell_at(gpu, current_value)?;
    let monitored = gpu.bus.word(monitored_value)?;
    if !(8..=VALUE_BYTES).contains(&stride_bytes) {
        return Err(AdminError::BadValue);
    }
    current.renew(0, stride_bytes, MAX_ANNEX_PEAKS);
    monitored.exchange(u64::MAX);
    DONE
}

pub(super) fn condemn(gpu: &Hardware, current_value: PhysicalAddress) -> AdminAnswer {
    cell_at(gpu, current_value)?.condemn();
    gpu.platform.fence();
    gpu.unblock(Some(current_value), None);
    DONE
}

fn cell_at(gpu: &Hardware, at: PhysicalAddress) -> Result<FenceCell, AdminError> {
    match gpu.bus.resolve(at) {
        Some(Target::Protocol(page, offset))
            if offset.is_multiple_of(8) && offset < VALUE_BYTES =>
        {
            Ok(cell_of(&page, offset))
        }
        _ => Err(AdminError::BadAddress),
    }
}

/// Returns the cell at an offset of a page. In a page of fence values it has a history.
pub(super) fn cell_of(page: &Page, offset: u64) -> FenceCell {
    let word = page.word((offset / 8) as usize);
    if page.len() == PAGE_WORDS {
        FenceCell::in_fence_page(word, 0)
    } else {
        FenceCell::plain(word)
    }
}
