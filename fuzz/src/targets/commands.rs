//! Target `commands`: command buffers of any content, submitted by ring, hardware queue and packet.

use crate::client::Client;
use crate::input::Input;
use crate::series::{Hostile, Series};
use tidegate::calls::{Priority, SubmitCommand, SubmitCommandToHwQueue};
use tidegate::gpu_abi::RingPacket;

pub(crate) fn run(series: &mut Series, data: &[u8]) {
    let mut input = Input::new(data);
    let hostile = Hostile::roomy(input.byte());
    let rest = input.take(usize::MAX).to_vec();
    let outcome = series.unharmed_by(hostile, move |client| act(client, Input::new(&rest)));
    outcome.assert_faults_lose_a_device();
}

fn act(client: &mut Client, mut input: Input<'_>) {
    let mut progress = 0;
    while !input.is_over() {
        progress += 1;
        let how = input.byte();
        let buffer = client.command_buffer(&mut input);
        let offset = progress * 1024;
        client.write_memory(offset, &buffer);
        let commands = client.memory_at(offset);
        let bytes = if how & 0x80 == 0 { buffer.len() as u32 } else { input.number() as u32 };
        match how % 4 {
            0 => client.push(&RingPacket::execute(commands, bytes, progress)),
            1 => {
                let log_entry = Some(u32::from(how));
                client.push(&RingPacket::Execute { commands, bytes, progress, log_entry });
            }
            2 => by_hardware_queue(client, commands.0, bytes),
            _ => by_packet(client, commands.0, bytes),
        }
        // Half of the buffers are submitted while the previous one runs.
        if how & 0x10 != 0 {
            client.pass(10_000);
        }
    }
}

/// Submits by hardware queue. The kernel may refuse a lost device or an invalid length.
fn by_hardware_queue(client: &Client, commands_gpu_va: u64, command_bytes: u32) {
    let Ok(queue) = client.try_hw_queue(client.node, false) else { return };
    let _refused = client.kernel.submit_command_to_hw_queue(SubmitCommandToHwQueue {
        hw_queue: queue.handle,
        progress_fence_id: 1,
        commands_gpu_va,
        command_bytes,
    });
}

fn by_packet(client: &Client, commands_gpu_va: u64, command_bytes: u32) {
    let Ok(context) = client.try_context(client.node, Priority::Normal) else { return };
    let submit = SubmitCommand { context, commands_gpu_va, command_bytes };
    let _refused = client.kernel.submit_command(submit);
}
