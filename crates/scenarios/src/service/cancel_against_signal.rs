//! A client of a service cancels a wait with a callback while another client signals its fence. The
//! client's own thread gives the notice when the bell rings.
//!
//! No notice is given after the cancellation has returned.

use crate::prelude::*;
use crate::service::served::Served;

const GIVEN: &str = "the notice was given";
const CANCELLED: &str = "the wait was cancelled before its notice";

const WAS_GIVEN: usize = notes::OWN;
const WAS_LATE: usize = notes::OWN + 1;

pub(crate) const RACE: Race = Race {
    name: "served-cancel-against-signal",
    about: "a client of a service cancels a wait while another client signals: no notice follows the cancellation",
    marks: &[GIVEN, CANCELLED],
    planted: bugs! {
        "unlocked-notice" => Product(PlantedFault::NoticeAfterCancel),
            "the client gives a notice after it has dropped the lock that orders it with the cancellation";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::of(bounded(1, 1_000_000), bounded(2, 20_000_000), bounded(1, 1_000_000)),
    prepare,
};

struct Callback {
    /// 1 once the cancellation has returned.
    cancelled: Word,
    probe: Probe,
}

impl WaitCallback for Callback {
    fn wait_is_over(&self) {
        self.probe.note(WAS_GIVEN, 1);
        if self.cancelled.load() != 0 {
            self.probe.note(WAS_LATE, 1);
        }
    }
}

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let served = Served::new(&world);
    let (service, probe) = (served.clone(), world.probe.clone());
    let cancelled = run.platform.page(1).word(0).named("the cancellation");
    let main = move |platform: &Platform| {
        let callback = Arc::new(Callback { cancelled: cancelled.clone(), probe });
        let ([(signaller, theirs), (waiter, _)], wait) = platform.unexplored(|| {
            let both = service.connect_two(["signaller", "waiter"]);
            let (calls, own) = (&both[1].0.client.kernel, &both[1].1);
            let notice = WaitNotice::Callback(callback);
            let wait = calls.register_cpu_wait(&at(own, 1), WaitMode::All, notice);
            (both, wait.expect("a wait"))
        });
        let calls = signaller.client.kernel.clone();
        let signals = platform.spawn("signaller", move || {
            calls.signal_from_cpu(&at(&theirs, 1), SignalFlags::empty()).expect("a signal");
        });
        drop(wait);
        cancelled.exchange(1);
        signals.join();
        drop(waiter);
        service.end();
    };
    world.race_without_pause(main, move |world, end| {
        served.has_ended(end);
        end.always("no notice follows the cancellation", !world.noted(WAS_LATE));
        end.sometimes(GIVEN, world.noted(WAS_GIVEN));
        end.sometimes(CANCELLED, !world.noted(WAS_GIVEN));
    })
}
