//! Recognises the kind of a file by its content.
//!
//! Purpose: names the readable kinds, and for other known kinds the command that converts the file.
//! Invariant: the name decides only where the content does not: a `.toml` file is TOML even when it
//! begins with a bracket, and the binary report formats have no public layout. Entry
//! points: [`detect`], [`unknown_database`], [`of_folder`].

use std::path::Path;

use crate::database::{self, Database};
use crate::kineto::BYTE_ORDER_MARK;
use crate::{own_timeline, perfetto, presentmon, xla};

/// A kind of file that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A TOML workload.
    Toml,
    /// Chrome JSON of a profiler.
    ChromeJson,
    /// JSON of rocprofv3.
    RocprofJson,
    /// CSV of rocprofv3.
    RocprofCsv,
    /// Protobuf of XLA's profiler.
    XlaProfile,
    /// CSV of PresentMon.
    PresentMonCsv,
    /// A SQLite database.
    Sqlite,
    /// Perfetto packets.
    Perfetto,
    /// Chrome JSON that tidegate wrote.
    OwnJson,
}

/// A file that cannot be read: what it is, and the next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// What the file is.
    pub found: String,
    /// The next step.
    pub advice: String,
}

impl Unreadable {
    fn new(found: &str, advice: impl Into<String>) -> Self {
        Self { found: found.to_owned(), advice: advice.into() }
    }
}

const READABLE: &str = "give a workload (.toml), a PyTorch profiler trace (.json, .json.gz), \
                        `nsys export --type sqlite` output, rocprofv3 JSON, CSV or rocpd output, \
                        a CSV file of PresentMon, \
                        an XLA profile (.xplane.pb), or a Perfetto trace with GPU work";

const ROCPROF: &str = "record with `rocprofv3 --hip-trace --kernel-trace --memory-copy-trace --output-format json -- APP`";

/// Bytes of a file that are searched for the marks of its kind.
const HEAD_BYTES: usize = 4096;

/// The kind of an unpacked file. `file` is its name.
///
/// # Errors
/// [`Unreadable`] for every other kind.
pub fn detect(bytes: &[u8], file: &str) -> Result<Format, Unreadable> {
    if database::is_database(bytes) {
        return Ok(Format::Sqlite);
    }
    if let Some(known) = known_by_magic(bytes, file).or_else(|| known_by_name(file)) {
        return Err(known);
    }
    let name = lower_name(file);
    let text = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    if name.ends_with(".toml") {
        return readable_text(bytes).map(|()| Format::Toml);
    }
    let mut visible = text.iter().filter(|byte| !byte.is_ascii_whitespace());
    match (visible.next(), visible.next()) {
        (Some(b'{'), _) => return Ok(json(text)),
        // A TOML table begins with a bracket too, and goes on with a name or a second bracket.
        (Some(b'['), None | Some(b'{' | b']' | b'"')) => return Ok(Format::ChromeJson),
        _ => {}
    }
    if xla::is_profile(bytes) {
        return Ok(Format::XlaProfile);
    }
    if perfetto::is_trace(bytes) {
        return Ok(Format::Perfetto);
    }
    if is_rocprof_csv(text) {
        return Ok(Format::RocprofCsv);
    }
    if presentmon::is_presentmon(header(text)) {
        return Ok(Format::PresentMonCsv);
    }
    if name.ends_with(".json") || name.ends_with(".json.gz") {
        return Ok(Format::ChromeJson);
    }
    if name.ends_with(".csv") {
        let found = "a table without the columns of rocprofv3 (Start_Timestamp, End_Timestamp) or \
                     PresentMon (Application, ProcessID, SwapChainAddress)";
        let advice = "give a kernel_trace, memory_copy_trace or hip_api_trace file of rocprofv3, or a \
                      CSV file of PresentMon";
        return Err(Unreadable::new(found, advice));
    }
    readable_text(bytes).map(|()| Format::Toml)
}

fn readable_text(bytes: &[u8]) -> Result<(), Unreadable> {
    match std::str::from_utf8(bytes) {
        Ok(_) => Ok(()),
        Err(error) => {
            let found =
                format!("a file of an unknown kind (byte {} is not text)", error.valid_up_to());
            Err(Unreadable { found, advice: READABLE.to_owned() })
        }
    }
}

