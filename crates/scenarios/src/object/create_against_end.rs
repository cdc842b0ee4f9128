//! Objects of each kind that are created while another thread ends their parent: the device, the
//! hardware context, the process or the adapter ends, or the device is lost.
//!
//! Invariants: a call is granted or refused with the documented status, and no call is granted
//! after a refused one. Each granted object ends with its parent. A wait that was granted ends. In
//! the end the adapter has as many objects of each kind as before.

use crate::prelude::*;
use tidegate::dxgkrnl::Process;
use tidegate::platform::once;

const ALL: &str = "every object was created";
const NONE: &str = "no object was created";

/// The created objects, in order. The mark of an object: its creation is the first call that is
/// refused.
const CREATED: [&str; 8] = [
    "a packet context is the first that is refused",
    "a hardware context is the first that is refused",
    "a hardware queue is the first that is refused",
    "a user-mode queue is the first that is refused",
    "ring memory or doorbell are the first that are refused",
    "a monitored fence is the first that is refused",
    "a wait is the first that is refused",
    "a native fence is the first that is refused",
];
/// Objects that can be refused first when their hardware context ends.
const OF_CONTEXT: [&str; 2] = [CREATED[2], CREATED[3]];

/// Number of calls that were granted before the first refused one.
const GRANTED: usize = notes::OWN;
/// A call was granted after a refused one.
const AGAIN: usize = notes::OWN + 1;
/// Not 0 if a call was refused with another status than the documented one.
const WRONG_STATUS: usize = notes::OWN + 2;
const ENDED: usize = notes::OWN + 3;
/// Not 0 if no granted wait is left before the device is destroyed.
const RELEASED: usize = notes::OWN + 4;

const LATE_CLOSE: Bug = Bug {
    name: "late-close",
    about: "the handle table of a process is closed after its objects have ended: an object that is created in between stays",
    fault: Fault::Product(PlantedFault::ProcessIsClosedAfterItsObjectsHaveEnded),
};

const fn race(
    name: &'static str,
    about: &'static str,
    marks: &'static [&'static str],
    planted: &'static [Bug],
    prepare: fn(&Run<'_>) -> Prepared,
) -> Race {
    let plans = Plans::samples(30_000, 1_000_000, 100_000);
    Race { name, about, marks, planted, shape: Shape::Machine(&[]), plans, prepare }
}

const MARKS: &[&str] = &[
    ALL, NONE, CREATED[0], CREATED[1], CREATED[2], CREATED[3], CREATED[4], CREATED[5], CREATED[6],
    CREATED[7],
];

pub(crate) const OF_DEVICE: Race = race(
    "create-against-device-end",
    "objects of every kind are created while their device is destroyed: none outlives it",
    MARKS,
    bugs! {
        "no-look-at-device" => Product(PlantedFault::NoLookAtTheDeviceOfANewObject),
            "an object enters the handle table although its device has ended meanwhile";
        "late-retirement" => Product(PlantedFault::DeviceRetiredAfterItsObjects),
            "the device is retired after its objects were destroyed";
    },
    |run| prepare(run, End::Device),
);

pub(crate) const OF_CONTEXT_END: Race = race(
    "create-against-context-end",
    "queues are created while the handle of their hardware context is closed: the context ends with its last queue",
    &[ALL, NONE, OF_CONTEXT[1]],
    &[],
    |run| prepare(run, End::Context),
);

pub(crate) const OF_LOSS: Race = race(
    "create-against-loss",
    "objects of every kind are created while their device is lost: they are refused or unusable, and waits end",
    MARKS,
    bugs! {
        "late-loss" => Product(PlantedFault::DeviceIsLostAfterItsWorkHasEnded),
            "the device reads as lost after its work has ended: a fence and its wait that are made in between never end";
    },
    |run| prepare(run, End::Loss),
);

pub(crate) const OF_PROCESS: Race = race(
    "create-against-process-end",
    "objects of every kind are created while their process is killed: none outlives it",
    MARKS,
    &[LATE_CLOSE],
    |run| prepare(run, End::Process),
);

pub(crate) const OF_ADAPTER: Race = race(
    "create-against-removal",
    "objects of every kind are created while their adapter is removed: none is left",
    MARKS,
    &[
        LATE_CLOSE,
        Bug {
            name: "packets-left",
            about: "a removal ends no packets: the pager waits for one that it has submitted for a new context",
            fault: Fault::Product(PlantedFault::RemovalLeavesPacketsToTheEngines),
        },
    ],
    |run| prepare(run, End::Adapter),
);

/// What ends beside the calls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Device,
    Context,
    Loss,
    Process,
    Adapter,
}

impl End {
    /// Returns the documented status of a call that comes too late.
    fn status(self) -> Status {
        match self {
            End::Device | End::Context => Status::INVALID_PARAMETER,
            End::Loss | End::Process | End::Adapter => Status::DEVICE_REMOVED,
        }
    }
}

