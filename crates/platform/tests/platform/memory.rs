//! Bulk bytes and physical addresses.

use tidegate_platform::{OutOfBounds, PageKind, PhysicalAddress, PhysicalMemory, Platform, Target};

#[test]
fn bulk_copies_any_range_and_refuses_what_lies_beyond() {
    let bulk = Platform::host().bulk(37);
    let data: Vec<u8> = (1..=37).collect();
    bulk.write(0, &data).unwrap();
    for start in 0..37usize {
        for end in start..=37 {
            let mut out = vec![0; end - start];
            bulk.read(start as u64, &mut out).unwrap();
            assert_eq!(out, data[start..end]);
        }
    }
    bulk.write(5, &[0xAA; 13]).unwrap();
    let mut out = vec![0; 37];
    bulk.read(0, &mut out).unwrap();
    assert_eq!((out[4], out[5], out[17], out[18]), (5, 0xAA, 0xAA, 19));
    assert_eq!(bulk.write(30, &[0; 8]), Err(OutOfBounds { offset: 30, len: 8, size: 37 }));
    assert!(bulk.read(u64::MAX, &mut [0; 2]).is_err());
}

#[test]
fn a_physical_address_yields_the_kind_of_its_page_and_is_never_given_twice() {
    let memory = PhysicalMemory::new(&Platform::host(), PhysicalAddress(0x10_000));
    let (a, page) = memory.protocol(512);
    let (b, _) = memory.bulk(100);
    assert_eq!((a.0, b.0), (0x10_000, 0x11_000));
    page.word(3).store(9);
    let target = memory.resolve(PhysicalAddress(a.0 + 24)).unwrap();
    assert_eq!(target.kind(), PageKind::Protocol);
    assert_eq!(target.word().unwrap().load(), 9);
    assert!(memory.resolve(PhysicalAddress(a.0 + 25)).unwrap().word().is_none());
    assert_eq!(memory.resolve(PhysicalAddress(b.0 + 99)).unwrap().kind(), PageKind::Bulk);
    assert!(memory.resolve(PhysicalAddress(b.0 + 100)).is_none());
    assert!(memory.remove(a) && memory.resolve(a).is_none());
    assert_eq!(memory.bulk(1).0.0, 0x12_000);
}

#[test]
fn a_region_that_was_found_before_is_found_until_it_is_removed() {
    let memory = PhysicalMemory::new(&Platform::host(), PhysicalAddress(0x10_000));
    let ((a, bulk), (b, _)) = (memory.bulk(0x3000), memory.protocol(512));
    bulk.write(0x2008, &[7; 8]).unwrap();
    let mut last = None;
    for offset in [0, 0x1000, 0x2008] {
        let at = PhysicalAddress(a.0 + offset);
        let Some(Target::Bulk(found, start)) = memory.resolve_near(at, &mut last) else {
            panic!("no bulk bytes at {offset:#x}")
        };
        assert_eq!((start, found.len()), (offset, 0x3000));
    }
    let word = memory.resolve_near(b, &mut last);
    assert!(matches!(word, Some(Target::Protocol(_, 0))), "the end of the region is seen");
    assert!(memory.resolve_near(a, &mut last).is_some());
    memory.remove(a);
    assert!(memory.resolve_near(a, &mut last).is_none());
}
