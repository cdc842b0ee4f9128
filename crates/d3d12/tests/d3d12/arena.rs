//! Command memory: reused when the GPU is done with it, never before.

use crate::double::Call;
use crate::user_mode::bench;
use std::collections::HashSet;
use tidegate_d3d12::*;
use tidegate_gpu_abi::Command;

fn allocations(calls: &[Call]) -> usize {
    calls.iter().filter(|c| matches!(c, Call::CreateAllocation(_))).count()
}

#[test]
fn closing_a_list_makes_no_kernel_call_and_memory_is_reused() {
    for submission in Submission::ALL {
        let b = bench();
        let queue = b.queue(submission);
        b.kernel.take_calls();
        for n in 0..5000 {
            queue.execute(&[&b.list(n)]).unwrap();
            b.kernel.run();
        }
        assert!(allocations(&b.kernel.take_calls()) <= 1, "{submission}");
    }
}

#[test]
fn a_dropped_list_keeps_its_memory_until_the_gpu_is_done() {
    for submission in Submission::ALL {
        let b = bench();
        let queue = b.queue(submission);
        // Nothing runs while hundreds of lists are recorded, executed and dropped.
        let numbers: Vec<u64> = (1..=700).collect();
        for n in &numbers {
            queue.execute(&[&b.list(*n)]).unwrap();
        }
        b.kernel.run();
        let ran: Vec<u64> = b
            .kernel
            .ran()
            .iter()
            .filter_map(|c| match c {
                Command::Timed { ns } => Some(*ns),
                _ => None,
            })
            .collect();
        assert_eq!(ran, numbers, "{submission}");
    }
}

#[test]
fn lists_are_aligned_apart_and_can_be_executed_again() {
    let b = bench();
    let queue = b.queue(Submission::User);
    let lists: Vec<ClosedList> = (0..300).map(|n| b.list(n)).collect();
    let places: HashSet<u64> = lists.iter().map(ClosedList::gpu_va).collect();
    assert_eq!(places.len(), 300);
    assert!(places.iter().all(|va| va % 64 == 0));
    for _ in 0..3 {
        queue.execute(&[&lists[7], &lists[7]]).unwrap();
    }
    b.kernel.run();
    assert_eq!(b.kernel.ran(), vec![Command::Timed { ns: 7 }; 6]);
}

#[test]
fn a_buffer_lives_as_long_as_a_list_that_names_it() {
    let b = bench();
    let queue = b.queue(Submission::User);
    let buffer = b.buffer(64);
    let mut list = b.device.create_command_list(CommandListType::Copy);
    list.fill(&buffer, 0, 64, 0xAB).unwrap();
    let list = list.close().unwrap();
    b.kernel.take_calls();
    drop(buffer);
    queue.execute(&[&list]).unwrap();
    drop(list);
    assert!(!b.kernel.take_calls().contains(&Call::Destroy("allocation")));
    b.kernel.run();
    drop(queue);
    let ended = b.kernel.take_calls();
    assert_eq!(
        ended.iter().filter(|c| **c == Call::Destroy("allocation")).count(),
        3,
        "ring, control area, buffer"
    );
}

#[test]
fn a_long_list_gets_a_chunk_of_its_own() {
    let b = bench();
    let mut list = b.device.create_command_list(CommandListType::Copy);
    (0..200_000).for_each(|n| list.timed(n).unwrap());
    let list = list.close().unwrap();
    assert_eq!((list.commands(), list.bytes()), (200_000, 3_200_000));
    let queue = b.queue(Submission::Packet);
    queue.execute(&[&list]).unwrap();
    queue.wait_idle().unwrap();
    assert!(b.kernel.ran().len() > 200_000);
}
