//! Names while a file is read: constants, variables, and groups of buffers, queues and fences; and
//! the expressions that use them.
//!
//! Scope: a constant may use the constants above it. Every program sees all objects. The index of a
//! loop is visible inside the loop.

use std::cell::RefCell;
use std::collections::BTreeMap;

use toml::de::DeValue;

use super::reader::{Reader, Section, Value, suggest, type_of};
use crate::expression::{self, Expr, Names, Slot, is_name_character, split_reference};
use crate::model::{BufferId, FenceId, FenceRef, GroupMember, QueueId, Ref, Scale};

/// Names and values of constants.
pub type Constants = Vec<(String, i128)>;

/// Objects of one kind by name.
pub type Groups<I> = BTreeMap<String, (I, u32)>;

/// The names of a file.
pub struct Symbols<'r> {
    pub reader: &'r Reader<'r>,
    constants: BTreeMap<String, i128>,
    pub buffers: Groups<BufferId>,
    pub queues: Groups<QueueId>,
    pub fences: Groups<FenceId>,
}

/// Variables of the thread whose program is being read.
#[derive(Debug, Default)]
pub struct Variables {
    /// Names in scope, innermost last.
    scope: RefCell<Vec<(String, Slot)>>,
    /// All slots: name and first value.
    all: RefCell<Vec<(String, i128)>>,
}

impl Variables {
    /// Adds a name with a new slot to the scope.
    pub fn enter(&self, name: &str, initial: i128) -> Slot {
        let mut all = self.all.borrow_mut();
        let slot = Slot(u16::try_from(all.len()).unwrap_or(u16::MAX));
        all.push((name.to_owned(), initial));
        self.scope.borrow_mut().push((name.to_owned(), slot));
        slot
    }

    /// Removes the newest name from the scope; its slot stays.
    pub fn leave(&self) {
        self.scope.borrow_mut().pop();
    }

    /// The slot of a name.
    pub fn slot(&self, name: &str) -> Option<Slot> {
        self.scope.borrow().iter().rev().find(|(n, _)| n == name).map(|(_, slot)| *slot)
    }

    fn in_scope(&self) -> Vec<String> {
        self.scope.borrow().iter().map(|(name, _)| name.clone()).collect()
    }

    /// Names and first values, one per slot.
    pub fn into_table(self) -> (Vec<String>, Vec<i128>) {
        self.all.into_inner().into_iter().unzip()
    }
}

/// The names that are visible to an expression.
struct Visible<'a, 'r> {
    symbols: &'a Symbols<'r>,
    variables: &'a Variables,
}

impl Names for Visible<'_, '_> {
    fn value(&self, name: &str) -> Result<Expr, String> {
        if let Some(slot) = self.variables.slot(name) {
            return Ok(Expr::Variable(slot));
        }
        if let Some(value) = self.symbols.constants.get(name) {
            return Ok(Expr::number(*value));
        }
        if self.symbols.fences.contains_key(name) {
            return Err(format!("'{name}' is a fence; write completed({name}) for its value"));
        }
        let mut known = self.variables.in_scope();
        known.extend(self.symbols.constants.keys().cloned());
        Err(format!("unknown name '{name}'{}", suggest(name, known.iter().map(String::as_str))))
    }

    fn fence(&self, name: &str, index: Option<Expr>) -> Result<FenceRef, String> {
        member(&self.symbols.fences, "fence", name, index)
    }
}

/// Resolves a name and an index to a reference.
fn member<I: GroupMember>(
    groups: &Groups<I>,
    kind: &str,
    name: &str,
    index: Option<Expr>,
) -> Result<Ref<I>, String> {
    let Some((first, count)) = groups.get(name).copied() else {
        let hint = match groups.is_empty() {
            true => format!("; declare it with [[{kind}]]"),
            false => suggest(name, groups.keys().map(String::as_str)),
        };
        return Err(format!("unknown {kind} '{name}'{hint}"));
    };
    match &index {
        None if count > 1 => {
            Err(format!("'{name}' is a group of {count}; give an index: {name}[index]"))
        }
        Some(index) if index.constant().is_some_and(|k| k < 0 || k >= i128::from(count)) => {
            let last = count - 1;
            Err(format!("{kind} '{name}' has the members 0 to {last}; this index is outside"))
        }
        _ => Ok(Ref { first, count, index: index.map(Box::new) }),
    }
}

impl<'r> Symbols<'r> {
    pub fn new(reader: &'r Reader<'r>) -> Self {
        Self {
            reader,
            constants: BTreeMap::new(),
            buffers: Groups::new(),
            queues: Groups::new(),
            fences: Groups::new(),
        }
    }

    /// Reads `[let]`, in the order of the file. `given` replaces values of the file.
    pub fn read_constants(&mut self, top: &Section<'_, '_>, given: &Constants) {
        self.read_let(top, given);
        for (name, _) in given.iter().filter(|(name, _)| !self.constants.contains_key(name)) {
            let near = suggest(name, self.constants.keys().map(String::as_str));
            top.problem(format!("[let] has no constant '{name}'{near}"));
        }
    }

