//! A program: the machine, its processes and threads, and their operations in a reference order.
//!
//! Invariants: each thread runs its own steps in order. The reference order is one order in which
//! the program ends: the model (`model`) accepts it step by step. The text of a program is one line
//! an item; `; ` separates items as a line end does, so a program is also one line.
//!
//! Entry points: [`Program`], its text by [`std::fmt::Display`] and [`std::str::FromStr`].

use crate::operation::{BadOperation, Operation};
use crate::setup::{AdapterSetup, BadSetup};
use crate::words::{AdapterId, BadWord, Costs, Fate, ProcessId, ThreadId};
use std::fmt;
use std::str::FromStr;

/// One operation of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramStep {
    /// The thread.
    pub thread: ThreadId,
    /// What it does.
    pub operation: Operation,
}

/// A process of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessSetup {
    /// The adapter that it opens.
    pub adapter: AdapterId,
    /// Whether it may lose its device.
    pub fate: Fate,
}

/// A random program, or what is left of it after shrinking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Whether the processes are clients of a service.
    pub served: bool,
    /// The costs of virtual time.
    pub costs: Costs,
    /// The adapters.
    pub adapters: Vec<AdapterSetup>,
    /// The processes.
    pub processes: Vec<ProcessSetup>,
    /// The process of each thread.
    pub threads: Vec<ProcessId>,
    /// The steps of all threads in the reference order.
    pub steps: Vec<ProgramStep>,
}

impl Program {
    /// Returns the program as one line.
    pub fn line(&self) -> String {
        self.to_string().trim_end().replace('\n', "; ")
    }

    /// Returns the time of all its work, if one engine runs it, in nanoseconds.
    pub(crate) fn work_ns(&self) -> u64 {
        let of_step = |step: &ProgramStep| match step.operation {
            Operation::Execute { ns, .. } | Operation::Prompt { ns, .. } => ns,
            Operation::Flood { count, ns, .. } => count * ns,
            _ => 0,
        };
        self.steps.iter().map(of_step).sum()
    }

    /// Returns the process of a thread.
    pub fn process_of(&self, thread: ThreadId) -> ProcessId {
        self.threads[usize::from(thread.0)]
    }

    /// Returns the setup of a process.
    pub fn process(&self, process: ProcessId) -> ProcessSetup {
        self.processes[usize::from(process.0)]
    }

    /// Returns whether a driver makes the mistake of a clause.
    pub fn is_faulty(&self) -> bool {
        self.adapters.iter().any(|adapter| adapter.mistake().is_some())
    }

    /// Returns whether a process may lose its device.
    pub fn is_doomed(&self, process: ProcessId) -> bool {
        self.process(process).fate == Fate::Doomed
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.served {
            writeln!(f, "service")?;
        }
        if self.costs != Costs::Nominal {
            writeln!(f, "costs {}", self.costs)?;
        }
        for adapter in &self.adapters {
            writeln!(f, "adapter {adapter}")?;
        }
        for ProcessSetup { adapter, fate } in &self.processes {
            writeln!(f, "process {adapter} {fate}")?;
        }
        for process in &self.threads {
            writeln!(f, "thread {process}")?;
        }
        for step in &self.steps {
            writeln!(f, "{} {}", step.thread, step.operation)?;
        }
        Ok(())
    }
}

/// A text that is not a program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("item {item} ('{text}'): {why}")]
pub struct BadProgram {
    /// Number of the item, counted from 1.
    item: usize,
    /// Its text.
    text: String,
    why: Why,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Why {
    #[error(transparent)]
    Operation(#[from] BadOperation),
    #[error(transparent)]
    Setup(#[from] BadSetup),
    #[error(transparent)]
    Word(#[from] BadWord),
    #[error("there is no {0}; declare it above")]
    Undeclared(String),
    #[error("write 'process ADAPTER FATE'")]
    Process,
    #[error("a program has at least one adapter, one process and one thread")]
    Empty,
}

impl FromStr for Program {
    type Err = BadProgram;

    fn from_str(text: &str) -> Result<Program, BadProgram> {
        let mut program = Program {
            served: false,
            costs: Costs::Nominal,
            adapters: Vec::new(),
            processes: Vec::new(),
            threads: Vec::new(),
            steps: Vec::new(),
        };
        let items = text.split(['\n', ';']).map(str::trim);
        let items: Vec<&str> = items.filter(|i| !i.is_empty() && !i.starts_with('#')).collect();
        for (index, item) in items.iter().enumerate() {
            read_item(&mut program, item).map_err(|why| BadProgram {
                item: index + 1,
                text: (*item).to_owned(),
                why,
            })?;
        }
        if program.threads.is_empty() {
            let text = items.last().map_or_else(String::new, |item| (*item).to_owned());
            return Err(BadProgram { item: items.len(), text, why: Why::Empty });
        }
        Ok(program)
    }
}

fn read_item(program: &mut Program, item: &str) -> Result<(), Why> {
    let words: Vec<&str> = item.split_whitespace().collect();
    match words[0] {
        "service" => program.served = true,
        "costs" => program.costs = words.get(1).copied().unwrap_or_default().parse()?,
        "adapter" => program.adapters.push(AdapterSetup::of_words(&words[1..])?),
        "process" => {
            let [_, adapter, fate] = words[..] else { return Err(Why::Process) };
            let adapter: AdapterId = adapter.parse()?;
            if usize::from(adapter.0) >= program.adapters.len() {
                return Err(Why::Undeclared(adapter.to_string()));
            }
            program.processes.push(ProcessSetup { adapter, fate: fate.parse()? });
        }
        "thread" => {
            let process: ProcessId = words.get(1).copied().unwrap_or_default().parse()?;
            if usize::from(process.0) >= program.processes.len() {
                return Err(Why::Undeclared(process.to_string()));
            }
            program.threads.push(process);
        }
        thread => {
            let thread: ThreadId = thread.parse()?;
            if usize::from(thread.0) >= program.threads.len() {
                return Err(Why::Undeclared(thread.to_string()));
            }
            let operation = Operation::of_words(&words[1..])?;
            program.steps.push(ProgramStep { thread, operation });
        }
    }
    Ok(())
}
