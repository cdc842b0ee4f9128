//! The members of a JSON object in one pass, as exporters commonly write them.
//!
//! Invariant: what it accepts, `serde_json` accepts too, with the same members. It gives up on rare
//! spellings and on faults, and the caller reads the object again with `serde_json`, whose errors
//! are shown. Entry point: [`members`].

/// Deepest nesting of a value that is read.
const DEEPEST: u32 = 32;

/// Passes the name of each member, without quotes, and the place of its value to `each`, which
/// returns the place behind the value: [`value_end`], or the place after the values in it. Returns
/// the place behind the object at `at`. `None`: another reader must judge the text, which may end
/// too early.
#[inline]
pub fn members<'a>(
    text: &'a [u8],
    at: usize,
    mut each: impl FnMut(&'a [u8], usize) -> Option<usize>,
) -> Option<usize> {
    let mut at = after_spaces(text, expected(text, at, b'{')?)?;
    if text[at] == b'}' {
        return Some(at + 1);
    }
    loop {
        let name = expected(text, at, b'"')?;
        let after = plain_end(text, name)?;
        let name = &text[name..after];
        // A name that holds an escape ends before its quote.
        at = after_spaces(text, expected(text, after, b'"')?)?;
        at = after_spaces(text, expected(text, at, b':')?)?;
        at = each(name, at)?;
        at = after_spaces(text, at)?;
        match text[at] {
            b',' => at = after_spaces(text, at + 1)?,
            b'}' => return Some(at + 1),
            _ => return None,
        }
    }
}

/// The place behind `byte`.
#[inline]
fn expected(text: &[u8], at: usize, byte: u8) -> Option<usize> {
    (*text.get(at)? == byte).then_some(at + 1)
}

/// The place of the next byte other than white space.
#[inline]
fn after_spaces(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match text.get(at)? {
            b' ' | b'\n' | b'\r' | b'\t' => at += 1,
            _ => return Some(at),
        }
    }
}

/// The place behind the value at `at`.
#[inline]
pub fn value_end(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at)? {
        b'"' => string_end(text, at),
        b'{' | b'[' => nested_end(text, at),
        _ => scalar_end(text, at),
    }
}

fn scalar_end(text: &[u8], at: usize) -> Option<usize> {
    let rest = &text[at..];
    let length = match rest.first()? {
        b'-' | b'0'..=b'9' => number_length(rest)?,
        b't' if rest.starts_with(b"true") => 4,
        b'n' if rest.starts_with(b"null") => 4,
        b'f' if rest.starts_with(b"false") => 5,
        _ => return None,
    };
    Some(at + length)
}

const ONES: u64 = 0x0101_0101_0101_0101;
const TOPS: u64 = ONES << 7;

/// The 8 bytes at `at`, the first one lowest.
#[inline]
fn word_at(text: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*text.get(at..)?.first_chunk()?))
}

