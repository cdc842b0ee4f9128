//! Memory that other processes map.

use std::os::fd::AsFd;
use tidegate_platform::{ClientAccess, Platform};

#[test]
fn both_mappings_of_a_page_are_the_same_words() {
    let (server, client) = (Platform::sharing_host(), Platform::host());
    let page = server.client_page(600, ClientAccess::ReadWrite);
    let file = page.shared().expect("it lies in a file");
    assert_eq!((file.bytes, file.access), (4800, ClientAccess::ReadWrite));
    // A first store that finds no memory ends the process, so all of it is there before.
    let blocks = rustix::fs::fstat(file).unwrap().st_blocks;
    assert!(blocks * 512 >= 4800, "{blocks} blocks");
    let fd = file.as_fd().try_clone_to_owned().unwrap();
    let mapped = client.map_page(fd, 600, file.access).unwrap();
    page.store(599, 7);
    assert_eq!(mapped.load(599), 7);
    mapped.store(0, 8);
    assert_eq!((page.load(0), page.len(), mapped.len()), (8, 600, 600));
    assert!(mapped.shared().is_none(), "its descriptor is closed");
}

#[test]
fn bytes_are_shared_too() {
    let (server, client) = (Platform::sharing_host(), Platform::host());
    let bulk = server.client_bulk(100);
    let fd = bulk.shared().unwrap().as_fd().try_clone_to_owned().unwrap();
    let mapped = client.map_bulk(fd, 100).unwrap();
    mapped.write(90, &[1, 2, 3]).unwrap();
    let mut seen = [0; 3];
    bulk.read(90, &mut seen).unwrap();
    assert_eq!(seen, [1, 2, 3]);
    assert!(mapped.write(98, &seen).is_err(), "the rest of the file's page is out of reach");
}

// spec: NF-010, NF-016, MF-009
#[test]
fn a_page_that_clients_may_read_cannot_be_mapped_for_writing() {
    let server = Platform::sharing_host();
    let page = server.client_page(1, ClientAccess::ReadOnly);
    let fd = page.shared().unwrap().as_fd().try_clone_to_owned().unwrap();
    let refused = Platform::host().map_page(fd, 1, ClientAccess::ReadWrite);
    assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
    let file = page.shared().unwrap();
    assert!(rustix::io::pwrite(file, &[1], 0).is_err());
    assert!(rustix::fs::ftruncate(file, 0).is_err());
    page.store(0, 5);
    assert_eq!(page.load(0), 5, "the owner still stores");
}

#[test]
fn a_file_that_can_shrink_or_is_too_short_is_refused() {
    let client = Platform::host();
    let flags = rustix::fs::MemfdFlags::ALLOW_SEALING;
    let unsealed = rustix::fs::memfd_create("hostile", flags).unwrap();
    rustix::fs::ftruncate(&unsealed, 4096).unwrap();
    let refused = client.map_page(unsealed, 1, ClientAccess::ReadWrite).unwrap_err();
    assert!(refused.to_string().contains("sealed against shrinking"), "{refused}");

    let server = Platform::sharing_host();
    let page = server.client_page(1, ClientAccess::ReadWrite);
    let fd = page.shared().unwrap().as_fd().try_clone_to_owned().unwrap();
    let refused = client.map_page(fd, 513, ClientAccess::ReadWrite).unwrap_err();
    assert!(refused.to_string().contains("shorter"), "{refused}");

    let no_memory = std::fs::File::open("/proc/self/status").unwrap();
    assert!(client.map_bulk(no_memory.into(), 1).is_err());
}

#[test]
fn only_a_sharing_host_puts_memory_into_files() {
    for platform in [Platform::host(), Platform::closed_host()] {
        assert!(!platform.shares_memory());
        assert!(platform.client_page(1, ClientAccess::ReadOnly).shared().is_none());
        assert!(platform.client_bulk(1).shared().is_none());
    }
    let sharing = Platform::sharing_host();
    assert!(sharing.page(1).shared().is_none(), "what no process is handed stays private");
}

#[test]
fn a_thread_that_sleeps_on_one_mapping_is_woken_through_the_other() {
    let (server, client) = (Platform::sharing_host(), Platform::host());
    let page = server.client_page(1, ClientAccess::ReadWrite);
    let fd = page.shared().unwrap().as_fd().try_clone_to_owned().unwrap();
    let word = client.map_page(fd, 1, ClientAccess::ReadWrite).unwrap().word(0);
    let report = client.run({
        let client = client.clone();
        move || {
            let sleeper = client.spawn("sleeper", move || {
                while word.load() == 0 {
                    word.wait_while(0, None, "the other mapping");
                }
            });
            page.store(0, 1);
            page.word(0).wake(1, tidegate_platform::Step::ThreadWake);
            sleeper.join();
        }
    });
    assert!(report.completed(), "{report:?}");
}

/// The raw system calls that a hostile client has.
#[test]
fn a_read_only_file_is_not_made_writable_by_its_holder() {
    let page = Platform::sharing_host().client_page(1, ClientAccess::ReadOnly);
    let file = page.shared().unwrap();
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file.as_fd()));
    let again = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    assert!(Platform::host().map_page(again.into(), 1, ClientAccess::ReadWrite).is_err());
}

#[test]
fn a_file_that_clients_write_is_neither_cut_nor_grown_nor_sealed_by_its_holder() {
    use rustix::fs::{FallocateFlags, SealFlags};
    let page = Platform::sharing_host().client_page(512, ClientAccess::ReadWrite);
    let file = page.shared().unwrap();
    page.store(511, 7);
    assert!(
        rustix::fs::ftruncate(file, 0).is_err() && rustix::fs::ftruncate(file, 1 << 20).is_err()
    );
    assert!(rustix::fs::fallocate(file, FallocateFlags::empty(), 4096, 4096).is_err());
    assert!(rustix::fs::fcntl_add_seals(file, SealFlags::WRITE).is_err());
    assert_eq!(page.load(511), 7);
    // A holder may take the memory away, as it may write 0: the mapping has other memory then.
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(file, hole, 0, 4096).unwrap();
    assert_eq!(page.load(511), 0);
    page.store(511, 8);
    assert_eq!(page.load(511), 8);
}
