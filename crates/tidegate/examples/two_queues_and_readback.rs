//! Two queues and a readback: a copy queue uploads, a compute queue calculates, the CPU reads the
//! result.
//!
//! Data takes the way that a GPU with local memory needs: upload heap, default heap, readback
//! heap. Each queue waits for the fence of the one before it.

use tidegate::d3d12::{BufferDesc, CommandListType, DeviceOptions, QueueDesc};
use tidegate::programs::Saxpy;
use tidegate::{Machine, MachineConfig, Platform};

const NUMBERS: u64 = 1024;
const BYTES: u64 = 4 * NUMBERS;

/// Calculates `y = 2 * x + y` on the GPU and checks each number.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let platform = Platform::host();
    let machine = Machine::new(&platform, MachineConfig::standard(&platform))?;
    let device = machine.device(DeviceOptions::new("saxpy"))?;
    let copy = device.create_queue(QueueDesc::copy("upload"))?;
    let compute = device.create_queue(QueueDesc::compute("compute"))?;
    let uploaded = device.create_fence("uploaded", 0)?;
    let finished = device.create_fence("finished", 0)?;

    let staging = device.create_buffer(BufferDesc::upload("staging", 2 * BYTES))?;
    let x = device.create_buffer(BufferDesc::new("x", BYTES))?;
    let y = device.create_buffer(BufferDesc::new("y", BYTES))?;
    let result = device.create_buffer(BufferDesc::readback("result", BYTES))?;

    // x is 0, 1, 2, ...; y is 1 everywhere.
    let numbers = (0..NUMBERS).map(|i| i as f32).chain((0..NUMBERS).map(|_| 1.0));
    staging.write(0, &numbers.flat_map(f32::to_le_bytes).collect::<Vec<u8>>())?;

    let mut upload = device.create_command_list(CommandListType::Copy);
    upload.copy(&x, 0, &staging, 0, BYTES)?;
    upload.copy(&y, 0, &staging, BYTES, BYTES)?;
    copy.execute(&[&upload.close()?])?;
    copy.signal(&uploaded, 1)?;

    let saxpy = Saxpy { x: &x, y: &y, n: NUMBERS as u32, a: 2.0 };
    let mut calculate = device.create_command_list(CommandListType::Compute);
    calculate.dispatch(&saxpy, saxpy.groups())?;
    calculate.copy(&result, 0, &y, 0, BYTES)?;
    compute.wait(&uploaded, 1)?;
    compute.execute(&[&calculate.close()?])?;
    compute.signal(&finished, 1)?;

    // No call so far has blocked. The result is complete when this one returns.
    finished.wait(1)?;
    let mut bytes = vec![0; BYTES as usize];
    result.read(0, &mut bytes)?;
    let seen: Vec<f32> = bytes.as_chunks().0.iter().map(|word| f32::from_le_bytes(*word)).collect();
    assert!(seen.iter().enumerate().all(|(i, y)| *y == 2.0 * i as f32 + 1.0), "{seen:?}");

    println!(
        "{NUMBERS} numbers went to the GPU on '{}' and back on '{}'",
        copy.name(),
        compute.name()
    );
    println!("the first are {:?}", &seen[..4]);
    Ok(())
}
