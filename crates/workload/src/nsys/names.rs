//! The texts of an export, by the numbers that its rows use.
//!
//! Invariant: only texts that GPU work, host calls or threads use are kept; the others (NVTX,
//! environment) can be many and long. Entry points: [`Names::read`], [`Names::get`].

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::tables::{KERNEL, RUNTIME};
use crate::database::Database;

/// Texts by number.
pub struct Names(HashMap<i64, Arc<str>>);

impl Names {
    /// Reads the texts that are used.
    ///
    /// # Errors
    /// A damaged file.
    pub fn read(database: &Database) -> Result<Self, String> {
        let mut used = HashSet::new();
        for (table, columns) in [
            (KERNEL, &["demangledName", "shortName"][..]),
            (RUNTIME, &["nameId"]),
            ("ThreadNames", &["nameId"]),
        ] {
            database.scan(table, &[], columns, |row| {
                used.extend((0..columns.len()).filter_map(|column| row.int(column)));
                Ok(())
            })?;
        }
        let mut names = HashMap::new();
        database.scan("StringIds", &["id", "value"], &["id", "value"], |row| {
            if let Some(id) = row.int(0).filter(|id| used.contains(id)) {
                names.insert(id, Arc::from(row.text(1)));
            }
            Ok(())
        })?;
        Ok(Self(names))
    }

    /// The text of a number; `None` for an unknown number and for an empty text.
    pub fn get(&self, id: i64) -> Option<Arc<str>> {
        self.0.get(&id).filter(|name| !name.is_empty()).cloned()
    }
}
