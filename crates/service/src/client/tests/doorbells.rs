//! The page that a doorbell shows, the announcement that it is mapped, and what follows a ring.

use super::*;
use crate::wire::{BitsView, ConnectionView, DoorbellView};
use tidegate_calls::{CreateDoorbell, CreateDoorbellFlags, Doorbell, DoorbellStatus, Kernel};

const DOORBELL: Handle = Handle(4);

/// How a session answers connects: the number and whether it hands over a page.
type Connects = Vec<(u64, bool)>;

/// A session of one doorbell. Its words: 0 the status, 1 what was queued last. A page of connection
/// `n` has `10 * n` in its first word. `bits`: word 2 is the leaf, 3 the root, 4 the sleeper.
fn with_doorbell(
    connects: Connects,
    has_secondary: bool,
    with_bits: bool,
) -> (Scripted, RemoteKernel, Page, Doorbell) {
    let platform = Platform::sharing_host();
    let words = shared_page(&platform, 8);
    let (own, mut connects) = (words.clone(), connects.into_iter());
    let (session, kernel) = Scripted::kernel(0, move |message, _| {
        Some(match message {
            Message::Call(Call::CreateDoorbell { .. }) => {
                let (status, last_queued) = (word(&own, 0), word(&own, 1));
                let handle = DOORBELL;
                let private_data = vec![8];
                let view =
                    DoorbellView { handle, has_secondary, status, last_queued, private_data };
                Answer::with(view, &[&own])
            }
            Message::Call(Call::ConnectDoorbell { .. }) => {
                let (number, connected) = connects.next().unwrap();
                let [page, secondary] = [(); 2].map(|()| shared_page(&platform, 8));
                page.store(0, 10 * number);
                secondary.store(0, 10 * number + 1);
                let bits = [(word(&own, 2), 1 << 5), (word(&own, 3), 1 << 6)];
                let bits = with_bits.then(|| BitsView { bits, sleeper: word(&own, 4) });
                let view = ConnectionView {
                    number,
                    value_base: 100 + number,
                    page: connected.then(|| view(1, &page)),
                    secondary: (connected && has_secondary).then(|| view(2, &secondary)),
                    bits,
                };
                Answer::with(view, &[&own, &page, &secondary])
            }
            _ => Answer::ok(()),
        })
    });
    let args = CreateDoorbell {
        hw_queue: Handle(1),
        ring: Handle(2),
        control: Handle(3),
        flags: CreateDoorbellFlags::empty(),
        private_data: vec![],
    };
    let made = kernel.create_doorbell(args).unwrap();
    session.take();
    (session, kernel, words, made)
}

fn shown(doorbell: &Doorbell) -> u64 {
    doorbell.mapping.page().load(0)
}

#[test]
fn a_connect_maps_its_page_and_says_so() {
    let (session, kernel, words, made) = with_doorbell(vec![(3, true)], true, false);
    words.store(1, 77);
    assert_eq!((shown(&made), made.last_queued.load()), (0, 77));
    assert_eq!(made.private_data, [8]);
    let connection = kernel.connect_doorbell(DOORBELL).unwrap();
    assert_eq!(connection.value_base, 103);
    assert_eq!((shown(&made), made.secondary.unwrap().page().load(0)), (30, 31));
    match &session.take()[..] {
        [_, Message::Own(OwnMessage::PageIsMapped { doorbell, number })] => {
            assert_eq!((*doorbell, *number), (DOORBELL, 3));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_late_answer_maps_no_page_over_a_later_one() {
    let connects = vec![(2, true), (1, true), (2, true), (3, true)];
    let (_session, kernel, _words, made) = with_doorbell(connects, true, false);
    for expected in [20, 20, 20, 30] {
        kernel.connect_doorbell(DOORBELL).unwrap();
        assert_eq!(shown(&made), expected);
        assert_eq!(made.secondary.as_ref().unwrap().page().load(0), expected + 1);
    }
}

#[test]
fn a_doorbell_that_was_disconnected_meanwhile_keeps_its_page() {
    let connects = vec![(1, true), (2, false)];
    let (session, kernel, _words, made) = with_doorbell(connects, false, false);
    kernel.connect_doorbell(DOORBELL).unwrap();
    session.take();
    kernel.connect_doorbell(DOORBELL).unwrap();
    assert_eq!(shown(&made), 10);
    assert_eq!(session.names(), ["connect_doorbell"], "no page is mapped");
}

#[test]
fn a_destroyed_doorbell_shows_no_later_page() {
    let connects = vec![(1, true), (2, true)];
    let (_session, kernel, _words, made) = with_doorbell(connects, false, false);
    kernel.connect_doorbell(DOORBELL).unwrap();
    kernel.destroy_doorbell(DOORBELL).unwrap();
    kernel.connect_doorbell(DOORBELL).unwrap();
    assert_eq!(shown(&made), 10);
}

#[test]
fn the_end_of_a_device_forgets_the_doorbells_that_have_ended() {
    for (status, expected) in
        [(DoorbellStatus::DisconnectedAbort, 10), (DoorbellStatus::DisconnectedRetry, 20)]
    {
        let connects = vec![(1, true), (2, true)];
        let (_session, kernel, words, made) = with_doorbell(connects, false, false);
        kernel.connect_doorbell(DOORBELL).unwrap();
        words.store(0, status as u64);
        kernel.destroy_device(Handle(1)).unwrap();
        kernel.connect_doorbell(DOORBELL).unwrap();
        assert_eq!(shown(&made), expected, "{status:?}");
    }
}

#[test]
fn a_ring_sets_its_bits_and_wakes_an_engine_that_sleeps() {
    let (session, kernel, words, _made) = with_doorbell(vec![(1, true)], false, true);
    let connection = kernel.connect_doorbell(DOORBELL).unwrap();
    session.take();
    connection.hint.rung();
    assert_eq!([2, 3].map(|index| words.load(index)), [1 << 5, 1 << 6]);
    assert_eq!(session.names(), [""; 0], "the engine is awake");
    words.store(4, 1);
    connection.hint.rung();
    match &session.take()[..] {
        [Message::Own(OwnMessage::WakeEngine { doorbell })] => assert_eq!(*doorbell, DOORBELL),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_ring_without_bits_is_notified_by_the_process() {
    let (session, kernel, words, _made) = with_doorbell(vec![(1, true)], false, false);
    let connection = kernel.connect_doorbell(DOORBELL).unwrap();
    session.take();
    words.store(4, 1);
    connection.hint.rung();
    assert!(connection.hint.bits().is_none());
    assert_eq!(session.names(), [""; 0]);
    assert_eq!([2, 3].map(|index| words.load(index)), [0, 0]);
}
