//! Rust source as the scanners need it: line by line with code and comments apart, and the
//! functions and test regions.
//!
//! The lexer is `proc_macro2`. What it leaves between two tokens is white space or a
//! comment. What counts as a test: a function with an attribute `test` (or one that ends in
//! `::test`), and everything inside an item under `cfg(test)`. A module under `cfg(test)` that lies
//! in a file of its own is named in `test_modules`, since only the caller knows the files.

use std::ops::Range;

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};

/// One line of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The code, strings and characters emptied and comments left out.
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

/// One file.
#[derive(Debug, Default)]
pub struct Source {
    pub lines: Vec<Line>,
    pub functions: Vec<Function>,
    pub test_modules: Vec<String>,
    test_ranges: Vec<(usize, usize)>,
    is_all_test: bool,
}

impl Source {
    /// Reads a file. All of one that is not Rust counts as code.
    pub fn of(text: &str) -> Source {
        let Ok(tokens) = text.parse::<TokenStream>() else {
            let line = |code: &str| Line { code: code.to_owned(), comment: String::new() };
            return Source { lines: text.lines().map(line).collect(), ..Source::default() };
        };
        let mut lines = Lines { text, at: 0, lines: vec![Line::default()] };
        lines.tokens(tokens.clone());
        lines.gap(text.len());
        let mut source = Source { lines: lines.lines, ..Source::default() };
        source.items(tokens);
        source
    }

    /// Whether the line belongs to a test.
    pub fn is_test(&self, index: usize) -> bool {
        let mut ranges = self.test_ranges.iter();
        self.is_all_test || ranges.any(|&(first, last)| (first..=last).contains(&index))
    }

    /// The innermost function whose comments, attributes or body hold the line.
    pub fn function_at(&self, index: usize) -> Option<&Function> {
        let around = self.functions.iter().filter(|f| (f.first..=f.end).contains(&index));
        around.min_by_key(|f| f.end - f.first)
    }

    /// Finds the items among the tokens of a file or block, and in the blocks inside.
    fn items(&mut self, tokens: TokenStream) {
        let mut item = Item::default();
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            match &token {
                TokenTree::Punct(hash) if hash.as_char() == '#' => {
                    let is_inner = tokens.next_if(|t| t.to_string() == "!").is_some();
                    let bracket = tokens.next_if(|t| matches!(t, TokenTree::Group(_)));
                    let Some(TokenTree::Group(attribute)) = bracket else { continue };
                    let text: String = attribute.stream().to_string().split_whitespace().collect();
                    if is_inner {
                        self.is_all_test |= is_cfg_test(&text);
                    } else if !text.starts_with("doc=") {
                        item.first.get_or_insert(line_of(hash.span()));
                        item.attributes.push(text);
                    }
                }
                TokenTree::Ident(word) => {
                    let line = line_of(word.span());
                    item.first.get_or_insert(line);
                    if let Some(TokenTree::Ident(name)) = tokens.peek() {
                        match word.to_string().as_str() {
                            "fn" => item.function = Some((name.to_string(), line)),
                            "mod" => item.module = Some(name.to_string()),
                            _ => {}
                        }
                    }
                }
                TokenTree::Group(group) => {
                    if group.delimiter() == Delimiter::Brace {
                        self.block(std::mem::take(&mut item), group);
                    }
                    self.items(group.stream());
                }
                TokenTree::Punct(end) if end.as_char() == ';' => {
                    let ended = std::mem::take(&mut item);
                    if ended.is_cfg_test() {
                        self.test_modules.extend(ended.module);
                    }
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }

    fn block(&mut self, item: Item, body: &Group) {
        let open = line_of(body.span_open());
        let first = item.first.unwrap_or(open).min(open);
        let comments = self.lines[..first].iter().rev();
        let above = comments.take_while(|l| l.is_comment() && !l.comment.starts_with("//!"));
        let (first, end) = (first - above.count(), line_of(body.span_close()));
        let is_test = item.is_test_function();
        if is_test || item.is_cfg_test() {
            self.test_ranges.push((first, end));
        }
        if let Some((name, start)) = item.function {
            self.functions.push(Function { name, first, start, end, is_test });
        }
    }
}

/// What has been seen since the last boundary between items.
#[derive(Default)]
struct Item {
    first: Option<usize>,
    attributes: Vec<String>,
    function: Option<(String, usize)>,
    module: Option<String>,
}

impl Item {
    fn is_test_function(&self) -> bool {
        let is_test =
            |a: &String| a == "test" || a.ends_with("::test") || a.starts_with("test_case");
        self.attributes.iter().any(is_test)
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

/// Counted from 0.
fn line_of(span: Span) -> usize {
    span.start().line - 1
}

/// The lines of a text, written up to the byte `at`.
struct Lines<'t> {
    text: &'t str,
    at: usize,
    lines: Vec<Line>,
}

impl Lines<'_> {
    fn tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match &token {
                TokenTree::Group(group) if self.is_comment(group.span()) => {}
                TokenTree::Group(group) => {
                    self.code(group.span_open());
                    self.tokens(group.stream());
                    self.code(group.span_close());
                }
                // A documentation comment has the span of the comment.
                token if self.is_comment(token.span()) => {}
                token => self.code(token.span()),
            }
        }
    }

