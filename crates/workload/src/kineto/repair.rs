//! Repairs JSON that profilers write malformed.
//!
//! Some versions write `inf` and `nan` for numbers without a value, and invalid UTF-8 in kernel
//! names. Only an event that could not be read is repaired. Such a number becomes a text, and an
//! invalid byte becomes a question mark. Entry point: [`repair`].

/// The JSON of one event, or `None` when nothing in it can be repaired.
pub fn repair(event: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(event);
    let mut repaired = String::with_capacity(text.len() + 16);
    let mut rest = text.as_ref();
    let mut in_string = false;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '\\' if in_string => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            'a'..='z' | 'A'..='Z' | '-' if !in_string => word(rest),
            _ => first.len_utf8(),
        };
        let (taken, behind) = rest.split_at(length);
        match first {
            '"' => in_string = !in_string,
            _ if !in_string && is_no_number(taken) => {
                repaired.extend(["\"", taken, "\""]);
                rest = behind;
                continue;
            }
            _ => {}
        }
        match taken {
            control if in_string && first < ' ' => repaired.extend(control.chars().map(|_| ' ')),
            "\u{fffd}" => repaired.push('?'),
            taken => repaired.push_str(taken),
        }
        rest = behind;
    }
    (repaired.as_bytes() != event).then_some(repaired)
}

/// The length of the word at the start.
fn word(text: &str) -> usize {
    text.bytes().take_while(|byte| byte.is_ascii_alphabetic() || *byte == b'-').count()
}

fn is_no_number(word: &str) -> bool {
    let bare = word.trim_matches('-');
    ["inf", "infinity", "nan"].iter().any(|name| bare.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_no_json_changes() {
        let good = br#"{"a": null, "b": [true, -1.5e-3], "c": "inf \" nan"}"#;
        assert_eq!(repair(good), None);
        let repaired = |event: &[u8]| repair(event).unwrap();
        assert_eq!(repaired(br#"{"a": inf, "b": -nan}"#), r#"{"a": "inf", "b": "-nan"}"#);
        assert_eq!(repaired(br#"{"a": Infinity}"#), r#"{"a": "Infinity"}"#);
        assert_eq!(repaired(b"{\"a\": \"\xff\x01\"}"), r#"{"a": "? "}"#);
    }
}
