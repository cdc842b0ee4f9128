//! Queues of video engines: decode, filter and encode in order on three engines, and what video
//! lists and adapters without such engines refuse.

use tidegate_testbed::prelude::*;

const DECODE: CommandListType = CommandListType::VideoDecode;
const ENCODE: CommandListType = CommandListType::VideoEncode;

fn app() -> App {
    let engines = [(EngineKind::VideoDecode, 1), (EngineKind::VideoEncode, 1)].into();
    App::new(DeviceOptions::default(), |config| *config = config.clone().with_engines(&engines))
}

#[test]
fn decode_filter_and_encode_run_on_three_engines_in_order() {
    for submission in Submission::ALL {
        app().case(submission).run(move |app| {
            let types = [DECODE, CommandListType::Compute, ENCODE];
            let queues = types.map(|list_type| app.queue(list_type, submission));
            let nodes = types.map(|list_type| app.nodes_for(list_type));
            assert_eq!(nodes, [vec![3], vec![1], vec![4]]);
            let fence = app.fence(0);
            // Given in the wrong order: each waits for the one before it.
            for (at, queue) in queues.iter().enumerate().rev() {
                queue.wait(&fence, at as u64).unwrap();
                app.execute(queue, |list| list.timed(10_000));
                queue.signal(&fence, at as u64 + 1).unwrap();
            }
            let begin = app.now();
            queues[2].wait_idle().unwrap();
            assert_eq!(fence.completed_value(), 3);
            assert!(app.now() - begin >= 30_000, "{} ns for three times 10 µs", app.now() - begin);
        });
    }
}

// spec: ME-054
#[test]
fn video_lists_take_neither_copies_nor_dispatches() {
    app().run(|app| {
        let buffer = app.readback(256);
        for list_type in [DECODE, ENCODE] {
            let mut list = app.create_command_list(list_type);
            let copied = list.copy(&buffer, 128, &buffer, 0, 64).unwrap_err();
            assert!(
                matches!(copied, Error::NotAccepted { list_type: of, takes, .. }
                    if of == list_type && takes == "copy, compute or direct"),
                "{copied}"
            );
            let filled = list.discard(&buffer).unwrap_err();
            assert!(matches!(filled, Error::NotAccepted { .. }), "{filled}");
        }
    });
}

#[test]
fn an_adapter_without_video_engines_refuses_their_queues() {
    App::new(DeviceOptions::default(), |_| ()).run(|app| {
        assert_eq!(app.nodes_for(DECODE), [0; 0]);
        let refused = app.create_queue(QueueDesc::new(DECODE)).unwrap_err();
        assert!(matches!(refused, Error::NotSupported { .. }), "{refused}");
    });
}
