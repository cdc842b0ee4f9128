//! Single operations: `{ copy = "a", to = "b" }`, `{ signal = "done", value = 1 }`, … An operation
//! is a table with exactly one verb. The arguments of a dispatch are checked against the program's
//! signature.

use std::sync::Arc;

use tidegate_programs::{ArgumentKind, ProgramId, Signature};
use toml::de::DeValue;

use super::fields::Fields;
use super::names::{Symbols, Variables};
use super::objects::{LARGEST_BUFFER_BYTES, values_f32};
use super::reader::{Section, Value, float_of, suggest, type_of};
use crate::expression::{Expr, Operator, Slot};
use crate::model::{
    Arg, Args, Command, CommandKind, CopyCommand, Data, FenceWait, FillCommand, OpKind, QueueRef,
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

/// Every verb. Those up to `delay_ms` are commands and may be inside `execute`.
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
    // Words that have an advice of their own. Kept last.
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
    let Context { symbols, variables, own, .. } = context;
    let fields = &Fields { section, symbols, variables };
    let queue = || queue(fields, own.as_ref());
    match verb {
        "execute" => {
            let (queue, commands) = (queue(), execute(fields));
            Some(OpKind::Submit { queue: queue?, commands: commands? })
        }
        "signal" => {
            let (queue, fence, value) = (queue(), fields.fence(verb), fields.need_expr("value"));
            Some(OpKind::Signal { queue: queue?, fence: fence?, value: value? })
        }
        "wait" => {
            let (queue, fence, value) = (queue(), fields.fence(verb), fields.need_expr("value"));
            Some(OpKind::Wait { queue: queue?, fence: fence?, value: value? })
        }
        "present" => {
            let interval = fields.need_expr("present")?;
            if interval.constant().is_some_and(|n| !(0..=4).contains(&n)) {
                section.problem("'present' is the sync interval: give it from 0 to 4".into());
            }
            Some(OpKind::Present { interval, returned_ns: None })
        }
        "cpu_signal" => {
            let (fence, value) = (fields.fence(verb), fields.need_expr("value"));
            Some(OpKind::CpuSignal { fence: fence?, value: value? })
        }
        "cpu_wait" => {
            let of = vec![fence_wait(fields, verb)?];
            Some(OpKind::CpuWait { any: false, of, chosen: None })
        }
        "cpu_wait_all" | "cpu_wait_any" => cpu_waits(fields, verb),
        "map_write" => map_write(fields),
        "sleep_ns" | "sleep_us" | "sleep_ms" => Some(OpKind::Sleep { ns: duration(fields, verb)? }),
        "set" => {
            let (variable, value) = (variable(fields, "set"), fields.need_expr("to"));
            Some(OpKind::Set { variable: variable?, value: value? })
        }
        _ => {
            let (queue, kind) = (queue(), command(fields, verb));
            let commands = vec![Command { kind: kind?, span: section.span() }];
            Some(OpKind::Submit { queue: queue?, commands })
        }
    }
}

/// The queue of the operation: the field, or the queue whose program this is.
fn queue(fields: &Fields<'_>, own: Option<&QueueRef>) -> Option<QueueRef> {
    if fields.section.get("queue").is_some() {
        return fields.queue("queue");
    }
    if own.is_none() {
        let what = &fields.section.what;
        fields.section.problem(format!("{what} in a [[thread]] needs 'queue'"));
    }
    own.cloned()
}

fn fence_wait(fields: &Fields<'_>, key: &'static str) -> Option<FenceWait> {
    let (fence, value) = (fields.fence(key), fields.need_expr("value"));
    Some(FenceWait { fence: fence?, value: value? })
}

fn variable(fields: &Fields<'_>, key: &'static str) -> Option<Slot> {
    let name = fields.section.need_string(key)?;
    let slot = fields.variables.slot(&name);
    if slot.is_none() {
        fields.section.problem(format!(
            "unknown variable '{name}'; declare it: variables = {{ {name} = 0 }}"
        ));
    }
    slot
}

