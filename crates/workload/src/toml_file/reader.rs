//! Reads tables field by field. A field that is never read is a mistake with a suggestion. Keeps
//! the list of mistakes, and converts byte offsets to lines and columns.

use std::cell::RefCell;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use crate::error::Problem;
use crate::model::Span;
use crate::suggestion::nearest_name;

/// A value and its place.
pub type Value<'i> = Spanned<DeValue<'i>>;

/// The text and its mistakes.
pub struct Reader<'t> {
    text: &'t str,
    line_starts: Vec<usize>,
    problems: RefCell<Vec<Problem>>,
}

impl<'t> Reader<'t> {
    pub fn new(text: &'t str) -> Self {
        let line_starts =
            std::iter::once(0).chain(text.match_indices('\n').map(|(k, _)| k + 1)).collect();
        Self { text, line_starts, problems: RefCell::default() }
    }

    /// Line and column of a byte.
    pub fn span(&self, at: usize) -> Span {
        let at = at.min(self.text.len());
        let line = self.line_starts.partition_point(|start| *start <= at).max(1);
        let start = self.line_starts[line - 1];
        let column = self.text.get(start..at).map_or(0, |before| before.chars().count());
        let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Span { line: small(line), column: small(column + 1) }
    }

    /// Adds a mistake at a byte of the text.
    pub fn problem(&self, at: usize, text: String) {
        self.problem_at(self.span(at), text);
    }

    /// Adds a mistake at a place.
    pub fn problem_at(&self, span: Span, text: String) {
        self.problems.borrow_mut().push(Problem { line: span.line, column: span.column, text });
    }

    /// Whether there is no mistake so far.
    pub fn is_clean(&self) -> bool {
        self.problems.borrow().is_empty()
    }

    /// The source text of a value.
    pub fn source(&self, value: &Value<'_>) -> &'t str {
        self.text.get(value.span()).unwrap_or("")
    }

    /// All mistakes in the order of the file, each once.
    pub fn into_problems(self) -> Vec<Problem> {
        let mut problems = self.problems.into_inner();
        problems.sort();
        problems.dedup();
        problems
    }
}

/// One table while it is read.
pub struct Section<'r, 'i> {
    pub reader: &'r Reader<'r>,
    table: &'r DeTable<'i>,
    /// Its first byte.
    pub at: usize,
    /// Its description for messages: `[[queue]] 'copy'`.
    pub what: String,
    known: RefCell<Vec<&'static str>>,
}

impl<'r, 'i> Section<'r, 'i> {
    pub fn new(
        reader: &'r Reader<'r>,
        table: &'r DeTable<'i>,
        at: usize,
        what: impl Into<String>,
    ) -> Self {
        Self { reader, table, at, what: what.into(), known: RefCell::default() }
    }

    /// Opens a value that must be a table.
    pub fn of(
        reader: &'r Reader<'r>,
        value: &'r Value<'i>,
        what: impl Into<String>,
    ) -> Option<Self> {
        let what = what.into();
        match value.get_ref().as_table() {
            Some(table) => Some(Self::new(reader, table, value.span().start, what)),
            None => {
                let found = type_of(value);
                reader.problem(
                    value.span().start,
                    format!("{what} must be a table {{ … }}, not {found}"),
                );
                None
            }
        }
    }

    /// The same table under another name.
    pub fn called(self, what: String) -> Self {
        Self { what, ..self }
    }

    pub fn span(&self) -> Span {
        self.reader.span(self.at)
    }

    pub fn problem(&self, text: String) {
        self.reader.problem(self.at, text);
    }

    /// Keys with their places, in the order of the file.
    pub fn entries(&self) -> Vec<(&'r str, usize, &'r Value<'i>)> {
        let mut entries: Vec<_> = self
            .table
            .iter()
            .map(|(key, value)| (key.get_ref().as_ref(), key.span().start, value))
            .collect();
        entries.sort_by_key(|(_, at, _)| *at);
        entries
    }

    /// The value of an optional field.
    pub fn get(&self, key: &'static str) -> Option<&'r Value<'i>> {
        self.allow(key);
        self.table.get(key)
    }

    /// Declares an optional field.
    pub fn allow(&self, key: &'static str) {
        let mut known = self.known.borrow_mut();
        if !known.contains(&key) {
            known.push(key);
        }
    }

