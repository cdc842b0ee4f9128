//! Functions and test regions of a Rust file, found from its braces.
//!
//! What counts as a test: a function with an attribute `test` (or one that ends in `::test`), and
//! everything inside an item under `cfg(test)`. A module under `cfg(test)` that lies in a file of
//! its own is named in `test_modules`, since only the caller knows the files.

use crate::source::Line;

/// A function and the lines that it covers, counted from 0.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    /// First line of the comments and attributes directly above.
    pub first: usize,
    /// The line of `fn`.
    pub start: usize,
    /// The line of the closing brace.
    pub end: usize,
    pub is_test: bool,
}

/// What `scan` found in one file.
#[derive(Debug, Default)]
pub struct Items {
    pub functions: Vec<Function>,
    test_ranges: Vec<(usize, usize)>,
    pub test_modules: Vec<String>,
    whole_file: bool,
}

impl Items {
    /// Whether the line belongs to a test.
    pub fn is_test(&self, index: usize) -> bool {
        self.whole_file
            || self.test_ranges.iter().any(|&(first, last)| (first..=last).contains(&index))
    }

    /// The innermost function whose comments, attributes or body hold the line.
    pub fn function_at(&self, index: usize) -> Option<&Function> {
        self.functions
            .iter()
            .filter(|f| (f.first..=f.end).contains(&index))
            .min_by_key(|f| f.end - f.first)
    }
}

enum Token {
    Word(String),
    Mark(char),
}

/// An open brace: what it closes, and the bracket depth to go back to.
struct Open {
    function: Option<usize>,
    test_from: Option<usize>,
    brackets: usize,
}

/// What has been seen since the last boundary between items.
#[derive(Default)]
struct Pending {
    first: Option<usize>,
    attributes: Vec<String>,
    function: Option<(String, usize)>,
    module: Option<String>,
}

impl Pending {
    fn is_test_function(&self) -> bool {
        self.attributes
            .iter()
            .any(|a| a == "test" || a.ends_with("::test") || a.starts_with("test_case"))
    }

    fn is_cfg_test(&self) -> bool {
        self.attributes.iter().any(|a| is_cfg_test(a))
    }
}

fn is_cfg_test(attribute: &str) -> bool {
    let Some(condition) = attribute.strip_prefix("cfg(") else { return false };
    let mut words = condition.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    words.any(|w| w == "test") && !condition.contains("not(test")
}

/// Finds the functions and test regions of a file.
pub fn scan(lines: &[Line]) -> Items {
    let tokens = tokens(lines);
    let mut items = Items::default();
    let mut pending = Pending::default();
    let mut open: Vec<Open> = Vec::new();
    let mut brackets: usize = 0;
    let mut at = 0;
    while at < tokens.len() {
        let (line, token) = &tokens[at];
        if let Token::Mark('#') = token
            && let Some((text, inner, used)) = attribute(&tokens[at..])
        {
            if inner {
                items.whole_file |= open.is_empty() && is_cfg_test(&text);
            } else {
                pending.first.get_or_insert(*line);
                pending.attributes.push(text);
            }
            at += used;
            continue;
        }
        match token {
            Token::Word(word) => {
                pending.first.get_or_insert(*line);
                if let Some((_, Token::Word(name))) = tokens.get(at + 1) {
                    match word.as_str() {
                        "fn" => pending.function = Some((name.clone(), *line)),
                        "mod" => pending.module = Some(name.clone()),
                        _ => {}
                    }
                }
            }
            Token::Mark('(' | '[') => brackets += 1,
            Token::Mark(')' | ']') => brackets = brackets.saturating_sub(1),
            Token::Mark('{') => {
                open.push(open_block(
                    &mut items,
                    std::mem::take(&mut pending),
                    lines,
                    *line,
                    brackets,
                ));
                brackets = 0;
            }
            Token::Mark('}') => {
                if let Some(block) = open.pop() {
                    close_block(&mut items, &block, *line);
                    brackets = block.brackets;
                }
                pending = Pending::default();
            }
            Token::Mark(';') if brackets == 0 => {
                let ended = std::mem::take(&mut pending);
                if ended.is_cfg_test() {
                    items.test_modules.extend(ended.module);
                }
            }
            Token::Mark(_) => {}
        }
        at += 1;
    }
    items
}

