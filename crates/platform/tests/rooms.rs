//! Rooms: the memory of a guest, which it maps whole and may store to.

use std::io;
use std::os::fd::AsFd;
use tidegate_explorer::random_numbers::Numbers;
use tidegate_platform::{ClientAccess, DeviceMemory, InRoom, Page, Platform, Room, Word};

const PAGE: usize = 4096;

/// A host, a room of 16 pages whose first is reserved, and the guest's mapping of it.
fn room() -> (Platform, Room, DeviceMemory) {
    let host = Platform::hosting_guests();
    let room = host.room(16 * PAGE as u64, PAGE).unwrap();
    let file = room.file().try_clone_to_owned().unwrap();
    let guest = Platform::host().map_device(&file).unwrap();
    (host, room, guest)
}

fn seen(guest: &DeviceMemory, offset: u64, words: usize) -> Page {
    guest.page(&Platform::host(), offset, words).unwrap()
}

#[test]
fn memory_that_a_process_may_store_to_moves_with_its_content_and_addresses() {
    let (host, room, guest) = room();
    let page = host.client_page(600, ClientAccess::ReadWrite);
    let (word, address) = (page.word(599), page.word(0).cpu_address());
    word.store(7);
    let place = room.enter_page(&page).unwrap();
    assert_eq!((place.offset as usize, place.is_copy()), (PAGE, false));
    let there = seen(&guest, place.offset, 600);
    assert_eq!((there.load(599), page.word(0).cpu_address()), (7, address));
    there.store(599, 8);
    word.fetch_add(1);
    assert_eq!((word.load(), there.load(599)), (9, 9));

    let bulk = host.client_bulk(5000);
    let place = room.enter_bulk(&bulk).unwrap();
    assert_eq!(place.offset as usize, 3 * PAGE, "two pages are before it");
    let there = guest.bulk(&Platform::host(), place.offset, 5000).unwrap();
    there.write(4999, &[3]).unwrap();
    let mut byte = [0];
    bulk.read(4999, &mut byte).unwrap();
    assert_eq!(byte, [3]);
    assert_eq!(room.enter_bulk(&bulk).unwrap().offset, place.offset, "it is there already");
}

/// Each way of changing a word, and its value after each.
fn change(page: &Page, word: &Word) -> Vec<u64> {
    let mut values = Vec::new();
    let mut changed = |changed: u64| {
        let _ = changed;
        values.push(word.load());
    };
    changed({
        word.store(1);
        0
    });
    changed(word.exchange(2));
    changed(word.fetch_add(3));
    changed(word.fetch_or(8));
    changed(word.fetch_and(12));
    changed(u64::from(word.add_and_test(5, 1 << 63)));
    changed(word.compare_exchange(17, 18).unwrap_or(0));
    changed({
        page.store(word.index(), 19);
        0
    });
    changed(page.exchange(word.index(), 20));
    changed(page.fetch_add(word.index(), 1));
    changed(page.fetch_or(word.index(), 32));
    changed({
        word.put(54);
        0
    });
    values
}

#[test]
fn a_copy_of_memory_that_a_process_may_only_read_follows_each_change() {
    let (host, room, guest) = room();
    let page = host.client_page(4, ClientAccess::ReadOnly);
    page.store(1, 99);
    let places = [room.enter_page(&page).unwrap(), room.enter_page(&page).unwrap()];
    let copies = places.each_ref().map(|place| seen(&guest, place.offset, 4));
    assert!(copies.iter().all(|copy| copy.load(1) == 99), "its value from before");
    let values = change(&page, &page.word(2));
    assert_eq!(values, [1, 2, 5, 13, 12, 17, 18, 19, 20, 21, 53, 54]);
    // Again, each step beside the copies.
    let word = page.word(3);
    for value in values {
        word.exchange(value);
        assert!(copies.iter().all(|copy| copy.load(3) == value), "{value}");
    }
    assert!(copies.iter().all(|copy| copy.load(2) == 54));
}

#[test]
fn what_a_guest_stores_to_a_copy_reaches_no_kernel() {
    let (host, room, guest) = room();
    let page = host.client_page(1, ClientAccess::ReadOnly);
    page.store(0, 5);
    let place = room.enter_page(&page).unwrap();
    seen(&guest, 0, 16 * PAGE / 8).store(place.offset as usize / 8, u64::MAX);
    assert_eq!(page.load(0), 5);
    assert_eq!(page.fetch_add(0, 1), 5);
    assert_eq!(seen(&guest, place.offset, 1).load(0), 6, "the next change is copied");
}

#[test]
fn two_threads_leave_the_last_value_in_the_copy() {
    let (host, room, guest) = room();
    let page = host.client_page(1, ClientAccess::ReadOnly);
    let place = room.enter_page(&page).unwrap();
    let copy = seen(&guest, place.offset, 1);
    for _ in 0..200 {
        let report = host.run_scoped(|| {
            let threads = [1, 2].map(|step| {
                let page = page.clone();
                host.spawn("adder", move || (0..50).for_each(|_| _ = page.fetch_add(0, step)))
            });
            threads.into_iter().for_each(|thread| _ = thread.join());
        });
        assert!(report.completed(), "{report:?}");
        assert_eq!(copy.load(0), page.load(0));
    }
}

