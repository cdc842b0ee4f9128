//! The copy engine: copies, fills, and timed work. Every engine class supports these.
//!
//! A copy runs in ascending chunks. Each chunk lies in one source page and one destination page (at
//! most 4 KiB) and is read completely before it is written. Overlapping source and destination
//! therefore give the result of a move only if the destination begins below the source or at least
//! a chunk above it.
//!
//! One turn copies or fills at most [`BYTES_PER_TURN`], and less if another queue wants the engine
//! and the granularity allows the switch.

use super::executor::Executor;
use crate::granularity::parts_may_stop;
use crate::mmu::{Fault, piece};
use tidegate_gpu_abi::{GpuVa, PAGE_BYTES};
use tidegate_platform::CpuTime;
use tidegate_platform::hazard::AccessKind;

/// The maximum number of bytes that an engine copies or fills in one turn.
const BYTES_PER_TURN: u64 = 256 << 10;
/// Bytes of the pattern of a fill.
const PHASES: usize = 4;
/// Bytes between two checks whether another queue wants the engine.
const BYTES_PER_CHECK: u64 = 16 << 10;

impl Executor {
    /// Copies a turn's worth.
    pub(super) fn copy_part(
        &mut self,
        source: &mut GpuVa,
        destination: &mut GpuVa,
        left: &mut u64,
    ) -> Result<(), Fault> {
        let (from, to, before) = (*source, *destination, *left);
        let copied = self.copy_pieces(source, destination, left);
        let done = before - *left;
        self.port.accesses.note(AccessKind::Read, from, done);
        self.port.accesses.note(AccessKind::Write, to, done);
        copied
    }

    fn copy_pieces(
        &mut self,
        source: &mut GpuVa,
        destination: &mut GpuVa,
        left: &mut u64,
    ) -> Result<(), Fault> {
        let part = (*left).min(BYTES_PER_TURN);
        let mut rest = part;
        while rest > 0 && !self.leaves_bytes(part - rest) {
            let len = piece(*source, piece(*destination, rest));
            self.port.copy_piece(self.work_space, *source, *destination, len)?;
            (*source, *destination) = (source.plus(len), destination.plus(len));
            *left -= len;
            rest -= len;
            self.spend_bytes(part - rest - len, part - rest);
        }
        Ok(())
    }

    /// Returns whether the engine leaves a copy or a fill after `done` bytes of its turn.
    fn leaves_bytes(&self, done: u64) -> bool {
        let config = self.gpu.config.node_of(self.node);
        // Chunks end at page boundaries. The first one past a multiple of `BYTES_PER_CHECK` checks.
        let checks = done > 0 && done % BYTES_PER_CHECK < PAGE_BYTES;
        checks && parts_may_stop(false, config) && self.is_wanted()
    }

    /// Fills a turn's worth. The pattern repeats from the first byte of the whole fill.
    pub(super) fn fill_part(
        &mut self,
        destination: &mut GpuVa,
        left: &mut u64,
        value: u32,
    ) -> Result<(), Fault> {
        let (to, before) = (*destination, *left);
        let filled = self.fill_pieces(destination, left, value);
        self.port.accesses.note(AccessKind::Write, to, before - *left);
        filled
    }

    fn fill_pieces(
        &mut self,
        destination: &mut GpuVa,
        left: &mut u64,
        value: u32,
    ) -> Result<(), Fault> {
        // A page of the pattern at any phase.
        let mut pattern = [0; PAGE_BYTES as usize + PHASES];
        pattern.as_chunks_mut().0.fill(value.to_le_bytes());
        let part = (*left).min(BYTES_PER_TURN);
        let mut rest = part;
        while rest > 0 && !self.leaves_bytes(part - rest) {
            let len = piece(*destination, rest);
            // The fill's length is a multiple of 4, so the remaining length gives the
            // pattern's phase.
            let phase = (PHASES - *left as usize % PHASES) % PHASES;
            let bytes = &pattern[phase..phase + len as usize];
            self.port.write_piece(self.work_space, *destination, bytes)?;
            *destination = destination.plus(len);
            *left -= len;
            rest -= len;
            self.spend_bytes(part - rest - len, part - rest);
        }
        Ok(())
    }

    /// Begins timed work, or checks whether it is over. Returns its end if it is not.
    pub(super) fn timed_part(
        &mut self,
        left_ns: &mut u64,
        until: &mut Option<CpuTime>,
    ) -> Option<CpuTime> {
        let now = self.gpu.platform.now();
        let end = *until.get_or_insert(now.after(*left_ns));
        (now < end).then_some(end)
    }

    /// Spends the virtual time of the bytes from `from` to `to`.
    fn spend_bytes(&self, from: u64, to: u64) {
        let cost = |bytes: u64| bytes.saturating_mul(self.gpu.config.rates.byte_ps) / 1_000;
        self.gpu.platform.spend_ns(cost(to) - cost(from));
    }
}
