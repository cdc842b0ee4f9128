//! Single operations: `{ copy = "a", to = "b" }`, `{ signal = "done", value = 1 }`, … An operation is a
//! table with exactly one verb. The arguments of a dispatch are checked against the program's
//! signature.

use std::sync::Arc;

use toml::de::DeValue;

use super::names::{Symbols, Variables};
use super::objects::{LARGEST_BUFFER_BYTES, values_f32};
use super::reader::{Section, Value, float_of, suggest};
use crate::expression::{Expr, Operator, Slot};
use crate::model::{
    Arg, Args, BufferRef, Command, CommandKind, Data, FenceRef, FenceWait, OpKind, ParameterKind,
    Program, QueueRef, program_names, program_signature,
};

/// Scope of the operations of one program.
pub struct Context<'a, 'r> {
    pub symbols: &'a Symbols<'r>,
    pub variables: &'a Variables,
    /// The queue whose own program this is.
    pub own: Option<QueueRef>,
    /// How many loops and conditions enclose the operation.
    pub depth: u32,
}

/// Every verb. Those up to `delay_ms` are commands and may stand inside `execute`.
const VERBS: [&str; 27] = [
    "copy",
    "fill",
    "dispatch",
    "draw",
    "work_ns",
    "work_us",
    "work_ms",
    "delay_ns",
    "delay_us",
    "delay_ms",
    "execute",
    "signal",
    "wait",
    "present",
    "cpu_signal",
    "cpu_wait",
    "cpu_wait_all",
    "cpu_wait_any",
    "map_write",
    "sleep_ns",
    "sleep_us",
    "sleep_ms",
    "set",
    "loop",
    "when",
    // Kept last: words that people try, with a better answer than a list.
    "barrier",
    "map",
];
const COMMANDS: usize = 10;

/// The one verb of an operation.
pub fn verb(section: &Section<'_, '_>) -> Option<&'static str> {
    let keys = section.entries();
    let found: Vec<&'static str> =
        VERBS.into_iter().filter(|verb| keys.iter().any(|(key, ..)| key == verb)).collect();
    match found[..] {
        ["barrier"] => {
            section.problem(
                "there is no 'barrier'; commands of one queue run in order already".into(),
            );
            None
        }
        ["map"] => {
            section.problem(
                "there is no 'map'; a CPU write is { map_write = \"buffer\", value = … }".into(),
            );
            None
        }
        [verb] => Some(verb),
        [first, second, ..] => {
            let text = format!(
                "an operation has one verb, this one has '{first}' and '{second}'; split it"
            );
            section.problem(text);
            None
        }
        [] => {
            let first = keys.first().map_or("", |(key, ..)| *key);
            section.problem(format!(
                "'{first}' is no operation{}",
                suggest(first, VERBS[..25].to_vec())
            ));
            None
        }
    }
}

/// Reads an operation that is not a loop or a condition.
pub fn read(
    context: &Context<'_, '_>,
    section: &Section<'_, '_>,
    verb: &'static str,
) -> Option<OpKind> {
    let symbols = context.symbols;
    let expr = |key| symbols.need_expr(section, key, context.variables);
    match verb {
        "execute" => execute(context, section),
        "signal" => {
            let (queue, fence, value) =
                (queue(context, section), fence(context, section, verb), expr("value"));
            Some(OpKind::Signal { queue: queue?, fence: fence?, value: value? })
        }
        "wait" => {
            let (queue, fence, value) =
                (queue(context, section), fence(context, section, verb), expr("value"));
            Some(OpKind::Wait { queue: queue?, fence: fence?, value: value? })
        }
        "present" => {
            let interval = expr("present")?;
            if interval.constant().is_some_and(|n| !(0..=4).contains(&n)) {
                section.problem("'present' is the sync interval: give it from 0 to 4".into());
            }
            Some(OpKind::Present { interval })
        }
        "cpu_signal" => {
            let (fence, value) = (fence(context, section, verb), expr("value"));
            Some(OpKind::CpuSignal { fence: fence?, value: value? })
        }
        "cpu_wait" => {
            let (fence, value) = (fence(context, section, verb), expr("value"));
            let of = vec![FenceWait { fence: fence?, value: value? }];
            Some(OpKind::CpuWait { any: false, of, chosen: None })
        }
        "cpu_wait_all" | "cpu_wait_any" => cpu_waits(context, section, verb),
        "map_write" => map_write(context, section),
        "sleep_ns" | "sleep_us" | "sleep_ms" => {
            Some(OpKind::Sleep { ns: duration(context, section, verb)? })
        }
        "set" => {
            let (variable, value) = (variable(context, section, "set"), expr("to"));
            Some(OpKind::Set { variable: variable?, value: value? })
        }
        _ => {
            let (queue, kind) = (queue(context, section), command(context, section, verb));
            let commands = vec![Command { kind: kind?, span: section.span() }];
            Some(OpKind::Submit { queue: queue?, commands })
        }
    }
}

