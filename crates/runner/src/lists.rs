//! Makes command lists of the commands of a submission.
//!
//! 1. Evaluate all commands. A submission with a bad number records nothing.
//! 2. Reuse the list with the same contents, as an application would in a loop; else record one.
//!
//! Ranges are not checked against buffers, because the GPU's page tables stop a copy that leaves
//! its buffer.

use std::cell::RefCell;
use std::sync::Arc;
use tidegate_d3d12::testing::TestCommands;

use tidegate_d3d12::{Arg as Word, Buffer, ClosedList, CommandList, CommandListType, Device};
use tidegate_programs::{ArgumentKind, Dispatch, ProgramId, signature, validate};

use tidegate_workload::expression::{ArithmeticError, Expr, Scope};
use tidegate_workload::model::{Arg, Args, BufferId, Command, CommandKind, Span, Workload};

/// Label of an injected hang.
const HANG_LABEL: &str = "injected hang";
/// Label of a gap that a replay keeps.
const GAP_LABEL: &str = "gap";

/// A command with evaluated numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Evaluated {
    Copy {
        src: BufferId,
        src_offset: u64,
        dst: BufferId,
        dst_offset: u64,
        bytes: u64,
    },
    Fill {
        dst: BufferId,
        offset: u64,
        bytes: u64,
        value: u32,
    },
    Grid {
        program: ProgramId,
        draw: bool,
        groups: [u32; 3],
        words: Vec<u64>,
        uses: Vec<BufferId>,
    },
    Work {
        ns: u64,
        label: Option<Arc<str>>,
    },
    Delay {
        ns: u64,
    },
    /// An injected hang, before the commands of the file: see [`crate::HangAt`].
    Hang,
}

/// The key of a submission's list: list type, place in the file, commands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Contents {
    pub(crate) list_type: CommandListType,
    pub(crate) place: (u32, u32),
    pub(crate) commands: Vec<Evaluated>,
}

/// A closed list, and what is in it.
#[derive(Debug)]
pub(crate) struct RecordedList {
    pub(crate) closed: ClosedList,
    pub(crate) commands: Vec<Evaluated>,
    pub(crate) spans: Vec<Span>,
}

/// A problem of a command, with its place.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) span: Span,
    pub(crate) why: Why,
}

#[derive(Debug)]
pub(crate) enum Why {
    Arithmetic(ArithmeticError),
    Program(String),
    Device(tidegate_d3d12::Error),
}

impl From<ArithmeticError> for Why {
    fn from(error: ArithmeticError) -> Self {
        Self::Arithmetic(error)
    }
}

/// The numbers of all commands.
pub(crate) fn evaluate(
    commands: &[Command],
    buffers: &[Buffer],
    scope: &dyn Scope,
) -> Result<Vec<Evaluated>, Refused> {
    let one = |command: &Command| {
        evaluate_one(&command.kind, buffers, scope)
            .map_err(|why| Refused { span: command.span, why })
    };
    commands.iter().map(one).collect()
}

fn evaluate_one(
    kind: &CommandKind,
    buffers: &[Buffer],
    scope: &dyn Scope,
) -> Result<Evaluated, Why> {
    Ok(match kind {
        CommandKind::Copy(copy) => Evaluated::Copy {
            src: copy.src.resolve(scope)?,
            src_offset: copy.src_offset.evaluate_u64(scope)?,
            dst: copy.dst.resolve(scope)?,
            dst_offset: copy.dst_offset.evaluate_u64(scope)?,
            bytes: copy.bytes.evaluate_u64(scope)?,
        },
        CommandKind::Fill(fill) => Evaluated::Fill {
            dst: fill.dst.resolve(scope)?,
            offset: fill.offset.evaluate_u64(scope)?,
            bytes: fill.bytes.evaluate_u64(scope)?,
            value: fill.value.evaluate_u32(scope)?,
        },
        CommandKind::Dispatch { program, args, groups } => {
            grid(*program, args, groups.as_deref(), buffers, scope)?
        }
        CommandKind::Draw { args } => grid(ProgramId::DRAW, args, None, buffers, scope)?,
        CommandKind::Work { ns, label, .. } => {
            Evaluated::Work { ns: ns.evaluate_u64(scope)?, label: label.clone() }
        }
        CommandKind::Delay { ns } => Evaluated::Delay { ns: ns.evaluate_u64(scope)? },
    })
}