fn open_block(
    items: &mut Items,
    item: Pending,
    lines: &[Line],
    line: usize,
    brackets: usize,
) -> Open {
    let first = above(lines, item.first.unwrap_or(line));
    let is_test = item.is_test_function();
    let test_from = (is_test || item.is_cfg_test()).then_some(first);
    let function = item.function.map(|(name, start)| {
        items.functions.push(Function { name, first, start, end: line, is_test });
        items.functions.len() - 1
    });
    Open { function, test_from, brackets }
}

fn close_block(items: &mut Items, block: &Open, line: usize) {
    if let Some(index) = block.function {
        items.functions[index].end = line;
    }
    if let Some(first) = block.test_from {
        items.test_ranges.push((first, line));
    }
}

/// The first of the comment lines that stand directly above `line`.
fn above(lines: &[Line], line: usize) -> usize {
    let comments =
        lines[..line].iter().rev().take_while(|l| l.is_comment() && !l.comment.starts_with("//!"));
    line - comments.count()
}

/// The attribute that starts at the hash: its text without spaces, whether it is an inner one, and
/// its length.
fn attribute(tokens: &[(usize, Token)]) -> Option<(String, bool, usize)> {
    let inner = matches!(tokens.get(1)?.1, Token::Mark('!'));
    let start = if inner { 2 } else { 1 };
    if !matches!(tokens.get(start)?.1, Token::Mark('[')) {
        return None;
    }
    let mut depth = 0;
    let mut text = String::new();
    for (offset, (_, token)) in tokens.iter().enumerate().skip(start) {
        match token {
            Token::Mark('[') => depth += 1,
            Token::Mark(']') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((text, inner, offset + 1));
        }
        match token {
            Token::Mark('[') if depth == 1 => {}
            Token::Mark(mark) => text.push(*mark),
            Token::Word(word) => text.push_str(word),
        }
    }
    None
}

fn tokens(lines: &[Line]) -> Vec<(usize, Token)> {
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let mut word = String::new();
        for c in line.code.chars() {
            if c.is_alphanumeric() || c == '_' {
                word.push(c);
                continue;
            }
            if !word.is_empty() {
                found.push((index, Token::Word(std::mem::take(&mut word))));
            }
            if !c.is_whitespace() {
                found.push((index, Token::Mark(c)));
            }
        }
        if !word.is_empty() {
            found.push((index, Token::Word(word)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source;

    fn scanned(text: &str) -> Items {
        scan(&source::lines(text))
    }

    #[test]
    fn functions_cover_their_bodies() {
        let items = scanned(
            "// above\n#[inline]\npub fn a<T>(x: [u8; 2]) -> u8 {\n    b(|| { 1 })\n}\nfn c() {}",
        );
        let found: Vec<_> =
            items.functions.iter().map(|f| (f.name.as_str(), f.first, f.start, f.end)).collect();
        assert_eq!(found, [("a", 0, 2, 4), ("c", 5, 5, 5)]);
    }

    #[test]
    fn test_functions_are_found() {
        let items =
            scanned("#[test]\n// spec: NF-001\nfn a() {\n}\n#[tokio::test]\nfn b() {}\nfn c() {}");
        assert!(
            items.functions[0].is_test && items.functions[1].is_test && !items.functions[2].is_test
        );
        assert!(items.is_test(1) && items.is_test(5) && !items.is_test(6));
        assert_eq!(items.function_at(1).unwrap().name, "a");
    }

    #[test]
    fn test_modules_are_regions() {
        let items = scanned("fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}");
        assert!(!items.is_test(0) && items.is_test(3) && !items.is_test(5));
        assert!(scanned("#[cfg(not(test))]\nmod m {\n}").test_ranges.is_empty());
        assert_eq!(scanned("#[cfg(all(test, unix))]\nmod far;\nmod near;").test_modules, ["far"]);
        assert!(scanned("#![cfg(test)]\nfn a() {}").is_test(1));
    }

    #[test]
    fn a_field_attribute_does_not_reach_the_next_item() {
        let items = scanned("struct S {\n    #[cfg(test)]\n    a: u8,\n}\nfn b() {\n}");
        assert!(!items.is_test(4));
    }

    #[test]
    fn a_declaration_is_no_function_with_a_body() {
        let items = scanned("trait T {\n    fn a(&self);\n    fn b(&self) {\n    }\n}");
        assert_eq!(items.functions.len(), 1);
        assert_eq!(items.functions[0].name, "b");
    }
}