/// Creates an object of each kind, until the first refusal and once more. Returns the event of the
/// wait.
fn create(client: &Client, end: End, probe: &Probe) -> Option<Event> {
    let mut calls = Calls { end, probe, granted: 0, is_refused: false };
    if end == End::Context {
        return None;
    }
    let normal = Priority::Normal;
    calls.note(client.try_context(0, normal));
    let context = calls.note(client.try_hw_context(0));
    let user = context.and_then(|context| {
        calls.note(client.hw_queue_in(context, false));
        calls.note(client.hw_queue_in(context, true))
    });
    if let Some(user) = user
        && let Some(user) = calls.note(client.try_with_ring(user))
    {
        // Its status is the doorbell's.
        let _connected = user.connect();
    }
    let fence = calls.note(client.try_monitored(0, SyncObjectFlags::empty()));
    let event = fence.and_then(|fence| calls.note(client.try_wait_event(&fence, 5)));
    calls.note(client.try_native(0, SyncObjectFlags::empty()));
    calls.end();
    event
}

/// Creates a queue of either kind in the context.
fn create_queues(client: &Client, context: tidegate::calls::Handle, probe: &Probe) {
    let mut calls = Calls { end: End::Context, probe, granted: 0, is_refused: false };
    let user = calls.note(client.hw_queue_in(context, false));
    calls.note(client.hw_queue_in(context, true));
    drop(user);
    calls.end();
}

/// The outcomes of the calls.
struct Calls<'a> {
    end: End,
    probe: &'a Probe,
    granted: u64,
    is_refused: bool,
}

impl Calls<'_> {
    fn note<T>(&mut self, call: Result<T, Status>) -> Option<T> {
        match &call {
            Ok(_) if self.is_refused => self.probe.note(AGAIN, 1),
            Ok(_) => self.granted += 1,
            Err(status) => {
                self.is_refused = true;
                if *status != self.end.status() {
                    self.probe.note(WRONG_STATUS, u64::from(status.0 as u32));
                }
            }
        }
        call.ok()
    }

    fn end(self) {
        self.probe.note(GRANTED, self.granted);
    }
}

/// Returns the numbers of the adapter's objects that processes create.
fn counted(adapter: &Adapter) -> [usize; 7] {
    let census = adapter.census();
    [
        census.devices,
        census.contexts,
        census.hw_contexts,
        census.hw_queues,
        census.doorbells,
        census.fences,
        census.fence_waits,
    ]
}

fn prepare(run: &Run<'_>, end_of: End) -> Prepared {
    let world = run.world();
    // The first packet context has the memory manager open its own context and device, which stay.
    let opener = world.client("the first process");
    let before: Arc<OnceLock<[usize; 7]>> = Arc::default();
    let process: Arc<Process> = world.machine.process("victim").expect("a process");
    let kernel: Arc<dyn Kernel> = process.clone();
    let device = kernel.create_device().expect("a device");
    let client = Client::of(world.machine.platform(), kernel.clone(), device);
    let context = (end_of == End::Context).then(|| client.hw_context(0));
    let kept = process.clone();
    let (probe, adapter) = (world.probe.clone(), world.machine.adapter().clone());
    let (counted_before, counts) = (before.clone(), adapter.clone());
    let main = move |platform: &Platform| {
        opener.context(0);
        sleep_until_idle(platform);
        // Without the device and the context that the race ends.
        let mut now = counted(&counts);
        now[0] -= 1;
        now[2] -= usize::from(context.is_some());
        once::make_alone(&counted_before, || now);
        let ended = probe.clone();
        let ender = platform.spawn("ender", move || {
            match end_of {
                End::Device => kernel.destroy_device(device).expect("it exists"),
                End::Context => {
                    kernel.destroy_hw_context(context.expect("a context")).expect("it exists");
                }
                End::Loss => {
                    let reason = DeviceErrorReason::Generic;
                    kernel.mark_device_as_error(device, reason).expect("it exists");
                }
                End::Process => process.terminate(),
                End::Adapter => adapter.remove(),
            }
            ended.note(ENDED, 1);
        });
        let wait = match context {
            Some(context) => {
                create_queues(&client, context, &probe);
                None
            }
            None => create(&client, end_of, &probe),
        };
        ender.join();
        sleep_until_idle(platform);
        let is_released = wait.is_none_or(|event| event.try_take());
        probe.note(RELEASED, u64::from(is_released));
        if matches!(end_of, End::Context | End::Loss) {
            client.kernel.destroy_device(device).expect("it exists");
        }
    };
    world.race(main, move |world, end| {
        let left = counted(world.machine.adapter());
        let expected = match end_of {
            End::Adapter => Some([0; 7]),
            End::Device | End::Context | End::Loss | End::Process => before.get().copied(),
        };
        end.eventually("the parent ends", world.noted(ENDED));
        end.eventually("no object outlives its parent", Some(left) == expected);
        end.always("no call is granted after a refused one", !world.noted(AGAIN));
        end.always("the status is the documented one", !world.noted(WRONG_STATUS));
        end.eventually("a granted wait ends", world.probe.seen(RELEASED) == Some(1));
        let granted = world.probe.seen(GRANTED);
        let names = if end_of == End::Context { &OF_CONTEXT[..] } else { &CREATED[..] };
        end.sometimes(ALL, granted == Some(names.len() as u64));
        end.sometimes(NONE, granted == Some(0));
        let from = usize::from(end_of == End::Context);
        for (at, name) in names.iter().enumerate().skip(from) {
            end.sometimes(name, granted == Some(at as u64));
        }
        // A process that ends itself would end what it has left.
        drop(kept);
    })
}
