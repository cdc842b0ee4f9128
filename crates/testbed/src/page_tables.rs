//! A walk over the kernel's page tables, as done by the hardware.

use crate::World;
use tidegate::gpu_abi::{GpuVa, Pte};
use tidegate::platform::{PhysicalAddress, Target};

/// Returns the bus address of a virtual address, and whether engines may write there.
pub fn leads_to(w: &World, space: u32, va: u64) -> Option<(PhysicalAddress, bool)> {
    let calls = w.hooked.calls();
    let memory = w.hooked.start_info().system_memory;
    let mut table = calls.roots.iter().rev().find(|(of, _)| *of == space)?.1;
    for level in 0..4 {
        let Some(Target::Bulk(bytes, start)) = memory.resolve(table) else { return None };
        let pte = Pte(bytes.read_u64(start + GpuVa(va).table_index(level) * 8).ok()?);
        if !pte.is_valid() {
            return None;
        }
        table = pte.address();
        if level == 3 {
            return Some((PhysicalAddress(table.0 + va % 4096), pte.is_writable()));
        }
    }
    None
}

/// Returns the address space of the world's process.
pub fn own_space(w: &World) -> u32 {
    w.hooked.calls().roots.iter().find(|(space, _)| *space != 0).unwrap().0
}