/// The queue that is meant: the field, or the queue whose program this is.
fn queue(context: &Context<'_, '_>, section: &Section<'_, '_>) -> Option<QueueRef> {
    match section.get("queue") {
        Some(value) => {
            context.symbols.reference(value, &context.symbols.queues, "queue", context.variables)
        }
        None => {
            if context.own.is_none() {
                section.problem(format!("{} in a [[thread]] needs 'queue'", section.what));
            }
            context.own.clone()
        }
    }
}

fn fence(
    context: &Context<'_, '_>,
    section: &Section<'_, '_>,
    key: &'static str,
) -> Option<FenceRef> {
    let value = section.need(key)?;
    context.symbols.reference(value, &context.symbols.fences, "fence", context.variables)
}

fn buffer(
    context: &Context<'_, '_>,
    section: &Section<'_, '_>,
    key: &'static str,
) -> Option<BufferRef> {
    let value = section.need(key)?;
    context.symbols.reference(value, &context.symbols.buffers, "buffer", context.variables)
}

fn variable(
    context: &Context<'_, '_>,
    section: &Section<'_, '_>,
    key: &'static str,
) -> Option<Slot> {
    let name = section.need_string(key)?;
    let slot = context.variables.slot(&name);
    if slot.is_none() {
        section.problem(format!(
            "unknown variable '{name}'; declare it: variables = {{ {name} = 0 }}"
        ));
    }
    slot
}

/// A duration field in its own unit, as nanoseconds.
fn duration(
    context: &Context<'_, '_>,
    section: &Section<'_, '_>,
    key: &'static str,
) -> Option<Expr> {
    let value = section.need(key)?;
    let expr = context.symbols.expr_of(value, context.variables)?;
    let scale = match key.rsplit('_').next() {
        Some("us") => 1_000,
        Some("ms") => 1_000_000,
        _ => 1,
    };
    let ns = match expr {
        Expr::Number(n) => Expr::Number(n.saturating_mul(scale)),
        expr => Expr::Binary(Operator::Multiply, Box::new((expr, Expr::Number(scale)))),
    };
    // An hour of modelled work is a slip of the unit, not a plan.
    if ns.constant().is_some_and(|n| !(0..=3_600_000_000_000).contains(&n)) {
        let text = format!("'{key}' must be between 0 and an hour");
        section.reader.problem(value.span().start, text);
        return None;
    }
    Some(ns)
}

fn execute(context: &Context<'_, '_>, section: &Section<'_, '_>) -> Option<OpKind> {
    let queue = queue(context, section);
    let array = section.array("execute")?;
    if array.is_empty() {
        section.problem("'execute' has no commands; put at least one into it".into());
    }
    let mut commands = Vec::new();
    for value in array {
        let Some(inner) = Section::of(section.reader, value, "a command") else { continue };
        let Some(verb) = verb(&inner) else { continue };
        let inner = inner.called(format!("'{verb}'"));
        if !VERBS[..COMMANDS].contains(&verb) {
            inner.problem(format!(
                "'{verb}' cannot stand inside 'execute'; only commands of a list can"
            ));
            continue;
        }
        let kind = command(context, &inner, verb);
        inner.finish();
        commands.extend(kind.map(|kind| Command { kind, span: inner.span() }));
    }
    Some(OpKind::Submit { queue: queue?, commands })
}

