//! PoCL: empty kernels behind events. The system places its threads.

use crate::opencl::{Event, OpenCl, Queue};
use crate::timing::{Measured, WARM_UP, ns};
use crate::{Request, Trouble};
use std::time::Instant;

/// The name of the device.
pub(crate) fn about() -> Result<String, Trouble> {
    let open = OpenCl::open();
    let open = open.map_err(|e| format!("{e}; Debian: pocl-opencl-icd, ocl-icd-libopencl1"))?;
    Ok(open.name())
}

/// Measures what this room has for a request.
pub(crate) fn measure(request: &Request) -> Result<Option<Measured>, Trouble> {
    let open = OpenCl::open()?;
    let measured = match request.row.as_str() {
        "ndrange_wait" => round_trips(&open, request)?,
        "pocl_chain" => chains(&open, request, &[open.queue(true)?])?,
        "cross_queue_chain" => chains(&open, request, &[open.queue(false)?, open.queue(false)?])?,
        _ => return Ok(None),
    };
    Ok(Some(measured))
}

/// One kernel until a wait for its event returns.
fn round_trips(open: &OpenCl, request: &Request) -> Result<Measured, Trouble> {
    let queue = open.queue(false)?;
    let mut samples = Vec::new();
    for number in 0..WARM_UP + request.batch * request.batches {
        let start = Instant::now();
        let event = open.enqueue(queue, None)?;
        open.flush(queue)?;
        open.wait(event)?;
        if number >= WARM_UP {
            samples.push(ns(start));
        }
        open.release(event)?;
    }
    Ok(Measured::of(samples))
}

/// `batches` chains of `batch` kernels, each behind the event of the last one, on these queues in
/// turn. A chain is queued whole, and opened by the host.
fn chains(open: &OpenCl, request: &Request, queues: &[Queue]) -> Result<Measured, Trouble> {
    let mut samples = Vec::new();
    for _ in 0..request.batches {
        let gate = open.user_event()?;
        let mut events: Vec<Event> = vec![gate];
        for (_, queue) in (0..request.batch).zip(queues.iter().cycle()) {
            let last = events[events.len() - 1];
            events.push(open.enqueue(*queue, Some(last))?);
        }
        queues.iter().try_for_each(|queue| open.flush(*queue))?;
        let start = Instant::now();
        open.complete(gate)?;
        open.wait(events[events.len() - 1])?;
        samples.push(ns(start) / request.batch as f64);
        queues.iter().try_for_each(|queue| open.finish(*queue))?;
        events.into_iter().try_for_each(|event| open.release(event))?;
    }
    Ok(Measured::of(samples))
}
