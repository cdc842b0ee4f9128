//! Tests of the amount of work that the checker does.

use super::*;

#[test]
fn a_signal_advances_the_queues_that_wait_for_its_fence_alone() {
    const QUEUES: usize = 200;
    const ROUNDS: u64 = 5;
    let mut checker = Checker::new();
    let main = checker.thread(1, true, || "main".into());
    let queues = [(); QUEUES].map(|()| checker.add_queue("member".into(), SpaceKey(1)));
    let links = [(); QUEUES].map(|()| checker.add_fence("link".into(), 0));
    // Each queue waits for the one before it, with all rounds queued before the first signal.
    for (at, queue) in queues.into_iter().enumerate() {
        for round in 1..=ROUNDS {
            checker.queue_wait(main, queue, links[at], round);
            let next = round + u64::from(at + 1 == QUEUES);
            checker.queue_signal(main, queue, links[(at + 1) % QUEUES], next);
        }
    }
    let calls = 2 * QUEUES as u64 * ROUNDS;
    assert!(checker.advanced <= calls, "one for each call at most: {}", checker.advanced);
    checker.cpu_signal(main, links[0], 1);
    let handed_over = QUEUES as u64 * ROUNDS;
    assert!(checker.advanced <= calls + handed_over + 1, "{}", checker.advanced);
    assert!(queues.iter().all(|queue| checker.at(queue.0).held.is_empty()), "all went through");
}

#[test]
fn the_submissions_of_a_queue_are_forgotten_in_their_order() {
    let mut checker = Checker::new();
    let main = checker.thread(1, true, || "main".into());
    let queues = [(); 2].map(|()| checker.add_queue("copy".into(), SpaceKey(1)));
    for link in 1..=6 * RECENT_SUBMISSIONS as u32 {
        checker.execute(main, queues[link as usize % 2], link, Vec::new());
    }
    assert_eq!(checker.links.len(), 2 * RECENT_SUBMISSIONS);
    let oldest = 4 * RECENT_SUBMISSIONS as u32;
    assert!(checker.links.keys().all(|link| *link > oldest));
    for queue in queues {
        assert_eq!(checker.at(queue.0).recent.len(), RECENT_SUBMISSIONS);
    }
}
