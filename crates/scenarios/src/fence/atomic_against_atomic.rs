//! Two queues on two compute engines add to one counter in a buffer at the same time. Each addition
//! is one step, so none is lost, and each thread of a program finds another value.
//!
//! The planted program loads, adds and stores in three steps.

use crate::prelude::*;
use tidegate::programs::{Count, Saxpy};

const FIRST: &str = "the first queue's addition came first";
const SECOND: &str = "the second queue's addition came first";

pub(crate) const RACE: Race = Race {
    name: "atomic-against-atomic",
    about: "two engines add to one counter in a buffer: no addition is lost, whichever comes first",
    marks: &[FIRST, SECOND],
    planted: bugs! {
        "load-add-store" => Scenario,
            "the program loads, adds and stores in separate steps: an addition in between is lost";
    },
    shape: Shape::Machine(&[setting::OWN_THREADS]),
    plans: Plans::samples(3_000, 1_000_000, 20_000),
    prepare,
};

fn word(buffer: &Buffer) -> u32 {
    let mut bytes = [0; 4];
    buffer.read(0, &mut bytes).expect("a buffer of four bytes");
    u32::from_le_bytes(bytes)
}

// spec: ME-008
fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let buffer =
        |name| world.device.create_buffer(BufferDesc::gpu_upload(name, 8)).expect("a buffer");
    let [counter, one] = ["counter", "one"].map(|name| world.keep(buffer(name)));
    one.write(0, &1.0f32.to_le_bytes()).expect("a buffer of eight bytes");
    let is_atomic = !run.has("load-add-store");
    let [(first, add, ticket), (second, add_too, _)] = [0, 1].map(|node| {
        let desc = QueueDesc {
            name: format!("compute {node}"),
            node: Some(node),
            ..QueueDesc::new(CommandListType::Compute).submission(Submission::Hardware)
        };
        let queue = world.keep(world.device.create_queue(desc).expect("a queue"));
        let ticket = world.keep(buffer("ticket"));
        let mut list = world.device.create_command_list(CommandListType::Compute);
        let (counter, tickets) = (&counter, Some(&ticket));
        let recorded = match is_atomic {
            true => list.dispatch(&Count { counter, tickets, n: 1, amount: 1 }, [1; 3]),
            false => list.dispatch(&Saxpy { x: &one, y: counter, n: 1, a: 1.0 }, [1; 3]),
        };
        assert_ok(recorded);
        (queue, world.keep(list.close().expect("a list")), ticket)
    });
    let main = move |platform: &Platform| {
        let other = platform.spawn("other queue", move || assert_ok(second.execute(&[&add_too])));
        assert_ok(first.execute(&[&add]));
        other.join();
    };
    world.race(main, move |_, end| {
        let two = if is_atomic { 2 } else { 2.0f32.to_bits() };
        end.eventually("no addition is lost", word(&counter) == two);
        end.sometimes(FIRST, word(&ticket) == 0);
        end.sometimes(SECOND, word(&ticket) == 1);
    })
}
