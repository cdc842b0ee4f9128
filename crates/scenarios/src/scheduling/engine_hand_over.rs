//! The lists of one queue on two engines. A compute queue runs a dispatch on its own engine and the
//! following copy on the copy engine. The compute part signals the hand-over fence after the
//! dispatch, and the copy part waits for it. The last dispatch overwrites what the copy reads, so
//! the order holds in both directions.
//!
//! All work is in the rings before the run begins.

use crate::prelude::*;

const STALLED: &str = "the copy engine parked before the dispatch was done";
const PASSED: &str = "the copy engine found the dispatch done";

/// The program `fill_pattern`.
const FILL_PATTERN: u32 = 9;

pub(crate) const RACE: Race = Race {
    name: "engine-hand-over",
    about: "a queue has a dispatch on one engine, then a copy of its result on another, then a dispatch again: they run in order",
    marks: &[STALLED, PASSED],
    planted: bugs! {
        "no-hand-over" => Product(PlantedFault::NoHandoverBetweenEngines),
            "the part on the other engine does not wait for the part before it";
    },
    shape: Shape::Machine(&[setting::OWN_THREADS]),
    plans: Plans::samples(20_000, 1_000_000, 20_000),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let device = &world.device;
    let desc = QueueDesc::compute("queue").submission(Submission::User);
    let queue = device.create_queue(desc.engines(EnginePolicy::ByCommands)).expect("a queue");
    let queue = world.keep(queue);
    let buffer = |name| device.create_buffer(BufferDesc::readback(name, 4)).expect("a buffer");
    let [source, target] = ["source", "target"].map(|name| world.keep(buffer(name)));
    let list = |value: Option<u32>| {
        let mut list = device.create_command_list(CommandListType::Compute);
        let recorded = match value {
            None => list.copy(&target, 0, &source, 0, 4),
            Some(value) => {
                let args = [Arg::Buffer(&source, 0), Arg::U32(1), Arg::U32(value), Arg::U32(0)];
                list.dispatch_by_number(FILL_PATTERN, [1; 3], &args)
            }
        };
        recorded.expect("a command");
        world.keep(list.close().expect("a list"))
    };
    let lists = [list(Some(7)), list(None), list(Some(9))];
    queue.execute(&lists.each_ref()).expect("a submission");
    world.race(
        |_| (),
        move |world, end| {
            let stalled = world.machine.gpu().stats().gpu_waits_stalled > 1;
            let words = (word(&source), word(&target));
            end.eventually("every list runs", words.0 == 9);
            end.always("the lists run in their order", words.0 != 9 || words.1 == 7);
            end.sometimes(STALLED, stalled);
            end.sometimes(PASSED, !stalled);
        },
    )
}

fn word(buffer: &Buffer) -> u32 {
    let mut bytes = [0; 4];
    buffer.read(0, &mut bytes).expect("a buffer that the CPU reads");
    u32::from_le_bytes(bytes)
}
