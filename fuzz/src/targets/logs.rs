//! Target `logs`: commands of the process overwrite the entries of its fence logs and try to
//! overwrite the headers, while its signals make the kernel read them and a timeline is recorded.

use crate::client::Client;
use crate::input::Input;
use crate::series::{Hostile, Series};
use tidegate::d3dukmdt::log::{LOG_ENTRY_BYTES, LogEntry};
use tidegate::gpu_abi::{Command, CommandWriter, GpuVa, RingPacket};

pub(crate) fn run(series: &mut Series, data: &[u8]) {
    let mut input = Input::new(data);
    let hostile = Hostile::roomy(input.byte());
    let rest = input.take(usize::MAX).to_vec();
    let outcome = series.unharmed_by(hostile, move |client| act(client, Input::new(&rest)));
    outcome.assert_faults_lose_a_device();
}

fn act(client: &mut Client, mut input: Input<'_>) {
    let logs =
        client.kernel.native_fence_log_detail(client.queue.queue.handle).expect("its own queue");
    let logs = [logs.wait_log_gpu_va, logs.signal_log_gpu_va];
    let mut progress = 0;
    while !input.is_over() {
        match input.byte() % 8 {
            0..=2 => {
                let bytes = entries(client, &mut input);
                // After the header of 40 bytes, which is mapped read-only.
                let at = input.one_of(&logs) + 40 + input.number() % 90 * LOG_ENTRY_BYTES as u64;
                let at = if input.below(16) == 0 { input.number().wrapping_add(at) } else { at };
                progress += 1;
                overwrite(client, progress, &bytes, at);
            }
            3..=5 => signal(client, &mut input),
            6 => {
                let (fence, value) = (input.below(4), input.number());
                client.wait(fence, value, false);
            }
            _ => client.pass(input.number().min(100_000)),
        }
    }
}

/// Returns valid-looking entries or raw bytes.
fn entries(client: &Client, input: &mut Input<'_>) -> Vec<u8> {
    if input.below(4) == 0 {
        let len = LOG_ENTRY_BYTES * (1 + input.below(4));
        let mut bytes = input.take(len).to_vec();
        bytes.resize(len, 0);
        return bytes;
    }
    let handles: Vec<u32> = client.fences.iter().map(|fence| fence.handle.0).collect();
    let entry = LogEntry {
        fence_value: input.number(),
        fence_handle: if input.flag() { input.one_of(&handles) } else { input.number() as u32 },
        operation: input.number() as u32,
        observed_ns: input.number(),
        end_ns: input.number(),
        ..LogEntry::default()
    };
    entry.encode().repeat(1 + input.below(3))
}

/// Submits a command buffer that copies `bytes` to `at`.
fn overwrite(client: &mut Client, progress: u64, bytes: &[u8], at: u64) {
    let (from, commands) = (client.memory_at(0), client.memory_at(4096));
    client.write_memory(0, bytes);
    let mut writer = CommandWriter::new();
    writer.push(&Command::Copy { source: from, destination: GpuVa(at), bytes: bytes.len() as u64 });
    let list = writer.to_bytes();
    client.write_memory(4096, &list);
    let bytes = list.len() as u32;
    client.push(&RingPacket::execute(commands, bytes, progress));
    client.pass(5_000);
}

fn signal(client: &mut Client, input: &mut Input<'_>) {
    let fence = client.fences[input.below(client.fences.len())].clone();
    let (value, log_entry) = (input.number(), input.number() as u32);
    let wait = input.below(4) == 0;
    let (current_value, fence_handle) = (GpuVa(fence.current_value_gpu_va), fence.handle.0);
    client.push(&match wait {
        true => RingPacket::Wait {
            current_value,
            value: value & 1,
            epoch: value,
            fence_handle,
            log_entry,
        },
        false => {
            let monitored_value = GpuVa(fence.monitored_value_gpu_va);
            RingPacket::Signal { current_value, monitored_value, value, fence_handle, log_entry }
        }
    });
}
