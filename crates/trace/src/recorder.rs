//! One agent's append-only buffer of records.
//!
//! Recording takes no lock, and the explorer sees no step. [`crate::TraceBuilder::append`] merges
//! the buffers when agents end.

use crate::model::Record;

/// Records of one agent, in the order in which it pushed them.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    records: Vec<Record>,
}

impl Recorder {
    /// An empty buffer; it allocates with the first record.
    pub fn new() -> Recorder {
        Recorder::default()
    }

    /// Appends one record.
    pub fn push(&mut self, record: Record) {
        self.records.push(record);
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the records and empties the buffer.
    pub fn take(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Kind, LaneId};
    use crate::names::NameId;

    #[test]
    fn take_empties_and_keeps_order() {
        let mut recorder = Recorder::new();
        for at in [3, 1, 2] {
            recorder.push(Record::instant(LaneId(0), Kind::Mark, NameId::NONE, at));
        }
        assert_eq!(recorder.len(), 3);
        assert_eq!(recorder.take().iter().map(|r| r.start_ns).collect::<Vec<_>>(), [3, 1, 2]);
        assert!(recorder.is_empty());
    }
}
