//! A store by an engine against the removal of its mapping. The engine translates the address and
//! stores later in the same turn. Meanwhile the process destroys the allocation, and its memory is
//! reassigned to another owner.
//!
//! Before the call returns, the driver has the translations invalidated (`InvalidateTlb`). An
//! invalidation completes when every turn that may use an old translation has ended, so no store
//! reaches the memory afterwards. A later store faults.

use crate::prelude::*;

const STORED: &str = "the store preceded the change of owner";
const FAULTED: &str = "the store came after the unmapping and faulted";

pub(crate) const RACE: Race = Race {
    name: "unmap-against-store",
    about: "an allocation is destroyed while an engine stores to it: no store reaches its memory once the call has returned",
    marks: &[STORED, FAULTED],
    planted: bugs! {
        "unawaited-turns" => Product(PlantedFault::UnawaitedTurns),
            "the CMP invalidates translations and does not wait for the turns that use the old ones";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::of(bounded(1, 5_000_000), exhaustive(20_000_000), exhaustive(5_000_000)),
    prepare,
};

/// The values stored by the engine and by the next owner.
const STALE: u64 = 7;
const NEXT: u64 = 9;

/// Note: the value found when the memory was reassigned to the next owner.
const GIVEN_AWAY: usize = notes::OWN;

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let client = world.client("app");
    let target = client.allocate(8, AllocationKind::Protocol);
    let AllocationMemory::Protocol(words) = target.memory else { panic!("words were requested") };
    let store = Command::WriteValue { destination: GpuVa(target.gpu_va), value: STALE };
    client.submit(&client.hw_queue(), 1, &[store]);
    let (own, probe, word) = (client.kernel.clone(), world.probe.clone(), words.word(0).clone());
    let main = move |_: &Platform| {
        own.destroy_allocation(target.handle).expect("the allocation exists");
        probe.note(GIVEN_AWAY, word.load());
        word.store(NEXT);
    };
    world.race(main, move |world, end| {
        let found = world.probe.seen(GIVEN_AWAY);
        let faulted = client.state().is_ok_and(|state| state != DeviceState::Active);
        end.eventually("the allocation is destroyed", found.is_some());
        let kept = words.word(0).load() == NEXT;
        end.always("no store reaches memory of the next owner", found.is_none() || kept);
        end.eventually("the store completes or faults", faulted != (found == Some(STALE)));
        end.sometimes(STORED, found == Some(STALE));
        end.sometimes(FAULTED, faulted);
    })
}
