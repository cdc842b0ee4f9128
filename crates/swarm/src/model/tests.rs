//! Rules of the model, each by a program of a few steps.

use super::{Facts, Model};
use crate::program::Program;

/// Returns the refusal of the last step. Every other step is admitted.
fn last(text: &str) -> Result<(), &'static str> {
    let program: Program = text.parse().unwrap();
    let (facts, mut model) = (Facts::of(&program), Model::default());
    let (last, steps) = program.steps.split_last().unwrap();
    for step in steps {
        model.admit(&facts, step).unwrap_or_else(|why| panic!("{}: {why}", step.operation));
    }
    model.admit(&facts, last)
}

const ONE: &str = "adapter standard; process a0 steady; thread p0; thread p0; ";
const DOOMED: &str = "adapter standard; process a0 doomed; thread p0; thread p0; ";

fn one(steps: &str) -> Result<(), &'static str> {
    last(&format!("{ONE}{steps}"))
}

#[test]
fn a_closed_fence_ends_every_wait() {
    let fence = "t0 fence f0 raw native private 0; ";
    assert!(one(&format!("{fence}t1 wait f0 raw 5")).is_err());
    assert_eq!(one(&format!("{fence}t0 close-fence f0; t1 wait f0 raw 5")), Ok(()));
    assert!(one(&format!("{fence}t0 close-fence f0; t1 close-fence f0")).is_err());
    let ring = "t0 queue q0 raw user compute normal; t0 queue-signal q0 f0 1; ";
    assert!(one(&format!("{fence}{ring}t1 close-fence f0")).is_err(), "a ring stores to memory");
}

#[test]
fn one_of_two_fences_is_enough() {
    let fences = "t0 fence f0 raw native private 3; t0 fence f1 raw monitored private 0; ";
    assert_eq!(one(&format!("{fences}t1 wait-any f0 3 f1 9")), Ok(()));
    assert!(one(&format!("{fences}t1 wait-all f0 3 f1 9")).is_err());
    assert_eq!(one(&format!("{fences}t1 wait-all f0 3 f1 0")), Ok(()));
}

#[test]
fn adapters_of_steady_processes_are_neither_reset_nor_removed() {
    for step in ["reset-adapter", "remove-adapter", "destroy-device"] {
        assert!(one(&format!("t0 {step}")).is_err(), "{step}");
        assert_eq!(last(&format!("{DOOMED}t0 {step}")), Ok(()), "{step}");
    }
    assert!(last(&format!("{DOOMED}t0 remove-adapter; t1 remove-adapter")).is_err());
}

#[test]
fn values_are_as_wide_as_atomics() {
    let high = "t0 fence f0 raw monitored private 4294967294";
    assert_eq!(one(high), Ok(()));
    let narrow = "adapter 32-bit; process a0 steady; thread p0; ";
    assert!(last(&format!("{narrow}{high}")).is_err());
}

#[test]
fn a_history_without_room_is_for_rings_that_may_fault() {
    let adapter = "adapter standard history-peaks=0; ";
    let program = |fate: &str, model: &str, pulses: &str| {
        last(&format!(
            "{adapter}process a0 {fate}; thread p0; t0 queue q0 raw {model} copy normal; \
             t0 fence f0 raw native private 0; {pulses}"
        ))
    };
    let two = "t0 pulse-queue q0 f0 9 0; t0 pulse-queue q0 f0 7 0";
    assert_eq!(program("steady", "user", two), Ok(()));
    let three = format!("{two}; t0 pulse-queue q0 f0 5 0");
    assert!(program("steady", "user", &three).is_err());
    assert_eq!(program("doomed", "user", &three), Ok(()));
    assert_eq!(program("steady", "hardware", &three), Ok(()), "the kernel latches its waits");
    let at_api = |switch: &str| {
        last(&format!(
            "adapter standard history-peaks=0{switch}; process a0 steady; thread p0; \
             t0 queue q0 api hardware copy normal; t0 fence f0 api native private 0; {three}"
        ))
    };
    assert!(at_api("").is_err(), "the waits are in command buffers");
    assert_eq!(at_api(" scheduler-fences=1"), Ok(()), "the kernel latches them");
    let by_cpu = format!("{two}; t0 pulse-wait f0 raw 5 0");
    assert!(program("steady", "user", &by_cpu).is_err(), "the ring may come to its wait later");
    let rising = format!("{two}; t0 pulse-queue q0 f0 7 0; t0 pulse-queue q0 f0 8 0");
    assert_eq!(program("steady", "user", &rising), Ok(()), "a later peak takes the place of 7");
    let falling = "t0 pulse-queue q0 f0 9 5; t0 pulse-queue q0 f0 4 3";
    assert!(program("steady", "user", falling).is_err(), "the 5 is a peak, too");
    let shipped = three.replace("q0", "q1").replace("f0", "f1");
    assert_eq!(
        one(&format!(
            "t0 queue q1 raw user copy normal; t0 fence f1 raw native private 0; {shipped}"
        )),
        Ok(())
    );
}

