//! Layout of a save area: the state of a DMA packet that was preempted in its middle.
//!
//! A state is 64-bit words, little endian: 0 [`SAVED_STATE`] · 1 address of the commands · 2 their
//! length in bytes (low half) and the offset of the next one (high half) · 3 label (low half) and
//! number (high half) of the command · 4 kind of the running command (low half) and the predicate
//! (high half) · 5 to 7 times on the timeline: start of the packet, start of the command,
//! preemption · from 8 on the state of that command (`running_command`).
//!
//! Invariants: word 0 is stored last and cleared when the state is loaded; 0 means that the
//! packet has not begun. The state of another packet, or an impossible one, is a fault. A time
//! in the future is taken as the present. Entry points: `store` (engines and their reset),
//! `load` (engines).

use crate::mmu::{Fault, Mmu, Space, piece};
use crate::queue::Execution;
use crate::running_command;
use tidegate_gpu_abi::regs::FaultKind;
use tidegate_gpu_abi::ring::{MAX_COMMAND_BYTES, SAVE_AREA_BYTES, SAVED_STATE};
use tidegate_gpu_abi::{AddressSpaceId, GpuVa};
use tidegate_platform::Target;
use tidegate_trace::NameId;

/// The address space of save areas, which are bulk memory.
pub(crate) const SYSTEM_PROCESS: AddressSpaceId = AddressSpaceId(0);

const HEAD_WORDS: usize = 8;
const MAX_WORDS: usize = SAVE_AREA_BYTES as usize / 8;

/// Stores the state of `work`, which is preempted at `left_ns`, word 0 last. A packet that has not
/// begun has no state.
// spec: PRE-020
pub(crate) fn store(
    mmu: &mut Mmu,
    system: Space,
    work: &Execution,
    left_ns: u64,
) -> Result<(), Fault> {
    if !work.is_begun() {
        return Ok(());
    }
    let next = u64::from(work.bytes) | u64::from(work.at) << 32;
    let (number, label) = work.latest;
    let label = u64::from(label.0) | u64::from(number) << 32;
    let command_ns = work.command_ns.unwrap_or(0);
    let mut words = vec![0, work.commands.0, next, label, 0, work.start_ns, command_ns, left_ns];
    words[4] =
        running_command::save(work.running.as_ref(), &mut words) | u64::from(work.skips) << 32;
    write(mmu, system, work.save_area, &words)?;
    write(mmu, system, work.save_area, &[SAVED_STATE])
}

/// Moves the state from the save area into `work`, which began at `now_ns`. Returns when it was
/// preempted; `None` if the packet had not begun.
// spec: PRE-033
pub(crate) fn load(
    mmu: &mut Mmu,
    system: Space,
    work: &mut Execution,
    now_ns: u64,
) -> Result<Option<u64>, Fault> {
    let at = work.save_area;
    let bad = || Fault::new(FaultKind::BadPacket, at);
    let mut words = [0; MAX_WORDS];
    read(mmu, system, at, &mut words)?;
    match words[0] {
        0 => return Ok(None),
        SAVED_STATE => {}
        _ => return Err(bad()),
    }
    let (bytes, next) = (words[2] as u32, (words[2] >> 32) as u32);
    let of_packet =
        words[1] == work.commands.0 && bytes == work.bytes && bytes <= MAX_COMMAND_BYTES;
    if !of_packet || next > bytes || next == 0 || !next.is_multiple_of(8) {
        return Err(bad());
    }
    let (kind, skips) = (words[4] & u64::from(u32::MAX), words[4] >> 32);
    let running = running_command::restore(kind, &words[HEAD_WORDS..]).ok_or_else(bad)?;
    if skips > 1 {
        return Err(bad());
    }
    work.skips = skips == 1;
    (work.at, work.number) = (next, (words[3] >> 32) as u32);
    (work.label, work.running) = (NameId(words[3] as u32), running);
    work.latest = (work.number, work.label);
    let [start_ns, command_ns, left_ns] = [5, 6, 7].map(|word| words[word].min(now_ns));
    (work.start_ns, work.command_ns) = (start_ns, Some(command_ns));
    write(mmu, system, at, &[0])?;
    Ok(Some(left_ns))
}

fn write(mmu: &mut Mmu, system: Space, va: GpuVa, words: &[u64]) -> Result<(), Fault> {
    let data: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut done = 0;
    while done < data.len() {
        let at = va.plus(done as u64);
        let len = piece(at, (data.len() - done) as u64) as usize;
        let bad = || Fault::new(FaultKind::WriteUnmapped, at);
        match &mmu.page(system, at, true)?.target {
            Target::Bulk(bytes, start) => {
                let within = at.0 % tidegate_gpu_abi::PAGE_BYTES;
                bytes.write(start + within, &data[done..done + len]).map_err(|_| bad())?;
            }
            // A page of words holds fences and cannot be a save area.
            Target::Protocol(..) => return Err(bad()),
        }
        done += len;
    }
    Ok(())
}

fn read(mmu: &mut Mmu, system: Space, va: GpuVa, words: &mut [u64]) -> Result<(), Fault> {
    let mut bytes = vec![0; words.len() * 8];
    mmu.read(system, va, &mut bytes)?;
    for (word, chunk) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*chunk);
    }
    Ok(())
}
