//! Rust source, line by line, with code and comments told apart.
//!
//! This is no parser: it knows strings, characters, lifetimes and nested comments, which is all
//! that a scanner needs so as not to take a word in a string for code. String contents are left out
//! of the code; what remains keeps its line.

/// One line of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The code, strings emptied and comments left out.
    pub code: String,
    /// The comment, with its marker; empty when the line has none.
    pub comment: String,
}

impl Line {
    pub fn has_code(&self) -> bool {
        !self.code.trim().is_empty()
    }

    pub fn is_comment(&self) -> bool {
        !self.has_code() && !self.comment.trim().is_empty()
    }

    /// The comment without its markers.
    pub fn remark(&self) -> &str {
        self.comment.trim().trim_start_matches(['/', '!', '*']).trim()
    }
}

enum State {
    Code,
    LineComment,
    BlockComment(usize),
    Text,
    RawText(usize),
}

/// Splits `text` into lines.
pub fn lines(text: &str) -> Vec<Line> {
    let chars: Vec<char> = text.chars().collect();
    let mut out = vec![Line::default()];
    let mut state = State::Code;
    let mut at = 0;
    while at < chars.len() {
        let c = chars[at];
        if c == '\n' {
            if matches!(state, State::LineComment) {
                state = State::Code;
            }
            let mut line = Line::default();
            // A line inside a string is a line of code, although its text is left out.
            if matches!(state, State::Text | State::RawText(_)) {
                line.code.push('"');
            }
            out.push(line);
            at += 1;
            continue;
        }
        let line = out.last_mut().expect("there is always a line");
        at += match &mut state {
            State::Code => {
                let (next, used) = code_step(&chars, at, line);
                state = next;
                used
            }
            State::LineComment => {
                line.comment.push(c);
                1
            }
            State::BlockComment(depth) => {
                line.comment.push(c);
                match (c, chars.get(at + 1)) {
                    ('*', Some('/')) => {
                        line.comment.push('/');
                        *depth -= 1;
                        if *depth == 0 {
                            state = State::Code;
                        }
                        2
                    }
                    ('/', Some('*')) => {
                        line.comment.push('*');
                        *depth += 1;
                        2
                    }
                    _ => 1,
                }
            }
            // The line break behind a backslash is left to the loop, which counts lines.
            State::Text if c == '\\' => {
                1 + usize::from(chars.get(at + 1).is_some_and(|&n| n != '\n'))
            }
            State::Text => {
                if c == '"' {
                    line.code.push('"');
                    state = State::Code;
                }
                1
            }
            State::RawText(hashes) => {
                let closed = c == '"' && (1..=*hashes).all(|i| chars.get(at + i) == Some(&'#'));
                let used = 1 + if closed { *hashes } else { 0 };
                if closed {
                    line.code.push('"');
                    state = State::Code;
                }
                used
            }
        };
    }
    out
}

/// One step in code: the state after it, and how many characters it took.
fn code_step(chars: &[char], at: usize, line: &mut Line) -> (State, usize) {
    let c = chars[at];
    let next = chars.get(at + 1).copied();
    match c {
        '/' if next == Some('/') => {
            line.comment.push_str("//");
            (State::LineComment, 2)
        }
        '/' if next == Some('*') => {
            line.comment.push_str("/*");
            (State::BlockComment(1), 2)
        }
        '"' => {
            line.code.push('"');
            (State::Text, 1)
        }
        'r' if !ends_in_word(&line.code) => match raw_hashes(chars, at + 1) {
            Some(hashes) => {
                line.code.push('"');
                (State::RawText(hashes), hashes + 2)
            }
            None => push(line, c),
        },
        'b' | 'c' if !ends_in_word(&line.code) && next == Some('r') => {
            match raw_hashes(chars, at + 2) {
                Some(hashes) => {
                    line.code.push('"');
                    (State::RawText(hashes), hashes + 3)
                }
                None => push(line, c),
            }
        }
        '\'' => match char_literal(chars, at) {
            Some(used) => {
                line.code.push_str("''");
                (State::Code, used)
            }
            None => push(line, c),
        },
        _ => push(line, c),
    }
}

fn push(line: &mut Line, c: char) -> (State, usize) {
    line.code.push(c);
    (State::Code, 1)
}

fn ends_in_word(code: &str) -> bool {
    code.chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_')
}

/// The number of hashes of a raw string that starts at `at`, or none if there is no raw string.
fn raw_hashes(chars: &[char], at: usize) -> Option<usize> {
    let hashes = chars[at.min(chars.len())..].iter().take_while(|&&c| c == '#').count();
    (chars.get(at + hashes) == Some(&'"')).then_some(hashes)
}

/// The length of the character literal at `at`; none for a lifetime.
fn char_literal(chars: &[char], at: usize) -> Option<usize> {
    if chars.get(at + 1) == Some(&'\\') {
        // The escaped character itself may be a quote.
        let close = chars[(at + 3).min(chars.len())..].iter().take(12).position(|&c| c == '\'')?;
        return Some(close + 4);
    }
    (chars.get(at + 2) == Some(&'\'')).then_some(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> Vec<String> {
        lines(text).into_iter().map(|l| l.code.trim().to_owned()).collect()
    }

    #[test]
    fn comments_and_code_are_told_apart() {
        let read = lines("let a = 1; // spec: NF-001\n/* b\n /* c */ d */ let e;");
        assert_eq!(read[0].code.trim(), "let a = 1;");
        assert_eq!(read[0].remark(), "spec: NF-001");
        assert!(read[1].is_comment());
        assert_eq!(read[2].code.trim(), "let e;");
    }

    #[test]
    fn strings_are_emptied() {
        assert_eq!(code(r#"f("a // b { \" }", 'x')"#), ["f(\"\", '')"]);
        assert_eq!(code("f(r#\"a \" { \"#, b\"{\", br\"{\")"), ["f(\"\", b\"\", \"\")"]);
    }

    #[test]
    fn a_string_over_lines_stays_code_on_each() {
        assert_eq!(code("f(\"a\n// b\nc\")"), ["f(\"", "\"", "\"\")"]);
        assert_eq!(code("f(\"a\\\n  b\");\ng"), ["f(\"", "\"\");", "g"]);
    }

    #[test]
    fn lifetimes_are_no_characters() {
        assert_eq!(
            code("fn f<'a>(x: &'a str) { '{'; '\\''; '\\u{1F600}' }"),
            ["fn f<'a>(x: &'a str) { ''; ''; '' }"]
        );
    }
}