    /// The value of a required field.
    pub fn need(&self, key: &'static str) -> Option<&'r Value<'i>> {
        let value = self.get(key);
        if value.is_none() {
            self.problem(format!("{} needs the field '{key}'", self.what));
        }
        value
    }

    /// An optional text.
    pub fn string(&self, key: &'static str) -> Option<String> {
        self.get(key).and_then(|value| self.text_of(key, value))
    }

    /// A required text.
    pub fn need_string(&self, key: &'static str) -> Option<String> {
        self.need(key).and_then(|value| self.text_of(key, value))
    }

    fn text_of(&self, key: &str, value: &Value<'i>) -> Option<String> {
        let text = value.get_ref().as_str().map(str::to_owned);
        if text.is_none() {
            self.wrong_type(key, value, "a text in quotes");
        }
        text
    }

    /// Reports a field of the wrong type.
    pub fn wrong_type(&self, key: &str, value: &Value<'i>, wanted: &str) {
        let found = type_of(value);
        let text = format!("'{key}' of {} must be {wanted}, not {found}", self.what);
        self.reader.problem(value.span().start, text);
    }

    /// A float; a whole number counts.
    pub fn float(&self, key: &'static str) -> Option<f32> {
        let value = self.get(key)?;
        let number = float_of(value);
        if number.is_none() {
            self.wrong_type(key, value, "a number");
        }
        number
    }

    /// An optional array.
    pub fn array(&self, key: &'static str) -> Option<&'r DeArray<'i>> {
        let value = self.get(key)?;
        let array = value.get_ref().as_array();
        if array.is_none() {
            self.wrong_type(key, value, "an array [ … ]");
        }
        array
    }

    /// The tables of `[[key]]`.
    pub fn tables(&self, key: &'static str) -> Vec<Section<'r, 'i>> {
        let Some(array) = self.array(key) else { return Vec::new() };
        array
            .iter()
            .filter_map(|value| Self::of(self.reader, value, format!("[[{key}]]")))
            .collect()
    }

    /// A word out of a list, e.g. an engine.
    pub fn word<T: Copy>(&self, key: &'static str, words: &[(&'static str, T)]) -> Option<T> {
        let value = self.get(key)?;
        let text = self.text_of(key, value)?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning);
        if found.is_none() {
            let names: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            let text =
                format!("'{key}' cannot be '{text}'{}", suggest(&text, names.iter().copied()));
            self.reader.problem(value.span().start, text);
        }
        found
    }

    /// Reports every field that was not read.
    pub fn finish(&self) {
        let known = self.known.borrow();
        for (key, at, _) in self.entries() {
            if !known.contains(&key) {
                let hint = suggest(key, known.iter().copied());
                self.reader.problem(at, format!("unknown field '{key}' in {}{hint}", self.what));
            }
        }
    }
}

/// What a value is, with its article.
pub fn type_of(value: &Value<'_>) -> &'static str {
    match value.get_ref() {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a point",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// A float or a whole number as a float.
pub fn float_of(value: &Value<'_>) -> Option<f32> {
    match value.get_ref() {
        DeValue::Float(float) => float.as_str().replace('_', "").parse().ok(),
        DeValue::Integer(whole) => {
            i128::from_str_radix(whole.as_str(), whole.radix()).ok().map(|n| n as f32)
        }
        _ => None,
    }
}

/// `; did you mean 'x'?`, or the list of known names if none is near.
pub fn suggest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let mut known: Vec<&str> = known.into_iter().collect();
    if known.is_empty() {
        return String::new();
    }
    if let Some(name) = nearest_name(wrong, &known) {
        return format!("; did you mean '{name}'?");
    }
    known.sort_unstable();
    known.dedup();
    let more = if known.len() > 12 { ", …" } else { "" };
    known.truncate(12);
    format!("; there are: {}{more}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_lines_and_characters() {
        let reader = Reader::new("a = 1\nä = \"ö\" # x\n");
        assert_eq!(reader.span(0), Span { line: 1, column: 1 });
        assert_eq!(reader.span(6), Span { line: 2, column: 1 });
        assert_eq!(reader.span(8), Span { line: 2, column: 2 });
        assert_eq!(reader.span(999), Span { line: 3, column: 1 });
    }

    #[test]
    fn the_nearest_name_is_suggested() {
        assert_eq!(suggest("enigne", ["engine", "name"]), "; did you mean 'engine'?");
        assert_eq!(suggest("zzz", ["engine", "name"]), "; there are: engine, name");
        assert_eq!(suggest("zzz", []), "");
    }
}
