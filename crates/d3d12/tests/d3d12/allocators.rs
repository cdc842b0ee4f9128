//! Command allocators: one list records at a time, resets wait for the GPU, and lists that break a
//! rule remove the device.

use crate::bench::{Bench, bench, ran};
use tidegate_d3d12::testing::TestCommands;
use tidegate_d3d12::*;

fn allocator(b: &Bench<'_>) -> CommandAllocator {
    b.device.create_command_allocator("frame", CommandListType::Copy)
}

/// A closed list from the allocator that takes `ns`.
fn timed(b: &Bench<'_>, allocator: &CommandAllocator, ns: u64) -> ClosedList {
    let mut list = b.device.create_command_list_from(allocator).unwrap();
    list.set_name("work");
    list.timed(ns).unwrap();
    list.close().unwrap()
}

#[test]
fn one_list_records_from_an_allocator_at_a_time() {
    bench(|b| {
        let allocator = allocator(&b);
        let first = b.device.create_command_list_from(&allocator).unwrap();
        let second = b.device.create_command_list_from(&allocator).unwrap_err();
        assert_eq!(
            second.to_string(),
            "allocator 'frame' records a list; close or drop that list first"
        );
        assert_eq!(allocator.reset(), Err(second.clone()));
        let first = first.close().unwrap();
        let list = first.reset(&allocator).unwrap();
        assert_eq!((list.list_type(), list.commands()), (CommandListType::Copy, 0));
        assert!(b.device.create_command_list_from(&allocator).is_err());
        drop(list);
        assert!(b.device.create_command_list_from(&allocator).is_ok());
        assert!(allocator.reset().is_ok());
    });
}

#[test]
fn lists_and_allocators_of_other_types_and_devices_are_refused() {
    bench(|b| {
        let direct = b.device.create_command_allocator("direct", CommandListType::Direct);
        let foreign = allocator(&b.another());
        assert_eq!(
            b.list(1).reset(&direct).unwrap_err().to_string(),
            "allocator 'direct' is for direct lists, not for a copy list"
        );
        assert!(matches!(b.list(1).reset(&foreign), Err(Error::Foreign { .. })));
        let list = b.device.create_command_list_from(&foreign);
        assert!(matches!(list, Err(Error::Foreign { .. })));
    });
}

#[test]
// spec: ME-030
fn an_allocator_is_reset_when_its_lists_have_ended() {
    for submission in Submission::ALL {
        let trace = bench(move |b| {
            let (queue, gate) = b.gated(submission);
            let allocator = allocator(&b);
            queue.execute(&[&timed(&b, &allocator, 7)]).unwrap();
            let early = allocator.reset().unwrap_err();
            assert_eq!(
                early.to_string(),
                "allocator 'frame' cannot be reset: list 'work' executes on queue 'upload'; \
                 wait for a fence that the queue signals behind it"
            );
            gate.signal(1).unwrap();
            queue.wait_idle().unwrap();
            for ns in 8..=70 {
                allocator.reset().unwrap();
                queue.execute(&[&timed(&b, &allocator, ns)]).unwrap();
                queue.wait_idle().unwrap();
            }
        });
        assert_eq!(ran(&trace), (7..=70).collect::<Vec<u64>>(), "{submission}");
    }
}

#[test]
fn a_list_runs_again_after_it_has_ended() {
    for submission in Submission::ALL {
        let trace = bench(move |b| {
            let queue = b.queue(submission);
            let list = timed(&b, &allocator(&b), 7);
            for _ in 0..3 {
                queue.execute(&[&list]).unwrap();
                queue.wait_idle().unwrap();
            }
        });
        assert_eq!(ran(&trace), [7; 3], "{submission}");
    }
}

/// What `Device::removed_reason` says after a call that `breaks` a rule.
fn removed_for(
    submission: Submission,
    breaks: fn(&Bench<'_>, &Queue, &CommandAllocator) -> std::result::Result<(), Error>,
) -> String {
    let (reason, text) = std::sync::mpsc::channel();
    let trace = bench(move |b| {
        let (queue, allocator) = (b.queue(submission), allocator(&b));
        let error = breaks(&b, &queue, &allocator).unwrap_err();
        let removed = b.device.removed_reason().unwrap();
        assert!(matches!(removed, RemovedReason::InvalidCall(_)), "{removed:?}");
        assert_eq!(error, Error::DeviceRemoved(removed.clone()));
        assert!(queue.execute(&[&b.list(5)]).is_err(), "it stays removed");
        assert_eq!(b.device.removed_reason(), Some(removed.clone()));
        reason.send(removed.to_string()).unwrap();
    });
    assert!(ran(&trace).iter().all(|ns| *ns != 9), "the call was dropped");
    text.recv().unwrap()
}

#[test]
// spec: ME-030
fn a_list_that_executes_is_not_executed_again() {
    for submission in Submission::ALL {
        let reason = removed_for(submission, |b, queue, allocator| {
            let gate = b.device.create_fence("gate", 0).unwrap();
            queue.wait(&gate, 1).unwrap();
            let list = timed(b, allocator, 7);
            queue.execute(&[&list]).unwrap();
            queue.execute(&[&timed(b, allocator, 9), &list])
        });
        assert_eq!(
            reason,
            "INVALID_CALL: ExecuteCommandLists on queue 'upload', list 'work': it still executes on \
             queue 'upload'; wait for a fence behind it first"
        );
    }
}

#[test]
// spec: ME-030
fn a_list_waits_in_a_full_ring_as_one_that_executes() {
    let reason = removed_for(Submission::User, |b, queue, allocator| {
        let gate = b.device.create_fence("gate", 0).unwrap();
        queue.wait(&gate, 1).unwrap();
        for _ in 0..DEFAULT_RING_SLOTS {
            queue.execute(&[&b.list(1)]).unwrap();
        }
        let list = timed(b, allocator, 9);
        queue.execute(&[&list]).unwrap();
        assert!(allocator.reset().is_err());
        queue.execute(&[&list])
    });
    assert!(reason.contains("still executes"), "{reason}");
}

#[test]
// spec: ME-030
fn a_list_of_an_allocator_that_was_reset_is_not_executed() {
    let reason = removed_for(Submission::Hardware, |b, queue, allocator| {
        let list = timed(b, allocator, 9);
        allocator.reset().unwrap();
        let _reused = timed(b, allocator, 1);
        queue.execute(&[&list])
    });
    assert!(reason.contains("allocator 'frame' was reset after the list was closed"), "{reason}");
}

#[test]
// spec: ME-029
fn an_open_list_removes_the_device() {
    for submission in Submission::ALL {
        let reason = removed_for(submission, |b, queue, allocator| {
            let closed = timed(b, allocator, 9);
            let mut open = b.device.create_command_list(CommandListType::Copy);
            open.set_name("half");
            queue.execute_any(&[(&closed).into(), (&open).into()])
        });
        assert_eq!(
            reason,
            "INVALID_CALL: ExecuteCommandLists on queue 'upload', list 'half': the list is open; close \
             it before it is executed"
        );
    }
}

#[test]
fn lists_whose_state_is_known_at_run_time_execute_when_they_are_closed() {
    let trace = bench(|b| {
        let queue = b.queue(Submission::User);
        let (one, two) = (b.list(3), b.list(4));
        queue.execute_any(&[(&one).into(), (&two).into()]).unwrap();
        queue.wait_idle().unwrap();
    });
    assert_eq!(ran(&trace), [3, 4]);
}
