//! The layout of the BAR.

use super::*;

/// The layout is an interface of programs in guests, which have it from `docs/service.md`.
#[test]
fn the_layout_is_the_one_that_is_documented() {
    let text = include_str!("../../../../../docs/service.md");
    let rows = [
        (0, "the header"),
        (WORDS_AT, "words of the mailbox"),
        (REQUEST_AT, "bytes of a request"),
        (ANSWER_AT, "bytes of an answer"),
        (OBJECTS_AT, "memory of objects"),
    ];
    for (offset, what) in rows {
        assert!(text.contains(&format!("| {offset} | {what}")), "{offset} {what}");
    }
    let words = [
        (REQUEST_NUMBER, "number of the request"),
        (REQUEST_KIND, "its kind"),
        (REQUEST_BYTES, "its length"),
        (ANSWER_NUMBER, "number of the request that is answered"),
        (ANSWER_BYTES, "length of the answer"),
        (ANSWER_PLACES, "how many places"),
        (FIRST_PLACE, "offset and length of each place"),
        (ENDED, "the first request of the process"),
        (CLOSED, "1 once the service"),
        (NOTICES, "changes when"),
    ];
    for (word, what) in words {
        assert!(text.contains(&format!("| {word} | {what}")), "{word} {what}");
    }
    assert_eq!(
        header(1 << 20)[..4],
        [0x6574_6167_6564_6974, 1, u64::from(crate::wire::VERSION), 1 << 20]
    );
}

#[test]
fn a_place_on_a_cache_line_has_one_writer() {
    let line = |word: usize| word / 8;
    assert_ne!(line(REQUEST_BYTES), line(ANSWER_NUMBER));
    assert_ne!(line(ENDED), line(NOTICES));
    const { assert!(NOTICES < PAGE_WORDS) };
}