    fn read_let(&mut self, top: &Section<'_, '_>, given: &Constants) {
        let Some(value) = top.get("let") else { return };
        let Some(section) = Section::of(top.reader, value, "[let]") else { return };
        for (name, at, value) in section.entries() {
            if !is_variable_name(name) {
                let text =
                    format!("'{name}' cannot be a constant's name; use letters, digits and '_'");
                top.reader.problem(at, text);
                continue;
            }
            let Some(expr) = self.expr_of(value, &Variables::default()) else { continue };
            match expr.evaluate(&expression::Constants) {
                Ok(number) => {
                    let given = given.iter().rfind(|(of, _)| of == name);
                    let number = given.map_or(number, |(_, number)| *number);
                    self.constants.insert(name.to_owned(), number);
                }
                Err(error) => {
                    top.reader.problem(value.span().start, format!("constant '{name}': {error}"))
                }
            }
        }
    }

    /// The constant that the length of a run is proportional to (`scales_with`).
    pub fn scale(&self, top: &Section<'_, '_>) -> Option<Scale> {
        let at = top.get("scales_with")?.span().start;
        let constant = top.string("scales_with")?;
        match self.constants.get(&constant) {
            Some(value) if *value > 0 => Some(Scale { constant, value: *value }),
            Some(value) => {
                let text = format!("'scales_with': '{constant}' is {value}; 1 or more is needed");
                self.reader.problem(at, text);
                None
            }
            None => {
                let near = suggest(&constant, self.constants.keys().map(String::as_str));
                let text = format!("'scales_with': [let] has no constant '{constant}'{near}");
                self.reader.problem(at, text);
                None
            }
        }
    }

    /// A value that is a number or an expression in quotes.
    pub fn expr_of(&self, value: &Value<'_>, variables: &Variables) -> Option<Expr> {
        match value.get_ref() {
            DeValue::Integer(whole) => {
                let number = i128::from_str_radix(whole.as_str(), whole.radix());
                if number.is_err() {
                    let text = format!("{whole} does not fit in 128 bits; use a smaller number");
                    self.reader.problem(value.span().start, text);
                }
                number.ok().map(|number: i128| Expr::number(number))
            }
            DeValue::String(text) => {
                expression::parse(text, &Visible { symbols: self, variables })
                    // The text begins after the opening quote.
                    .map_err(|e| self.reader.problem(value.span().start + 1 + e.offset, e.text))
                    .ok()
            }
            _ => {
                let found = type_of(value);
                let text =
                    format!("a whole number or an expression in quotes is needed, not {found}");
                self.reader.problem(value.span().start, text);
                None
            }
        }
    }

    /// A field that is a constant number in `0..=limit`.
    pub fn constant(
        &self,
        section: &Section<'_, '_>,
        key: &'static str,
        limit: u64,
    ) -> Option<u64> {
        let value = section.get(key)?;
        let expr = self.expr_of(value, &Variables::default())?;
        let number = expr.evaluate_u64(&expression::Constants);
        let wrong = match number {
            Ok(number) if number <= limit => return Some(number),
            Ok(number) => format!("{number} is too large; the largest possible is {limit}"),
            Err(expression::ArithmeticError::TooLarge { value, .. }) => {
                format!("{value} is too large; the largest possible is {limit}")
            }
            Err(error) => error.to_string(),
        };
        self.reader.problem(value.span().start, format!("'{key}' of {}: {wrong}", section.what));
        None
    }

    /// A constant that must fit in 32 bits.
    pub fn constant_u32(&self, section: &Section<'_, '_>, key: &'static str) -> Option<u32> {
        self.constant(section, key, u64::from(u32::MAX))
            .map(|n| u32::try_from(n).unwrap_or(u32::MAX))
    }

    /// A reference written as text: `name` or `name[index]`.
    pub fn reference<I: GroupMember>(
        &self,
        value: &Value<'_>,
        groups: &Groups<I>,
        kind: &str,
        variables: &Variables,
    ) -> Option<Ref<I>> {
        let at = value.span().start;
        let Some(text) = value.get_ref().as_str() else {
            let found = type_of(value);
            self.reader
                .problem(at, format!("the name of a {kind} in quotes is needed, not {found}"));
            return None;
        };
        let wrong = |offset: usize, text: String| self.reader.problem(at + 1 + offset, text);
        let (name, index) = split_reference(text).map_err(|e| wrong(e.offset, e.text)).ok()?;
        let index = match index {
            None => None,
            Some((offset, text)) => {
                let names = Visible { symbols: self, variables };
                let parsed = expression::parse(text, &names);
                Some(parsed.map_err(|e| wrong(offset + e.offset, e.text)).ok()?)
            }
        };
        member(groups, kind, name, index).map_err(|text| wrong(0, text)).ok()
    }
}

/// Whether a text can name a constant or a variable.
pub fn is_variable_name(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Whether a text can name a buffer, queue, fence or thread.
pub fn is_object_name(name: &str) -> bool {
    name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(is_name_character)
}
