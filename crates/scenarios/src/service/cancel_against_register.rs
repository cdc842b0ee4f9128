//! A thread of a client cancels a wait while another thread of the same client registers a wait,
//! which may have the same slot, and signals the fence for both.
//!
//! The notice of the second wait is given once. That of the first is given at most once, and not
//! after the cancellation has returned.

use crate::prelude::*;
use crate::service::served::Served;

const WAS_GIVEN: &str = "the first wait was over before its cancellation";
const CANCELLED: &str = "the first wait was cancelled";

/// Notices of the first wait, and those after its cancellation.
const FIRST: usize = notes::OWN;
const LATE: usize = notes::OWN + 1;
/// Notices of the second wait.
const SECOND: usize = notes::OWN + 2;

pub(crate) const RACE: Race = Race {
    name: "served-cancel-against-register",
    about: "a thread of a client cancels a wait while another registers one: the later wait keeps its notice",
    marks: &[WAS_GIVEN, CANCELLED],
    planted: bugs! {
        "cancelled-by-slot" => Product(PlantedFault::WaitIsCancelledByItsSlot),
            "the service cancels the wait that it finds in the slot: that is the later wait if its call came first";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare,
};

/// Counts its calls, and those after the cancellation.
struct Callback {
    given: Word,
    late: Word,
    is_cancelled: Word,
}

impl WaitCallback for Callback {
    fn wait_is_over(&self) {
        self.given.fetch_add(1);
        self.late.fetch_add(self.is_cancelled.load());
    }
}

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let served = Served::new(&world);
    let (service, probe) = (served.clone(), world.probe.clone());
    let page = run.platform.page(6);
    let callback = |at: usize| Callback {
        given: page.word(at).named("notices of a wait"),
        late: page.word(at + 1).named("notices after the cancellation"),
        is_cancelled: page.word(at + 2).named("whether a wait is cancelled"),
    };
    let (first, second) = (Arc::new(callback(0)), Arc::new(callback(3)));
    let main = move |platform: &Platform| {
        let (process, fence, wait) = platform.unexplored(|| {
            let process = service.connect("two threads");
            let fence = process.client.try_monitored(0, SyncObjectFlags::empty());
            let fence = fence.expect("a fence");
            let (calls, notice) = (&process.client.kernel, WaitNotice::Callback(first.clone()));
            let wait = calls.register_cpu_wait(&at(&fence, 1), WaitMode::All, notice);
            (process, fence, wait.expect("a wait"))
        });
        let cancelled = first.clone();
        let cancels = platform.spawn("canceller", move || {
            drop(wait);
            cancelled.is_cancelled.exchange(1);
        });
        let kernel = &process.client.kernel;
        let notice = WaitNotice::Callback(second.clone());
        let later = kernel.register_cpu_wait(&at(&fence, 2), WaitMode::All, notice);
        kernel.signal_from_cpu(&at(&fence, 2), SignalFlags::empty()).expect("a signal");
        cancels.join();
        drop(later.expect("a wait"));
        probe.note(FIRST, first.given.load());
        probe.note(LATE, first.late.load());
        probe.note(SECOND, second.given.load());
        drop(process);
        service.end();
    };
    world.race_without_pause(main, move |world, end| {
        served.has_ended(end);
        let [first, late, second] = [FIRST, LATE, SECOND].map(|note| world.probe.seen(note));
        end.always("the later notice is given once", second.is_none_or(|given| given == 1));
        end.always("the first notice is given at most once", first.is_none_or(|given| given <= 1));
        end.always("no notice follows the cancellation", late.is_none_or(|late| late == 0));
        end.sometimes(WAS_GIVEN, first == Some(1));
        end.sometimes(CANCELLED, first == Some(0));
    })
}
