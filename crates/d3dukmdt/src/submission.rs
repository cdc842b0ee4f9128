//! Submission models: how the work of a queue reaches its engine.

use std::fmt;
use std::str::FromStr;

// spec: UMS-003
/// How a queue's work reaches its engine. Each queue has its model; queues of all models share
/// engines and fences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Submission {
    /// Contexts with a software queue in the scheduler, which holds waits and submits packets to
    /// the engine.
    Packet,
    /// Hardware queues fed by kernel calls. Waits and signals of native fences are commands of
    /// their command buffers, or of the scheduler where the application chooses so.
    Hardware,
    /// Ring and doorbell: no kernel call per submission. Takes native fences only.
    User,
}

impl Submission {
    /// All three, in the order in which they are compared.
    pub const ALL: [Submission; 3] = [Submission::Packet, Submission::Hardware, Submission::User];

    /// The name in files, tables and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Submission::Packet => "packet",
            Submission::Hardware => "hardware",
            Submission::User => "user",
        }
    }
}

impl fmt::Display for Submission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An unknown name of a submission model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no submission model is called '{0}'; use packet, hardware or user")]
pub struct UnknownSubmission(pub String);

impl FromStr for Submission {
    type Err = UnknownSubmission;

    fn from_str(word: &str) -> Result<Submission, UnknownSubmission> {
        let found = Submission::ALL.into_iter().find(|s| s.name() == word);
        found.ok_or_else(|| UnknownSubmission(word.to_owned()))
    }
}
