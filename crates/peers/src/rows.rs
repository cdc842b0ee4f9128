//! lavapipe: what is timed for each row. Calls come in as many batches as the bench makes on its
//! own queue. What ends a batch is not timed.

use crate::timing::{Measured, WARM_UP, ns, pin};
use crate::vulkan::Vulkan;
use crate::{Request, Trouble};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tidegate_platform::os::process_cpu_ns;

/// Copies in a list.
const COPIES: u64 = 100;

struct Rows<'a> {
    vulkan: &'a Vulkan,
    batch: u64,
    batches: u64,
}

/// The name of the device.
pub(crate) fn about() -> Result<String, Trouble> {
    let vulkan =
        Vulkan::open().map_err(|e| format!("{e}; Debian: mesa-vulkan-drivers, libvulkan1"))?;
    Ok(vulkan.name().to_owned())
}

/// Opens the device, and binds the caller and the driver's threads where the measurement wants
/// them.
fn opened(request: &Request) -> Result<Vulkan, Trouble> {
    match request.row.as_str() {
        // Placed by the system: there are more threads than processors, or they may share one.
        "submit_wait" | "submit_wait_list" | "chain" | "blocked_threads" => Vulkan::open(),
        _ => {
            // The threads of the driver start where the thread that makes the device is bound.
            pin(request.service_cpu)?;
            let vulkan = Vulkan::open()?;
            pin(request.client_cpu)?;
            Ok(vulkan)
        }
    }
}