/// The argument words of a program in the order of its signature. Omitted arguments are 0.
pub(crate) fn words(
    program: ProgramId,
    args: &Args,
    va: impl Fn(BufferId) -> u64,
    scope: &dyn Scope,
) -> Result<Vec<u64>, ArithmeticError> {
    let arguments = signature(program).map_or(&[][..], |known| known.arguments);
    let word = |argument: &tidegate_programs::Argument| match args.get(argument.name) {
        None => Ok(0),
        Some(Arg::Float(value)) => Ok(u64::from(value.to_bits())),
        Some(Arg::Integer(value)) if argument.kind == ArgumentKind::U64 => {
            value.evaluate_u64(scope)
        }
        Some(Arg::Integer(value)) => value.evaluate_u32(scope).map(u64::from),
        Some(Arg::Buffer { buffer, offset }) => {
            Ok(va(buffer.resolve(scope)?).saturating_add(offset.evaluate_u64(scope)?))
        }
    };
    arguments.iter().map(word).collect()
}

fn grid(
    program: ProgramId,
    args: &Args,
    groups: Option<&[Expr; 3]>,
    buffers: &[Buffer],
    scope: &dyn Scope,
) -> Result<Evaluated, Why> {
    let uses = RefCell::new(Vec::new());
    let address = |buffer: BufferId| {
        uses.borrow_mut().push(buffer);
        buffers[buffer.0 as usize].gpu_va()
    };
    let words = words(program, args, address, scope)?;
    let groups = match groups {
        Some([x, y, z]) => [x.evaluate_u32(scope)?, y.evaluate_u32(scope)?, z.evaluate_u32(scope)?],
        None => signature(program).map_or([0; 3], |known| known.groups_for(&words)),
    };
    validate(&Dispatch { program, groups, args: &words })
        .map_err(|fault| Why::Program(fault.to_string()))?;
    if groups.contains(&0) {
        let text =
            format!("'{}' with {groups:?} groups does nothing; leave it out", program.name());
        return Err(Why::Program(text));
    }
    Ok(Evaluated::Grid {
        program,
        draw: program == ProgramId::DRAW,
        groups,
        words,
        uses: uses.into_inner(),
    })
}

impl Evaluated {
    /// The buffers that it names.
    fn uses(&self) -> Vec<BufferId> {
        match self {
            Self::Copy { src, dst, .. } => vec![*src, *dst],
            Self::Fill { dst, .. } => vec![*dst],
            Self::Grid { uses, .. } => uses.clone(),
            Self::Work { .. } | Self::Delay { .. } | Self::Hang => Vec::new(),
        }
    }

    /// Its label on the timeline and in messages.
    pub(crate) fn label(&self, workload: &Workload) -> String {
        let name = |buffer: &BufferId| &workload.buffer(*buffer).name;
        match self {
            Self::Copy { src, dst, .. } => format!("copy {} to {}", name(src), name(dst)),
            Self::Fill { dst, .. } => format!("fill {}", name(dst)),
            Self::Grid { program, .. } => program.name().to_owned(),
            Self::Work { label, .. } => label.as_deref().unwrap_or("work").to_owned(),
            Self::Delay { .. } => GAP_LABEL.to_owned(),
            Self::Hang => HANG_LABEL.to_owned(),
        }
    }
}

