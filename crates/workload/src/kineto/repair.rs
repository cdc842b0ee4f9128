//! JSON as profilers write it → JSON.
//!
//! Some versions write `inf` and `nan` for a bandwidth without a duration, and bytes that are no text inside kernel
//! names. This room makes such a file readable without moving a byte, so that places in messages stay right. It is
//! used only after a first attempt to read has failed, and changes only what cannot be JSON.

/// Replaces what is not JSON; returns whether anything was.
pub fn repair(text: &mut [u8]) -> bool {
    let mut changed = bytes_that_are_no_text(text);
    let mut in_string = false;
    let mut k = 0;
    while k < text.len() {
        match text[k] {
            b'\\' if in_string => k += 1,
            b'"' => in_string = !in_string,
            byte if in_string && byte < 0x20 => {
                text[k] = b' ';
                changed = true;
            }
            byte if !in_string && (byte.is_ascii_alphabetic() || byte == b'-') => {
                k += word(text, k, &mut changed);
                continue;
            }
            _ => {}
        }
        k += 1;
    }
    changed
}

/// Looks at the word that begins at `k`; returns how long it is.
fn word(text: &mut [u8], k: usize, changed: &mut bool) -> usize {
    let rest = &text[k..];
    let length = rest.iter().take_while(|b| b.is_ascii_alphabetic() || **b == b'-').count();
    let bare = rest[..length].iter().copied().filter(|b| *b != b'-').collect::<Vec<u8>>();
    let lower = bare.to_ascii_lowercase();
    if matches!(lower.as_slice(), b"inf" | b"infinity" | b"nan") {
        text[k..k + length].fill(b' ');
        text[k] = b'0';
        *changed = true;
    }
    length.max(1)
}

fn bytes_that_are_no_text(text: &mut [u8]) -> bool {
    let mut changed = false;
    let mut from = 0;
    while let Err(error) = std::str::from_utf8(&text[from..]) {
        let at = from + error.valid_up_to();
        let length = error.error_len().unwrap_or(text.len() - at);
        text[at..at + length].fill(b'?');
        from = at + length;
        changed = true;
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repaired(text: &[u8]) -> String {
        let mut text = text.to_vec();
        repair(&mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn only_what_is_no_json_changes() {
        let good = br#"{"a": null, "b": [true, -1.5e-3], "c": "inf \" nan"}"#;
        assert!(!repair(&mut good.to_vec()));
        assert_eq!(repaired(br#"{"a": inf, "b": -nan}"#), r#"{"a": 0  , "b": 0   }"#);
        assert_eq!(repaired(br#"{"a": Infinity}"#), r#"{"a": 0       }"#);
        assert_eq!(repaired(b"{\"a\": \"\xff\x01\"}"), r#"{"a": "? "}"#);
    }
}