/// Measures what this room has for a request.
pub(crate) fn measure(request: &Request) -> Result<Option<Measured>, Trouble> {
    let vulkan = &opened(request)?;
    let rows = Rows { vulkan, batch: request.batch, batches: request.batches };
    let measured = match request.row.as_str() {
        "submit_wait" => rows.round_trips(false),
        "submit_wait_list" | "submit_wait_list_other_cpu" => rows.round_trips(true),
        "submit_stream" => rows.stream(),
        "chain" => rows.chains(),
        "blocked_threads" => rows.blocked_threads(),
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
        "api_cpu_signal" | "host_signal" => {
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
        _ => return Ok(None),
    };
    measured.map(Some)
}

impl Rows<'_> {
    /// One submission until a wait for its value returns.
    fn round_trips(&self, has_list: bool) -> Result<Measured, Trouble> {
        let lists = self.vulkan.command_buffers(1)?;
        let semaphore = self.vulkan.timeline(0)?;
        let mut samples = Vec::new();
        for value in 1..=WARM_UP + self.batch * self.batches {
            if has_list {
                self.vulkan.record(lists[0], 0)?;
            }
            let list = has_list.then(|| lists[0]);
            let start = Instant::now();
            self.vulkan.submit(None, list, Some((semaphore, value)))?;
            self.vulkan.wait((semaphore, value))?;
            if value > WARM_UP {
                samples.push(ns(start));
            }
        }
        self.vulkan.wait_idle()?;
        self.vulkan.destroy(semaphore);
        Ok(Measured::of(samples))
    }

    /// `batch` submissions and one wait at the end.
    fn stream(&self) -> Result<Measured, Trouble> {
        let semaphore = self.vulkan.timeline(0)?;
        let (mut samples, mut cpu_ns) = (Vec::new(), 0);
        for number in 0..=self.batches {
            let (start, cpu_before) = (Instant::now(), process_cpu_ns());
            for value in number * self.batch + 1..=(number + 1) * self.batch {
                self.vulkan.submit(None, None, Some((semaphore, value)))?;
            }
            self.vulkan.wait((semaphore, (number + 1) * self.batch))?;
            if number > 0 {
                samples.push(ns(start) / self.batch as f64);
                cpu_ns += process_cpu_ns().saturating_sub(cpu_before);
            }
        }
        self.vulkan.wait_idle()?;
        self.vulkan.destroy(semaphore);
        let submissions = (self.batch * self.batches).max(1);
        let cpu_ns = Some(cpu_ns as f64 / submissions as f64);
        Ok(Measured { cpu_ns, ..Measured::of(samples) })
    }

    /// `batches` chains of `batch` submissions, each of which waits for the value of the last one.
    /// A chain is queued whole, and opened by the host.
    fn chains(&self) -> Result<Measured, Trouble> {
        let mut samples = Vec::new();
        for _ in 0..self.batches {
            let semaphore = self.vulkan.timeline(0)?;
            for value in 1..=self.batch {
                self.vulkan.submit(Some((semaphore, value)), None, Some((semaphore, value + 1)))?;
            }
            let start = Instant::now();
            self.vulkan.signal((semaphore, 1))?;
            self.vulkan.wait((semaphore, self.batch + 1))?;
            samples.push(ns(start) / self.batch as f64);
            self.vulkan.wait_idle()?;
            self.vulkan.destroy(semaphore);
        }
        Ok(Measured::of(samples))
    }

    /// `batch` threads that each wait for another value, and `batches` signals that release one.
    fn blocked_threads(&self) -> Result<Measured, Trouble> {
        const STACK_BYTES: usize = 64 << 10;
        const BETWEEN: Duration = Duration::from_millis(1);
        let semaphore = self.vulkan.timeline(0)?;
        let seen: Vec<AtomicU64> = (0..self.batch).map(|_| AtomicU64::new(0)).collect();
        let started = AtomicU64::new(0);
        let (vulkan, seen, started, begin) = (self.vulkan, &seen, &started, Instant::now());
        let measured = thread::scope(|scope| {
            for number in 0..self.batch {
                let body = move || {
                    started.fetch_add(1, Ordering::SeqCst);
                    // The end of a wait that fails is seen too, and too early.
                    let _waited = vulkan.wait((semaphore, number + 1));
                    let now = begin.elapsed().as_nanos() as u64;
                    seen[number as usize].store(now, Ordering::Release);
                };
                let builder = thread::Builder::new().stack_size(STACK_BYTES);
                if let Err(e) = builder.spawn_scoped(scope, body) {
                    vulkan.signal((semaphore, self.batch))?;
                    return Err(format!("thread {number} of {}: {e}", self.batch));
                }
            }
            while started.load(Ordering::SeqCst) < self.batch {
                thread::sleep(BETWEEN);
            }
            // The last of them block meanwhile, and a woken herd comes to rest.
            let quiet = BETWEEN + Duration::from_micros(20 * self.batch);
            thread::sleep(quiet);
            let (mut samples, cpu_before) = (Vec::new(), process_cpu_ns());
            let releases = self.batches.min(self.batch);
            for number in 0..releases {
                let start = begin.elapsed().as_nanos() as u64;
                vulkan.signal((semaphore, number + 1))?;
                thread::sleep(quiet);
                let at = loop {
                    match seen[number as usize].load(Ordering::Acquire) {
                        0 => thread::yield_now(),
                        at => break at,
                    }
                };
                samples.push(at.saturating_sub(start) as f64);
            }
            let cpu_ns = process_cpu_ns().saturating_sub(cpu_before) / releases.max(1);
            vulkan.signal((semaphore, self.batch))?;
            Ok(Measured { cpu_ns: Some(cpu_ns as f64), ..Measured::of(samples) })
        });
        self.vulkan.destroy(semaphore);
        measured
    }

    fn calls(
        &self,
        mut call: impl FnMut(u64) -> Result<(), Trouble>,
        mut end: impl FnMut() -> Result<(), Trouble>,
        semaphores: &[ash::vk::Semaphore],
    ) -> Result<Measured, Trouble> {
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
        Ok(Measured::of(samples_ns))
    }

    /// Records and submits a list. Each call of a batch has a command buffer of its own, which
    /// records again in the next batch.
    fn lists(&self, copies: u64) -> Result<Measured, Trouble> {
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
    fn fences(&self) -> Result<Measured, Trouble> {
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
        Ok(Measured { bytes_each: Some(bytes), ..Measured::of(samples_ns) })
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
