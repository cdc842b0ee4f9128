//! Memory that a session hands over: which page is mapped, and bytes that move.

use super::*;
use crate::client::memory::Mapped;
use crate::server::MOVING_PIECE_BYTES;
use crate::wire::MemoryView;
use std::iter::repeat_n;
use tidegate_calls::AllocationMemory;

fn attached(page: &Page) -> Attachment {
    Attachment::of_page(page).unwrap().0
}

#[test]
fn a_page_is_mapped_once_and_with_the_words_that_the_session_names() {
    let platform = Platform::sharing_host();
    let mapped = Mapped::new(&Platform::host());
    let (page, other) = (shared_page(&platform, 8), shared_page(&platform, 8));
    page.store(3, 33);
    let files = [attached(&page), attached(&other)];
    let first = mapped.page(view(0, &page), &files).unwrap();
    assert_eq!((first.len(), first.load(3)), (8, 33));
    let again = mapped.page(view(0, &page), &[attached(&page)]).unwrap();
    assert!(first.same(&again), "another descriptor of the same file");
    let second = mapped.page(view(1, &other), &files).unwrap();
    assert!(!first.same(&second));
    second.store(0, 5);
    assert_eq!((other.load(0), page.load(0)), (5, 0));
    let fewer = PageView { words: 4, ..view(0, &page) };
    assert_eq!(mapped.page(fewer, &files).unwrap().len(), 4);
}

#[test]
fn a_view_of_memory_that_is_not_there_is_refused() {
    let platform = Platform::sharing_host();
    let mapped = Mapped::new(&Platform::host());
    let page = shared_page(&platform, 4);
    let files = [attached(&page)];
    let missing = mapped.page(view(1, &page), &files).map(drop);
    let longer = PageView { words: 1 << 20, ..view(0, &page) };
    let longer = mapped.page(longer, &files).map(drop);
    let beyond = mapped.word(word(&page, 4), &files).map(drop);
    assert_eq!([missing, longer, beyond], [Err(Status::NO_MEMORY); 3]);
    let last = mapped.word(word(&page, 3), &files).unwrap();
    page.store(3, 9);
    assert_eq!(last.load(), 9);
    let session = Scripted::start(1, done);
    let about = (&session.channel, Handle(1), Handle(2));
    let bulk =
        |file| mapped.allocation(about, (MemoryView::Bulk { file, bytes: 1 << 30 }, 0), &files);
    assert_eq!([0, 1].map(|file| bulk(file).map(drop)), [Err(Status::NO_MEMORY); 2]);
}

#[test]
fn a_fence_has_the_words_and_the_private_data_of_its_view() {
    let platform = Platform::sharing_host();
    let mapped = Mapped::new(&Platform::host());
    let page = shared_page(&platform, 4);
    page.store(1, 11);
    page.store(2, 22);
    let files = [attached(&page)];
    let with_epoch = FenceView { epoch: Some(word(&page, 2)), ..fence(6, &page, 1) };
    let made = mapped.fence(with_epoch, &files).unwrap();
    assert_eq!((made.handle, made.number, made.value.get()), (Handle(6), 6, Some(11)));
    assert_eq!(made.epoch.unwrap().load(), 22);
    let unreached = FenceView { value: None, ..fence(6, &page, 1) };
    assert_eq!(mapped.fence(unreached, &files).unwrap().value.get(), None);
    for bytes in [63, 65] {
        let short = FenceView { private_data: vec![0; bytes], ..fence(6, &page, 1) };
        assert_eq!(mapped.fence(short, &files).map(drop), Err(Status::DEVICE_REMOVED));
    }
}

/// The messages about bytes that move, as (write, offset, bytes).
fn pieces(session: &Scripted) -> Vec<(bool, u64, usize)> {
    let piece = |message| match message {
        Message::Own(OwnMessage::ReadAllocation { offset, bytes, .. }) => {
            (false, offset, bytes as usize)
        }
        Message::Own(OwnMessage::WriteAllocation { offset, data, .. }) => {
            (true, offset, data.len())
        }
        other => panic!("{other:?}"),
    };
    session.take().into_iter().map(piece).collect()
}

/// Bytes that move at a session, whose byte at each address is the lowest part of the address.
fn moving(
    bytes: u64,
    answered: impl Fn(usize) -> usize + Send + 'static,
) -> (Scripted, AllocationMemory) {
    let session = Scripted::start(1, move |message, _| {
        Some(match message {
            Message::Own(OwnMessage::ReadAllocation { offset, bytes, .. }) => {
                let answered = answered(*bytes as usize) as u64;
                let data: Vec<u8> = (*offset..*offset + answered).map(|at| at as u8).collect();
                Answer::ok(data)
            }
            _ => Answer::ok(()),
        })
    });
    let mapped = Mapped::new(&Platform::host());
    let about = (&session.channel, Handle(1), Handle(2));
    let memory = mapped.allocation(about, (MemoryView::Moving, bytes), &[]).unwrap();
    (session, memory)
}

#[test]
fn bytes_that_move_are_read_and_written_piece_by_piece() {
    let size = 2 * MOVING_PIECE_BYTES + 5;
    let (session, memory) = moving(10 + size as u64, |bytes| bytes);
    let AllocationMemory::ByCalls(memory) = memory else { panic!("it moves") };
    let mut seen = vec![0; size];
    memory.read(10, &mut seen).unwrap();
    assert!(seen.iter().zip(10usize..).all(|(byte, at)| *byte == at as u8));
    let (piece, second) = (MOVING_PIECE_BYTES, 10 + MOVING_PIECE_BYTES as u64);
    let third = second + MOVING_PIECE_BYTES as u64;
    let expected = |write| [(write, 10, piece), (write, second, piece), (write, third, 5)];
    assert_eq!(pieces(&session), expected(false));
    memory.write(10, &seen).unwrap();
    assert_eq!(pieces(&session), expected(true));
}

#[test]
fn bytes_beyond_the_allocation_are_refused_without_a_message() {
    let (session, memory) = moving(100, |bytes| bytes);
    let AllocationMemory::ByCalls(memory) = memory else { panic!("it moves") };
    for (offset, bytes) in [(0, 101), (100, 1), (u64::MAX, 1), (u64::MAX, 2)] {
        let data = vec![0; bytes];
        assert!(memory.read(offset, &mut data.clone()).is_err(), "{offset}");
        assert!(memory.write(offset, &data).is_err(), "{offset}");
    }
    assert_eq!(pieces(&session), []);
    memory.write(0, &[1; 100]).unwrap();
    memory.write(100, &[]).unwrap();
    assert_eq!(pieces(&session), [(true, 0, 100)]);
}

#[test]
fn what_a_service_does_not_answer_reads_as_zeros() {
    for answered in [0, 7, 9] {
        let (_session, memory) = moving(8, move |_| answered);
        let AllocationMemory::ByCalls(memory) = memory else { panic!("it moves") };
        let mut seen: Vec<u8> = repeat_n(9, 8).collect();
        memory.read(0, &mut seen).unwrap();
        assert_eq!(seen, [0; 8], "{answered} bytes of 8");
    }
}
