//! The process of `conform --explore` that runs the driver, one run for each line of its input. A
//! crash of the driver, or a loop without an end, ends this process only.
//!
//! Entry points: [`Child`] in the parent, [`serve`] in the child.

use super::driver_in_c::Driver;
use super::order::Order;
use crate::streams::outln;
use crate::{BadInput, End};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write, stdin};
use std::os::unix::process::ExitStatusExt;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use tidegate_conform::Verdict;

/// Processor time of one run. The longest situation takes a second of it.
const MOST_CPU_SECONDS: u64 = 10;
/// What an answer begins with. A driver may print lines, too.
const ANSWER: &str = "tidegate-run ";
/// What the reason begins with why a run is not possible.
const REFUSED: &str = "tidegate-no-run ";

/// A failed check.
#[derive(Serialize, Deserialize)]
pub(super) struct Broken {
    pub(super) id: String,
    pub(super) at_ns: u64,
    pub(super) place: usize,
    pub(super) what: String,
}

/// What a run has shown.
#[derive(Serialize, Deserialize)]
pub(super) struct Answer {
    /// Why the situation does not run on this driver.
    pub(super) left_out: Option<String>,
    /// Clauses, and how often each was checked.
    pub(super) checks: Vec<(String, u64)>,
    pub(super) broken: Vec<Broken>,
    pub(super) unexplained: Vec<String>,
    /// Agent and place of each step.
    pub(super) steps: Vec<(u64, u64)>,
    /// A text for each agent that was stopped.
    pub(super) made: Vec<String>,
}

/// A run, or how the process ended in it.
pub(super) enum Ran {
    Answer(Answer),
    Died(String),
}

/// A process that runs the driver.
pub(super) struct Child {
    process: std::process::Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

fn pipe(error: &std::io::Error) -> BadInput {
    BadInput(format!("cannot run the driver in a process: {error}"))
}

impl Child {
    /// Starts the process with these arguments.
    pub(super) fn start(arguments: &[OsString]) -> Result<Child, BadInput> {
        let executable = std::env::current_exe().map_err(|error| pipe(&error))?;
        let mut process = Command::new(executable)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| pipe(&error))?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(BadInput("a process of the driver has no pipes".to_owned()));
        };
        Ok(Child { process, input, output: BufReader::new(output) })
    }

    /// Runs one order.
    pub(super) fn run(&mut self, order: &Order) -> Result<Ran, BadInput> {
        let line = order.line(None);
        // A process that has ended is found when its answer is read.
        let _ = writeln!(self.input, "{line}").and_then(|()| self.input.flush());
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            if self.output.read_until(b'\n', &mut bytes).map_err(|error| pipe(&error))? == 0 {
                return self.end();
            }
            let text = String::from_utf8_lossy(&bytes);
            // A driver's text may lack its end of line.
            if let Some((_, reason)) = text.split_once(REFUSED) {
                return Err(BadInput(reason.trim_end().to_owned()));
            }
            let Some((_, answer)) = text.split_once(ANSWER) else { continue };
            let answer = serde_json::from_str(answer);
            return answer.map(Ran::Answer).map_err(|error| BadInput(error.to_string()));
        }
    }

    fn end(&mut self) -> Result<Ran, BadInput> {
        let status = self.process.wait().map_err(|error| pipe(&error))?;
        let text = match (status.signal(), status.code()) {
            (Some(signal), _) if signal == Signal::XCPU.as_raw() => {
                format!("a run takes more than {MOST_CPU_SECONDS} s of processor time: it loops")
            }
            (Some(signal), _) => format!("the process of the driver ended by signal {signal}"),
            (None, code) => {
                format!("the process of the driver ended with status {}", code.unwrap_or(-1))
            }
        };
        Ok(Ran::Died(text))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may run the driver.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Lets the process end by a signal when the coming run takes too long.
fn limit_cpu() {
    let used = clock_gettime(ClockId::ProcessCPUTime).tv_sec.unsigned_abs();
    let maximum = getrlimit(Resource::Cpu).maximum;
    let current = Some(used + MOST_CPU_SECONDS + 1);
    let _ = setrlimit(Resource::Cpu, Rlimit { current, maximum });
}

/// Runs the orders that standard input names, and answers each with a line.
pub(super) fn serve(driver: &Driver) -> Result<End, BadInput> {
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    for line in stdin().lock().lines() {
        let line = line.map_err(|error| pipe(&error))?;
        let answer = Order::parse(&line).and_then(|(order, _)| {
            limit_cpu();
            let answer = run(driver, &order)?;
            serde_json::to_string(&answer).map_err(|error| BadInput(error.to_string()))
        });
        match answer {
            Ok(answer) => outln!("\n{ANSWER}{answer}"),
            Err(BadInput(reason)) => outln!("\n{REFUSED}{}", reason.replace('\n', " ")),
        }
    }
    Ok(End::Right)
}

/// Runs one order in this process.
pub(super) fn run(driver: &Driver, order: &Order) -> Result<Answer, BadInput> {
    let (report, seen, made) = driver.run(order)?;
    let checks = report.rows.iter().filter(|row| row.checks > 0);
    let checks = checks.map(|row| (row.clause.id.to_owned(), row.checks)).collect();
    let broken = report.rows.iter().filter(|row| row.verdict == Verdict::Broken);
    let broken = broken.flat_map(|row| {
        row.findings.iter().map(|finding| Broken {
            id: row.clause.id.to_owned(),
            at_ns: finding.at_ns,
            place: finding.place,
            what: finding.what.clone(),
        })
    });
    Ok(Answer {
        checks,
        broken: broken.collect(),
        left_out: report.left_out.into_iter().next().map(|(_, reason)| reason),
        unexplained: report.unexplained.into_iter().map(|(_, what)| what).collect(),
        steps: seen.iter().map(|step| (step.agent, step.place)).collect(),
        made,
    })
}
