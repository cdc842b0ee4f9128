//! Compares the expectations of a workload with the results of a run. It reads results through
//! [`Evidence`], without queues or a platform. Results of programs are compared with
//! `tidegate_programs::reference`.

use std::collections::BTreeMap;

use serde::Serialize;
use tidegate_programs::reference::{Compare, Expected, expected};
use tidegate_programs::{ArgumentKind, ProgramId, signature};

use crate::lists::words as argument_words;
use tidegate_workload::content::{ContentError, SceneLibrary, initial_bytes};
use tidegate_workload::expect::{Clock, Expect, Expectation, Metric};
use tidegate_workload::expression::{ArithmeticError, Expr, Scope, Slot};
use tidegate_workload::model::{Arg, Args, BufferId, FenceId, QueueRef, Submission, Workload};

/// The results of a run.
pub(crate) trait Evidence {
    /// Last value of a fence.
    fn fence(&self, fence: FenceId) -> u64;
    /// Present bytes of a buffer.
    ///
    /// # Errors
    /// The range is not in the buffer.
    fn read(&self, buffer: BufferId, offset: u64, bytes: u64) -> Result<Vec<u8>, String>;
    /// A metric of the run; `None` if it was not measured.
    fn metric(&self, metric: Metric, queues: &[usize]) -> Option<u64>;
}

/// A metric of the run with its bounds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MetricRow {
    /// Its name.
    pub name: &'static str,
    /// Its queues; empty for the whole run.
    pub queues: Vec<String>,
    /// The measured value; `None` if this run could not measure it.
    pub value: Option<u64>,
    /// Lower bound.
    pub at_least: Option<u64>,
    /// Upper bound.
    pub at_most: Option<u64>,
    /// Whether it is in its bounds; `None` if it is not judged.
    pub met: Option<bool>,
    /// The submission models whose runs the bounds are for; empty for all.
    pub under: Vec<&'static str>,
    /// Whether the bounds apply to the submission model and the clock of this run.
    pub applies: bool,
    /// Explanation of the expectation.
    pub says: String,
}

/// The result of all expectations.
#[derive(Debug, Default)]
pub(crate) struct Judgement {
    pub(crate) problems: Vec<String>,
    pub(crate) metrics: Vec<MetricRow>,
    /// Expectations that were compared.
    pub(crate) judged: usize,
}

/// Submission model and clock of the run, to which some expectations are limited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Circumstances {
    /// `None` when queues differ.
    pub(crate) submission: Option<Submission>,
    pub(crate) clock: Clock,
}

/// Compares all expectations.
pub(crate) fn judge(
    workload: &Workload,
    evidence: &dyn Evidence,
    scenes: &dyn SceneLibrary,
    run: Circumstances,
) -> Judgement {
    let judge = Judge { workload, evidence, scenes };
    let mut judgement = Judgement::default();
    for expect in &workload.expects {
        let applies = applies(expect, run);
        if let Expectation::Metric { metric, queues, at_least, at_most } = &expect.what {
            let row = judge.metric_row(
                expect,
                *metric,
                queues,
                [at_least.as_ref(), at_most.as_ref()],
                applies,
            );
            match row {
                Ok(row) => {
                    judgement.judged += usize::from(row.met.is_some());
                    judgement.problems.extend(judge.metric_problem(expect, &row));
                    judgement.metrics.push(row);
                }
                Err(text) => judgement.problems.push(judge.placed(expect, &text)),
            }
            continue;
        }
        if !applies {
            continue;
        }
        judgement.judged += 1;
        if let Err(text) = judge.one(&expect.what) {
            judgement.problems.push(judge.placed(expect, &text));
        }
    }
    judgement
}

fn applies(expect: &Expect, run: Circumstances) -> bool {
    let model = expect.under.is_empty()
        || run.submission.is_some_and(|model| expect.under.contains(&model));
    model && expect.clock.is_none_or(|clock| clock == run.clock)
}

