//! Asynchronous compute and graphics: each graphics frame uses the newest compute result that the
//! CPU knows of, and waits for no other.
//!
//! A third fence counts the compute results that graphics no longer needs. It is apart from the
//! fence of the graphics frames, because frames may use one result twice or skip one.

use tidegate::d3d12::{BufferDesc, CommandListType, DeviceOptions, Event, EventDesc, QueueDesc};
use tidegate::programs::FillPattern;
use tidegate::{Machine, MachineConfig, Platform};

const CPU_LEAD: u64 = 3;
const BUFFERS: u64 = 2;
const STEPS: u64 = 40;
const WORDS: u64 = 256;
const BYTES: u64 = 4 * WORDS;

/// Compute frame n fills a buffer with n. Each graphics frame keeps what it read.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let platform = Platform::host();
    let machine = Machine::new(&platform, MachineConfig::standard(&platform))?;
    let device = machine.device(DeviceOptions::new("async"))?;
    let compute = device.create_queue(QueueDesc::compute("compute"))?;
    let graphics = device.create_queue(QueueDesc::direct("graphics"))?;
    let computed = device.create_fence("computed", 0)?;
    let drawn = device.create_fence("drawn", 0)?;
    let released = device.create_fence("released", 0)?;
    let pipe = device.create_buffer(BufferDesc::new("pipe", BUFFERS * BYTES))?;
    let frames = device.create_buffer(BufferDesc::readback("frames", STEPS * BYTES))?;

    // Each stage has an event, which is set while its newest frame is at most CPU_LEAD frames
    // ahead.
    let [may_simulate, may_draw] =
        [0, 1].map(|_| device.create_event(EventDesc::auto_reset().initially_set()));
    let (mut simulated, mut used) = (0u64, Vec::new());
    // The only wait of the graphics queue: there is a first result.
    graphics.wait(&computed, 1)?;
    for _ in 0..STEPS {
        if Event::wait_any(&[&may_simulate, &may_draw])? == 0 {
            simulated += 1;
            compute.wait(&released, simulated.saturating_sub(BUFFERS))?;
            let (dst, first) = (pipe.at(simulated % BUFFERS * BYTES), simulated as u32);
            let pattern = FillPattern { dst, n: WORDS as u32, first, step: 0 };
            let mut simulate = device.create_command_list(CommandListType::Compute);
            simulate.dispatch(&pattern, pattern.groups())?;
            compute.execute(&[&simulate.close()?])?;
            compute.signal(&computed, simulated)?;
            let value = simulated.saturating_sub(CPU_LEAD);
            computed.set_event_on_completion(value, &may_simulate)?;
        } else {
            // At least 1: the graphics queue began with a wait for the first result.
            let newest = computed.completed_value().max(1);
            graphics.signal(&released, newest - 1)?;
            let mut draw = device.create_command_list(CommandListType::Direct);
            draw.copy(&frames, used.len() as u64 * BYTES, &pipe, newest % BUFFERS * BYTES, BYTES)?;
            graphics.execute(&[&draw.close()?])?;
            used.push(newest as u32);
            let frame = used.len() as u64;
            graphics.signal(&drawn, frame)?;
            drawn.set_event_on_completion(frame.saturating_sub(CPU_LEAD), &may_draw)?;
        }
    }
    graphics.signal(&released, simulated)?;
    computed.wait(simulated)?;
    drawn.wait(used.len() as u64)?;

    let mut bytes = vec![0; used.len() * BYTES as usize];
    frames.read(0, &mut bytes)?;
    let words = bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word));
    assert!(words.eq(used.iter().flat_map(|result| std::iter::repeat_n(*result, WORDS as usize))));
    println!("{simulated} compute results; no graphics frame read half of one");
    println!("the {} frames used the results {used:?}", used.len());
    Ok(())
}
