//! CPU waits: what is registered after their end, and what a signal under way may still do.

use super::fences::FencesOfDevice;
use crate::fence::FenceTarget;
use crate::fence::cpu_wait::{self, SpareWaits};
use crate::fence::{EventSet, Instance, monitor, signal};
use tidegate_calls::{SignalFlags, Status, WaitMode, WaitNotice};
use tidegate_d3dukmdt::FenceWait;
use tidegate_ddi::Passive;
use tidegate_platform::{Platform, StepCosts};

fn begun<'a>(conditions: &[(&'a Instance, u64)]) -> Vec<(&'a Instance, FenceWait)> {
    let begin = |(instance, value): &(&'a Instance, u64)| {
        (*instance, monitor::begin_wait(&instance.fence, *value))
    };
    conditions.iter().map(begin).collect()
}

#[test]
fn a_wait_for_any_fence_leaves_no_registration() {
    let level = &Passive::enter();
    let made = FencesOfDevice::new(&Platform::closed_host());
    let [first, second, third] = [0; 3].map(|value| made.instance(value));
    let (fences, spare) = (&made.fences, &SpareWaits::new(&made.port.platform));
    let enter = |conditions: &[(&Instance, u64)]| {
        let event = made.port.platform.event(false);
        let waits = begun(conditions).into_iter();
        let any = WaitMode::Any;
        cpu_wait::enter(level.into(), fences, waits, any, Some(event.clone()), spare);
        event
    };
    // The signal of one fence ends it.
    let event = enter(&[(&first, 1), (&second, 1)]);
    assert_eq!((fences.waits(), event.try_take()), (2, false));
    signal::signal(
        level.into(),
        &[FenceTarget { fence: second.fence.clone(), value: 1 }],
        SignalFlags::empty(),
    );
    assert_eq!((fences.waits(), event.try_take(), event.try_take()), (0, true, false));
    // It ends at a registration: after others, before others, and between them.
    for order in [[1, 3, 2], [2, 1, 3], [1, 2, 3], [3, 1, 2]] {
        let of = |number| match number {
            1 => (&first, 1),
            2 => (&second, 1),
            _ => (&third, 1),
        };
        let event = enter(&order.map(of));
        let found = (fences.waits(), event.try_take(), event.try_take());
        assert_eq!(found, (0, true, false), "{order:?}");
    }
}

#[test]
fn a_wait_that_ends_with_the_machine_leaves_no_registration() {
    for mode in [WaitMode::All, WaitMode::Any] {
        let platform = Platform::virtual_time(StepCosts::free());
        let seen = platform.page(2);
        let (before, after) = (seen.word(0), seen.word(1));
        let world = platform.clone();
        let report = platform.run(move || {
            let level = &Passive::enter();
            let made = FencesOfDevice::new(&world);
            let (never, spare) = (made.instance(0), SpareWaits::new(&world));
            let waits = begun(&[(&never, 7), (&never, 8)]).into_iter();
            let entered = cpu_wait::enter(level.into(), &made.fences, waits, mode, None, &spare);
            before.store(1 + made.fences.waits() as u64);
            assert_eq!(entered.block(level.into(), &spare, &[]), Err(Status::CANCELLED));
            after.store(1 + made.fences.waits() as u64);
        });
        assert_eq!(report.blocked.len(), 1, "the wait ends with the machine");
        assert_eq!((seen.load(0), seen.load(1)), (3, 1));
    }
}

#[test]
fn a_signal_under_way_gives_no_notice_of_a_cancelled_wait() {
    let level = &Passive::enter();
    let made = FencesOfDevice::new(&Platform::closed_host());
    let (instance, event) = (made.instance(0), made.port.platform.event(false));
    let notice = WaitNotice::Event(event.clone());
    let (waits, all) = (begun(&[(&instance, 3)]).into_iter(), WaitMode::All);
    let entered = cpu_wait::enter_registered(level.into(), &made.fences, waits, all, notice);
    let registered = entered.into_registered();
    // The signal has taken the waiter and has not called it.
    let taken = instance.fence.waiters.lock().take_all();
    registered.cancel(level.into());
    for (waiter, ticket) in taken {
        waiter.wake(level.into(), ticket, &mut EventSet::of(1));
    }
    assert!(!event.try_take());
}

/// A blocking wait is used again while a signal of an earlier use may still call it. The number of
/// the use tells them apart.
#[test]
fn a_late_signal_of_an_earlier_use_does_not_end_the_next_wait() {
    let level = &Passive::enter();
    let made = FencesOfDevice::new(&Platform::closed_host());
    let (instance, spare) = (made.instance(0), SpareWaits::new(&made.port.platform));
    let enter = |value| {
        let waits = begun(&[(&instance, value)]).into_iter();
        cpu_wait::enter(level.into(), &made.fences, waits, WaitMode::All, None, &spare)
    };
    let first = enter(3);
    // The signal has taken the waiter and calls it twice: now, and when the wait is used again.
    let taken = instance.fence.waiters.lock().take_all();
    let wake = || {
        let mut events = EventSet::of(1);
        for (waiter, ticket) in &taken {
            waiter.wake(level.into(), *ticket, &mut events);
        }
    };
    wake();
    assert_eq!(first.block(level.into(), &spare, &[]), Ok(()));
    let second = enter(4);
    wake();
    let registered = second.into_registered();
    assert!(!registered.is_over(), "no signal has reached 4");
    registered.cancel(level.into());
}