fn command(
    context: &Context<'_, '_>,
    section: &Section<'_, '_>,
    verb: &'static str,
) -> Option<CommandKind> {
    match verb {
        "copy" => copy(context, section),
        "fill" => fill(context, section),
        "dispatch" => {
            let (program, args) =
                arguments(context.symbols, context.variables, section, "dispatch")?;
            Some(CommandKind::Dispatch { program, args, groups: groups(context, section)? })
        }
        "draw" => {
            let (_, args) = arguments(context.symbols, context.variables, section, "draw")?;
            Some(CommandKind::Draw { args })
        }
        "delay_ns" | "delay_us" | "delay_ms" => {
            Some(CommandKind::Delay { ns: duration(context, section, verb)? })
        }
        _ => {
            let label = section.string("label").map(Arc::from);
            Some(CommandKind::Work { ns: duration(context, section, verb)?, label, recorded: None })
        }
    }
}

/// An optional expression with a value of its own when it is left out.
fn expr_or(
    context: &Context<'_, '_>,
    section: &Section<'_, '_>,
    key: &'static str,
    other: Expr,
) -> Option<Expr> {
    match section.get(key) {
        Some(value) => context.symbols.expr_of(value, context.variables),
        None => Some(other),
    }
}

fn copy(context: &Context<'_, '_>, section: &Section<'_, '_>) -> Option<CommandKind> {
    let (src, dst) = (buffer(context, section, "copy"), buffer(context, section, "to"));
    let zero = || Expr::Number(0);
    let src_offset = expr_or(context, section, "src_offset", zero());
    let dst_offset = expr_or(context, section, "dst_offset", zero());
    let bytes = context.symbols.need_expr(section, "bytes", context.variables);
    length_is_not_zero(section, bytes.as_ref());
    let (src, dst, bytes) = (src?, dst?, bytes?);
    Some(CommandKind::Copy { src, src_offset: src_offset?, dst, dst_offset: dst_offset?, bytes })
}

fn fill(context: &Context<'_, '_>, section: &Section<'_, '_>) -> Option<CommandKind> {
    let dst = buffer(context, section, "fill");
    let offset = expr_or(context, section, "offset", Expr::Number(0));
    let bytes = context.symbols.need_expr(section, "bytes", context.variables);
    let value = context.symbols.need_expr(section, "value", context.variables);
    length_is_not_zero(section, bytes.as_ref());
    Some(CommandKind::Fill { dst: dst?, offset: offset?, bytes: bytes?, value: value? })
}

fn length_is_not_zero(section: &Section<'_, '_>, bytes: Option<&Expr>) {
    let at = section.get("bytes").map_or(section.at, |value| value.span().start);
    let text = match bytes.and_then(Expr::constant) {
        Some(0) => {
            "a length of 0 bytes does nothing; leave the command out or give a length".into()
        }
        Some(n) if n < 0 => format!("a length of {n} bytes; give a positive one"),
        Some(n) if n > i128::from(LARGEST_BUFFER_BYTES) => {
            format!("a length of {n} bytes; the largest buffer has {}", LARGEST_BUFFER_BYTES)
        }
        _ => return,
    };
    section.reader.problem(at, text);
}

fn groups(context: &Context<'_, '_>, section: &Section<'_, '_>) -> Option<Option<[Expr; 3]>> {
    let Some(value) = section.get("groups") else { return Some(None) };
    let one = || Expr::Number(1);
    let Some(array) = value.get_ref().as_array() else {
        let x = context.symbols.expr_of(value, context.variables)?;
        return Some(Some([x, one(), one()]));
    };
    if array.is_empty() || array.len() > 3 {
        section.problem("'groups' needs one to three numbers".into());
        return None;
    }
    let mut groups = [one(), one(), one()];
    for (group, value) in groups.iter_mut().zip(array) {
        *group = context.symbols.expr_of(value, context.variables)?;
    }
    Some(Some(groups))
}

/// The program named by `key` and its `args`, checked against the signature.
pub fn arguments(
    symbols: &Symbols<'_>,
    variables: &Variables,
    section: &Section<'_, '_>,
    key: &'static str,
) -> Option<(Program, Args)> {
    let draws = key == "draw";
    let given = section.need("args");
    let name = section.need_string(key)?;
    let known = program_signature(&name).filter(|s| (s.program == Program::Draw) == draws);
    let Some(signature) = known else {
        section.problem(format!(
            "there is no program '{name}' to {key}{}",
            suggest(&name, program_names(draws))
        ));
        return None;
    };
    let table = Section::of(section.reader, given?, format!("'args' of '{name}'"))?;
    let mut args = Args::default();
    let mut complete = true;
    for parameter in signature.parameters {
        let value =
            if parameter.required { table.need(parameter.name) } else { table.get(parameter.name) };
        match value.map(|value| argument(symbols, variables, parameter.kind, value)) {
            Some(Some(arg)) => args.0.push((parameter.name, arg)),
            Some(None) => complete = false,
            None => complete &= !parameter.required,
        }
    }
    table.finish();
    complete.then_some((signature.program, args))
}

