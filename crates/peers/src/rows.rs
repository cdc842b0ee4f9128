//! What is timed for each row: the same number of calls in the same batches as the bench makes on
//! its own queue. What ends a batch is not timed.

#![allow(clippy::disallowed_types)]

use crate::vulkan::Vulkan;
use crate::{Answer, Trouble};
use std::time::Instant;

/// Batches that are not counted.
const WARM_UP: u64 = 20;
/// Copies in a list.
const COPIES: u64 = 100;

struct Rows<'a> {
    vulkan: &'a Vulkan,
    batch: u64,
    batches: u64,
}

/// Measures a row of the bench.
pub(crate) fn measure(
    vulkan: &Vulkan,
    row: &str,
    batch: u64,
    batches: u64,
) -> Result<Answer, Trouble> {
    let rows = Rows { vulkan, batch, batches };
    match row {
        "api_list_empty" => rows.lists(0),
        "api_list_100_copies" => rows.lists(COPIES),
        "api_queue_signal" => {
            let semaphore = vulkan.timeline(0)?;
            let call = |value| vulkan.submit(None, None, Some((semaphore, value)));
            rows.calls(call, || vulkan.wait_idle(), &[semaphore])
        }
        "api_queue_wait" => {
            let semaphore = vulkan.timeline(u64::MAX / 2)?;
            let call = |value| vulkan.submit(Some((semaphore, value)), None, None);
            rows.calls(call, || vulkan.wait_idle(), &[semaphore])
        }
        "api_cpu_signal" => {
            let semaphore = vulkan.timeline(0)?;
            rows.calls(|value| vulkan.signal((semaphore, value)), || Ok(()), &[semaphore])
        }
        "api_cpu_wait_reached" => {
            let semaphore = vulkan.timeline(u64::MAX / 2)?;
            rows.calls(|value| vulkan.wait((semaphore, value)), || Ok(()), &[semaphore])
        }
        "api_completed_value" => {
            let semaphore = vulkan.timeline(7)?;
            let call = |_| vulkan.value(semaphore).map(drop);
            rows.calls(call, || Ok(()), &[semaphore])
        }
        name if name.starts_with("api_fence") => rows.fences(),
        _ => Ok(Answer::NoCounterpart),
    }
}

impl Rows<'_> {
    fn calls(
        &self,
        mut call: impl FnMut(u64) -> Result<(), Trouble>,
        mut end: impl FnMut() -> Result<(), Trouble>,
        semaphores: &[ash::vk::Semaphore],
    ) -> Result<Answer, Trouble> {
        let mut samples_ns = Vec::new();
        for number in 0..WARM_UP + self.batches {
            let start = Instant::now();
            for value in number * self.batch + 1..=(number + 1) * self.batch {
                call(value)?;
            }
            let took = start.elapsed();
            if number >= WARM_UP {
                samples_ns.push(took.as_nanos() as f64 / self.batch as f64);
            }
            end()?;
        }
        semaphores.iter().for_each(|semaphore| self.vulkan.destroy(*semaphore));
        Ok(Answer::Measured { samples_ns, bytes_each: None })
    }

    /// Records and submits a list. Each call of a batch has a command buffer of its own, which
    /// records again in the next batch.
    fn lists(&self, copies: u64) -> Result<Answer, Trouble> {
        let lists = self.vulkan.command_buffers(self.batch)?;
        let call = |value: u64| {
            let list = lists[((value - 1) % self.batch) as usize];
            self.vulkan.record(list, copies)?;
            self.vulkan.submit(None, Some(list), None)
        };
        self.calls(call, || self.vulkan.wait_idle(), &[])
    }

    /// Creates all fences, and destroys them in the same order. A sample is one fence's part of a
    /// batch of both.
    fn fences(&self) -> Result<Answer, Trouble> {
        let count = (self.batch * self.batches) as usize;
        let (mut made, mut samples_ns) = (Vec::with_capacity(count), Vec::new());
        let resident = resident_bytes()?;
        for _ in 0..self.batches {
            let start = Instant::now();
            for _ in 0..self.batch {
                made.push(self.vulkan.timeline(0)?);
            }
            samples_ns.push(start.elapsed().as_nanos() as f64);
        }
        let bytes = resident_bytes()?.saturating_sub(resident) / made.len().max(1) as u64;
        for (batch, sample) in made.chunks(self.batch as usize).zip(&mut samples_ns) {
            let start = Instant::now();
            batch.iter().for_each(|semaphore| self.vulkan.destroy(*semaphore));
            *sample = (*sample + start.elapsed().as_nanos() as f64) / self.batch as f64;
        }
        Ok(Answer::Measured { samples_ns, bytes_each: Some(bytes) })
    }
}

/// Resident memory of the process, in bytes.
fn resident_bytes() -> Result<u64, Trouble> {
    const PAGE_BYTES: u64 = 4_096;
    let path = "/proc/self/statm";
    let text = std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    Ok(pages.ok_or_else(|| format!("{path}: no resident size in '{text}'"))? * PAGE_BYTES)
}