/// Which JSON it is: rocprofv3 has one key at the top, and it comes first.
fn json(text: &[u8]) -> Format {
    let head = &text[..text.len().min(HEAD_BYTES)];
    let rocprof = find(head, b"\"rocprofiler-sdk-tool\"");
    match (rocprof, find(head, b"\"traceEvents\"")) {
        (Some(rocprof), events) if events.is_none_or(|events| rocprof < events) => {
            Format::RocprofJson
        }
        (_, events) if own_timeline::is_own(&head[..events.unwrap_or(head.len())]) => {
            Format::OwnJson
        }
        _ => Format::ChromeJson,
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

/// Whether the first line names the columns that every CSV file of rocprofv3 has.
fn is_rocprof_csv(text: &[u8]) -> bool {
    let header = header(text);
    find(header, b"Start_Timestamp").is_some() && find(header, b"End_Timestamp").is_some()
}

/// The first line, as far as it is searched.
fn header(text: &[u8]) -> &[u8] {
    let head = &text[..text.len().min(HEAD_BYTES)];
    head.split(|byte| *byte == b'\n').next().unwrap_or(head).trim_ascii_end()
}

fn lower_name(file: &str) -> String {
    file.to_ascii_lowercase()
}

/// The file's name, shown in a command.
fn shown(file: &str) -> &str {
    Path::new(file).file_name().and_then(|name| name.to_str()).unwrap_or(file)
}

fn nsys_export(file: &str) -> String {
    let name = shown(file);
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    format!("run `nsys export --type sqlite -o {stem}.sqlite {name}` and give {stem}.sqlite")
}

/// Binary kinds with a known beginning.
fn known_by_magic(bytes: &[u8], file: &str) -> Option<Unreadable> {
    let packed = |found: &str, tool: &str| {
        Some(Unreadable::new(found, format!("unpack it with `{tool} {}`", shown(file))))
    };
    let starts = |magic: &[u8]| bytes.starts_with(magic);
    if starts(&[0x28, 0xb5, 0x2f, 0xfd]) {
        packed("a zstd archive", "zstd -d")
    } else if starts(b"PK\x03\x04") {
        packed("a ZIP archive", "unzip")
    } else if starts(b"BZh") {
        packed("a bzip2 archive", "bzip2 -d")
    } else if starts(&[0xfd, b'7', b'z', b'X', b'Z', 0]) {
        packed("an xz archive", "xz -d")
    } else if starts(b"PAR1") || starts(b"ARROW1") || starts(b"\x89HDF") {
        let advice = "export the Nsight Systems report with `nsys export --type sqlite`";
        Some(Unreadable::new("a Parquet, Arrow or HDF5 file", advice))
    } else if starts(b"\x7fELF") {
        Some(Unreadable::new("a program (ELF)", READABLE))
    } else {
        None
    }
}

/// Report formats without a public layout, known by their names.
fn known_by_name(file: &str) -> Option<Unreadable> {
    let name = lower_name(file);
    let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    if ends(&[".nsys-rep", ".qdrep", ".qdstrm"]) {
        Some(Unreadable::new("a report of Nsight Systems", nsys_export(file)))
    } else if ends(&[".ncu-rep", ".nsight-cuprof-report"]) {
        let found = "a report of Nsight Compute, which measures kernels one by one";
        let advice = "record with `nsys profile -t cuda -o run APP`, then \
                      `nsys export --type sqlite -o run.sqlite run.nsys-rep`";
        Some(Unreadable::new(found, advice))
    } else if ends(&[".otf2", ".def", ".evt"]) {
        Some(Unreadable::new("a part of an OTF2 archive", ROCPROF))
    } else if ends(&[".etl"]) {
        Some(Unreadable::new("a Windows event trace, which this program does not read", READABLE))
    } else {
        None
    }
}

/// Describes a database of an unknown kind.
pub fn unknown_database(database: &Database) -> Unreadable {
    let tables = database.tables();
    let shown: Vec<&str> = tables.iter().copied().take(4).collect();
    let found = format!(
        "a SQLite database of an unknown kind, {} tables ({}{})",
        tables.len(),
        shown.join(", "),
        if tables.len() > shown.len() { ", …" } else { "" }
    );
    let advice = "give an export of Nsight Systems (`nsys export --type sqlite`), a rocpd database of rocprofv3, or an RPD database";
    Unreadable { found, advice: advice.to_owned() }
}

/// Suggests up to three recordings in a folder.
pub fn of_folder(folder: &Path) -> Unreadable {
    let mut files: Vec<String> = (std::fs::read_dir(folder).into_iter().flatten())
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| {
            let name = lower_name(name);
            [".toml", ".json", ".json.gz", ".sqlite", ".db", ".pftrace", ".csv"]
                .iter()
                .any(|end| name.ends_with(end))
        })
        .collect();
    files.sort_unstable();
    files.truncate(3);
    let advice = match files.as_slice() {
        [] => READABLE.to_owned(),
        some => format!("give one of its files, such as {}", some.join(", ")),
    };
    Unreadable::new("a folder", advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readable_kinds_are_known_by_content() {
        let known = [
            (&b"SQLite format 3\0rest"[..], Format::Sqlite),
            (b"{\"rocprofiler-sdk-tool\": []}", Format::RocprofJson),
            (b"\xef\xbb\xbf {\"traceEvents\": []}", Format::ChromeJson),
            (b"{\"traceEvents\": [], \"x\": \"\\\"rocprofiler-sdk-tool\\\"\"}", Format::ChromeJson),
            (b"[ {\"ph\": \"X\"}", Format::ChromeJson),
            (b"{\"otherData\": {\"writer\": \"tidegate\"}, \"traceEvents\": []}", Format::OwnJson),
            (b"\n\x04\x08\x01\x10\x01\n\x02\x08\x01", Format::Perfetto),
            (b"\n\x0f\x08\x01\x12\x0b/host:CPU..", Format::XlaProfile),
            (b"[[queue]]\nname = \"q\"", Format::Toml),
            (b"[workload]\n", Format::Toml),
            (b"\n# a comment\n[workload]\n", Format::Toml),
            (b"\"Kind\",\"Start_Timestamp\",\"End_Timestamp\"\n", Format::RocprofCsv),
            (
                b"\xef\xbb\xbfApplication,ProcessID,SwapChainAddress,Runtime\r\n",
                Format::PresentMonCsv,
            ),
        ];
        for (bytes, format) in known {
            assert_eq!(detect(bytes, "run.bin"), Ok(format), "{}", String::from_utf8_lossy(bytes));
        }
        assert_eq!(detect(b"[]", "a.toml"), Ok(Format::Toml));
        assert_eq!(detect(b"hello", "a.json"), Ok(Format::ChromeJson));
    }

    #[test]
    fn other_kinds_are_named_with_the_next_step() {
        let cases: [(&[u8], &str, &str, &str); 8] = [
            (
                b"\x01\x02",
                "dir/run.nsys-rep",
                "Nsight Systems",
                "nsys export --type sqlite -o run.sqlite run.nsys-rep",
            ),
            (b"\x01\x02", "run.qdrep", "Nsight Systems", "-o run.sqlite run.qdrep"),
            (b"\x01\x02", "run.ncu-rep", "Nsight Compute", "nsys profile"),
            (b"\x28\xb5\x2f\xfd", "run.pftrace.zst", "zstd", "zstd -d run.pftrace.zst"),
            (b"PK\x03\x04", "run.zip", "ZIP", "unzip run.zip"),
            (b"PAR1", "kernels.parquet", "Parquet", "nsys export --type sqlite"),
            (b"a,b\n", "x.csv", "Start_Timestamp", "kernel_trace"),
            (b"\xff\xfe\xfd", "x", "byte 0 is not text", "nsys export"),
        ];
        for (bytes, file, found, advice) in cases {
            let error = detect(bytes, file).unwrap_err();
            assert!(error.found.contains(found), "{file}: {}", error.found);
            assert!(error.advice.contains(advice), "{file}: {}", error.advice);
        }
    }
}