/// A duration field in its own unit, as nanoseconds.
fn duration(fields: &Fields<'_>, key: &'static str) -> Option<Expr> {
    let value = fields.section.need(key)?;
    let scale = match key.rsplit('_').next() {
        Some("us") => 1_000,
        Some("ms") => 1_000_000,
        _ => 1,
    };
    let ns = match fields.value(value)? {
        Expr::Number(n) => Expr::number(i128::from(n).saturating_mul(scale)),
        Expr::Large(n) => Expr::number(n.saturating_mul(scale)),
        expr => Expr::Binary(Operator::Multiply, Box::new((expr, Expr::number(scale)))),
    };
    // More than an hour is a mistake in the unit.
    if ns.constant().is_some_and(|n| !(0..=3_600_000_000_000).contains(&n)) {
        let text = format!("'{key}' must be between 0 and an hour");
        fields.section.reader.problem(value.span().start, text);
        return None;
    }
    Some(ns)
}

fn execute(fields: &Fields<'_>) -> Option<Vec<Command>> {
    let array = fields.section.array("execute")?;
    if array.is_empty() {
        fields.section.problem("'execute' has no commands; put at least one into it".into());
    }
    let mut commands = Vec::new();
    for value in array {
        let inner = Section::of(fields.section.reader, value, "a command");
        let Some((inner, verb)) = inner.and_then(|inner| verb(&inner).map(|verb| (inner, verb)))
        else {
            continue;
        };
        let inner = inner.called(format!("'{verb}'"));
        if !VERBS[..COMMANDS].contains(&verb) {
            inner.problem(format!(
                "'{verb}' cannot stand inside 'execute'; only commands of a list can"
            ));
            continue;
        }
        let kind = command(&Fields { section: &inner, ..*fields }, verb);
        inner.finish();
        commands.extend(kind.map(|kind| Command { kind, span: inner.span() }));
    }
    Some(commands)
}

fn command(fields: &Fields<'_>, verb: &'static str) -> Option<CommandKind> {
    match verb {
        "copy" => copy(fields),
        "fill" => fill(fields),
        "dispatch" => {
            let (program, args) = arguments(fields, "dispatch")?;
            Some(CommandKind::Dispatch { program, args, groups: groups(fields)? })
        }
        "draw" => Some(CommandKind::Draw { args: arguments(fields, "draw")?.1 }),
        "delay_ns" | "delay_us" | "delay_ms" => {
            Some(CommandKind::Delay { ns: duration(fields, verb)? })
        }
        _ => {
            let label = fields.section.string("label").map(Arc::from);
            Some(CommandKind::Work { ns: duration(fields, verb)?, label, recorded: None })
        }
    }
}

fn copy(fields: &Fields<'_>) -> Option<CommandKind> {
    let (src, dst) = (fields.buffer("copy"), fields.buffer("to"));
    let (src_offset, dst_offset) =
        (fields.expr_or("src_offset", 0), fields.expr_or("dst_offset", 0));
    let bytes = length(fields);
    let (src, dst, bytes) = (src?, dst?, bytes?);
    Some(CommandKind::Copy(Box::new(CopyCommand {
        src,
        src_offset: src_offset?,
        dst,
        dst_offset: dst_offset?,
        bytes,
    })))
}

fn fill(fields: &Fields<'_>) -> Option<CommandKind> {
    let (dst, offset) = (fields.buffer("fill"), fields.expr_or("offset", 0));
    let (bytes, value) = (length(fields), fields.need_expr("value"));
    let (dst, offset, bytes, value) = (dst?, offset?, bytes?, value?);
    Some(CommandKind::Fill(Box::new(FillCommand { dst, offset, bytes, value })))
}

/// The field `bytes` of a command.
fn length(fields: &Fields<'_>) -> Option<Expr> {
    let bytes = fields.need_expr("bytes")?;
    let at = fields.section.get("bytes").map_or(fields.section.at, |value| value.span().start);
    let text = match bytes.constant() {
        Some(0) => {
            "a length of 0 bytes does nothing; leave the command out or give a length".into()
        }
        Some(n) if n < 0 => format!("a length of {n} bytes; give a positive one"),
        Some(n) if n > i128::from(LARGEST_BUFFER_BYTES) => {
            format!("a length of {n} bytes; the largest buffer has {LARGEST_BUFFER_BYTES}")
        }
        _ => return Some(bytes),
    };
    fields.section.reader.problem(at, text);
    Some(bytes)
}

fn groups(fields: &Fields<'_>) -> Option<Option<Box<[Expr; 3]>>> {
    let Some(value) = fields.section.get("groups") else { return Some(None) };
    let mut groups = [const { Expr::Number(1) }; 3];
    let Some(array) = value.get_ref().as_array() else {
        groups[0] = fields.value(value)?;
        return Some(Some(Box::new(groups)));
    };
    if array.is_empty() || array.len() > 3 {
        fields.section.problem("'groups' needs one to three numbers".into());
        return None;
    }
    for (group, value) in groups.iter_mut().zip(array) {
        *group = fields.value(value)?;
    }
    Some(Some(Box::new(groups)))
}

