//! Slots of waits, and which notices are given, at a session that stores to the words.

use super::*;
use crate::client::notices::Wait;
use crate::wire::{LOST, WaitingCall, over};
use tidegate_calls::{FenceValue, RegisteredWait, SlotKey, WaitMode, WaitNotice};
use tidegate_platform::Event;

const FENCES: [FenceValue; 1] = [FenceValue { fence: Handle(7), value: 1 }];

fn key(slot: u32, generation: u64) -> SlotKey {
    SlotKey { slot, generation }
}

fn register(client: &Scripted) -> Result<(Wait, Event), Status> {
    let event = client.platform.event(false);
    let notice = WaitNotice::Event(event.clone());
    let wait = client.notices.register(&FENCES, WaitMode::All, notice)?;
    Ok((wait, event))
}

/// The key and the announcement of the only message, which registers a wait.
fn registered(client: &Scripted) -> (SlotKey, bool) {
    match &client.take()[..] {
        [Message::Own(OwnMessage::RegisterWait { key, announced, .. })] => (*key, *announced),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_notice_is_given_once_the_word_has_changed() {
    let client = Scripted::start(2, done);
    let (wait, event) = register(&client).unwrap();
    assert_eq!(registered(&client), (key(0, 0), true));
    client.notices.give_due();
    assert!(!wait.is_over() && !event.is_set());
    client.page.store(0, over(key(0, 0)));
    client.notices.give_due();
    assert!(wait.is_over() && event.is_set());
    wait.cancel();
    assert_eq!(client.names(), [""; 0], "the service has no such wait any more");
}

const CALL: WaitingCall = WaitingCall::DestroyDevice { device: Handle(5) };

#[test]
fn the_outcome_of_a_waiting_call_is_asked_for_when_it_is_over() {
    let client = Scripted::start(1, |message, _| {
        Some(match message {
            Message::Own(OwnMessage::TakeOutcome { .. }) => Answer::refusal(Status::CANCELLED),
            _ => Answer::ok(()),
        })
    });
    for generation in 0..2 {
        assert_eq!(client.notices.wait_in(CALL), Err(Status::CANCELLED));
        match &client.take()[..] {
            [
                Message::Own(OwnMessage::Enter { call: CALL, key: entered, announced: false }),
                Message::Own(OwnMessage::TakeOutcome { key: taken }),
            ] => assert_eq!((*entered, *taken), (key(0, generation), key(0, generation))),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_waiting_call_that_finds_no_slot_is_made_in_turn() {
    let client = Scripted::start(1, done);
    let (_wait, _event) = register(&client).unwrap();
    client.take();
    assert_eq!(client.notices.wait_in(CALL), Ok(()));
    match &client.take()[..] {
        [Message::Call(Call::DestroyDevice { device })] => assert_eq!(*device, Handle(5)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_ring_has_the_notices_given() {
    let client = Scripted::start(1, done);
    let (wait, event) = register(&client).unwrap();
    client.page.store(0, over(key(0, 0)));
    client.bell.ring();
    event.wait();
    assert!(wait.is_over());
}

#[test]
fn a_wait_that_is_over_at_once_is_given_before_its_call_returns() {
    let client = Scripted::start(1, |_, page| {
        page.store(0, over(key(0, 0)));
        Some(Answer::ok(()))
    });
    let (wait, event) = register(&client).unwrap();
    assert!(wait.is_over() && event.is_set());
}

#[test]
fn a_refused_wait_frees_its_slot_and_gives_no_notice() {
    let mut refusals = 1;
    let client = Scripted::start(1, move |_, page| {
        if refusals > 0 {
            refusals -= 1;
            page.store(0, over(key(0, 0)));
            return Some(Answer::refusal(Status::ACCESS_DENIED));
        }
        Some(Answer::ok(()))
    });
    let event = client.platform.event(false);
    let notice = WaitNotice::Event(event.clone());
    let refused = client.notices.register(&FENCES, WaitMode::All, notice).map(drop);
    assert_eq!(refused, Err(Status::ACCESS_DENIED));
    client.notices.give_due();
    assert!(!event.is_set());
    client.take();
    let (wait, event) = register(&client).unwrap();
    assert_eq!(registered(&client).0, key(0, 1), "the next use of the only slot");
    assert!(!wait.is_over() && !event.is_set(), "its word was armed anew");
}

#[test]
fn one_wait_too_many_is_refused_without_a_message() {
    let client = Scripted::start(2, done);
    let (_first, second) = (register(&client).unwrap(), register(&client).unwrap());
    assert_eq!(client.names(), ["register_wait"; 2]);
    let refused = register(&client).map(drop);
    assert_eq!(refused, Err(Status::INSUFFICIENT_RESOURCES));
    let refused = client.notices.block(&FENCES, WaitMode::All);
    assert_eq!(refused, Err(Status::INSUFFICIENT_RESOURCES));
    assert_eq!(client.names(), [""; 0]);
    second.0.cancel();
    assert!(register(&client).is_ok());
}

#[test]
fn a_cancelled_wait_gives_no_notice_and_is_cancelled_once() {
    let client = Scripted::start(1, done);
    let (wait, event) = register(&client).unwrap();
    client.take();
    wait.cancel();
    wait.cancel();
    match &client.take()[..] {
        [Message::Own(OwnMessage::CancelWait { key: cancelled })] => {
            assert_eq!(*cancelled, key(0, 0));
        }
        other => panic!("{other:?}"),
    }
    client.page.store(0, over(key(0, 0)));
    client.notices.give_due();
    assert!(!event.is_set());
}

#[test]
fn a_registration_that_outlives_its_wait_leaves_the_next_one_in_its_slot() {
    let client = Scripted::start(1, done);
    let (first, _) = register(&client).unwrap();
    client.page.store(0, over(key(0, 0)));
    client.notices.give_due();
    let (second, event) = register(&client).unwrap();
    client.take();
    assert!(first.is_over() && !second.is_over());
    first.cancel();
    assert_eq!(client.names(), [""; 0]);
    assert!(!second.is_over());
    // The end of the first wait comes late: it is not the end of the second one.
    client.page.store(0, over(key(0, 1)));
    client.notices.give_due();
    assert!(event.is_set());
}

#[test]
fn a_thread_sleeps_until_the_word_of_its_slot_says_how_its_wait_ended() {
    let answers = [
        (over(key(0, 0)), Ok(()), Ok(())),
        (LOST, Ok(()), Err(Status::DEVICE_REMOVED)),
        (0, Err(Status::INVALID_PARAMETER), Err(Status::INVALID_PARAMETER)),
    ];
    for (word, answer, result) in answers {
        let client = Scripted::start(1, move |_, page| {
            page.store(0, word);
            Some(match answer {
                Ok(()) => Answer::ok(()),
                Err(status) => Answer::refusal(status),
            })
        });
        assert_eq!(client.notices.block(&FENCES, WaitMode::Any), result);
        assert_eq!(registered(&client), (key(0, 0), false));
        let _next = client.notices.block(&FENCES, WaitMode::Any);
        assert_eq!(registered(&client).0, key(0, 1), "the slot is free again");
    }
}

#[test]
fn the_end_of_the_connection_ends_all_waits() {
    let mut messages = 0;
    let client = Scripted::start(4, move |_, page| {
        messages += 1;
        page.store(2, over(key(2, 0)));
        (messages < 4).then(|| Answer::ok(()))
    });
    let (pending, told) = (register(&client).unwrap(), register(&client).unwrap());
    // Over, and not given yet: no bell has rung.
    let third = register(&client).unwrap();
    assert_eq!(register(&client).map(drop), Err(Status::DEVICE_REMOVED));
    for (wait, event) in [pending, told, third] {
        event.wait();
        assert!(wait.is_over());
    }
    assert_eq!([0, 1, 2].map(|slot| client.page.load(slot)), [LOST, LOST, over(key(2, 0))]);
    assert!(client.channel.is_lost());
    assert_eq!(client.notices.block(&FENCES, WaitMode::All), Err(Status::DEVICE_REMOVED));
}