    fn is_comment(&self, span: Span) -> bool {
        let token = &self.text[span.byte_range()];
        token.starts_with("//") || token.starts_with("/*")
    }

    /// Writes the gap before a token, and the token. A line inside a string is a line of code.
    fn code(&mut self, span: Span) {
        let Range { start, end } = span.byte_range();
        self.gap(start);
        let token = &self.text[start..end];
        self.at = end;
        let quote = token.find(['"', '\'']).filter(|_| token.len() > 1);
        let Some(quote) = quote.filter(|_| token.ends_with(['"', '\'', '#'])) else {
            return self.line().code.push_str(token);
        };
        let mark = &token[quote..=quote];
        self.line().code.push_str(mark);
        for _ in token.matches('\n') {
            self.lines.push(Line { code: mark.to_owned(), ..Line::default() });
        }
        self.line().code.push_str(mark);
    }

    /// Writes the white space and the comments up to the byte `until`.
    fn gap(&mut self, until: usize) {
        let gap = self.text.get(self.at..until).unwrap_or_default();
        self.at = self.at.max(until);
        for (nth, part) in gap.split('\n').enumerate() {
            if nth > 0 {
                self.lines.push(Line::default());
            }
            let comment = part.trim_start();
            let line = self.line();
            line.code.push_str(&part[..part.len() - comment.len()]);
            line.comment.push_str(comment);
        }
    }

    fn line(&mut self) -> &mut Line {
        self.lines.last_mut().expect("there is always a line")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> Vec<String> {
        Source::of(text).lines.into_iter().map(|l| l.code.trim().to_owned()).collect()
    }

    #[test]
    fn comments_and_code_are_apart() {
        let text =
            "let a = 1; // spec: NF-001\n/* b\n /* c */ d */ let e;\n/// f\n//! g\nfn h() {}";
        let read = Source::of(text).lines;
        assert_eq!((read[0].code.trim(), read[0].remark()), ("let a = 1;", "spec: NF-001"));
        assert!(read[1].is_comment() && read[3].is_comment() && read[4].is_comment());
        assert_eq!((read[2].code.trim(), read[3].remark()), ("let e;", "f"));
        assert_eq!((read[4].comment.as_str(), read[5].code.as_str()), ("//! g", "fn h() {}"));
    }

    #[test]
    fn strings_and_characters_are_emptied() {
        let emptied = [
            (r#"f("a // b { \" }", 'x')"#, "f(\"\", '')"),
            ("f(r#\"a \" { \"#, b\"{\", br\"{\")", "f(\"\", \"\", \"\")"),
            ("f(\"a\n// b\nc\")", "f(\"|\"|\"\")"),
            ("f(\"a\\\n  b\");\ng", "f(\"|\"\");|g"),
            (
                "fn f<'a>(x: &'a str) { '{'; '\\''; '\\u{1F600}' }",
                "fn f<'a>(x: &'a str) { ''; ''; '' }",
            ),
        ];
        for (text, wanted) in emptied {
            assert_eq!(code(text).join("|"), wanted, "{text}");
        }
    }

    #[test]
    fn functions_cover_their_bodies() {
        let text =
            "// above\n#[inline]\npub fn a<T>(x: [u8; 2]) -> u8 {\n    b(|| { 1 })\n}\nfn c() {}";
        let source = Source::of(text);
        let found: Vec<_> =
            source.functions.iter().map(|f| (f.name.as_str(), f.first, f.start, f.end)).collect();
        assert_eq!(found, [("a", 0, 2, 4), ("c", 5, 5, 5)]);
        let source = Source::of("trait T {\n    fn a(&self);\n    fn b(&self) {\n    }\n}");
        assert_eq!(source.functions.iter().map(|f| &f.name).collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn test_functions_are_found() {
        let text = "#[test]\n// spec: NF-001\nfn a() {\n}\n#[tokio::test]\nfn b() {}\nfn c() {}";
        let source = Source::of(text);
        assert_eq!(
            source.functions.iter().map(|f| f.is_test).collect::<Vec<_>>(),
            [true, true, false]
        );
        assert!(source.is_test(1) && source.is_test(5) && !source.is_test(6));
        assert_eq!(source.function_at(1).unwrap().name, "a");
    }

    #[test]
    fn test_modules_are_regions() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}";
        let source = Source::of(text);
        assert!(!source.is_test(0) && source.is_test(3) && !source.is_test(5));
        assert!(Source::of("#[cfg(not(test))]\nmod m {\n}").test_ranges.is_empty());
        let far = "#[cfg(all(test, unix))]\nmod far;\nmod near;";
        assert_eq!(Source::of(far).test_modules, ["far"]);
        assert!(Source::of("#![cfg(test)]\nfn a() {}").is_test(1));
        let field = "struct S {\n    #[cfg(test)]\n    a: u8,\n}\nfn b() {\n}";
        assert!(!Source::of(field).is_test(4));
    }
}