struct Judge<'a> {
    workload: &'a Workload,
    evidence: &'a dyn Evidence,
    scenes: &'a dyn SceneLibrary,
}

/// A place in a buffer.
#[derive(Clone, Copy)]
struct Place {
    buffer: BufferId,
    offset: u64,
}

impl Scope for Judge<'_> {
    fn variable(&self, _: Slot) -> Result<i128, ArithmeticError> {
        Err(ArithmeticError::NotConstant)
    }
    fn completed(&self, fence: FenceId) -> Result<u64, ArithmeticError> {
        Ok(self.evidence.fence(fence))
    }
}

/// A number as text, when it has one.
fn number(expr: &Expr, scope: &dyn Scope) -> Result<u64, String> {
    expr.evaluate_u64(scope).map_err(|error| error.to_string())
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}

impl Judge<'_> {
    fn placed(&self, expect: &Expect, text: &str) -> String {
        let place = self.workload.place(expect.span);
        match expect.says.as_str() {
            "" => format!("{place}: {text}"),
            says => format!("{place}: {text} (expected: {says})"),
        }
    }

    fn name(&self, buffer: BufferId) -> &str {
        &self.workload.buffer(buffer).name
    }

    fn one(&self, what: &Expectation) -> Result<(), String> {
        let wrong = |error: ArithmeticError| error.to_string();
        match what {
            Expectation::Fence { fence, value } => {
                let (fence, value) = (fence.resolve(self).map_err(wrong)?, number(value, self)?);
                let found = self.evidence.fence(fence);
                let name = &self.workload.fence(fence).name;
                same(found == value, || {
                    format!("fence '{name}' ends at {found} instead of {value}")
                })
            }
            Expectation::Condition { condition, text } => {
                let holds = condition.holds(self).map_err(wrong)?;
                same(holds, || format!("the condition '{text}' does not hold at the end"))
            }
            Expectation::Words { buffer, offset, values } => {
                let buffer = buffer.resolve(self).map_err(wrong)?;
                let value = |expr: &Expr| expr.evaluate_u32(self);
                let values =
                    values.iter().map(value).collect::<Result<Vec<_>, _>>().map_err(wrong)?;
                self.words(buffer, number(offset, self)?, &values)
            }
            Expectation::Floats { buffer, offset, values, tolerance } => {
                let buffer = buffer.resolve(self).map_err(wrong)?;
                self.floats(buffer, number(offset, self)?, values, *tolerance)
            }
            Expectation::SameAs { buffer, offset, other, now, other_offset, bytes } => {
                let one = Place {
                    buffer: buffer.resolve(self).map_err(wrong)?,
                    offset: number(offset, self)?,
                };
                let two = Place {
                    buffer: other.resolve(self).map_err(wrong)?,
                    offset: number(other_offset, self)?,
                };
                self.same_as(one, two, *now, number(bytes, self)?)
            }
            Expectation::Check { program, args, times, tolerance } => {
                self.check(*program, args, number(times, self)?, *tolerance)
            }
            Expectation::Picture { buffer, distinct, covered_permille } => {
                let buffer = buffer.resolve(self).map_err(wrong)?;
                self.picture(buffer, *distinct, *covered_permille)
            }
            Expectation::Metric { .. } => Ok(()),
        }
    }

    fn words(&self, buffer: BufferId, offset: u64, values: &[u32]) -> Result<(), String> {
        let found = self.evidence.read(buffer, offset, values.len() as u64 * 4)?;
        let differs = words(&found).zip(values).position(|(found, wanted)| found != *wanted);
        let Some(at) = differs else { return Ok(()) };
        let (byte, found) = (offset + at as u64 * 4, words(&found).nth(at).unwrap_or(0));
        let name = self.name(buffer);
        Err(format!("buffer '{name}' holds {found:#x} at byte {byte} instead of {:#x}", values[at]))
    }

    fn floats(
        &self,
        buffer: BufferId,
        offset: u64,
        values: &[f32],
        tolerance: f32,
    ) -> Result<(), String> {
        let found = self.evidence.read(buffer, offset, values.len() as u64 * 4)?;
        for (at, (found, wanted)) in words(&found).map(f32::from_bits).zip(values).enumerate() {
            // A NaN fails this comparison, as it must.
            let close = (found - wanted).abs() <= tolerance * wanted.abs().max(1.0);
            if !close {
                let (byte, name) = (offset + at as u64 * 4, self.name(buffer));
                return Err(format!(
                    "buffer '{name}' holds {found} at byte {byte} instead of {wanted}"
                ));
            }
        }
        Ok(())
    }

    fn same_as(&self, one: Place, two: Place, now: bool, bytes: u64) -> Result<(), String> {
        let (Place { buffer, offset }, Place { buffer: other, offset: other_offset }) = (one, two);
        let found = self.evidence.read(buffer, offset, bytes)?;
        let wanted = match now {
            true => self.evidence.read(other, other_offset, bytes)?,
            false => self.first_bytes(other, other_offset, bytes)?,
        };
        let Some(at) = found.iter().zip(&wanted).position(|(a, b)| a != b) else { return Ok(()) };
        let different = found.iter().zip(&wanted).filter(|(a, b)| a != b).count();
        let (name, second) = (self.name(buffer), self.name(other));
        let when = if now { "holds" } else { "held at the start" };
        Err(format!(
            "buffer '{name}' is not what '{second}' {when}: {different} of {bytes} bytes differ, the first at byte {} \
             ({:#04x} instead of {:#04x})",
            offset + at as u64,
            found[at],
            wanted[at]
        ))
    }

    fn first_content(&self, buffer: BufferId) -> Result<Vec<u8>, String> {
        let declared = self.workload.buffer(buffer);
        let content = initial_bytes(declared, self.scenes)
            .map_err(|error: ContentError| error.to_string())?;
        Ok(content.unwrap_or_else(|| vec![0; usize::try_from(declared.bytes).unwrap_or(0)]))
    }

    fn first_bytes(&self, buffer: BufferId, offset: u64, bytes: u64) -> Result<Vec<u8>, String> {
        let content = self.first_content(buffer)?;
        let range = usize::try_from(offset)
            .ok()
            .zip(offset.checked_add(bytes).and_then(|e| usize::try_from(e).ok()));
        let part = range.and_then(|(from, to)| content.get(from..to));
        part.map(<[u8]>::to_vec).ok_or_else(|| {
            format!(
                "{bytes} bytes from {offset} leave buffer '{}' of {} bytes",
                self.name(buffer),
                content.len()
            )
        })
    }

    /// Buffer arguments of a program: (place among the arguments, buffer, first byte).
    fn places(
        &self,
        program: ProgramId,
        args: &Args,
    ) -> Result<Vec<(usize, BufferId, u64)>, String> {
        let known = signature(program).ok_or("no engine has this program")?;
        let mut places = Vec::new();
        for (number_of, argument) in known.arguments.iter().enumerate() {
            if let (ArgumentKind::Buffer { .. }, Some(Arg::Buffer { buffer, offset })) =
                (argument.kind, args.get(argument.name))
            {
                let buffer = buffer.resolve(self).map_err(|error| error.to_string())?;
                places.push((number_of, buffer, number(offset, self)?));
            }
        }
        Ok(places)
    }

    fn check(
        &self,
        program: ProgramId,
        args: &Args,
        times: u64,
        tolerance: f32,
    ) -> Result<(), String> {
        let words =
            argument_words(program, args, stand_in_va, self).map_err(|error| error.to_string())?;
        let places = self.places(program, args)?;
        let mut contents: BTreeMap<BufferId, Vec<u8>> = BTreeMap::new();
        for (_, buffer, _) in &places {
            if !contents.contains_key(buffer) {
                contents.insert(*buffer, self.first_content(*buffer)?);
            }
        }
        let mut results = Vec::new();
        for _ in 0..times {
            results = run_once(program, &words, &places, &contents)?;
            for result in &results {
                store(&places, &mut contents, result);
            }
        }
        for mut result in results {
            result.compare = widened(result.compare, times, tolerance);
            let place = places.iter().find(|(argument, _, _)| *argument == result.argument);
            let Some((_, buffer, offset)) = place else { continue };
            let found = self.evidence.read(*buffer, *offset, result.bytes.len() as u64)?;
            result.check(&found).map_err(|mismatch| {
                let name = self.name(*buffer);
                format!("buffer '{name}' is not what '{}' computes: {mismatch}", program.name())
            })?;
        }
        Ok(())
    }

    fn picture(
        &self,
        buffer: BufferId,
        distinct: u32,
        covered_permille: u32,
    ) -> Result<(), String> {
        let bytes = self.workload.buffer(buffer).bytes;
        let mut pixels: Vec<u32> = words(&self.evidence.read(buffer, 0, bytes)?).collect();
        pixels.sort_unstable();
        let runs: Vec<usize> = pixels.chunk_by(|a, b| a == b).map(<[u32]>::len).collect();
        let most_frequent = runs.iter().max().copied().unwrap_or(0);
        let covered = (pixels.len() - most_frequent) as u64 * 1_000 / (pixels.len() as u64).max(1);
        let name = self.name(buffer);
        same(runs.len() as u64 >= u64::from(distinct), || {
            format!(
                "the picture in '{name}' has {} different pixels instead of at least {distinct}",
                runs.len()
            )
        })?;
        same(covered >= u64::from(covered_permille), || {
            format!(
                "{covered} of 1,000 pixels in '{name}' are drawn instead of at least {covered_permille}"
            )
        })
    }

    fn metric_row(
        &self,
        expect: &Expect,
        metric: Metric,
        queues: &[QueueRef],
        bounds: [Option<&Expr>; 2],
        applies: bool,
    ) -> Result<MetricRow, String> {
        let queue = |queue: &QueueRef| queue.resolve(self).map(|id| id.0 as usize);
        let queues =
            queues.iter().map(queue).collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
        let bound = |expr: Option<&Expr>| expr.map(|expr| number(expr, self)).transpose();
        let (at_least, at_most) = (bound(bounds[0])?, bound(bounds[1])?);
        let value = self.evidence.metric(metric, &queues);
        let judged = applies && (at_least.is_some() || at_most.is_some());
        let lies =
            |value: u64| at_least.is_none_or(|b| value >= b) && at_most.is_none_or(|b| value <= b);
        Ok(MetricRow {
            name: metric.label(),
            queues: queues.iter().map(|queue| self.workload.queues[*queue].name.clone()).collect(),
            value,
            at_least,
            at_most,
            met: value.filter(|_| judged).map(lies),
            under: expect.under.iter().map(|model| model.name()).collect(),
            applies,
            says: expect.says.clone(),
        })
    }

    fn metric_problem(&self, expect: &Expect, row: &MetricRow) -> Option<String> {
        let (Some(false), Some(value)) = (row.met, row.value) else { return None };
        let of = match row.queues.as_slice() {
            [] => String::new(),
            queues => format!(" of '{}'", queues.join("', '")),
        };
        let bound = match (row.at_least, row.at_most) {
            (Some(least), _) if value < least => format!("at least {least}"),
            (_, Some(most)) => format!("at most {most}"),
            _ => String::new(),
        };
        Some(self.placed(expect, &format!("{}{of} is {value} instead of {bound}", row.name)))
    }
}

