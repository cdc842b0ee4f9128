//! Pipelined compute and graphics: graphics uses the compute result of two frames ago.
//!
//! Two latencies bound the pipeline. Graphics runs `COMPUTE_TO_GRAPHICS` frames behind compute, so
//! that many buffers and one more are enough. The CPU records at most `CPU_LEAD` frames ahead of
//! compute.

use tidegate::d3d12::{BufferDesc, CommandListType, DeviceOptions, QueueDesc};
use tidegate::programs::FillPattern;
use tidegate::{Machine, MachineConfig, Platform};

const CPU_LEAD: u64 = 3;
const COMPUTE_TO_GRAPHICS: u64 = 2;
const BUFFERS: u64 = COMPUTE_TO_GRAPHICS + 1;
const FRAMES: u64 = 20;
const WORDS: u64 = 256;
const BYTES: u64 = 4 * WORDS;

/// Compute frame n writes a pattern of n, and graphics frame n keeps what it read.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let platform = Platform::host();
    let machine = Machine::new(&platform, MachineConfig::standard(&platform))?;
    let device = machine.device(DeviceOptions::new("pipeline"))?;
    let compute = device.create_queue(QueueDesc::compute("compute"))?;
    let graphics = device.create_queue(QueueDesc::direct("graphics"))?;
    let computed = device.create_fence("computed", 0)?;
    let drawn = device.create_fence("drawn", 0)?;
    let pipe = device.create_buffer(BufferDesc::new("pipe", BUFFERS * BYTES))?;
    let frames = device.create_buffer(BufferDesc::readback("frames", FRAMES * BYTES))?;

    for frame in 1..=FRAMES + COMPUTE_TO_GRAPHICS {
        // Throttle: the CPU waits for the compute frame of three frames ago.
        computed.wait(frame.min(FRAMES).saturating_sub(CPU_LEAD))?;

        if frame <= FRAMES {
            // The buffer is free when the graphics frame that read it is complete. A wait for 0 is
            // satisfied at once.
            compute.wait(&drawn, frame.saturating_sub(BUFFERS))?;
            let (dst, first) = (pipe.at(frame % BUFFERS * BYTES), (frame * WORDS) as u32);
            let pattern = FillPattern { dst, n: WORDS as u32, first, step: 1 };
            let mut simulate = device.create_command_list(CommandListType::Compute);
            simulate.dispatch(&pattern, pattern.groups())?;
            compute.execute(&[&simulate.close()?])?;
            compute.signal(&computed, frame)?;
        }
        if frame > COMPUTE_TO_GRAPHICS {
            // Graphics draws the frame of two compute frames ago.
            let frame = frame - COMPUTE_TO_GRAPHICS;
            graphics.wait(&computed, frame)?;
            let (to, from) = ((frame - 1) * BYTES, frame % BUFFERS * BYTES);
            let mut draw = device.create_command_list(CommandListType::Direct);
            draw.copy(&frames, to, &pipe, from, BYTES)?;
            graphics.execute(&[&draw.close()?])?;
            graphics.signal(&drawn, frame)?;
        }
    }
    drawn.wait(FRAMES)?;

    let mut bytes = vec![0; (FRAMES * BYTES) as usize];
    frames.read(0, &mut bytes)?;
    let words = bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word));
    assert!(words.eq(WORDS as u32..((FRAMES + 1) * WORDS) as u32));

    println!("{FRAMES} graphics frames each used the compute result of their own frame");
    println!("compute was {COMPUTE_TO_GRAPHICS} frames ahead, in {BUFFERS} buffers");
    Ok(())
}
