//! Command memory: reused when the GPU is done with it, never before.

use crate::bench::{bench, ran};
use std::collections::HashSet;
use tidegate_d3d12::testing::TestCommands;
use tidegate_d3d12::*;
use tidegate_testbed::QueueApi;

#[test]
fn closing_a_list_makes_no_kernel_call_and_memory_is_reused() {
    for submission in Submission::ALL {
        bench(move |b| {
            let queue = b.queue(submission);
            b.kernel.take();
            for n in 0..5000 {
                queue.execute(&[&b.list(n)]).unwrap();
                b.pass(n + 1);
            }
            let calls = b.kernel.take_names();
            let allocated = calls.iter().filter(|name| **name == "create_allocation").count();
            assert!(allocated <= 1, "{submission}");
        });
    }
}

#[test]
fn a_dropped_list_keeps_its_memory_until_the_gpu_is_done() {
    for submission in Submission::ALL {
        let trace = bench(move |b| {
            let (queue, gate) = b.gated(submission);
            // Nothing runs while hundreds of lists are recorded, executed and dropped.
            for n in 1..=700 {
                queue.execute(&[&b.list(n)]).unwrap();
            }
            gate.signal(1).unwrap();
            queue.wait_idle().unwrap();
        });
        assert_eq!(ran(&trace), (1..=700).collect::<Vec<u64>>(), "{submission}");
    }
}

#[test]
fn lists_are_aligned_apart_and_can_be_executed_again() {
    let trace = bench(|b| {
        let queue = b.queue(Submission::User);
        let lists: Vec<ClosedList> = (0..300).map(|n| b.list(n)).collect();
        let places: HashSet<u64> = lists.iter().map(ClosedList::gpu_va).collect();
        assert_eq!(places.len(), 300);
        assert!(places.iter().all(|va| va % 64 == 0));
        for _ in 0..3 {
            queue.execute(&[&lists[7], &lists[7]]).unwrap();
        }
        queue.wait_idle().unwrap();
    });
    assert_eq!(ran(&trace), [7; 6]);
}

#[test]
fn a_buffer_lives_as_long_as_a_list_that_names_it() {
    bench(|b| {
        let (queue, gate) = b.gated(Submission::User);
        let buffer = b.buffer(64);
        let list = b.device.list(CommandListType::Copy, |list| list.fill(&buffer, 0, 64, 0xAB));
        b.kernel.take();
        drop(buffer);
        queue.execute(&[&list]).unwrap();
        drop(list);
        assert!(!b.kernel.take_names().contains(&"destroy_allocation"));
        gate.signal(1).unwrap();
        b.work();
        drop(queue);
        let ended = b.kernel.take_names();
        assert_eq!(
            ended.iter().filter(|name| **name == "destroy_allocation").count(),
            3,
            "ring, control area, buffer"
        );
    });
}

#[test]
fn a_long_list_gets_a_chunk_of_its_own() {
    let trace = bench(|b| {
        let mut list = b.device.create_command_list(CommandListType::Copy);
        (0..200_000).for_each(|_| list.timed(1).unwrap());
        let list = list.close().unwrap();
        assert_eq!((list.commands(), list.bytes()), (200_000, 3_200_000));
        let queue = b.queue(Submission::Packet);
        queue.execute(&[&list]).unwrap();
        queue.wait_idle().unwrap();
    });
    assert_eq!(ran(&trace), [200_000]);
}
