//! Escapes strings for JSON.
//!
//! Besides the characters of the JSON standard, `<`, `>`, `&` and the two line separators that
//! scripts reject are written as `\u` escapes, so the text is safe inside an HTML script element,
//! too.

use std::fmt::Write as _;

/// Appends `text` to `out` as a JSON string, quotes included.
pub(crate) fn push_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\u{0}'..='\u{1f}' | '<' | '>' | '&' | '\u{7f}' | '\u{2028}' | '\u{2029}' => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}

/// `text` as a JSON string, quotes included.
pub(crate) fn string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    push_string(&mut out, text);
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn awkward_strings_come_back_and_never_close_a_script() {
        for text in
            ["", "plain", "a\"b\\c\n\t\u{1}", "</script><!--", "é \u{1F40B} \u{2028}", "\u{7f}"]
        {
            let json = super::string(text);
            assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
            assert!(!json.contains('<'), "{json}");
        }
    }
}
