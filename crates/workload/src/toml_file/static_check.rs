//! Checks of a whole workload before it runs.
//!
//! A command that its engine cannot execute is a mistake. A copy or fill that will leave its buffer
//! is a warning, because a workload may show the page fault on purpose. Only values that are the
//! same in every run are checked.

use super::reader::Reader;
use tidegate_programs::ProgramId;

use crate::error::Problem;
use crate::expression::Expr;
use crate::model::{
    BufferRef, Command, CommandKind, CopyCommand, EngineKind, FillCommand, Op, OpKind, QueueRef,
    Span, Workload,
};

/// Checks every operation. Mistakes go to the reader, warnings are returned.
pub fn check(workload: &Workload, reader: &Reader<'_>) -> Vec<Problem> {
    let mut check = StaticCheck { workload, reader, warnings: Vec::new() };
    for thread in &workload.threads {
        check.body(&thread.body);
    }
    check.warnings.sort();
    check.warnings.dedup();
    check.warnings
}

struct StaticCheck<'a, 'r> {
    workload: &'a Workload,
    reader: &'a Reader<'r>,
    warnings: Vec<Problem>,
}

impl StaticCheck<'_, '_> {
    fn body(&mut self, body: &[Op]) {
        for op in body {
            match &op.kind {
                OpKind::Submit { queue, commands } => {
                    commands.iter().for_each(|c| self.command(queue, c))
                }
                OpKind::Loop { body, .. } => self.body(body),
                OpKind::When { body, otherwise, .. } => {
                    self.body(body);
                    self.body(otherwise);
                }
                OpKind::Present { .. } if self.workload.display.is_none() => {
                    let text = "nothing is presented without a display; declare one with [display]";
                    self.reader.problem_at(op.span, text.to_owned());
                }
                _ => {}
            }
        }
    }

    fn command(&mut self, queue: &QueueRef, command: &Command) {
        let described = self.workload.queue(queue.first);
        let (what, needed) = match &command.kind {
            CommandKind::Draw { .. } => ("a draw", EngineKind::ThreeD),
            CommandKind::Dispatch { program: ProgramId::DRAW, .. } => {
                ("a draw", EngineKind::ThreeD)
            }
            CommandKind::Dispatch { .. } => ("a dispatch", EngineKind::Compute),
            CommandKind::Copy(_) => ("a copy", EngineKind::Copy),
            CommandKind::Fill(_) => ("a fill", EngineKind::Copy),
            // Every engine runs modelled work.
            CommandKind::Work { .. } | CommandKind::Delay { .. } => ("", described.engine),
        };
        // The 3D queue drives everything, the compute queue compute and copy, the copy queue copies
        // alone.
        if described.engine > needed {
            let text = format!(
                "{what} needs a queue with engine = \"{needed}\"; '{}' has \"{}\"",
                described.name, described.engine
            );
            self.reader.problem_at(command.span, text);
        }
        match &command.kind {
            CommandKind::Copy(copy) => {
                let CopyCommand { src, src_offset, dst, dst_offset, bytes } = &**copy;
                self.range(command.span, "reads", src, src_offset, bytes, queue);
                self.range(command.span, "writes", dst, dst_offset, bytes, queue);
            }
            CommandKind::Fill(fill) => {
                let FillCommand { dst, offset, bytes, .. } = &**fill;
                self.range(command.span, "writes", dst, offset, bytes, queue);
            }
            _ => {}
        }
    }

    fn range(
        &mut self,
        at: Span,
        verb: &str,
        buffer: &BufferRef,
        from: &Expr,
        bytes: &Expr,
        queue: &QueueRef,
    ) {
        let (Some(from), Some(bytes)) = (from.constant(), bytes.constant()) else { return };
        let buffer = self.workload.buffer(buffer.first);
        let end = from.saturating_add(bytes);
        if from >= 0 && end <= i128::from(buffer.bytes) {
            return;
        }
        let queue = &self.workload.queue(queue.first).name;
        let text = format!(
            "queue '{queue}' {verb} bytes {from} to {end} of '{}', which has {}; \
             the GPU will report a page fault; shorten 'bytes' or enlarge the buffer",
            buffer.name, buffer.bytes
        );
        self.warnings.push(Problem { line: at.line, column: at.column, text });
    }
}