fn argument(
    symbols: &Symbols<'_>,
    variables: &Variables,
    kind: ParameterKind,
    value: &Value<'_>,
) -> Option<Arg> {
    match kind {
        ParameterKind::Integer => symbols.expr_of(value, variables).map(Arg::Integer),
        ParameterKind::Float => {
            let number = float_of(value);
            if number.is_none() {
                let found = value.get_ref().type_str();
                symbols
                    .reader
                    .problem(value.span().start, format!("a number is needed, not a {found}"));
            }
            number.map(Arg::Float)
        }
        ParameterKind::Buffer if matches!(value.get_ref(), DeValue::Table(_)) => {
            let table = Section::of(symbols.reader, value, "a buffer with an offset")?;
            let buffer =
                symbols.reference(table.need("buffer")?, &symbols.buffers, "buffer", variables);
            let offset = match table.get("offset") {
                Some(offset) => symbols.expr_of(offset, variables),
                None => Some(Expr::Number(0)),
            };
            table.finish();
            Some(Arg::Buffer { buffer: buffer?, offset: offset? })
        }
        ParameterKind::Buffer => {
            let buffer = symbols.reference(value, &symbols.buffers, "buffer", variables)?;
            Some(Arg::Buffer { buffer, offset: Expr::Number(0) })
        }
    }
}

fn cpu_waits(
    context: &Context<'_, '_>,
    section: &Section<'_, '_>,
    verb: &'static str,
) -> Option<OpKind> {
    let mut of = Vec::new();
    let array = section.array(verb)?;
    for value in array {
        let Some(inner) = Section::of(section.reader, value, "a fence that is waited for") else {
            continue;
        };
        let fence = fence(context, &inner, "fence");
        let value = context.symbols.need_expr(&inner, "value", context.variables);
        inner.finish();
        of.extend(fence.zip(value).map(|(fence, value)| FenceWait { fence, value }));
    }
    if array.is_empty() {
        section.problem(format!("'{verb}' waits for nothing; name at least one fence"));
    }
    let any = verb == "cpu_wait_any";
    let chosen = match section.get("chosen") {
        Some(_) => Some(variable(context, section, "chosen")?),
        None => None,
    };
    if chosen.is_some() && !any {
        section.problem("'chosen' belongs to cpu_wait_any; a wait for all has no first".into());
    }
    Some(OpKind::CpuWait { any, of, chosen })
}

fn map_write(context: &Context<'_, '_>, section: &Section<'_, '_>) -> Option<OpKind> {
    let buffer = buffer(context, section, "map_write");
    let offset = expr_or(context, section, "offset", Expr::Number(0));
    let data = match (section.get("values_f32"), section.get("values_u32")) {
        (Some(_), _) => values_f32(section, "values_f32").map(Data::F32),
        (None, Some(_)) => words(context, section).map(Data::U32),
        (None, None) => each(context, section),
    };
    Some(OpKind::MapWrite { buffer: buffer?, offset: offset?, data: data? })
}

fn words(context: &Context<'_, '_>, section: &Section<'_, '_>) -> Option<Vec<u32>> {
    let array = section.array("values_u32")?;
    let mut words = Vec::with_capacity(array.len());
    for value in array {
        let expr = context.symbols.expr_of(value, &Variables::default())?;
        match expr.evaluate_u32(&crate::expression::Constants) {
            Ok(word) => words.push(word),
            Err(error) => {
                section.reader.problem(value.span().start, error.to_string());
                return None;
            }
        }
    }
    Some(words)
}

fn each(context: &Context<'_, '_>, section: &Section<'_, '_>) -> Option<Data> {
    let words = expr_or(context, section, "words", Expr::Number(1));
    let word = context.variables.enter("word", 0);
    let value = context.symbols.need_expr(section, "value", context.variables);
    context.variables.leave();
    Some(Data::Each { value: value?, words: words?, word })
}
