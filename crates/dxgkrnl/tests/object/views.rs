//! Rows of a view of the machine: each kind of object as it is, by its process.

use tidegate::calls::snapshot::{
    DoorbellState, EngineRow, FenceKind, PageRequest, QueueKind, WaiterKind, WaiterRow,
};
use tidegate_testbed::prelude::*;

const ALL: PageRequest = PageRequest { after: 0, process: None };

#[test]
fn queues_of_each_model_are_listed_with_their_work() {
    world().run(|w| {
        let context = w.context(0);
        let (hw_queue, user) = (w.hw_queue(), w.connected_queue(0));
        w.submit_packet(context, &[Command::Timed { ns: 1_000 }]);
        w.on_queue(&hw_queue).run(1, &[Command::Timed { ns: 1_000 }]).finish();
        w.pass(1_000_000);
        let rows = w.adapter().queue_rows(&ALL);
        assert_eq!(rows.next, None);
        let shown: Vec<_> =
            rows.rows.iter().map(|row| (row.kind, row.submitted, row.completed)).collect();
        assert_eq!(
            shown,
            [(QueueKind::Packet, 1, 1), (QueueKind::Hardware, 1, 1), (QueueKind::User, 0, 0)]
        );
        let doorbells: Vec<_> = rows.rows.iter().map(|row| row.doorbell).collect();
        assert_eq!(doorbells, [None, None, Some(DoorbellState::Connected)]);
        assert!(rows.rows.iter().all(|row| !row.lost && row.process == rows.rows[0].process));
        let of_another = PageRequest { process: Some(u32::MAX), ..ALL };
        assert_eq!(w.adapter().queue_rows(&of_another).rows, []);
        assert_eq!(w.adapter().doorbell_rows(&of_another).rows, []);
        assert_eq!(w.adapter().fence_rows(&of_another).rows, []);
        drop(user);
    });
}

/// Work of a ring counts when its process has announced it.
#[test]
fn a_queue_is_shown_with_its_engine_and_what_was_announced() {
    world().run(|w| {
        let (context, hw_queue, user) = (w.context(2), w.hw_queue_on(1), w.connected_queue(2));
        w.submit(&hw_queue, 7, &[Command::Timed { ns: 1_000 }]);
        user.doorbell.last_queued.store(9);
        w.pass(1_000_000);
        let rows = w.adapter().queue_rows(&ALL).rows;
        let shown: Vec<_> =
            rows.iter().map(|row| (row.kind, row.engine, row.submitted, row.completed)).collect();
        assert_eq!(
            shown,
            [
                (QueueKind::Packet, 2, 0, 0),
                (QueueKind::Hardware, 1, 7, 7),
                (QueueKind::User, 2, 9, 0)
            ]
        );
        let numbers = [context, hw_queue.handle, user.queue.handle].map(|of| w.number(of).0);
        assert_eq!(rows.iter().map(|row| row.queue).collect::<Vec<_>>(), numbers);
        let doorbells = w.adapter().doorbell_rows(&ALL).rows;
        let [doorbell] = &doorbells[..] else { panic!("{doorbells:?}") };
        assert_eq!((doorbell.queue, doorbell.engine, doorbell.announced), (numbers[2], 2, 9));
        user.doorbell.last_queued.store(0);
    });
}

/// A doorbell that loses its hardware again and again rings by calls for a while.
#[test]
fn a_doorbell_that_rings_by_notifications_is_shown_so() {
    world().run(|w| {
        let queue = w.user_queue(0);
        while queue.status() != DoorbellStatus::ConnectedNotify {
            w.disconnect_last_doorbell(&Passive::enter(), DisconnectReason::Retry).unwrap();
            queue.connect().unwrap();
        }
        let shown = || w.adapter().doorbell_rows(&ALL).rows[0].state;
        assert_eq!(shown(), DoorbellState::ConnectedNotify);
        w.kernel.notify_work_submission(queue.doorbell.handle).unwrap();
        assert_eq!(
            (shown(), queue.status()),
            (DoorbellState::DisconnectedRetry, DoorbellStatus::DisconnectedRetry)
        );
    });
}

