//! Fences: CPU waits and signals, events, device loss.

use crate::bench::{Bench, bench, bench_on, bench_with, desc};
use std::time::Duration;
use tidegate_d3d12::Event;
use tidegate_d3d12::*;
use tidegate_platform::PlatformKind;
use tidegate_testbed::prelude::*;

#[test]
// spec: NF-001, ME-034, ME-035, ME-036
fn a_value_that_user_mode_can_see_needs_no_kernel_call() {
    bench(|b| {
        let fence = b.device.create_fence("f", 5).unwrap();
        assert_eq!(fence.completed_value(), 5);
        b.kernel.take();
        fence.wait(5).unwrap();
        assert_eq!(b.kernel.take(), []);
        fence.signal(3).unwrap();
        let calls = b.kernel.take();
        assert!(calls.len() == 1 && calls[0].name == "signal_from_cpu", "{calls:?}");
        assert!(calls[0].args.contains("ALLOW_FENCE_REWIND"), "{calls:?}");
        assert_eq!(fence.completed_value(), 3, "values may go down");
        let again = fence.clone();
        let waiter = b.platform.spawn("waiter", move || again.wait(5).unwrap());
        b.work();
        assert_eq!(b.kernel.take_names(), ["wait_from_cpu"]);
        fence.signal(5).unwrap();
        waiter.join();
        let counters = b.device.counters();
        assert_eq!((counters.cpu_waits, counters.cpu_wakes), (2, 1));
    });
}

#[test]
// spec: ME-033, ME-044, ME-045
fn events_and_several_fences() {
    bench(|b| {
        let (one, two) =
            (b.device.create_fence("one", 1).unwrap(), b.device.create_fence("two", 0).unwrap());
        let event = b.device.create_event(EventDesc::auto_reset());
        one.set_event_on_completion(1, &event).unwrap();
        assert!(event.try_take());
        b.kernel.take();
        b.device.wait_multiple(&[(&one, 1), (&two, 1)], WaitMode::Any).unwrap();
        assert_eq!(b.kernel.take(), []);
        let all = b.device.create_event(EventDesc::auto_reset());
        let both = [(&one, 1), (&two, 1)];
        b.device.set_event_on_multiple_fence_completion(&both, WaitMode::All, &all).unwrap();
        b.work();
        assert!(!all.try_take());
        let queue = b.queue(Submission::User);
        queue.signal(&two, 1).unwrap();
        b.device.wait_multiple(&[(&one, 1), (&two, 1)], WaitMode::All).unwrap();
        b.device.set_event_on_multiple_fence_completion(&both, WaitMode::All, &event).unwrap();
        assert!(event.try_take());
        let with_event =
            |call: &Call| call.name == "register_cpu_wait" && call.args.contains("Event(");
        assert!(b.kernel.take().iter().any(with_event));
        assert!(matches!(b.device.wait_multiple(&[], WaitMode::All), Err(Error::BadValue { .. })));
        let many = |count| b.device.wait_multiple(&vec![(&one, 1); count], WaitMode::All);
        assert_eq!(many(4_096), Ok(()));
        assert!(matches!(many(4_097), Err(Error::BadValue { .. })));
        let too_many = b.device.wait_multiple(&vec![(&one, 1); 4097], WaitMode::All).unwrap_err();
        let named = "a wait for 4097 fences: one wait names at most 4096 fences; divide it";
        assert_eq!(too_many.to_string(), named);
    });
}

#[test]
// spec: ME-050
fn fences_are_native_where_the_adapter_has_them() {
    let choices =
        [(FenceChoice::Auto, true), (FenceChoice::Native, true), (FenceChoice::Monitored, false)];
    for (fences, native) in choices {
        bench_with(DeviceOptions { fences, ..DeviceOptions::default() }, move |b| {
            assert_eq!(b.device.create_fence("f", 0).unwrap().is_native(), native);
        });
    }
    let old = setup(|config| config.kernel.native_fence.enabled = false);
    bench_on(&Platform::virtual_time(StepCosts::free()), old, DeviceOptions::default(), |b| {
        assert!(!b.device.create_fence("f", 0).unwrap().is_native());
        let options = DeviceOptions { fences: FenceChoice::Native, ..DeviceOptions::default() };
        let kernel = b.machine.open("refused").unwrap();
        let refused = Device::new(&b.platform, kernel, options).unwrap_err();
        assert!(refused.to_string().contains("choose auto or monitored fences"), "{refused}");
    });
}

