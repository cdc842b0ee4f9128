//! Target `queue`: a live user-mode queue whose process writes anything to slots, pointers,
//! doorbell and last-queued cell at any time, and makes the related calls.

use crate::client::{Client, SLOTS};
use crate::input::Input;
use crate::series::{Hostile, Series};
use tidegate::gpu_abi::SLOT_BYTES;

pub(crate) fn run(series: &mut Series, data: &[u8]) {
    let mut input = Input::new(data);
    let hostile = Hostile::of(input.byte());
    let rest = input.take(usize::MAX).to_vec();
    let outcome = series.unharmed_by(hostile, move |client| act(client, Input::new(&rest)));
    outcome.assert_faults_lose_a_device();
}

fn act(client: &mut Client, mut input: Input<'_>) {
    while !input.is_over() {
        step(client, &mut input);
    }
}

fn step(client: &mut Client, input: &mut Input<'_>) {
    match input.byte() % 16 {
        0 => {
            let (number, bytes) = (input.number(), input.take(SLOT_BYTES as usize));
            client.slot(number, bytes);
        }
        1 => {
            let (number, packet) = (input.number(), client.packet(input));
            client.slot(number, &packet.encode());
        }
        2..=4 => {
            let packet = client.packet(input);
            client.push(&packet);
        }
        5 => {
            let (word, value) = (input.below(SLOTS as usize), input.number());
            client.control(word, value);
        }
        6 => client.ring_with(input.number()),
        7 => client
            .queue
            .doorbell
            .mapping
            .store(input.below(client.queue.doorbell.mapping.page().len()), input.number()),
        8 => client.queue.doorbell.last_queued.store(input.number()),
        9 => client.connect(),
        10 => {
            let _refused_once_lost =
                client.kernel.notify_work_submission(client.queue.doorbell.handle);
        }
        11 => {
            let (offset, bytes) = (input.number(), client.command_buffer(input));
            client.write_memory(offset, &bytes);
        }
        12 => client.make_fence(),
        13 => client.wait(input.below(4), input.number(), false),
        14 => {
            let value = client.value_that_names(input);
            if input.flag() { client.ring_second_with(value) } else { client.ring_with(value) }
        }
        _ => client.pass(input.number().min(1_000_000)),
    }
}
