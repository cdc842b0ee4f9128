//! Measures what the seam adds to a word: the store, barrier and load that every protocol of
//! tidegate is made of.

use crate::bench::measure::{CLIENT_CPU, CpuMeter, Measured, Samples, Trouble, on_own_thread, pin};
use std::hint::black_box;
use tidegate::Platform;

const BATCH: u64 = 1_000;
const BATCHES: u64 = 500;

/// Row `seam_word`.
pub(super) fn word() -> Result<Measured, Trouble> {
    on_own_thread(|| {
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
        Ok(Measured { samples, cpu_ns: cpu.per(BATCHES * BATCH), ..Measured::default() })
    })
}
