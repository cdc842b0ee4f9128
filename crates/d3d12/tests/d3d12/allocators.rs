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