#[test]
// spec: NF-143
fn a_user_mode_queue_takes_native_fences_only() {
    let options = DeviceOptions { fences: FenceChoice::Monitored, ..DeviceOptions::default() };
    bench_with(options, |b| {
        let (queue, fence) = (b.queue(Submission::User), b.device.create_fence("f", 0).unwrap());
        let refused = Error::MonitoredFence { queue: "upload".to_owned(), fence: "f".to_owned() };
        assert_eq!(queue.wait(&fence, 1), Err(refused.clone()));
        assert_eq!(queue.signal(&fence, 1), Err(refused));
        assert_eq!(queue.stats(), QueueStats::default());
    });
}

#[test]
fn a_lost_device_names_queue_list_and_address() {
    for submission in Submission::ALL {
        bench(move |b| {
            let (queue, gate) = b.gated(submission);
            let (fence, buffer) = (b.device.create_fence("f", 0).unwrap(), b.buffer(64));
            for (name, destination) in [("first", buffer.gpu_va()), ("second", 0xdead_0000)] {
                let mut list = b.device.create_command_list(CommandListType::Copy);
                list.label(name).unwrap();
                list.copy_unchecked(destination, buffer.gpu_va(), 64).unwrap();
                queue.execute(&[&list.close().unwrap()]).unwrap();
                queue.signal(&fence, 1).unwrap();
            }
            assert_eq!(b.device.removed_reason(), None);
            gate.signal(1).unwrap();
            b.work();
            let removed = b.device.removed_reason().unwrap();
            let RemovedReason::Faulted(fault) = &removed else { panic!("{removed:?}") };
            let packet = fault.report.position;
            let what = "a store to an address that is not mapped or not writable";
            let place = format!("queue 'upload', packet {packet} ('second'), command 0 (copy)");
            let reason = format!("{place}, store to 0xdead0000: {what}");
            assert_eq!(removed.to_string(), reason);
            assert!(
                packet == 3 || submission != Submission::User,
                "slots: wait, list, signal, list"
            );
            assert_eq!((fault.report.gpu_va, fault.report.write), (0xdead_0000, true));
            assert_eq!(fault.queue.as_deref(), Some("upload"));
            assert_eq!(fault.list.as_deref(), Some("second"));
            let lost = Err(Error::DeviceRemoved(removed));
            assert_eq!(queue.execute(&[&b.list(1)]), lost);
            assert_eq!(fence.wait(2), lost);
            assert_eq!(fence.wait(u64::MAX), lost);
            assert_eq!(fence.completed_value(), u64::MAX);
            assert!(b.device.wait_idle().is_err());
            drop(queue);
            assert!(fence.wait(2).is_err());
        });
    }
}

#[test]
fn queues_of_one_machine_have_different_tags() {
    bench(|b| {
        let (one, other) = (b.queue(Submission::User), b.another().device);
        let two = other.create_queue(desc(CommandListType::Direct, Submission::Packet)).unwrap();
        assert_ne!(one.numbers(), two.numbers());
    });
}

/// Returns the number of waits that are registered with the fences of the machine.
fn registered(b: &Bench<'_>) -> usize {
    b.machine.adapter().census().fence_waits
}