#[test]
fn memory_of_another_process_moves_into_no_room() {
    let (host, room, _) = room();
    let refused = |page: &Page| room.enter_page(page).err().map(|error| error.kind());
    let handed = host.client_page(1, ClientAccess::ReadWrite);
    assert!(handed.shared().is_some());
    assert_eq!(refused(&handed), Some(io::ErrorKind::InvalidInput));
    assert_eq!(refused(&host.page(1)), Some(io::ErrorKind::InvalidInput), "no process has it");
    let moved = host.client_page(1, ClientAccess::ReadWrite);
    let _place = room.enter_page(&moved).unwrap();
    assert!(moved.shared().is_none(), "its file is not its memory");
    let other = host.room(4 * PAGE as u64, PAGE).unwrap();
    assert!(other.enter_page(&moved).is_err(), "it is another guest's");
    let plain = Platform::sharing_host().client_page(1, ClientAccess::ReadOnly);
    assert_eq!(refused(&plain), Some(io::ErrorKind::InvalidInput), "its changes are not followed");
}

#[test]
fn places_end_with_their_memory_and_a_full_room_refuses() {
    let (host, room, _) = room();
    let make = || host.client_page(1, ClientAccess::ReadWrite);
    for _ in 0..100 {
        room.enter_page(&make()).unwrap();
        let read = host.client_page(1, ClientAccess::ReadOnly);
        room.enter_page(&read).unwrap();
    }
    let pages: Vec<Page> = (0..15).map(|_| make()).collect();
    pages.iter().for_each(|page| _ = room.enter_page(page).unwrap());
    let full = room.enter_page(&make()).err().map(|error| error.kind());
    assert_eq!(full, Some(io::ErrorKind::OutOfMemory));
    drop(pages);
    room.enter_bulk(&host.client_bulk(15 * PAGE)).unwrap();
}

#[test]
fn a_guest_reaches_nothing_beyond_the_room() {
    let (_, _, guest) = room();
    let platform = Platform::host();
    let end = 16 * PAGE as u64;
    for (offset, words) in [(end, 1), (end - 8, 2), (u64::MAX - 7, 1), (4, 1), (0, usize::MAX / 8)]
    {
        assert!(guest.page(&platform, offset, words).is_none(), "{offset} {words}");
    }
    assert!(guest.bulk(&platform, end - 8, 9).is_none());
    assert!(guest.page(&platform, end - 8, 1).is_some());
    // A file of memory that may shrink is not mapped, and so is one without memory.
    let cut = rustix::fs::memfd_create("cut", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&cut, 4096).unwrap();
    assert!(platform.map_device(&cut).is_err());
    assert!(platform.map_device(&room().1.file().as_fd().try_clone_to_owned().unwrap()).is_ok());
}

/// Memory in a room, as a kernel has it, with the values that it has stored.
struct Kept {
    page: Page,
    place: InRoom,
    values: Vec<u64>,
}

/// A guest that stores anything anywhere beside a kernel that makes, changes and ends memory.
#[test]
fn a_hostile_guest_changes_no_word_that_it_may_only_read_and_places_never_overlap() {
    let (host, room, guest) = room();
    let words = 16 * PAGE / 8;
    let all = seen(&guest, 0, words);
    let mut numbers = Numbers::new(1);
    let mut below = |most: usize| numbers.below(most as u64) as usize;
    let mut kept: Vec<Kept> = Vec::new();
    for step in 0..20_000 {
        let chosen = below(kept.len().max(1));
        match below(8) {
            0 => {
                let access = [ClientAccess::ReadOnly, ClientAccess::ReadWrite][below(2)];
                let page = host.client_page(1 + below(1200), access);
                // The room may be full.
                let Ok(place) = room.enter_page(&page) else { continue };
                kept.push(Kept { values: vec![0; page.len()], page, place });
            }
            1 if kept.len() > 4 => drop(kept.swap_remove(chosen)),
            2..5 if !kept.is_empty() => {
                let Kept { page, values, .. } = &mut kept[chosen];
                let word = below(values.len());
                values[word] = step;
                page.exchange(word, step);
            }
            _ => all.store(below(words), below(1 << 40) as u64),
        }
        let mut places = vec![(0, PAGE as u64)];
        for Kept { page, place, values } in &kept {
            places.push((place.offset, (8 * page.len()).next_multiple_of(PAGE) as u64));
            let word = below(values.len());
            if place.is_copy() {
                assert_eq!(page.load(word), values[word], "step {step}");
            }
        }
        places.sort_unstable();
        assert!(places.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0), "step {step}");
    }
}