#[test]
fn a_doorbell_shows_the_state_that_the_process_reads() {
    world().run(|w| {
        let state = || {
            let page = w.adapter().doorbell_rows(&ALL);
            let [row] = &page.rows[..] else { panic!("one doorbell: {page:?}") };
            assert_eq!((row.announced, row.completed), (0, 0));
            row.state
        };
        let queue = w.user_queue(0);
        assert_eq!(state(), DoorbellState::DisconnectedRetry);
        w.kernel.connect_doorbell(queue.doorbell.handle).unwrap();
        assert_eq!(state(), DoorbellState::Connected);
        w.disconnect_last_doorbell(&Passive::enter(), DisconnectReason::Abort).unwrap();
        assert_eq!(state(), DoorbellState::DisconnectedAbort);
        let lost = w.adapter().queue_rows(&ALL).rows;
        assert_eq!(lost[0].doorbell, Some(DoorbellState::DisconnectedAbort));
    });
}

#[test]
fn fences_and_their_waits_are_listed_by_kind() {
    world().run(|w| {
        let (native, monitored) = (w.native(3), w.monitored(5));
        let _intra = w.try_intra(SyncObjectFlags::empty()).unwrap();
        let shown: Vec<_> = w.adapter().fence_rows(&ALL).rows;
        let kinds: Vec<_> = shown.iter().map(|row| (row.kind, row.value)).collect();
        assert_eq!(
            kinds,
            [
                (FenceKind::Native, Some(3)),
                (FenceKind::Monitored, Some(5)),
                (FenceKind::IntraGpu, None)
            ]
        );
        assert!(shown.iter().all(|row| row.instances == 1 && !row.shared && row.waiters == 0));

        let context = w.context(0);
        let _event = w.wait_event(&native, 9);
        w.on(context).wait(&monitored, 8).run(&[Command::Timed { ns: 1_000 }]);
        w.pass(1_000_000);
        let held = (QueueNumber(1), PhysicalAddress(u64::MAX), 4);
        let waits = w.adapter().waiter_rows(&ALL, &[held]).rows;
        let of = |row: &WaiterRow| (row.kind, row.awaited, row.value);
        let waits: Vec<_> = waits.iter().map(of).collect();
        assert_eq!(waits, [(WaiterKind::Cpu, 9, Some(3)), (WaiterKind::Queue, 8, Some(5))]);
        w.signal(&monitored, 8);
        w.signal(&native, 9);
    });
}

#[test]
fn the_machine_row_counts_objects_and_tells_recoveries() {
    world().run(|w| {
        let context = w.context(0);
        w.submit_packet(context, &[Command::Hang]);
        let other = w.client("other");
        let (_queue, _user, _fence) = (other.hw_queue(), other.connected_queue(0), other.native(0));
        w.pass(10_000_000_000);
        let named = |name: &str| EngineRow { name: name.to_owned(), ..EngineRow::default() };
        let engines = vec![named("first"), named("second")];
        let row = w.adapter().machine_row(engines, |outcome| format!("{outcome:?}"));
        assert_eq!(row.at_ns, w.platform.now().0);
        assert_eq!((&*row.adapter, &*row.power), ("tidegate reference GPU", "D0"));
        let engines: Vec<_> = row.engines.iter().map(|of| (&*of.name, &*of.power)).collect();
        assert_eq!(engines, [("first", "F0"), ("second", "F0")]);
        assert_eq!((row.queues, row.doorbells), (3, 1));
        assert_eq!(row.fences, w.adapter().census().fences as u64);
        assert_eq!((row.engine_timeouts, row.devices_lost, row.adapter_resets), (1, 1, 0));
        let [recovery] = &row.recoveries[..] else { panic!("{row:?}") };
        let report = &w.adapter().recoveries()[0];
        assert_eq!((recovery.at_ns, recovery.code, recovery.lost_queues), (report.at.0, 0x141, 1));
        assert_eq!(
            (recovery.engine.as_deref(), &*recovery.outcome),
            (Some("first"), "EngineReset")
        );
        assert_eq!(recovery.reason, report.reason.to_string());
        let text = report.to_string();
        assert!(text.contains("hangs in packet") && text.ends_with("reads HUNG"), "{text}");
    });
}
