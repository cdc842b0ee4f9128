//! Lanes of a recording, and one recording at a time.

use super::*;
use crate::server::record;
use crate::transport::Link;
use crate::wire::{self, RecordCall, Recorded, Refusal};
use tidegate_calls::snapshot::QueueKind;
use tidegate_platform::QueueNumber;
use tidegate_trace::LaneKind;

#[test]
fn a_queue_has_one_lane_while_there_is_a_recording() {
    let shared = Served::new(|_| {}).shared(ServerConfig::default());
    let (platform, queue) = (shared.platform.clone(), QueueNumber(70_001));
    shared.draw_queue(queue, QueueKind::User, "app");
    assert_eq!(platform.lane_of(queue), None, "nothing is recorded");
    let mut recording = platform.begin_recording(8);
    shared.draw_queue(queue, QueueKind::User, "app");
    let lane = platform.lane_of(queue);
    assert!(lane.is_some());
    shared.draw_queue(queue, QueueKind::Hardware, "another");
    assert_eq!(platform.lane_of(queue), lane);
    shared.draw_queue(QueueNumber(70_002), QueueKind::Packet, "");
    shared.draw_queue(QueueNumber(70_003), QueueKind::Hardware, "");
    let part = platform.take_recorded(&mut recording);
    platform.end_recording();
    let of_queues: Vec<_> =
        part.lanes.into_iter().filter(|(kind, ..)| *kind == LaneKind::Queue).collect();
    let drawn = |group: &str, name: &str| (LaneKind::Queue, group.to_owned(), name.to_owned());
    let expected = [
        drawn("app", "user queue 70001"),
        drawn("", "packets 70002"),
        drawn("", "hardware queue 70003"),
    ];
    assert_eq!(of_queues, expected);
}

#[test]
fn lanes_of_a_service_are_limited() {
    let shared = Served::new(|_| {}).shared(ServerConfig::default());
    let made = |_: &u32| shared.lane(LaneKind::Queue, "", "one of many").is_some();
    assert_eq!((0..70_000).take_while(made).count(), 65_536);
    assert!(shared.lane(LaneKind::CpuThread, "", "one more").is_none());
}

/// Serves requests of a recording client. Returns its answers.
fn serve(shared: &Shared, requests: &[RecordCall]) -> Result<Vec<Recorded>, Refusal> {
    let (client, session) = Link::socket_pair();
    for request in requests {
        client.send(&wire::encode(request), []).unwrap();
    }
    client.finish();
    record::serve(shared, &session, &mut Vec::new())?;
    let mut buffer = Vec::new();
    let begun = client.receive(&mut buffer).unwrap().unwrap();
    assert_eq!(wire::decode(begun.body), Some(Ok::<(), Refusal>(())));
    let answer =
        |_: &RecordCall| wire::decode(client.receive(&mut buffer).unwrap().unwrap().body).unwrap();
    Ok(requests.iter().map(answer).collect())
}

#[test]
fn one_recording_runs_at_a_time() {
    let served = Served::new(|_| {});
    let shared = served.shared(ServerConfig::default());
    shared.recorder.lock().attached = true;
    assert_eq!(serve(&shared, &[]).err(), Some(Refusal::Recorded));
    assert_eq!(served.large_logs.load(), 0);
    assert!(shared.recorder.lock().attached, "the other one goes on");
    shared.recorder.lock().attached = false;
    assert!(serve(&shared, &[]).is_ok());
    assert!(!shared.recorder.lock().attached && !shared.platform.tracing());
    assert!(serve(&shared, &[]).is_ok(), "the next one");
    assert_eq!(served.large_logs.load(), 0, "small again");
}

#[test]
fn a_recording_is_handed_over_in_parts_up_to_its_end() {
    let served = Served::new(|_| {});
    let shared = served.shared(ServerConfig::default());
    for number in 0..300 {
        shared.platform.trace_name(&format!("name {number}"));
    }
    let requests = [false, true, true, true, true].map(|end| RecordCall { end });
    let answers = serve(&shared, &requests).unwrap();
    // 128 names fit a message. After the rest of the names, which were taken before the end was
    // wanted, what came until the end is read.
    let left: Vec<bool> = answers.iter().map(|answer| answer.left).collect();
    assert_eq!(left, [true, true, true, false, false]);
    let names: Vec<usize> = answers.iter().map(|answer| answer.part.names.len()).collect();
    assert_eq!((names[0], names[1], names[3..] == [0, 0]), (128, 128, true), "{names:?}");
    assert!(names[2] >= 300 - 256, "{names:?}");
    assert_eq!(served.logs_read.load(), 4, "twice on each adapter");
}
