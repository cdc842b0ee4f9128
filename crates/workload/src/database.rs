//! Reads SQLite files that profilers write.
//!
//! Purpose: full scans of base tables by column name, for `nsys` and `rocprof`. Invariants: a file
//! is opened read-only and immutable, so no byte of it and no file beside it changes. Views,
//! virtual tables and generated columns of a file are never evaluated. A scan ends after as many
//! rows as the file's size allows, so a damaged page tree cannot make it endless. Entry points:
//! [`Database::open`], [`Database::from_bytes`], [`Database::scan`].

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

/// The first bytes of every SQLite file.
const MAGIC: &[u8] = b"SQLite format 3\0";

/// Where the header says whether readers must expect a write-ahead log.
const JOURNAL_VERSIONS: [usize; 2] = [18, 19];

/// The least bytes that a row of a recording occupies in a file.
const LEAST_ROW_BYTES: u64 = 4;

/// Whether these bytes begin a SQLite file.
pub fn is_database(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

/// An open file.
pub struct Database {
    connection: Connection,
    tables: HashSet<String>,
    most_rows: u64,
}

/// One row of a scan; columns have the order that the scan was given.
pub struct Row<'a>(&'a rusqlite::Row<'a>);

impl Database {
    /// Opens a file.
    ///
    /// # Errors
    /// A damaged file, a file that cannot be opened, and a file with rows in a log beside it.
    pub fn open(path: &Path) -> Result<Self, String> {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        if std::fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
            return Err(format!(
                "{} holds rows that are not in the database yet; copy both files and run \
                 `sqlite3 COPY 'pragma wal_checkpoint(truncate)'`",
                Path::new(&log).display()
            ));
        }
        let bytes = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection =
            Connection::open_with_flags(immutable_uri(path), flags).map_err(damaged)?;
        Self::over(connection, bytes)
    }

    /// Opens a file that is in memory.
    ///
    /// # Errors
    /// A damaged file.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let (head, rest) = bytes.split_at(bytes.len().min(100));
        let mut head = head.to_vec();
        // A database in memory has no log.
        for version in JOURNAL_VERSIONS {
            if let Some(byte) = head.get_mut(version) {
                *byte = 1;
            }
        }
        let mut connection = Connection::open_in_memory().map_err(damaged)?;
        let whole = head.as_slice().chain(rest);
        connection.deserialize_read_exact("main", whole, bytes.len(), true).map_err(damaged)?;
        Self::over(connection, bytes.len() as u64)
    }

    fn over(connection: Connection, bytes: u64) -> Result<Self, String> {
        connection
            .execute_batch(
                "pragma trusted_schema = off; pragma cell_size_check = on; pragma mmap_size = 0;",
            )
            .map_err(damaged)?;
        let mut database =
            Self { connection, tables: HashSet::new(), most_rows: bytes / LEAST_ROW_BYTES };
        database.tables = database.base_tables().map_err(damaged)?;
        Ok(database)
    }

    fn base_tables(&self) -> rusqlite::Result<HashSet<String>> {
        let listed = "select name from pragma_table_list where schema = 'main' and type = 'table'";
        let mut statement = self.connection.prepare(listed)?;
        let mut rows = statement.query([])?;
        let mut tables = HashSet::new();
        while let Some(row) = rows.next()? {
            let name = text(row, 0);
            if !name.starts_with("sqlite_") {
                tables.insert(name.into_owned());
            }
        }
        Ok(tables)
    }

    /// Whether there is such a base table.
    pub fn has(&self, table: &str) -> bool {
        self.tables.contains(table)
    }

    /// The base tables, sorted.
    pub fn tables(&self) -> Vec<&str> {
        let mut tables: Vec<&str> = self.tables.iter().map(String::as_str).collect();
        tables.sort_unstable();
        tables
    }

    /// The columns of a table that are stored in it.
    fn columns(&self, table: &str) -> rusqlite::Result<HashSet<String>> {
        let mut statement = self.connection.prepare("select name from pragma_table_info(?1)")?;
        let mut rows = statement.query([table])?;
        let mut columns = HashSet::new();
        while let Some(row) = rows.next()? {
            columns.insert(text(row, 0).into_owned());
        }
        Ok(columns)
    }

    /// Reads all rows of a table, in stored order; none where the table is absent. Returns their
    /// number. An absent column reads as NULL, save those in `needed`.
    ///
    /// # Errors
    /// A damaged file, or a table without a needed column.
    pub fn scan(
        &self,
        table: &str,
        needed: &[&str],
        columns: &[&str],
        mut each: impl FnMut(&Row<'_>) -> Result<(), String>,
    ) -> Result<u64, String> {
        if !self.has(table) {
            return Ok(0);
        }
        let damaged = |error| format!("table {table}: {}", damaged(error));
        let present = self.columns(table).map_err(damaged)?;
        if let Some(missing) = needed.iter().find(|column| !present.contains(**column)) {
            return Err(format!(
                "table {table} has no column {missing}; export the recording again"
            ));
        }
        let select: Vec<String> = (columns.iter())
            .map(
                |column| if present.contains(*column) { quoted(column) } else { "null".to_owned() },
            )
            .collect();
        let query = format!("select {} from main.{}", select.join(", "), quoted(table));
        let mut statement = self.connection.prepare(&query).map_err(damaged)?;
        let mut rows = statement.query([]).map_err(damaged)?;
        let mut count = 0;
        while let Some(row) = rows.next().map_err(damaged)? {
            count += 1;
            if count > self.most_rows {
                return Err(format!(
                    "table {table} claims more rows than fit into the file; it is damaged: export it again"
                ));
            }
            each(&Row(row))?;
        }
        Ok(count)
    }
}