#[test]
fn a_wait_with_a_limit_says_how_it_ended_and_leaves_nothing_behind() {
    bench(|b| {
        let [one, two] = ["one", "two"].map(|name| b.device.create_fence(name, 0).unwrap());
        let (none, start) = (registered(&b), b.platform.now());
        let limit = Duration::from_millis(3);
        assert_eq!(one.wait_timeout(1, limit), Ok(Waited::TimedOut));
        assert_eq!(b.platform.now().since(start), 3_000_000);
        assert_eq!(registered(&b), none);
        b.kernel.take();
        assert_eq!(one.wait_timeout(1, Duration::ZERO), Ok(Waited::TimedOut));
        assert_eq!(one.wait_timeout(0, Duration::ZERO), Ok(Waited::Signalled(())));
        assert_eq!(b.kernel.take(), [], "a limit of zero is a look at the value");
        let both = [(&one, 1), (&two, 1)];
        for (mode, ends) in
            [(WaitMode::Any, Waited::Signalled(())), (WaitMode::All, Waited::TimedOut)]
        {
            one.signal(0).unwrap();
            let (signaller, platform) = (one.clone(), b.platform.clone());
            let thread = b.platform.spawn("signaller", move || {
                platform.sleep_until(platform.now().after(1_000_000));
                signaller.signal(1).unwrap();
            });
            let start = b.platform.now();
            assert_eq!(b.device.wait_multiple_timeout(&both, mode, limit), Ok(ends));
            let waited_ms = b.platform.now().since(start) / 1_000_000;
            assert_eq!(waited_ms, if ends.is_signalled() { 1 } else { 3 });
            assert_eq!(registered(&b), none, "{mode:?}");
            thread.join();
        }
        assert_eq!(one.wait_timeout(1, Duration::MAX), Ok(Waited::Signalled(())));
    });
}

#[test]
fn a_registration_ends_with_its_event_or_its_guard() {
    bench(|b| {
        let [one, two] = ["one", "two"].map(|name| b.device.create_fence(name, 0).unwrap());
        let none = registered(&b);
        let event = b.device.create_event(EventDesc::manual_reset().named("both"));
        one.set_event_on_completion(5, &event).unwrap();
        two.set_event_on_completion(6, &event.clone()).unwrap();
        let both = [(&one, 7), (&two, 7)];
        b.device.set_event_on_multiple_fence_completion(&both, WaitMode::All, &event).unwrap();
        assert_eq!(registered(&b), none + 4);
        drop(event);
        assert_eq!(registered(&b), none, "the last handle of the event was dropped");
        // A guard of one registration, among others of the event.
        let event = b.device.create_event(EventDesc::auto_reset());
        let guard = one.register_event(1, &event).unwrap();
        two.set_event_on_completion(1, &event).unwrap();
        assert_eq!((guard.is_over(), registered(&b)), (false, none + 2));
        drop(guard);
        assert_eq!(registered(&b), none + 1);
        one.signal(1).unwrap();
        assert!(!event.is_set(), "a cancelled registration sets nothing");
        two.signal(1).unwrap();
        assert!(event.try_take());
        // A long-lived event does not collect what is over.
        for value in 2..100 {
            one.set_event_on_completion(value, &event).unwrap();
            one.signal(value).unwrap();
            assert_eq!((event.try_take(), registered(&b)), (true, none));
        }
        // Without an event the call blocks.
        one.set_event_on_completion(99, None).unwrap();
        // The fence may end before the event.
        two.set_event_on_completion(50, &event).unwrap();
        drop((one, two));
        drop(event);
    });
}

#[test]
fn events_are_waited_for_one_by_one_any_and_all_with_limits() {
    bench(|b| {
        let limit = Duration::from_micros(5);
        let [first, second] = [EventDesc::auto_reset(), EventDesc::manual_reset()]
            .map(|desc| b.device.create_event(desc.initially_set()));
        let both = [&first, &second];
        assert_eq!(Event::wait_any(&both), Ok(0));
        assert_eq!(Event::wait_any_timeout(&both, limit), Ok(Waited::Signalled(1)));
        assert_eq!(Event::wait_all_timeout(&both, limit), Ok(Waited::TimedOut));
        first.set();
        Event::wait_all(&both).unwrap();
        assert_eq!((first.is_set(), second.is_set()), (false, true));
        second.reset();
        let start = b.platform.now();
        assert_eq!(first.wait_timeout(limit), Ok(Waited::TimedOut));
        assert_eq!(Event::wait_any_timeout(&both, limit), Ok(Waited::TimedOut));
        assert_eq!(b.platform.now().since(start), 10_000);
        assert_eq!(second.wait_timeout(Duration::ZERO), Ok(Waited::TimedOut));
        let none = Event::wait_any(&[]).unwrap_err().to_string();
        assert_eq!(none, "a wait for several events: it names no event; name at least one");
        let refused = first.fd().unwrap_err();
        assert!(matches!(refused, DescriptorError::NotOnHost(PlatformKind::Virtual)), "{refused}");
    });
}
