//! Paging against an adapter that loses its power: an allocation leaves local memory so that another
//! one can come in, while an idle adapter gives up its power, for which everything has to leave.
//! Both move the same memory, one by an engine and one by the CPU, and neither may find the other
//! half done.
//!
//! Local memory holds one allocation, which one process has written and given up. In the run another
//! process submits a fill of its own allocation, which therefore has to come in, while another agent
//! takes the power.

use crate::prelude::*;
use tidegate::d3d12::{BufferDesc, DeviceOptions, Heap, ResidencyChoice};
use tidegate::ddi::DevicePowerState;

const STAYED: &str = "the adapter kept its power because of the work, or of the paging";
const WOKEN: &str = "the power went, and paging woke the adapter";

pub(crate) const RACE: Race = Race {
    name: "page-against-d3",
    about: "memory is paged while an idle adapter loses its power: nothing is lost, and the work runs",
    marks: &[STAYED, WOKEN],
    planted: &[Bug {
        name: "power-over-paging",
        about: "the kernel takes the power while an operation of paging is left to be carried out, and does not give it back for that",
        fault: Fault::Product("paging unseen"),
    }],
    plans: Plans::samples(20_000, 1_000_000, 100_000),
    prepare,
};

/// The power was not taken.
const KEPT: usize = notes::OWN;

/// Of each allocation.
const BYTES: u64 = 64;

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world(|config| {
        managed_power(config);
        config.gpu.local_memory_bytes = BYTES;
    });
    let desc = |name: &str| BufferDesc { name: name.to_owned(), bytes: BYTES, heap: Heap::Default };
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
        ends_well(queue.execute(&[&list]));
    };
    world.race(main, move |world, end| {
        let (mut filled, mut kept) = ([0; 4], [0; BYTES as usize]);
        let read = wanted.read(BYTES - 4, &mut filled).is_ok() && left.read(0, &mut kept).is_ok();
        end.always("nothing of the submission faults", other.removed_reason().is_none());
        end.eventually("the work runs on memory that came in", read && filled == [7, 0, 0, 0]);
        end.always("what left local memory is kept", read && kept == [9; BYTES as usize]);
        end.sometimes(STAYED, world.noted(KEPT));
        end.sometimes(WOKEN, world.noted(notes::POWERED));
    })
}
