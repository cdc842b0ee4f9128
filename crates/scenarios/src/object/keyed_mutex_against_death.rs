//! The owner of a keyed mutex is terminated while it releases the mutex, and two threads wait for
//! their keys. The release passes the mutex to the first thread, which passes it to the second.
//!
//! A waiter is told the number of the next change and waits for it. Whenever the owner ends, both
//! waiters come back: each has acquired the mutex, or knows that it is abandoned.

use crate::prelude::*;
use tidegate::calls::{CreateKeyedMutex, KeyedMutexAcquire, ReleaseKeyedMutex, ResourceName};

const PASSED_ON: &str = "both waiters acquired the mutex, one after the other";
const ABANDONED: &str = "both waiters were told that the mutex is abandoned";

/// What each waiter was told.
const FIRST: usize = notes::OWN;
const SECOND: usize = notes::OWN + 1;

const ACQUIRED: u64 = 1;
const GIVEN_UP: u64 = 2;

/// The keys of the owner and of the waiters.
const KEYS: [u64; 3] = [0, 1, 2];

pub(crate) const RACE: Race = Race {
    name: "keyed-mutex-against-death",
    about: "the owner of a keyed mutex releases it and is terminated: each waiter acquires it or is told that it is abandoned",
    marks: &[PASSED_ON, ABANDONED],
    planted: bugs! {
        "change-after" => Scenario,
            "a waiter waits for the change after the next one, which does not come";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare,
};

fn release(client: &Client, mutex: Handle, key: u64) -> Result<(), Status> {
    let args = ReleaseKeyedMutex { mutex, key, fence_value: 0, replaces_data: false, data: &[] };
    client.kernel.release_keyed_mutex(args)
}

/// A thread that waits for its key.
struct Waiting {
    client: Client,
    mutex: Handle,
    changes: FenceInstance,
    key: u64,
    /// By how much it waits too far.
    too_far: u64,
}

impl Waiting {
    fn acquire(&self) -> u64 {
        loop {
            match self.client.kernel.acquire_keyed_mutex(self.mutex, self.key) {
                Ok(KeyedMutexAcquire::Held { change }) => {
                    let next = at(&self.changes, change + self.too_far);
                    let wait = self.client.kernel.wait_from_cpu(&next, WaitMode::All, None);
                    if wait.is_err() {
                        return 0;
                    }
                }
                Ok(KeyedMutexAcquire::Acquired { .. }) => return ACQUIRED,
                Ok(KeyedMutexAcquire::Abandoned) => return GIVEN_UP,
                Err(status) => panic!("a waiter is refused: {status}"),
            }
        }
    }
}

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let creator = world.client("creator");
    let created = creator.kernel.create_keyed_mutex(CreateKeyedMutex {
        device: creator.device,
        initial_key: KEYS[0],
        data: Vec::new(),
        nt_security_sharing: false,
    });
    let global = created.expect("a keyed mutex").shared_handle;
    let open = |client: &Client| {
        let opened = client.kernel.open_keyed_mutex(ResourceName::Shared(global));
        opened.expect("an instance").handle
    };
    let process = world.machine.process("owner").expect("a process");
    let device = process.create_device().expect("a device");
    let owner = Client::of(run.platform, process.clone(), device);
    let owned = open(&owner);
    let acquired = owner.kernel.acquire_keyed_mutex(owned, KEYS[0]);
    assert!(matches!(acquired, Ok(KeyedMutexAcquire::Acquired { .. })));
    let too_far = u64::from(run.has("change-after"));
    let waiting = |name: &str, key| {
        let client = world.client(name);
        let mutex = open(&client);
        let changes = client.kernel.open_keyed_mutex_changes(client.device, mutex);
        let changes = changes.expect("the fence of the changes");
        Waiting { client, mutex, changes, key, too_far }
    };
    let [first, second] = [waiting("first", KEYS[1]), waiting("second", KEYS[2])];
    let probe = world.probe.clone();
    let main = move |platform: &Platform| {
        let (of_first, of_second) = (probe.clone(), probe.clone());
        let threads = [
            platform.spawn("owner", move || {
                // Refused when the process has ended.
                let _released = release(&owner, owned, KEYS[1]);
            }),
            platform.spawn("first", move || {
                let outcome = first.acquire();
                of_first.note(FIRST, outcome);
                if outcome == ACQUIRED {
                    release(&first.client, first.mutex, KEYS[2]).expect("it is the owner");
                }
            }),
            platform.spawn("second", move || of_second.note(SECOND, second.acquire())),
        ];
        process.terminate();
        threads.iter().for_each(|thread| _ = thread.join());
    };
    world.race(main, move |world, end| {
        let _kept = &creator;
        let told = [FIRST, SECOND].map(|note| world.probe.seen(note));
        end.eventually("both waiters come back", told.iter().all(|outcome| outcome.is_some()));
        let [first, second] = told;
        end.always("an abandoned mutex stays abandoned", first == second || second.is_none());
        end.sometimes(PASSED_ON, told == [Some(ACQUIRED); 2]);
        end.sometimes(ABANDONED, told == [Some(GIVEN_UP); 2]);
    })
}
