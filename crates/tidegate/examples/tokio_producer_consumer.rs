//! A tokio producer and consumer: two tasks that await fences. No thread is blocked by a wait, and
//! none polls.
//!
//! The producer uploads into one of two slots. It awaits the fence of the consumer before it fills
//! a slot again. The consumer awaits each upload and reads it back.

use tidegate::d3d12::{Buffer, BufferDesc, CommandListType, Device, DeviceOptions};
use tidegate::d3d12::{Error, Fence, QueueDesc};
use tidegate::{Machine, MachineConfig, Platform};

const ITEMS: u64 = 16;
const SLOTS: u64 = 2;
const BYTES: u64 = 4096;

/// What the two tasks share.
#[derive(Clone)]
struct Channel {
    device: Device,
    slots: Buffer,
    produced: Fence,
    consumed: Fence,
}

async fn produce(channel: Channel) -> Result<(), Error> {
    let queue = channel.device.create_queue(QueueDesc::copy("producer"))?;
    let source = channel.device.create_buffer(BufferDesc::upload("source", BYTES))?;
    for item in 1..=ITEMS {
        channel.consumed.reached(item.saturating_sub(SLOTS)).await?;
        // The copy of the item before has read the source.
        channel.produced.reached(item - 1).await?;
        source.write(0, &[item as u8; BYTES as usize])?;
        let mut list = channel.device.create_command_list(CommandListType::Copy);
        list.copy(&channel.slots, item % SLOTS * BYTES, &source, 0, BYTES)?;
        queue.execute(&[&list.close()?])?;
        queue.signal(&channel.produced, item)?;
    }
    // A queue that is dropped drops what it still holds.
    channel.produced.reached(ITEMS).await
}

async fn consume(channel: Channel) -> Result<Vec<u8>, Error> {
    let queue = channel.device.create_queue(QueueDesc::compute("consumer"))?;
    let result = channel.device.create_buffer(BufferDesc::readback("result", BYTES))?;
    let (mut data, mut seen) = (vec![0; BYTES as usize], Vec::new());
    for item in 1..=ITEMS {
        channel.produced.reached(item).await?;
        let mut list = channel.device.create_command_list(CommandListType::Compute);
        list.copy(&result, 0, &channel.slots, item % SLOTS * BYTES, BYTES)?;
        queue.execute(&[&list.close()?])?;
        queue.signal(&channel.consumed, item)?;
        channel.consumed.reached(item).await?;
        result.read(0, &mut data)?;
        assert!(data.iter().all(|byte| *byte == data[0]), "item {item} is torn");
        seen.push(data[0]);
    }
    Ok(seen)
}

/// Runs both tasks on one thread.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let platform = Platform::host();
    let machine = Machine::new(&platform, MachineConfig::standard(&platform))?;
    let device = machine.device(DeviceOptions::new("channel"))?;
    let slots = device.create_buffer(BufferDesc::new("slots", SLOTS * BYTES))?;
    let produced = device.create_fence("produced", 0)?;
    let consumed = device.create_fence("consumed", 0)?;
    let channel = Channel { device, slots, produced, consumed };
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let producer = runtime.spawn(produce(channel.clone()));
    let seen = runtime.block_on(consume(channel))?;
    runtime.block_on(producer)??;
    assert!(seen.iter().copied().eq(1..=ITEMS as u8));
    println!("{ITEMS} items passed through {SLOTS} slots, between two tasks on one thread");
    println!("the consumer saw {seen:?}");
    Ok(())
}
