//! Paging against powering down an adapter. An allocation is evicted so that another can be paged
//! in, while the idle adapter is powered down, which evicts everything. Both move the same memory,
//! one with an engine and one with the CPU, and must not observe each other's partial moves.
//!
//! Local memory has room for one allocation, which one process has written and evicted. In the run,
//! another process submits a fill of its own allocation, which must be paged in, while another
//! agent powers down the adapter.

use crate::prelude::*;

const STAYED: &str = "the work or the paging kept the adapter powered";
const WOKEN: &str = "the adapter was powered down, and paging woke it";

pub(crate) const RACE: Race = Race {
    name: "page-against-d3",
    about: "memory is paged while an idle adapter is powered down: no data is lost, and the work runs",
    marks: &[STAYED, WOKEN],
    planted: bugs! {
        "power-over-paging" => Product(PlantedFault::PagingUnseen),
            "the kernel powers down with a paging operation queued, and does not power up for it";
    },
    shape: Shape::Machine(&[setting::MANAGED_POWER, setting::LITTLE_LOCAL_MEMORY]),
    plans: Plans::samples(20_000, 1_000_000, 100_000),
    prepare,
};

/// Set if the adapter stayed powered.
const KEPT: usize = notes::OWN;

/// Size of each allocation in bytes.
const BYTES: u64 = 64;

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let desc = |name: &str| BufferDesc::gpu_upload(name, BYTES);
    let left = world.device.create_buffer(desc("left")).expect("a buffer");
    left.write(0, &[9; BYTES as usize]).expect("a write");
    world.device.evict(&[&left]).expect("an eviction");
    let options =
        DeviceOptions { residency: ResidencyChoice::Automatic, ..DeviceOptions::default() };
    let other = world.machine.device(options).expect("another process");
    let wanted = other.create_buffer(desc("wanted")).expect("a buffer");
    let queue = world.keep(queue_on(&other, "copy", Submission::Hardware));
    let list = world.keep(list_of(&other, |list| list.fill(&wanted, 0, BYTES, 7)));
    let (adapter, probe) = (world.machine.adapter().clone(), world.probe.clone());
    let main = move |platform: &Platform| {
        platform.spawn("power", move || {
            let state = adapter.power_down_if_idle().expect("power is managed");
            if state == DevicePowerState::D0 {
                probe.note(KEPT, 1);
            }
        });
        assert_ok(queue.execute(&[&list]));
    };
    world.race(main, move |world, end| {
        let (mut filled, mut kept) = ([0; 4], [0; BYTES as usize]);
        let read = wanted.read(BYTES - 4, &mut filled).is_ok() && left.read(0, &mut kept).is_ok();
        end.always("the submission does not fault", other.removed_reason().is_none());
        end.eventually("the work runs on paged-in memory", read && filled == [7, 0, 0, 0]);
        end.always("the evicted memory keeps its content", read && kept == [9; BYTES as usize]);
        end.sometimes(STAYED, world.noted(KEPT));
        end.sometimes(WOKEN, world.noted(notes::POWERED));
    })
}
