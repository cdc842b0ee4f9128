//! Findings of a check: texts, with the records that they concern and the edges that are missing.
//!
//! Records are named by their indices in the finished trace, so findings are added after
//! [`crate::TraceBuilder::finish`]. Decision 65 has the form.

use crate::labelled;

labelled! {
    /// Kinds of findings.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum FindingKind {
        /// Two accesses without an order.
        Hazard = "hazard",
        /// Waits that no signal ends.
        Deadlock = "deadlock",
    }
}

/// Something that a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its kind.
    pub kind: FindingKind,
    /// One line.
    pub title: String,
    /// The whole text.
    pub text: String,
    /// The records that it concerns; empty if the timeline has none of them.
    pub records: Vec<usize>,
    /// The edges that the program lacks, or that it cannot pass.
    pub edges: Vec<MissingEdge>,
}

/// An edge from the end of one record to the start of another; both are indices into
/// [`crate::Trace::records`]. The second may have run first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MissingEdge {
    /// The record that should precede.
    pub from: usize,
    /// The record that should follow.
    pub to: usize,
}

impl Finding {
    /// The same with its records renumbered.
    pub(crate) fn renumbered(&self, number: impl Fn(usize) -> usize) -> Finding {
        Finding {
            records: self.records.iter().map(|index| number(*index)).collect(),
            edges: self
                .edges
                .iter()
                .map(|edge| MissingEdge { from: number(edge.from), to: number(edge.to) })
                .collect(),
            ..self.clone()
        }
    }
}
