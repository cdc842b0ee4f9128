//! A ring buffer between two queues: memory for three uploads serves any number of frames.
//!
//! The copy queue fills slot after slot. Before it fills a slot again, it waits until the 3D queue
//! has used the old content. No CPU wait is needed between the first frame and the last.

use tidegate::d3d12::{BufferDesc, CommandListType, DeviceOptions, QueueDesc};
use tidegate::programs::Saxpy;
use tidegate::{Machine, MachineConfig, Platform};

const FRAMES: u64 = 24;
const SLOTS: u64 = 3;
const NUMBERS: u64 = 256;
const SLOT_BYTES: u64 = 4 * NUMBERS;

/// Frame n brings the number n in each place, and the 3D queue adds the frames up.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let platform = Platform::host();
    let machine = Machine::new(&platform, MachineConfig::standard(&platform))?;
    let device = machine.device(DeviceOptions::new("ring buffer"))?;
    let copy = device.create_queue(QueueDesc::copy("copy"))?;
    let render = device.create_queue(QueueDesc::direct("render"))?;
    let copied = device.create_fence("copied", 0)?;
    let rendered = device.create_fence("rendered", 0)?;

    let source = device.create_buffer(BufferDesc::upload("source", FRAMES * SLOT_BYTES))?;
    let ring = device.create_buffer(BufferDesc::new("ring", SLOTS * SLOT_BYTES))?;
    let sum = device.create_buffer(BufferDesc::new("sum", SLOT_BYTES))?;
    let result = device.create_buffer(BufferDesc::readback("result", SLOT_BYTES))?;
    for frame in 1..=FRAMES {
        let data = (frame as f32).to_le_bytes().repeat(NUMBERS as usize);
        source.write((frame - 1) * SLOT_BYTES, &data)?;
    }

    for frame in 1..=FRAMES {
        let slot = frame % SLOTS * SLOT_BYTES;

        // The slot is free when the frame that used it last is complete.
        if frame > SLOTS {
            copy.wait(&rendered, frame - SLOTS)?;
        }
        let mut upload = device.create_command_list(CommandListType::Copy);
        upload.copy(&ring, slot, &source, (frame - 1) * SLOT_BYTES, SLOT_BYTES)?;
        copy.execute(&[&upload.close()?])?;
        copy.signal(&copied, frame)?;

        // The data is there when the copy of this frame is complete.
        render.wait(&copied, frame)?;
        let add = Saxpy { x: ring.at(slot), y: sum.at(0), n: NUMBERS as u32, a: 1.0 };
        let mut draw = device.create_command_list(CommandListType::Direct);
        draw.dispatch(&add, add.groups())?;
        if frame == FRAMES {
            draw.copy(&result, 0, &sum, 0, SLOT_BYTES)?;
        }
        render.execute(&[&draw.close()?])?;
        render.signal(&rendered, frame)?;
    }
    rendered.wait(FRAMES)?;

    // A slot that was overwritten too soon, or used too soon, changes the sum.
    let mut bytes = vec![0; SLOT_BYTES as usize];
    result.read(0, &mut bytes)?;
    let expected = (FRAMES * (FRAMES + 1) / 2) as f32;
    assert!(bytes.as_chunks().0.iter().all(|word| f32::from_le_bytes(*word) == expected));

    println!("{FRAMES} frames passed through a ring of {SLOTS} slots");
    println!("their sum is {expected}, so no slot was overwritten before it was used");
    Ok(())
}