impl Row<'_> {
    /// The whole number in a column; `None` for NULL and for a value that is not a whole number.
    pub fn int(&self, column: usize) -> Option<i64> {
        match self.0.get_ref(column).ok()? {
            ValueRef::Integer(value) => Some(value),
            ValueRef::Text(text) => std::str::from_utf8(text).ok()?.trim().parse().ok(),
            _ => None,
        }
    }

    /// The text in a column, without NUL bytes at its end; other control characters and bytes that
    /// are no text are replaced.
    pub fn text(&self, column: usize) -> Cow<'_, str> {
        text(self.0, column)
    }
}

fn text<'a>(row: &'a rusqlite::Row<'_>, column: usize) -> Cow<'a, str> {
    let Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) = row.get_ref(column) else {
        return Cow::Borrowed("");
    };
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let text = String::from_utf8_lossy(&bytes[..end]);
    if text.contains(char::is_control) {
        return Cow::Owned(text.replace(char::is_control, "\u{fffd}"));
    }
    text
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn damaged(error: rusqlite::Error) -> String {
    format!("not a whole SQLite file ({error}); copy it or export it again")
}

/// The file as a URI that forbids SQLite to write, to lock and to look for a journal.
fn immutable_uri(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(*byte))
            }
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri + "?mode=ro&immutable=1"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database(schema: &str) -> Vec<u8> {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(schema).unwrap();
        connection.serialize("main").unwrap().to_vec()
    }

    #[test]
    fn absent_tables_and_columns_and_odd_values_are_read() {
        let bytes = database(
            "create table t (a integer, b text);
             insert into t values (1, 'x'), ('7', x'ff41' || char(0)), (null, 'a' || char(0) || 'b'), (1.5, null);
             create view v as select 1 as a;",
        );
        let open = Database::from_bytes(&bytes).unwrap();
        assert!(open.has("t") && !open.has("v"), "views are not tables");
        let mut rows = Vec::new();
        let count = open
            .scan("t", &["a"], &["a", "absent", "b"], |row| {
                rows.push((row.int(0), row.int(1), row.text(2).into_owned()));
                Ok(())
            })
            .unwrap();
        assert_eq!(count, 4);
        assert_eq!(rows[0], (Some(1), None, "x".into()));
        assert_eq!(rows[1], (Some(7), None, "\u{fffd}A".into()));
        assert_eq!(rows[2], (None, None, "a\u{fffd}b".into()));
        assert_eq!(rows[3], (None, None, String::new()));
        assert_eq!(open.scan("absent", &["a"], &["a"], |_| unreachable!()), Ok(0));
        let missing = open.scan("t", &["c"], &["c"], |_| Ok(())).unwrap_err();
        assert!(missing.contains("table t has no column c"), "{missing}");
    }

    #[test]
    fn a_file_is_neither_changed_nor_locked() {
        let folder =
            std::env::temp_dir().join(format!("tidegate database {}%?#", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("run.sqlite");
        let bytes = database("create table t (a integer); insert into t values (3)");
        std::fs::write(&path, &bytes).unwrap();
        let open = Database::open(&path).unwrap();
        assert_eq!(open.scan("t", &["a"], &["a"], |_| Ok(())), Ok(1));
        drop(open);
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        std::fs::write(folder.join("run.sqlite-wal"), b"rows").unwrap();
        assert!(Database::open(&path).err().unwrap().contains("wal_checkpoint"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn damaged_files_are_refused() {
        let bytes = database("create table t (a integer); insert into t values (3)");
        assert!(Database::from_bytes(&bytes[..50]).is_err());
        let mut wrong = bytes.clone();
        wrong[100..].fill(0xff);
        assert!(Database::from_bytes(&wrong).is_err());
    }
}