#[test]
fn a_queue_with_results_is_not_closed() {
    let queue = "t0 queue q0 raw packet compute normal; t0 execute q0 5; ";
    assert_eq!(one(&format!("{queue}t0 close-queue q0; t1 execute q0 5")), Ok(()));
    assert!(one(&format!("{queue}t0 close-queue q0; t0 execute q0 5")).is_err());
    let signal = "t0 fence f0 raw monitored private 0; t0 queue-signal q0 f0 1; ";
    assert!(one(&format!("{queue}{signal}t0 close-queue q0")).is_err());
}

#[test]
fn a_paged_out_buffer_is_paged_in_before_it_is_used() {
    let out = "t0 queue q0 raw packet copy normal; t0 buffer b0 raw 1; t0 page-out b0; ";
    assert!(one(&format!("{out}t0 store q0 b0 1 5")).is_err());
    assert!(one(&format!("{out}t0 page-out b0")).is_err());
    assert_eq!(one(&format!("{out}t0 page-in b0; t0 store q0 b0 1 5")), Ok(()));
}

#[test]
fn what_threads_reference_at_any_time_fits_into_local_memory() {
    let small = "adapter standard local-memory-kib=128; process a0 steady; thread p0; thread p0; ";
    let full = format!("{small}t0 buffer b0 raw 16; t1 buffer b1 raw 16; ");
    assert!(last(&format!("{full}t0 scratch raw 1")).is_err());
    assert_eq!(last(&format!("{full}t0 scratch api 1")), Ok(()), "in system memory");
    let out = format!("{full}t0 page-out b0; ");
    assert_eq!(last(&format!("{out}t0 buffer b2 raw 16")), Ok(()));
    assert!(
        last(&format!("{out}t1 scratch raw 1")).is_err(),
        "thread 0 may still have its reference"
    );
}

#[test]
fn a_broadcast_is_on_two_queues_of_one_kind() {
    let queues = "t0 queue q0 raw packet copy normal; t0 queue q1 raw packet direct normal; \
                  t0 queue q2 raw hardware copy normal; t0 fence f0 raw monitored private 0; ";
    assert_eq!(one(&format!("{queues}t0 broadcast q0 q1 f0 1")), Ok(()));
    for other in ["q0", "q2"] {
        assert!(one(&format!("{queues}t0 broadcast q0 {other} f0 1")).is_err());
    }
}

#[test]
fn floods_and_prompts_are_on_queues_of_every_model() {
    for model in ["packet", "hardware", "user"] {
        let queue = format!("t0 queue q0 raw {model} copy normal; ");
        assert_eq!(one(&format!("{queue}t0 prompt q0 5")), Ok(()), "{model}");
        assert_eq!(one(&format!("{queue}t0 flood q0 12 5 1")), Ok(()), "{model}");
        assert!(one(&format!("{queue}t0 flood q0 2 5 0; t0 prompt q0 5")).is_err(), "{model}");
        let is_ring = model == "user";
        assert_eq!(one(&format!("{queue}t0 flood q0 21 5 1")).is_err(), is_ring, "{model}");
        let long = one(&format!("{queue}t0 flood q0 1 500000000 0"));
        assert_eq!(long.is_err(), model == "packet", "{model}");
    }
    let lower = "t0 queue q0 raw hardware copy normal; t0 set-priority q0 1; ";
    assert!(one(&format!("{lower}t0 prompt q0 5")).is_err(), "equal queues go first");
    assert_eq!(one(&format!("{lower}t0 set-priority q0 0; t0 prompt q0 5")), Ok(()));
}

