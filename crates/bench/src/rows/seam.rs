//! Measures what the seam adds to a word: the store, barrier and load that every protocol of
//! tidegate is made of.

use crate::aim::{Aimed, row};
use crate::floors;
use std::hint::black_box;
use tidegate::Platform;
use tidegate_measure::{CLIENT_CPU, CpuMeter, Found, Measured, Samples, floor, pin};

const BATCH: u64 = 1_000;
const BATCHES: u64 = 500;

/// The row of the seam.
pub(super) const ROWS: &[Aimed] = &[row(
    "seam_word",
    "store, full barrier and load through the seam",
    floor("store_fence_load", floors::store_fence_load),
    |_| word(),
)
.within(1.1)];

fn word() -> Found<Measured> {
    pin(CLIENT_CPU)?;
    let platform = Platform::host();
    // Two cache lines apart, as the words of the floor are.
    let page = platform.page(33);
    let (own, other) = (page.word(0), page.word(32));
    let (mut samples, cpu) = (Samples::default(), CpuMeter::start());
    for batch in 0..BATCHES {
        let start = platform.now();
        for value in batch * BATCH..(batch + 1) * BATCH {
            let (own, other) = black_box((&own, &other));
            own.store(value);
            platform.fence();
            black_box(other.load());
        }
        samples.push_batch(platform.now().since(start), BATCH);
    }
    Ok(Measured::of(samples, cpu.per(BATCHES * BATCH)))
}
