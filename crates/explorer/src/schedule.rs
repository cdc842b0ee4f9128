//! A schedule: the choices of one run, printed as one short line and parsed back.
//!
//! Example: `litmus+no-gpu-barrier/tso/exhaustive:3A2B-1k9x2f`. The parts are the scenario `litmus`
//! with the planted bug `no-gpu-barrier`, the memory model, the strategy, the choices, and a
//! checksum. The choices are: three times the first one (the last agent continues), the second
//! (`A`), twice the first, the third (`B`), then always the first. The checksum of the last state
//! detects that the code has changed. Counts are in base 36. A choice above 25 is `Z`, the excess
//! in base 36, and a full stop.

use crate::error::ExplorerError;
use crate::scenario::Scenario;
use crate::strategy::StrategyKind;
use std::fmt;
use std::str::FromStr;
use tidegate_platform::MemoryModel;

/// Upper limit on the number of choices in a line. No run has so many.
const LONGEST: usize = 4_000_000;
/// Choices 1 to 25 are the letters A to Y.
const LETTERS: u16 = 25;

/// The choices of one run of one scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The scenario's name.
    pub scenario: String,
    /// The planted bug.
    pub bug: Option<String>,
    /// The memory model.
    pub model: MemoryModel,
    /// The strategy that found it.
    pub strategy: StrategyKind,
    /// Index of each choice, in order and without trailing zeros.
    pub choices: Vec<u16>,
    /// Checksum of the state at the last choice; `None` if the line has none.
    pub checksum: Option<u32>,
}

impl Schedule {
    pub(crate) fn of(
        scenario: &dyn Scenario,
        model: MemoryModel,
        strategy: StrategyKind,
    ) -> Schedule {
        let bug = scenario.bug().map(str::to_owned);
        Schedule {
            scenario: scenario.name().to_owned(),
            bug,
            model,
            strategy,
            choices: Vec::new(),
            checksum: None,
        }
    }

    /// Returns this schedule with other choices.
    pub(crate) fn with(&self, choices: &[u16], checksum: u32) -> Schedule {
        let end = choices.iter().rposition(|c| *c != 0).map_or(0, |last| last + 1);
        Schedule { choices: choices[..end].to_vec(), checksum: Some(checksum), ..self.clone() }
    }

    /// Returns the number of choices other than the first one.
    pub fn turns(&self) -> usize {
        self.choices.iter().filter(|c| **c != 0).count()
    }
}

/// Returns the name of a memory model, `tso` or `sc`.
pub fn model_name(model: MemoryModel) -> &'static str {
    match model {
        MemoryModel::TotalStoreOrder => "tso",
        MemoryModel::SequentiallyConsistent => "sc",
    }
}

/// Parses the name of a memory model.
pub fn model_of(name: &str) -> Result<MemoryModel, ExplorerError> {
    match name {
        "tso" => Ok(MemoryModel::TotalStoreOrder),
        "sc" => Ok(MemoryModel::SequentiallyConsistent),
        _ => Err(ExplorerError::UnknownModel(name.to_owned())),
    }
}

fn base36(mut value: u64, out: &mut String) {
    let start = out.len();
    loop {
        let digit = char::from_digit((value % 36) as u32, 36).expect("a digit below 36");
        out.insert(start, digit);
        value /= 36;
        if value == 0 {
            return;
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bug = self.bug.iter().flat_map(|b| ["+", b.as_str()]).collect::<String>();
        write!(f, "{}{bug}/{}/{}:", self.scenario, model_name(self.model), self.strategy)?;
        let (mut text, mut zeros) = (String::new(), 0u64);
        for choice in &self.choices {
            if *choice == 0 {
                zeros += 1;
                continue;
            }
            if zeros > 0 {
                base36(zeros, &mut text);
                zeros = 0;
            }
            if *choice <= LETTERS {
                text.push(char::from(b'A' + (*choice - 1) as u8));
            } else {
                text.push('Z');
                base36(u64::from(*choice - LETTERS - 1), &mut text);
                text.push('.');
            }
        }
        if let Some(checksum) = self.checksum {
            text.push('-');
            base36(u64::from(checksum), &mut text);
        }
        f.write_str(&text)
    }
}

impl FromStr for Schedule {
    type Err = ExplorerError;

    fn from_str(line: &str) -> Result<Schedule, ExplorerError> {
        let line = line.trim();
        let bad = |what: String| ExplorerError::BadLine { line: shortened(line), what };
        let (head, body) =
            line.split_once(':').ok_or_else(|| bad("it has no ':' before the moves".to_owned()))?;
        let parts: Vec<&str> = head.split('/').collect();
        let [scenario, model, strategy] = parts[..] else {
            return Err(bad(format!("it has {} parts before the ':' instead of 3", parts.len())));
        };
        let (scenario, bug) = match scenario.split_once('+') {
            Some((scenario, bug)) => (scenario, Some(bug.to_owned())),
            None => (scenario, None),
        };
        if scenario.is_empty() {
            return Err(bad("the scenario has no name".to_owned()));
        }
        let (moves, checksum) = match body.split_once('-') {
            Some((moves, sum)) => {
                let number = u32::from_str_radix(sum, 36);
                (
                    moves,
                    Some(
                        number
                            .map_err(|_| bad(format!("'{}' is not a checksum", shortened(sum))))?,
                    ),
                )
            }
            None => (body, None),
        };
        Ok(Schedule {
            scenario: scenario.to_owned(),
            bug,
            model: model_of(model)?,
            strategy: strategy.parse::<StrategyKind>()?,
            choices: read_moves(moves).map_err(bad)?,
            checksum,
        })
    }
}

fn read_moves(moves: &str) -> Result<Vec<u16>, String> {
    let mut choices = Vec::new();
    let mut rest = moves;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && !c.is_ascii_lowercase())
            .unwrap_or(rest.len());
        let zeros = if digits == 0 { 0 } else { count(&rest[..digits])? };
        if choices.len() + zeros >= LONGEST {
            return Err(format!("it has more than {LONGEST} moves"));
        }
        choices.resize(choices.len() + zeros, 0);
        let mut letters = rest[digits..].chars();
        rest = match letters.next() {
            Some('Z') => {
                let (number, rest) =
                    letters.as_str().split_once('.').ok_or("a 'Z' has no full stop after it")?;
                let choice =
                    u16::try_from(count(number)?).ok().and_then(|n| n.checked_add(LETTERS + 1));
                choices.push(choice.ok_or("a choice is beyond 65,535")?);
                rest
            }
            Some(letter) if letter.is_ascii_uppercase() => {
                choices.push(u16::from(letter as u8 - b'A') + 1);
                letters.as_str()
            }
            Some(other) => return Err(format!("'{other}' is not a move")),
            None => return Err("it ends in a count with no move after it".to_owned()),
        };
    }
    Ok(choices)
}

fn count(digits: &str) -> Result<usize, String> {
    let number = usize::from_str_radix(digits, 36)
        .map_err(|_| format!("'{}' is not a count", shortened(digits)))?;
    if number < LONGEST { Ok(number) } else { Err(format!("a count is beyond {LONGEST}")) }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