const IN_TWO: &str = "adapter standard; process a0 steady; process a0 steady; thread p0; thread p0; \
                      thread p1; t0 fence f0 raw monitored shared 0; t2 open-fence f0 raw; ";

/// Steps of two threads have no order, so the other thread's queue may come after the close.
#[test]
fn an_instance_is_dropped_by_the_only_thread_whose_queues_have_used_it() {
    let drops =
        |steps: &str, thread: u32| last(&format!("{IN_TWO}{steps}t{thread} drop-fence f0 raw"));
    assert_eq!(drops("", 0), Ok(()));
    assert_eq!(drops("", 1), Ok(()));
    let used = "t1 queue q0 raw packet copy normal; t1 queue-signal q0 f0 1; t1 drain q0; ";
    assert_eq!(drops(used, 0), Err("a queue of another thread has used the fence"));
    assert_eq!(drops(used, 1), Ok(()));
    assert_eq!(drops(used, 2), Ok(()), "another process has another instance");
    let undrained = used.replace("t1 drain q0; ", "");
    assert_eq!(drops(&undrained, 1), Err("queued steps use the fence"));
    assert_eq!(drops(&undrained, 2), Ok(()), "steps of another process");
    let dropped = format!("{used}t1 drop-queue q0; ");
    assert_eq!(drops(&dropped, 0), Err("a queue of another thread has used the fence"));
    assert_eq!(drops(&dropped, 1), Ok(()));
    let waits = "t0 register w0 f0 raw 0; ";
    assert_eq!(drops(waits, 0), Err("a registered wait uses the fence"));
    assert_eq!(drops(&format!("{waits}t0 await w0; "), 0), Ok(()));
    let again = format!("{IN_TWO}t0 drop-fence f0 raw; t0 drop-fence f0 raw");
    assert_eq!(last(&again), Err("the process has no such instance"));
    let closed = "t0 fence f0 raw native private 0; t0 close-fence f0; t0 drop-fence f0 raw";
    assert_eq!(one(closed), Err("the fence is closed"));
}

#[test]
fn a_fence_is_opened_once_where_it_is_shared_and_alike() {
    let programs = |first: &str, second: &str, fence: &str, open: &str| {
        last(&format!(
            "adapter {first}; adapter {second}; process a0 steady; process a0 steady; \
             process a1 steady; thread p0; thread p1; thread p2; t0 fence f0 {fence}; {open}"
        ))
    };
    let opens = |fence: &str, open: &str| programs("standard", "standard", fence, open);
    let (shared, cross) = ("raw monitored shared 0", "raw monitored cross-adapter 0");
    assert_eq!(opens(shared, "t1 open-fence f0 raw"), Ok(()));
    assert_eq!(opens(cross, "t2 open-fence f0 raw"), Ok(()));
    let not_shared = Err("the fence is not shared with the process");
    assert_eq!(opens("raw monitored private 0", "t1 open-fence f0 raw"), not_shared);
    assert_eq!(opens(shared, "t2 open-fence f0 raw"), not_shared);
    let twice = "t1 open-fence f0 raw; t1 open-fence f0 raw";
    assert_eq!(opens(shared, twice), Err("the instance was opened before"));
    assert_eq!(opens(shared, "t1 open-fence f0 raw; t1 open-fence f0 api"), Ok(()));
    let closed = "t0 drop-fence f0 raw; t1 open-fence f0 raw";
    assert_eq!(opens(shared, closed), Err("every instance is closed"));
    let narrow = |open| programs("standard", "32-bit", cross, open);
    assert_eq!(narrow("t2 open-fence f0 raw"), Err("the adapters have different atomics"));
    assert_eq!(narrow("t1 open-fence f0 raw"), Ok(()));
    let kinds = |open| programs("standard", "monitored", "api native cross-adapter 0", open);
    assert_eq!(kinds("t2 open-fence f0 api"), Err("the adapters make fences of different kinds"));
    assert_eq!(kinds("t1 open-fence f0 api"), Ok(()));
    let doomed = "adapter standard; process a0 doomed; process a0 steady; thread p0; thread p1; \
                  t0 fence f0 raw monitored shared 0; t1 open-fence f0 raw";
    assert_eq!(last(doomed), Err("its owner is doomed"));
}