/// The label of a list on its queue's lane and in messages: its first command of the file that is
/// not a gap, and the number of the others.
fn list_name(workload: &Workload, commands: &[Evaluated]) -> String {
    let of_the_file =
        |command: &&Evaluated| !matches!(command, Evaluated::Delay { .. } | Evaluated::Hang);
    let mut named = commands.iter().filter(of_the_file);
    match (named.next(), named.count()) {
        (None, _) => commands.first().map_or_else(String::new, |command| command.label(workload)),
        (Some(only), 0) => only.label(workload),
        (Some(first), more) => format!("{} and {more} more", first.label(workload)),
    }
}

/// Records a list and closes it. `spans` are the places of the commands, in the same order.
pub(crate) fn record(
    device: &Device,
    workload: &Workload,
    buffers: &[Buffer],
    contents: &Contents,
    spans: Vec<Span>,
) -> Result<RecordedList, Refused> {
    let mut list = device.create_command_list(contents.list_type);
    list.set_name(&list_name(workload, &contents.commands));
    for (command, span) in contents.commands.iter().zip(&spans) {
        let recorded = record_one(&mut list, workload, buffers, command);
        recorded.map_err(|error| Refused { span: *span, why: Why::Device(error) })?;
    }
    let span = spans.first().copied().unwrap_or_default();
    let closed = list.close().map_err(|error| Refused { span, why: Why::Device(error) })?;
    Ok(RecordedList { closed, commands: contents.commands.clone(), spans })
}

fn record_one(
    list: &mut CommandList,
    workload: &Workload,
    buffers: &[Buffer],
    command: &Evaluated,
) -> tidegate_d3d12::error::Result<()> {
    let at = |buffer: &BufferId, offset: &u64| {
        buffers[buffer.0 as usize].gpu_va().saturating_add(*offset)
    };
    list.label(&command.label(workload))?;
    command.uses().iter().try_for_each(|buffer| list.uses(&buffers[buffer.0 as usize]))?;
    match command {
        Evaluated::Copy { src, src_offset, dst, dst_offset, bytes } => {
            list.copy_unchecked(at(dst, dst_offset), at(src, src_offset), *bytes)
        }
        Evaluated::Fill { dst, offset, bytes, value } => {
            list.fill_unchecked(at(dst, offset), *bytes, *value)
        }
        Evaluated::Grid { program, draw, groups, words, .. } => {
            let words: Vec<Word<'_>> = words.iter().map(|word| Word::U64(*word)).collect();
            match draw {
                true => list.draw_by_number(program.0, *groups, &words),
                false => list.dispatch_by_number(program.0, *groups, &words),
            }
        }
        Evaluated::Work { ns, .. } => list.timed(*ns),
        Evaluated::Delay { ns } => list.gap(*ns),
        Evaluated::Hang => list.hang(),
    }
}

/// The message for a command that cannot be recorded, with its place.
pub(crate) fn refusal(workload: &Workload, refused: &Refused) -> String {
    let place = workload.place(refused.span);
    match &refused.why {
        Why::Arithmetic(error) => format!("{place}: {error}"),
        Why::Program(text) => format!("{place}: {text}"),
        Why::Device(error) => format!("{place}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_workload::expression::Constants;
    use tidegate_workload::model::BufferRef;

    #[test]
    fn words_follow_the_signature_and_what_is_left_out_is_zero() {
        let buffer = |id: u32, offset: u32| Arg::Buffer {
            buffer: BufferRef::to(BufferId(id)),
            offset: Expr::number(offset),
        };
        let args = Args(vec![
            ("n", Arg::Integer(Expr::number(5))),
            ("dst", buffer(2, 8)),
            ("src", buffer(1, 0)),
        ]);
        let found =
            words(ProgramId::SCAN_BLOCKS, &args, |id| u64::from(id.0) << 16, &Constants).unwrap();
        assert_eq!(found, [0x1_0000, 0x2_0008, 0, 5]);
        let args =
            Args(vec![("a", Arg::Float(1.5)), ("n", Arg::Integer(Expr::number(1i64 << 40)))]);
        assert!(words(ProgramId::SAXPY, &args, |_| 0, &Constants).is_err(), "more than 32 bits");
    }
}
