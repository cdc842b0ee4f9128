//! A store by an engine against the end of the mapping that the store goes through. The engine
//! translates the address, and stores later in the same turn. Meanwhile the process destroys the
//! allocation, and its memory goes to another owner.
//!
//! When the call returns the driver has had the translations invalidated (`InvalidateTlb`). An
//! invalidation is complete when every turn that may use an old translation is over, so no store
//! lands in the memory from then on. A store that comes later faults.

use crate::prelude::*;
use tidegate::calls::{AllocationKind, AllocationMemory, DeviceState};
use tidegate::gpu_abi::{Command, GpuVa};

const STORED: &str = "the store landed before the memory was given away";
const FAULTED: &str = "the store came after the mapping was gone, and faulted";

pub(crate) const RACE: Race = Race {
    name: "unmap-against-store",
    about: "an allocation ends while an engine stores to it: nothing lands in its memory once the call has returned",
    marks: &[STORED, FAULTED],
    planted: &[Bug {
        name: "unawaited-turns",
        about: "the CMP invalidates translations and does not wait for the turns that use the old ones",
        fault: Fault::Product("unawaited turns"),
    }],
    plans: Plans::of(bounded(1, 5_000_000), exhaustive(20_000_000), exhaustive(5_000_000)),
    prepare,
};

/// What the engine stores, and what the next owner of the memory does.
const STALE: u64 = 7;
const NEXT: u64 = 9;

/// The note that the memory was given away, with what stood in it.
const GIVEN_AWAY: usize = notes::OWN;

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world(|_| ());
    let client = world.client("app");
    let target = client.allocate(8, AllocationKind::Protocol);
    let AllocationMemory::Protocol(words) = target.memory else { panic!("words were requested") };
    let store = Command::WriteValue { destination: GpuVa(target.gpu_va), value: STALE };
    client.submit(&client.hw_queue(), 1, &[store]);
    let (own, probe, word) = (client.kernel.clone(), world.probe.clone(), words.word(0).clone());
    let main = move |_: &Platform| {
        own.destroy_allocation(target.handle).expect("its own allocation");
        probe.note(GIVEN_AWAY, word.load());
        word.store(NEXT);
    };
    world.race(main, move |world, end| {
        let found = world.probe.seen(GIVEN_AWAY);
        let faulted = client.state().is_ok_and(|state| state != DeviceState::Active);
        end.eventually("the allocation ends", found.is_some());
        let kept = words.word(0).load() == NEXT;
        end.always("nothing lands in memory that was given away", found.is_none() || kept);
        end.eventually("the store is made or faults", faulted != (found == Some(STALE)));
        end.sometimes(STORED, found == Some(STALE));
        end.sometimes(FAULTED, faulted);
    })
}