fn same(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

/// An address for a buffer in a check, where only distances within a buffer matter.
fn stand_in_va(buffer: BufferId) -> u64 {
    // Larger than the largest buffer apart, and below the end of the address space for 16,000
    // buffers.
    (u64::from(buffer.0) + 1) << 33
}

fn run_once(
    program: ProgramId,
    words: &[u64],
    places: &[(usize, BufferId, u64)],
    contents: &BTreeMap<BufferId, Vec<u8>>,
) -> Result<Vec<Expected>, String> {
    let mut inputs: Vec<&[u8]> = vec![&[]; words.len()];
    for (argument, buffer, offset) in places {
        let from = usize::try_from(*offset).unwrap_or(usize::MAX);
        inputs[*argument] = contents[buffer].get(from..).unwrap_or(&[]);
    }
    expected(program, words, &inputs).map_err(|fault| fault.to_string())
}

/// Stores a result for the next run of the program.
fn store(
    places: &[(usize, BufferId, u64)],
    contents: &mut BTreeMap<BufferId, Vec<u8>>,
    result: &Expected,
) {
    let Some((_, buffer, offset)) =
        places.iter().find(|(argument, _, _)| *argument == result.argument)
    else {
        return;
    };
    let from = usize::try_from(*offset).unwrap_or(usize::MAX);
    let content = contents.get_mut(buffer).and_then(|content| content.get_mut(from..));
    if let Some(content) = content {
        let len = content.len().min(result.bytes.len());
        content[..len].copy_from_slice(&result.bytes[..len]);
    }
}

/// Errors of float results add up over repeated runs. A tolerance of the file can only be larger.
fn widened(compare: Compare, times: u64, tolerance: f32) -> Compare {
    match compare {
        Compare::Float { absolute, relative, outliers } => Compare::Float {
            absolute: (absolute * times as f64).max(f64::from(tolerance)),
            relative: (relative * times as f64).max(f64::from(tolerance)),
            outliers,
        },
        exact => exact,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::Scenes;
    use tidegate_workload::{LoadOptions, load_bytes};

    struct Left {
        fences: Vec<u64>,
        buffers: Vec<Vec<u8>>,
    }

    impl Evidence for Left {
        fn fence(&self, fence: FenceId) -> u64 {
            self.fences[fence.0 as usize]
        }
        fn read(&self, buffer: BufferId, offset: u64, bytes: u64) -> Result<Vec<u8>, String> {
            let content = &self.buffers[buffer.0 as usize];
            let part = content.get(offset as usize..(offset + bytes) as usize);
            part.map(<[u8]>::to_vec).ok_or_else(|| "outside".to_owned())
        }
        fn metric(&self, metric: Metric, queues: &[usize]) -> Option<u64> {
            (metric != Metric::FinishNs).then_some(100 + queues.len() as u64)
        }
    }

    const OBJECTS: &str = "[[fence]]\nname = \"done\"\n[[queue]]\nname = \"q\"\nengine = \"compute\"\n\
        [[buffer]]\nname = \"x\"\nbytes = 16\nvalues_f32 = [1.0, 2.0, 3.0, 4.0]\n\
        [[buffer]]\nname = \"y\"\nbytes = 16\nvalues_f32 = [10.0, 10.0, 10.0, 10.0]\n";

    /// A workload has something to do.
    const IDLE: &str = "[[thread]]\nname = \"t\"\nprogram = [{ sleep_ns = 1 }]\n";

    fn floats(values: [f32; 4]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    /// The problems with `expect` when fence 0 is at 3, x is unchanged and y holds these.
    fn problems(expect: &str, y: [f32; 4]) -> Vec<String> {
        let text = format!("{OBJECTS}[[expect]]\n{expect}\n{IDLE}");
        let workload = load_bytes(text.as_bytes(), "w.toml", &LoadOptions::default()).unwrap().0;
        let left = Left { fences: vec![3], buffers: vec![floats([1.0, 2.0, 3.0, 4.0]), floats(y)] };
        let run = Circumstances { submission: Some(Submission::User), clock: Clock::Virtual };
        judge(&workload, &left, &Scenes::new(), run).problems
    }

    const Y: [f32; 4] = [12.0, 14.0, 16.0, 18.0];

    #[test]
    fn fences_conditions_and_metrics() {
        assert!(problems("fence = \"done\"\nvalue = 3", Y).is_empty());
        let wrong = problems("fence = \"done\"\nvalue = 4\nsays = \"all four\"", Y);
        assert_eq!(
            wrong,
            ["w.toml:14:1: fence 'done' ends at 3 instead of 4 (expected: all four)"]
        );
        assert!(problems("condition = \"completed(done) == 3\"", Y).is_empty());
        assert_eq!(problems("condition = \"completed(done) > 3\"", Y).len(), 1);
        assert!(problems("metric = \"packets\"\nqueue = \"q\"\nat_least = 101", Y).is_empty());
        let wrong = problems("metric = \"packets\"\nqueue = \"q\"\nat_most = 5", Y);
        assert_eq!(wrong, ["w.toml:14:1: packets of 'q' is 101 instead of at most 5"]);
        let unknown = problems("metric = \"finish_ns\"\nqueue = \"q\"\nat_most = 5", Y);
        assert!(unknown.is_empty(), "what was not measured is not judged");
    }

    #[test]
    fn expectations_apply_where_they_say() {
        assert!(problems("fence = \"done\"\nvalue = 4\nclock = \"wall\"", Y).is_empty());
        assert!(problems("fence = \"done\"\nvalue = 4\nunder = [\"packet\"]", Y).is_empty());
        assert_eq!(problems("fence = \"done\"\nvalue = 4\nunder = [\"user\"]", Y).len(), 1);
    }

    #[test]
    fn contents_of_buffers() {
        assert!(
            problems("buffer = \"y\"\nequals_f32 = [12.0, 14.001]\ntolerance = 0.001", Y)
                .is_empty()
        );
        let wrong =
            problems("buffer = \"y\"\noffset = 4\nequals_f32 = [13.0]\ntolerance = 0.001", Y);
        assert!(wrong[0].contains("holds 14 at byte 4 instead of 13"), "{wrong:?}");
        assert!(problems("buffer = \"x\"\nequals = [0x3f800000]", Y).is_empty());
        assert!(
            problems("buffer = \"x\"\nequals = [1]", Y)[0].contains("holds 0x3f800000 at byte 0")
        );
        assert!(problems("buffer = \"x\"\nsame_as = \"x\"\nbytes = 16", Y).is_empty());
        assert!(problems("buffer = \"y\"\nsame_as_now = \"y\"\nbytes = 16", Y).is_empty());
        let wrong = problems("buffer = \"y\"\nsame_as = \"y\"\nbytes = 16", Y);
        assert!(wrong[0].contains("is not what 'y' held at the start"), "{wrong:?}");
    }

    #[test]
    fn programs_are_checked_against_plain_rust() {
        let check = |times: u32| {
            format!(
                "check = \"saxpy\"\nargs = {{ x = \"x\", y = \"y\", n = 4, a = 2.0 }}\ntimes = {times}"
            )
        };
        assert!(problems(&check(1), Y).is_empty());
        assert!(problems(&check(2), [14.0, 18.0, 22.0, 26.0]).is_empty());
        let wrong = problems(&check(2), Y);
        assert!(wrong[0].contains("buffer 'y' is not what 'saxpy' computes"), "{wrong:?}");
    }

    #[test]
    fn pictures_are_not_empty() {
        assert!(problems("picture = \"y\"\ndistinct = 4\ncovered_permille = 750", Y).is_empty());
        let empty = problems("picture = \"y\"\ndistinct = 2\ncovered_permille = 0", [1.0; 4]);
        assert_eq!(empty.len(), 1);
        assert!(empty[0].contains("1 different pixels instead of at least 2"), "{empty:?}");
        let wrong =
            problems("picture = \"y\"\ndistinct = 1\ncovered_permille = 500", [1.0, 1.0, 1.0, 2.0]);
        assert!(wrong[0].contains("250 of 1,000 pixels"), "{wrong:?}");
    }
}
