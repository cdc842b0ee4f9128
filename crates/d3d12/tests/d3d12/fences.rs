//! Fences: CPU waits and signals, events, device loss.

use crate::double::Call;
use crate::user_mode::{bench, bench_with, desc};
use tidegate_calls::{FaultReport, SignalFlags};
use tidegate_d3d12::*;
use tidegate_platform::Platform;

#[test]
// spec: NF-001, ME-034, ME-035, ME-036
fn a_value_that_user_mode_can_see_needs_no_kernel_call() {
    let b = bench();
    let fence = b.device.create_fence("f", 5).unwrap();
    assert_eq!(fence.completed_value(), 5);
    b.kernel.take_calls();
    fence.wait(5).unwrap();
    assert_eq!(b.kernel.take_calls(), []);
    fence.signal(3).unwrap();
    assert!(matches!(
        b.kernel.take_calls()[..],
        [Call::CpuSignal(_, SignalFlags::ALLOW_FENCE_REWIND)]
    ));
    assert_eq!(fence.completed_value(), 3, "values may go down");
    assert_eq!(fence.wait(5), Err(Error::Stopped));
    let counters = b.device.counters();
    assert_eq!((counters.cpu_waits, counters.cpu_wakes), (2, 0));
}

#[test]
// spec: ME-033, ME-044, ME-045
fn events_and_several_fences() {
    let b = bench();
    let (one, two) =
        (b.device.create_fence("one", 1).unwrap(), b.device.create_fence("two", 0).unwrap());
    let event = b.device.create_event(false);
    one.set_event_on_completion(1, &event).unwrap();
    assert!(event.try_take());
    b.kernel.take_calls();
    b.device.wait_multiple(&[(&one, 1), (&two, 1)], WaitMode::Any, None).unwrap();
    assert_eq!(b.kernel.take_calls(), []);
    assert_eq!(
        b.device.wait_multiple(&[(&one, 1), (&two, 1)], WaitMode::All, None),
        Err(Error::Stopped)
    );
    let queue = b.queue(Submission::User);
    queue.signal(&two, 1).unwrap();
    b.device.wait_multiple(&[(&one, 1), (&two, 1)], WaitMode::All, None).unwrap();
    b.device.wait_multiple(&[(&one, 1), (&two, 1)], WaitMode::All, Some(event.clone())).unwrap();
    assert!(event.try_take());
    assert!(b.kernel.take_calls().contains(&Call::CpuWait { event: true }));
    assert!(matches!(
        b.device.wait_multiple(&[], WaitMode::All, None),
        Err(Error::BadValue { .. })
    ));
    let too_many = b.device.wait_multiple(&vec![(&one, 1); 4097], WaitMode::All, None).unwrap_err();
    let named = "a wait for 4097 fences: one wait names at most 4096 fences; divide it";
    assert_eq!(too_many.to_string(), named);
}

#[test]
// spec: ME-050
fn fences_are_native_where_the_adapter_has_them() {
    let platform = Platform::host();
    let native = |fences| {
        let b = bench_with(&platform, DeviceOptions { fences, ..DeviceOptions::default() });
        b.device.create_fence("f", 0).unwrap().is_native()
    };
    assert_eq!(
        [FenceChoice::Auto, FenceChoice::Native, FenceChoice::Monitored].map(native),
        [true, true, false]
    );
    let mut old = crate::double::Double::new(&platform);
    old.info.native_gpu_fence_supported = false;
    let old = std::sync::Arc::new(old);
    let device = Device::new(&platform, old.clone(), DeviceOptions::default()).unwrap();
    assert!(!device.create_fence("f", 0).unwrap().is_native());
    let options = DeviceOptions { fences: FenceChoice::Native, ..DeviceOptions::default() };
    let refused = Device::new(&platform, old, options).unwrap_err();
    assert!(refused.to_string().contains("choose auto or monitored fences"), "{refused}");
}

#[test]
// spec: NF-143
fn a_user_mode_queue_takes_native_fences_only() {
    let b = bench_with(
        &Platform::host(),
        DeviceOptions { fences: FenceChoice::Monitored, ..DeviceOptions::default() },
    );
    let (queue, fence) = (b.queue(Submission::User), b.device.create_fence("f", 0).unwrap());
    let refused = Error::MonitoredFence { queue: "upload".to_owned(), fence: "f".to_owned() };
    assert_eq!(queue.wait(&fence, 1), Err(refused.clone()));
    assert_eq!(queue.signal(&fence, 1), Err(refused));
    assert_eq!(queue.stats(), QueueStats::default());
}

#[test]
fn a_lost_device_names_queue_list_and_address() {
    for submission in Submission::ALL {
        let b = bench();
        let (queue, fence) = (b.queue(submission), b.device.create_fence("f", 0).unwrap());
        for name in ["first", "second"] {
            let mut list = b.device.create_command_list(CommandListType::Copy);
            list.label(name).unwrap();
            list.copy_unchecked(0xdead_0000, 0x1000, 64).unwrap();
            queue.execute(&[&list.close().unwrap()]).unwrap();
            queue.signal(&fence, 1).unwrap();
        }
        assert_eq!(b.device.removed_reason(), None);
        b.kernel.lose_device(FaultReport {
            queue: queue.numbers()[0],
            position: 2,
            gpu_va: 0xdead_0000,
            write: true,
            what: "page fault in a copy".to_owned(),
            ..FaultReport::default()
        });
        let list = if submission == Submission::User { " ('second')" } else { "" };
        let reason =
            format!("queue 'upload', packet 2{list}, store to 0xdead0000: page fault in a copy");
        let removed = b.device.removed_reason().unwrap();
        assert_eq!(removed.to_string(), reason);
        let RemovedReason::Faulted(fault) = &removed else { panic!("{removed:?}") };
        assert_eq!((fault.report.gpu_va, fault.report.write), (0xdead_0000, true));
        assert_eq!(fault.queue.as_deref(), Some("upload"));
        assert_eq!(fault.list.as_deref(), (submission == Submission::User).then_some("second"));
        let lost = Err(Error::DeviceRemoved(removed));
        assert_eq!(queue.execute(&[&b.list(1)]), lost);
        assert_eq!(fence.wait(1), lost);
        assert_eq!(fence.wait(u64::MAX), lost);
        assert_eq!(fence.completed_value(), u64::MAX);
        assert!(b.device.wait_idle().is_err());
        drop(queue);
        assert!(fence.wait(1).is_err());
    }
}

#[test]
fn queues_of_one_machine_have_different_tags() {
    let b = bench();
    let other = bench_with(&b.platform, DeviceOptions::default());
    let one = b.queue(Submission::User);
    let two = other.device.create_queue(desc(CommandListType::Direct, Submission::Packet)).unwrap();
    assert_ne!(one.numbers(), two.numbers());
}
