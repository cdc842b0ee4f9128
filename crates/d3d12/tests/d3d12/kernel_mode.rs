//! Packet and hardware queues: one ordered stream of kernel calls.

use crate::double::Call;
use crate::user_mode::{bench, bench_with, desc};
use tidegate_calls::FenceValue;
use tidegate_d3d12::*;
use tidegate_gpu_abi::Command;
use tidegate_platform::Platform;

fn is_fence_call(call: &Call, value: u64) -> bool {
    matches!(call, Call::QueueWait(FenceValue { value: v, .. }) | Call::QueueSignal(FenceValue { value: v, .. }) if *v == value)
}

#[test]
// spec: ME-021, ME-026, ME-027, MF-022, MF-029
fn a_packet_queue_submits_one_packet_for_each_execute_in_call_order() {
    let b = bench_with(
        &Platform::host(),
        DeviceOptions { fences: FenceChoice::Monitored, ..DeviceOptions::default() },
    );
    let (queue, fence) = (b.queue(Submission::Packet), b.device.create_fence("f", 0).unwrap());
    assert!(!fence.is_native());
    let (one, two) = (b.list(1), b.list(2));
    b.kernel.take_calls();
    queue.execute(&[&one, &two]).unwrap();
    queue.wait(&fence, 7).unwrap();
    queue.execute(&[&two]).unwrap();
    queue.signal(&fence, 9).unwrap();
    let calls = b.kernel.take_calls();
    assert_eq!(calls.len(), 4, "{calls:?}");
    assert_eq!((calls[0], calls[2]), (Call::SubmitCommand, Call::SubmitCommand));
    assert!(is_fence_call(&calls[1], 7) && is_fence_call(&calls[3], 9));

    b.kernel.run();
    let timed = |commands: Vec<Command>| {
        commands.into_iter().filter(|c| matches!(c, Command::Timed { .. })).count()
    };
    assert_eq!(timed(b.kernel.ran()), 2, "what follows the wait stays behind it");
    fence.signal(7).unwrap();
    b.kernel.run();
    assert_eq!((timed(b.kernel.ran()), fence.completed_value()), (3, 9));
}

#[test]
// spec: MF-024
fn a_packet_ends_with_a_store_to_the_drivers_own_fence() {
    let b = bench();
    let queue = b.queue(Submission::Packet);
    let list = b.list(5);
    queue.execute(&[&list, &list]).unwrap();
    queue.execute(&[&list]).unwrap();
    b.kernel.run();
    let ran = b.kernel.ran();
    let stores: Vec<u64> = ran
        .iter()
        .filter_map(|c| match c {
            Command::WriteValue { value, .. } => Some(*value),
            _ => None,
        })
        .collect();
    assert_eq!(stores, [1, 2]);
    assert!(matches!(ran.last(), Some(Command::WriteValue { .. })));
}

#[test]
// spec: ME-015, ME-017
fn hardware_progress_values_rise_and_priorities_are_passed_on() {
    let b = bench();
    let high = QueueDesc {
        priority: Priority::High,
        ..desc(CommandListType::Compute, Submission::Hardware)
    };
    let queue = b.device.create_queue(high.clone()).unwrap();
    assert!(
        b.kernel.calls().contains(&Call::CreateHwQueue { user: false, priority: Priority::High })
    );
    assert!(b.kernel.calls().iter().any(|c| matches!(c, Call::CreateContext { node: 1, .. })));
    let list = b.device.create_command_list(CommandListType::Compute).close().unwrap();
    b.kernel.take_calls();
    queue.execute(&[&list, &list]).unwrap();
    queue.execute(&[&list]).unwrap();
    assert_eq!(b.kernel.take_calls(), [1, 2, 3].map(|progress| Call::SubmitToHwQueue { progress }));
    // A priority that cannot be had is an error, never a lower one, and leaves nothing behind.
    b.kernel.take_calls();
    let refused =
        b.device.create_queue(QueueDesc { priority: Priority::Realtime, ..high }).unwrap_err();
    assert!(matches!(refused, Error::PrivilegeNotHeld { .. }), "{refused}");
    assert_eq!(b.kernel.take_calls().last(), Some(&Call::Destroy("hw context")));
}

#[test]
// spec: ME-019
fn waiting_for_a_queue_covers_trailing_waits_and_signals_in_every_model() {
    for submission in Submission::ALL {
        let b = bench();
        let (queue, fence) = (b.queue(submission), b.device.create_fence("f", 0).unwrap());
        b.device.wait_idle().unwrap();
        queue.execute(&[&b.list(1)]).unwrap();
        queue.wait_idle().unwrap();
        assert_eq!(b.kernel.ran().iter().filter(|c| **c == Command::Timed { ns: 1 }).count(), 1);
        queue.signal(&fence, 3).unwrap();
        b.device.wait_idle().unwrap();
        assert_eq!(fence.completed_value(), 3, "{submission}");
        queue.wait(&fence, 4).unwrap();
        assert_eq!(b.device.wait_idle(), Err(Error::Stopped), "{submission}: 4 is never signalled");
        fence.signal(4).unwrap();
        b.device.wait_idle().unwrap();
        let calls = b.kernel.take_calls().len();
        b.device.wait_idle().unwrap();
        assert_eq!(b.kernel.take_calls(), [], "{submission}: idle already, after {calls} calls");
    }
}
