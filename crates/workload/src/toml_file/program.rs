//! Programs: `program = [ … ]` of a `[[queue]]` and `[[thread]]`, with variables, loops and
//! conditions. A queue's program is a thread that feeds that queue. Threads of one template share
//! one body and differ in `index`.

use std::sync::Arc;

use toml::de::DeArray;

use super::fields::Fields;
use super::names::{Symbols, Variables, is_variable_name};
use super::objects::{Objects, declare, members};
use super::operation::{self, Context};
use super::reader::{Section, Value};
use crate::expression::{Constants, Expr, Slot};
use crate::model::{Op, OpKind, QueueId, QueueRef, Thread};

/// Limit on the iterations of a loop.
const MOST_ITERATIONS: i128 = 10_000_000;
/// Limit on nested loops and conditions.
const DEPTH_LIMIT: u32 = 16;

/// Reads all threads; nothing when one of them has a mistake.
pub fn read(
    top: &Section<'_, '_>,
    symbols: &Symbols<'_>,
    objects: &Objects<'_, '_>,
) -> Option<Vec<Thread>> {
    let mut threads = Vec::new();
    for (section, name, first, count) in &objects.queue_sections {
        if section.get("program").is_none() {
            continue;
        }
        let index = (*count > 1).then(|| Box::new(Expr::Variable(Slot(0))));
        let own = QueueRef { first: *first, count: *count, index };
        build(section, symbols, name, *count, Some(own), &mut threads);
    }
    for section in top.tables("thread") {
        let declared = declare(&section, symbols, "thread", threads.len());
        section.need("program");
        section.allow("variables");
        section.finish();
        if let Some((name, count)) = declared {
            build(&section, symbols, &name, count, None, &mut threads);
        }
    }
    symbols.reader.is_clean().then_some(threads)
}

/// Reads one program and makes its threads.
fn build(
    section: &Section<'_, '_>,
    symbols: &Symbols<'_>,
    name: &str,
    count: u32,
    own: Option<QueueRef>,
    threads: &mut Vec<Thread>,
) {
    let variables = Variables::default();
    variables.enter("index", 0);
    declare_variables(section, symbols, &variables);
    let Some(program) = section.array("program") else { return };
    let context = Context { symbols, variables: &variables, own: own.clone(), depth: 0 };
    let body = Arc::new(context.body(program));
    let (names, initial) = variables.into_table();
    let names = Arc::new(names);
    for (k, member) in members(name, count).enumerate() {
        let mut variables = initial.clone();
        variables[0] = k as i128;
        let queue =
            own.as_ref().map(|own| QueueId(own.first.0 + u32::try_from(k).unwrap_or_default()));
        threads.push(Thread {
            name: member,
            queue,
            variables,
            variable_names: Arc::clone(&names),
            body: Arc::clone(&body),
            span: section.span(),
        });
    }
}

/// `variables = { frame = 0 }`.
fn declare_variables(section: &Section<'_, '_>, symbols: &Symbols<'_>, variables: &Variables) {
    let Some(value) = section.get("variables") else { return };
    let Some(table) = Section::of(section.reader, value, "'variables'") else { return };
    for (name, at, value) in table.entries() {
        if !is_variable_name(name) || variables.slot(name).is_some() {
            section
                .reader
                .problem(at, format!("'{name}' cannot be a variable here; choose another name"));
            continue;
        }
        let initial = symbols.expr_of(value, &Variables::default()).map(|e| e.evaluate(&Constants));
        match initial {
            Some(Ok(number)) => drop(variables.enter(name, number)),
            Some(Err(error)) => section.reader.problem(value.span().start, error.to_string()),
            None => {}
        }
    }
}

impl Context<'_, '_> {
    /// Reads a list of operations.
    pub fn body(&self, program: &DeArray<'_>) -> Vec<Op> {
        program.iter().filter_map(|value| self.op(value)).collect()
    }

    fn op(&self, value: &Value<'_>) -> Option<Op> {
        let section = Section::of(self.symbols.reader, value, "an operation")?;
        let verb = operation::verb(&section)?;
        let section = section.called(format!("'{verb}'"));
        let kind = match verb {
            "loop" => self.repeat(&section),
            "when" => self.when(&section),
            _ => operation::read(self, &section, verb),
        };
        section.finish();
        Some(Op { kind: kind?, span: section.span() })
    }

    fn fields<'f>(&'f self, section: &'f Section<'_, '_>) -> Fields<'f> {
        Fields { section, symbols: self.symbols, variables: self.variables }
    }

    /// Enters a nested body, up to the limit.
    fn deeper(&self, section: &Section<'_, '_>) -> Option<Self> {
        if self.depth >= DEPTH_LIMIT {
            section.problem(format!(
                "loops and conditions are nested deeper than {DEPTH_LIMIT}; use fewer"
            ));
            return None;
        }
        Some(Self { own: self.own.clone(), depth: self.depth + 1, ..*self })
    }

    fn repeat(&self, section: &Section<'_, '_>) -> Option<OpKind> {
        let name = section.need_string("loop");
        let fields = self.fields(section);
        let (from, to) = (fields.need_expr("from"), fields.need_expr("to"));
        section.need("do");
        let (name, from, to) = (name?, from?, to?);
        if !is_variable_name(&name) {
            section.problem(format!(
                "'{name}' cannot be the name of an index; use letters, digits and '_'"
            ));
            return None;
        }
        if let (Some(first), Some(last)) = (from.constant(), to.constant())
            && last.saturating_sub(first) >= MOST_ITERATIONS
        {
            section.problem(format!(
                "the loop runs more than {MOST_ITERATIONS} times; give a smaller 'to'"
            ));
        }
        let inner = self.deeper(section)?;
        let variable = self.variables.enter(&name, 0);
        let body = section.array("do").map(|program| inner.body(program));
        self.variables.leave();
        Some(OpKind::Loop { variable, from, to, body: body?.into_boxed_slice() })
    }

    fn when(&self, section: &Section<'_, '_>) -> Option<OpKind> {
        let condition = self.fields(section).need_expr("when");
        section.need("do");
        let inner = self.deeper(section)?;
        let body = section.array("do").map(|program| inner.body(program));
        let otherwise = section.array("else").map(|program| inner.body(program));
        Some(OpKind::When {
            condition: condition?,
            body: body?.into_boxed_slice(),
            otherwise: otherwise.unwrap_or_default().into_boxed_slice(),
        })
    }
}
