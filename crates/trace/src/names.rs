//! The interner: a number for each distinct string, so that a record has four bytes and no
//! allocation.
//!
//! Names are never removed. Id 0 is the empty name.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// A name: index into the interner of one trace.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct NameId(pub u32);

impl NameId {
    /// The empty name, present in every interner.
    pub const NONE: NameId = NameId(0);
}

/// Distinct strings in the order in which they were first seen.
#[derive(Clone, Debug)]
pub struct Names {
    strings: Vec<String>,
    index: HashMap<String, NameId>,
}

impl Default for Names {
    fn default() -> Names {
        Names::new()
    }
}

impl Names {
    /// Creates an interner with the empty name.
    pub fn new() -> Names {
        let mut names = Names { strings: Vec::new(), index: HashMap::new() };
        names.intern("");
        names
    }

    /// Interns `text`.
    ///
    /// # Panics
    /// When more than `u32::MAX` distinct names are interned.
    pub fn intern(&mut self, text: &str) -> NameId {
        if let Some(id) = self.index.get(text) {
            return *id;
        }
        let id = NameId(u32::try_from(self.strings.len()).expect("fewer than 2^32 distinct names"));
        self.strings.push(text.to_owned());
        self.index.insert(text.to_owned(), id);
        id
    }

    /// The string of `id`; empty for an unknown id.
    pub fn get(&self, id: NameId) -> &str {
        self.strings.get(id.0 as usize).map_or("", String::as_str)
    }

    /// Number of distinct names, including the empty one.
    pub fn len(&self) -> usize {
        self.strings.len()
    }

    /// Always false, because the empty name is always present.
    pub fn is_empty(&self) -> bool {
        self.strings.is_empty()
    }

    /// The names from the id `first` on.
    pub(crate) fn after(&self, first: usize) -> Vec<String> {
        self.strings.iter().skip(first).cloned().collect()
    }

    /// Every name, in the order of ids.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.strings.iter().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_id_for_each_string() {
        let mut names = Names::new();
        let a = names.intern("blur");
        assert_eq!(names.intern("blur"), a);
        assert_ne!(names.intern("shadow"), a);
        assert_eq!(names.get(a), "blur");
        assert_eq!(names.get(NameId::NONE), "");
        assert_eq!(names.get(NameId(99)), "");
        assert_eq!(names.len(), 3);
        assert_eq!(names.iter().collect::<Vec<_>>(), ["", "blur", "shadow"]);
    }
}