/// The program named by `key` and its `args`, checked against the signature.
pub fn arguments(fields: &Fields<'_>, key: &'static str) -> Option<(ProgramId, Args)> {
    let section = fields.section;
    let draws = |known: &&Signature| (known.id == ProgramId::DRAW) == (key == "draw");
    let given = section.need("args");
    let name = section.need_string(key)?;
    let Some(known) = tidegate_programs::all().filter(draws).find(|known| known.name == name)
    else {
        let names = tidegate_programs::all().filter(draws).map(|known| known.name);
        let hint = suggest(&name, names);
        section.problem(format!("there is no program '{name}' to {key}{hint}"));
        return None;
    };
    let table = Section::of(section.reader, given?, format!("'args' of '{name}'"))?;
    let mut args = Args::default();
    let mut complete = true;
    for parameter in known.arguments {
        let value =
            if parameter.optional { table.get(parameter.name) } else { table.need(parameter.name) };
        match value.map(|value| argument(fields, parameter.kind, value)) {
            Some(Some(arg)) => args.0.push((parameter.name, arg)),
            Some(None) => complete = false,
            None => complete &= parameter.optional,
        }
    }
    table.finish();
    complete.then_some((known.id, args))
}

fn argument(fields: &Fields<'_>, kind: ArgumentKind, value: &Value<'_>) -> Option<Arg> {
    let reader = fields.section.reader;
    match kind {
        ArgumentKind::U32 | ArgumentKind::U64 => fields.value(value).map(Arg::Integer),
        ArgumentKind::F32 => {
            let number = float_of(value);
            if number.is_none() {
                let found = type_of(value);
                reader.problem(value.span().start, format!("a number is needed, not {found}"));
            }
            number.map(Arg::Float)
        }
        ArgumentKind::Buffer { .. } if matches!(value.get_ref(), DeValue::Table(_)) => {
            let table = Section::of(reader, value, "a buffer with an offset")?;
            let inner = Fields { section: &table, ..*fields };
            let (buffer, offset) = (inner.buffer("buffer"), inner.expr_or("offset", 0));
            table.finish();
            Some(Arg::Buffer { buffer: buffer?, offset: offset? })
        }
        ArgumentKind::Buffer { .. } => {
            let (buffers, variables) = (&fields.symbols.buffers, fields.variables);
            let buffer = fields.symbols.reference(value, buffers, "buffer", variables)?;
            Some(Arg::Buffer { buffer, offset: Expr::Number(0) })
        }
    }
}

fn cpu_waits(fields: &Fields<'_>, verb: &'static str) -> Option<OpKind> {
    let section = fields.section;
    let mut of = Vec::new();
    let array = section.array(verb)?;
    for value in array {
        let Some(inner) = Section::of(section.reader, value, "a fence that is waited for") else {
            continue;
        };
        of.extend(fence_wait(&Fields { section: &inner, ..*fields }, "fence"));
        inner.finish();
    }
    if array.is_empty() {
        section.problem(format!("'{verb}' waits for nothing; name at least one fence"));
    }
    let any = verb == "cpu_wait_any";
    let chosen = match section.get("chosen") {
        Some(_) => Some(variable(fields, "chosen")?),
        None => None,
    };
    if chosen.is_some() && !any {
        section.problem("'chosen' belongs to cpu_wait_any; a wait for all has no first".into());
    }
    Some(OpKind::CpuWait { any, of, chosen })
}

fn map_write(fields: &Fields<'_>) -> Option<OpKind> {
    let (buffer, offset) = (fields.buffer("map_write"), fields.expr_or("offset", 0));
    let data = match (fields.section.get("values_f32"), fields.section.get("values_u32")) {
        (Some(_), _) => values_f32(fields.section, "values_f32").map(Data::F32),
        (None, Some(_)) => fields.words("values_u32").map(Data::U32),
        (None, None) => each(fields),
    };
    Some(OpKind::MapWrite { buffer: buffer?, offset: offset?, data: Box::new(data?) })
}

fn each(fields: &Fields<'_>) -> Option<Data> {
    let words = fields.expr_or("words", 1);
    let word = fields.variables.enter("word", 0);
    let value = fields.need_expr("value");
    fields.variables.leave();
    Some(Data::Each { value: value?, words: words?, word })
}