/// The place behind the digits at `at`.
#[inline]
fn digits_end(text: &[u8], mut at: usize) -> usize {
    while let Some(word) = word_at(text, at) {
        // The lowest mark is exact: a sum carries into higher bytes only.
        let value = word ^ (ONES * u64::from(b'0'));
        let marks = (value.wrapping_add(ONES * (0x80 - 10)) | value) & TOPS;
        if marks != 0 {
            return at + marks.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at + text[at..].iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// The length of the number that `text` begins with. A byte follows it.
#[inline]
fn number_length(text: &[u8]) -> Option<usize> {
    let digits = |from: usize| {
        let end = digits_end(text, from);
        (end > from).then_some(end)
    };
    let first = usize::from(text[0] == b'-');
    let mut at = digits(first)?;
    if text[first] == b'0' && at > first + 1 {
        return None;
    }
    if *text.get(at)? == b'.' {
        at = digits(at + 1)?;
    }
    if matches!(text.get(at)?, b'e' | b'E') {
        let sign = usize::from(matches!(text.get(at + 1)?, b'+' | b'-'));
        at = digits(at + 1 + sign)?;
    }
    // A number that goes on in the next block looks like a shorter one.
    (at < text.len()).then_some(at)
}

/// The place of the first quote, backslash or control character from `at` on.
#[inline]
fn plain_end(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let word = word_at(text, at)?;
        // The lowest mark of each is exact: a subtraction borrows from higher bytes only.
        let zero = |word: u64| word.wrapping_sub(ONES) & !word;
        let quote = zero(word ^ (ONES * u64::from(b'"')));
        let escape = zero(word ^ (ONES * u64::from(b'\\')));
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        let marks = (quote | escape | control) & TOPS;
        if marks != 0 {
            return Some(at + marks.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
}

/// The place behind the text whose first quote is at `at`.
#[inline]
fn string_end(text: &[u8], at: usize) -> Option<usize> {
    let mut at = expected(text, at, b'"')?;
    loop {
        at = plain_end(text, at)?;
        match text[at] {
            b'"' => return Some(at + 1),
            b'\\' => match text.get(at + 1)? {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => at += 2,
                _ => return None,
            },
            _ => return None,
        }
    }
}

/// The place behind the object or list at `at`.
fn nested_end(text: &[u8], at: usize) -> Option<usize> {
    // A bit for each open bracket, the innermost lowest: whether it is an object.
    let (mut objects, mut depth) = (0u32, 0);
    let mut at = at;
    loop {
        // At the first byte of a value.
        match text.get(at)? {
            open @ (b'{' | b'[') => {
                depth += 1;
                if depth > DEEPEST {
                    return None;
                }
                objects = objects << 1 | u32::from(*open == b'{');
                at = after_spaces(text, at + 1)?;
                if !matches!(text[at], b'}' | b']') {
                    if *open == b'{' {
                        at = name_end(text, at)?;
                    }
                    continue;
                }
            }
            b'"' => at = after_spaces(text, string_end(text, at)?)?,
            _ => at = after_spaces(text, scalar_end(text, at)?)?,
        }
        // Behind a value, or inside of empty brackets.
        while matches!(text[at], b'}' | b']') {
            if (text[at] == b'}') != (objects & 1 == 1) {
                return None;
            }
            (objects, depth) = (objects >> 1, depth - 1);
            if depth == 0 {
                return Some(at + 1);
            }
            at = after_spaces(text, at + 1)?;
        }
        at = after_spaces(text, expected(text, at, b',')?)?;
        if objects & 1 == 1 {
            at = name_end(text, at)?;
        }
    }
}

/// The place of the value of the member whose name is at `at`.
fn name_end(text: &[u8], at: usize) -> Option<usize> {
    let colon = after_spaces(text, string_end(text, at)?)?;
    after_spaces(text, expected(text, colon, b':')?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;
    use std::collections::BTreeMap;

    /// The members, and the length of the object.
    fn read(text: &str) -> Option<(Vec<(String, String)>, usize)> {
        let mut found = Vec::new();
        let text_of = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let bytes = text.as_bytes();
        let length = members(bytes, 0, |name, at| {
            let end = value_end(bytes, at)?;
            found.push((text_of(name), text_of(&bytes[at..end])));
            Some(end)
        })?;
        Some((found, length))
    }

    #[test]
    fn members_come_as_written() {
        let text = "{ \"a\":-1.5e+3 ,\n\"bc\" : \"x\\\\\\\"}, é\",\"d\":[{},[ ],{\"e\":[1,{\"f\":null}]}],\t\"g\":{} } tail";
        let expected = [
            ("a", "-1.5e+3"),
            ("bc", "\"x\\\\\\\"}, é\""),
            ("d", "[{},[ ],{\"e\":[1,{\"f\":null}]}]"),
            ("g", "{}"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(read(text), Some((expected.to_vec(), text.len() - 5)));
        assert_eq!(read("{ } "), Some((vec![], 3)));
    }

    #[test]
    fn a_text_that_ends_too_early_is_left_to_the_other_reader() {
        let text = "{\"a\": [1, {\"b\": \"c\"}], \"d\": true, \"e\": 12} ";
        assert!(read(text).is_some());
        for end in 0..text.len() - 1 {
            assert_eq!(read(&text[..end]), None, "{end}");
        }
    }

    /// Changes one byte of an object in every way, and compares with `serde_json`.
    #[test]
    fn what_is_accepted_is_json_with_the_same_members() {
        let text = "{\"a\": [0, -1.25e2, {\"b\": \"c\\n\"}, []], \"d\" :true, \"e\": {\"f\":null}, \"long name\": 120.5}";
        let (mut accepted, mut refused) = (0, 0);
        for at in 0..text.len() {
            for byte in [
                b'"', b'\\', b'{', b'}', b'[', b']', b',', b':', b' ', b'0', b'-', b'.', b'e',
                b'x', 7,
            ] {
                let mut changed = text.as_bytes().to_vec();
                changed[at] = byte;
                changed.extend(b"        ");
                let Ok(changed) = String::from_utf8(changed) else { continue };
                let Some((found, length)) = read(&changed) else {
                    refused += 1;
                    continue;
                };
                accepted += 1;
                let object = &changed[..length];
                let other: BTreeMap<String, Box<RawValue>> =
                    serde_json::from_str(object).unwrap_or_else(|e| panic!("{object}: {e}"));
                let other: BTreeMap<_, _> = other
                    .iter()
                    .map(|(name, value)| (name.clone(), value.get().to_owned()))
                    .collect();
                assert_eq!(found.into_iter().collect::<BTreeMap<_, _>>(), other, "{object}");
            }
        }
        assert!(accepted > 200 && refused > 200, "{accepted} {refused}");
    }
}
