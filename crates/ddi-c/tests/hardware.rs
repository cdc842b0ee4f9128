//! `docs/hardware.md` and `drivers/packet/gpu.h` have the numbers of `tidegate-gpu-abi`: each table
//! of the document has every name of its kind, with its number, and no other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tidegate_gpu_abi::admin::{AdminError, PENDING, QueueState};
use tidegate_gpu_abi::regs::{FaultKind, MAILBOX_WORDS};
use tidegate_gpu_abi::{EngineKind, Pte, Register, command, log, ring};
use tidegate_platform::PhysicalAddress;

/// Numbers by their names.
type Numbers = BTreeMap<String, u64>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// Reads a number: decimal, hexadecimal, or `1 << n`.
fn number(text: &str) -> u64 {
    let text = text.trim().replace('_', "");
    if let Some((one, shift)) = text.split_once(" << ") {
        return number(one) << number(shift);
    }
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The rows of a table of the document, without its head.
fn rows<'a>(document: &'a str, table: &str) -> Vec<Vec<&'a str>> {
    let mark = format!("<!-- table: {table} -->\n");
    let start = document.find(&mark).unwrap_or_else(|| panic!("no table {table}")) + mark.len();
    let lines = document[start..].lines().take_while(|line| line.starts_with('|')).skip(2);
    lines.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

/// The numbers and names of a table.
fn table(document: &str, name: &str) -> Numbers {
    let rows = rows(document, name);
    let numbers: Numbers =
        rows.iter().map(|row| (row[1].trim_matches('`').to_owned(), number(row[0]))).collect();
    assert_eq!(numbers.len(), rows.len(), "the table {name} has a name twice");
    numbers
}

/// Declarations of a source that begin and go on like this: `const NAME: TYPE = TYPE(number);`.
fn constants(source: &str, before: &str, between: &str, after: &str) -> Numbers {
    let declared = source.lines().filter_map(|line| {
        let rest = line.trim().strip_prefix(before)?;
        let (name, rest) = rest.split_once(between)?;
        let value = rest.strip_suffix(after)?;
        Some((name.to_owned(), number(value)))
    });
    declared.collect()
}

fn named<T: Copy + std::fmt::Debug>(all: &[T], number: impl Fn(T) -> u64) -> Numbers {
    all.iter().map(|of| (format!("{of:?}"), number(*of))).collect()
}

/// The commands of the mailbox, with the words of each.
fn mailbox_commands() -> (Numbers, BTreeMap<String, String>) {
    let source = text("crates/gpu-abi/src/admin.rs");
    let start = source.find("\ncommands! {").unwrap();
    let body = &source[start..start + source[start..].find("\n}\n").unwrap()];
    let (mut numbers, mut words) = (Numbers::new(), BTreeMap::<String, Vec<&str>>::new());
    let mut name = String::new();
    for line in body.lines().map(str::trim).filter(|line| !line.starts_with("///")) {
        if let Some((of, rest)) = line.split_once(" => ") {
            name = rest.trim_end_matches([' ', '{', ',']).to_owned();
            numbers.insert(name.clone(), number(of));
            words.insert(name.clone(), Vec::new());
        } else if let Some((field, _)) = line.split_once(": ") {
            words.get_mut(&name).unwrap().push(field);
        }
    }
    let words = words.into_iter().map(|(name, fields)| (name, fields.join(", "))).collect();
    (numbers, words)
}

fn registers() -> Numbers {
    let declared =
        |path: &str| constants(&text(path), "pub const ", ": Register = Register(", ");");
    let mut registers = declared("crates/gpu-abi/src/regs.rs");
    registers.extend(declared("crates/gpu-abi/src/display.rs"));
    assert_eq!(registers["LAST_RING"], u64::from(Register::LAST_RING.0));
    registers
}

fn bits(of: &str) -> Numbers {
    let between = format!(": {of} = {of}(");
    constants(&text("crates/gpu-abi/src/regs.rs"), "pub const ", &between, ");")
}

fn fault_kinds() -> Numbers {
    let all: Vec<FaultKind> = (1..=64).filter_map(FaultKind::from_number).collect();
    named(&all, |kind| kind as u64)
}

#[test]
fn tables_of_the_document_have_the_numbers_of_the_device() {
    let document = text("docs/hardware.md");
    let (commands, words) = mailbox_commands();
    let errors: Vec<AdminError> = (1..=64).filter_map(AdminError::from_number).collect();
    let states: Vec<QueueState> = (0..=64).filter_map(QueueState::from_number).collect();
    let ring_source = text("crates/gpu-abi/src/ring.rs");
    let command_source = text("crates/gpu-abi/src/command.rs");
    let address_source = text("crates/gpu-abi/src/address.rs");
    for (name, expected) in [
        ("registers", registers()),
        ("kinds", named(EngineKind::ALL, |kind| kind as u64)),
        ("device traits", bits("DeviceTraits")),
        ("node traits", bits("NodeTraits")),
        ("causes", bits("Cause")),
        ("mailbox", commands.clone()),
        ("errors", named(&errors, |error| error as u64)),
        ("states", named(&states, |state| state as u64)),
        ("slots", constants(&ring_source, "const ", ": u8 = ", ";")),
        (
            "packet flags",
            constants(&ring_source, "const ", " = ", ";")
                .into_iter()
                .filter(|(name, _)| !name.contains(':'))
                .collect(),
        ),
        ("commands", constants(&command_source, "const ", ": u16 = ", ";")),
        (
            "entry bits",
            constants(&address_source, "const ", ": u64 = ", ";")
                .into_iter()
                .filter(|(name, _)| name != "ADDRESS")
                .collect(),
        ),
        ("faults", fault_kinds()),
    ] {
        assert!(expected.len() > 1, "{name}");
        assert_eq!(table(&document, name), expected, "the table {name}");
    }
    for row in rows(&document, "mailbox") {
        assert_eq!(row[2], words[row[1].trim_matches('`')], "words of {}", row[1]);
    }
}

#[test]
fn sizes_of_the_document_are_those_of_the_device() {
    let sizes = table(&text("docs/hardware.md"), "sizes");
    let expected: Numbers = [
        ("SLOT_BYTES", ring::SLOT_BYTES),
        ("CONTROL_WORDS", ring::CONTROL_WORDS as u64),
        ("CONTROL_WRITE_WORD", ring::CONTROL_WRITE_WORD as u64),
        ("CONTROL_READ_WORD", ring::CONTROL_READ_WORD as u64),
        ("CONTROL_INTERRUPTED_WORD", ring::CONTROL_INTERRUPTED_WORD as u64),
        ("MAX_RING_SLOTS", ring::MAX_RING_SLOTS),
        ("MAX_COMMAND_BYTES", ring::MAX_COMMAND_BYTES.into()),
        ("NO_LOG_ENTRY", ring::NO_LOG_ENTRY.into()),
        ("SAVE_AREA_BYTES", ring::SAVE_AREA_BYTES),
        ("MAILBOX_WORDS", MAILBOX_WORDS.into()),
        ("PENDING", PENDING),
        ("PAGE_BYTES", tidegate_gpu_abi::PAGE_BYTES),
        ("TABLE_ENTRIES", tidegate_gpu_abi::address::TABLE_ENTRIES),
        ("TABLE_LEVELS", tidegate_gpu_abi::address::TABLE_LEVELS.into()),
        ("MAX_COMMAND_WORDS", command::MAX_COMMAND_WORDS as u64),
        ("LOG_BYTES", log::LOG_BYTES as u64),
        ("LOG_HEADER_BYTES", log::LOG_HEADER_BYTES as u64),
        ("LOG_ENTRY_BYTES", log::LOG_ENTRY_BYTES as u64),
        ("LOG_ENTRIES", log::LOG_ENTRIES.into()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    assert_eq!(sizes, expected);
}

/// "RunList" is RUN_LIST in C.
fn in_capitals(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.extend(letter.to_uppercase());
    }
    out
}

/// The header of the packet driver names what the device has by a prefix and the device's name.
#[test]
fn the_header_of_the_packet_driver_has_the_numbers_of_the_device() {
    let header = text("drivers/packet/gpu.h");
    let capitals = |numbers: Numbers| -> Numbers {
        numbers.into_iter().map(|(name, number)| (in_capitals(&name), number)).collect()
    };
    let of_prefix = [
        ("REG_", registers()),
        ("CAUSE_", bits("Cause")),
        ("TRAIT_", bits("DeviceTraits")),
        ("FAULT_", capitals(fault_kinds())),
        ("CMD_", capitals(mailbox_commands().0)),
        (
            "PTE_",
            Numbers::from([
                ("VALID".to_owned(), 1),
                ("WRITABLE".to_owned(), Pte::new(PhysicalAddress(0), true).0 & !1),
                ("COHERENT".to_owned(), Pte::default().coherent().0),
            ]),
        ),
    ];
    let mut compared = 0;
    for line in header.lines() {
        let Some(rest) = line.strip_prefix("#define ") else { continue };
        let Some((name, value)) = rest.split_once(' ') else { continue };
        let found =
            of_prefix.iter().find_map(|(prefix, of)| Some((of, name.strip_prefix(prefix)?)));
        let Some((numbers, short)) = found.filter(|_| !name.contains('(')) else { continue };
        let value = value.split("/*").next().unwrap().trim().trim_end_matches(['u', 'l']);
        let expected = numbers.get(short).unwrap_or_else(|| panic!("{name} names nothing"));
        assert_eq!(number(value), *expected, "{name}");
        compared += 1;
    }
    assert!(compared >= 38, "{compared} were compared");
    for (name, value) in [
        ("MAILBOX_WORDS", u64::from(MAILBOX_WORDS)),
        ("SLOT_WORDS", ring::SLOT_WORDS as u64),
        ("CONTROL_BYTES", ring::CONTROL_WORDS as u64 * 8),
        ("CONTROL_WRITE", ring::CONTROL_WRITE_WORD as u64),
        ("CONTROL_READ", ring::CONTROL_READ_WORD as u64),
        ("TABLE_LEVELS", tidegate_gpu_abi::address::TABLE_LEVELS.into()),
        ("TABLE_BYTES", tidegate_gpu_abi::PAGE_BYTES),
    ] {
        assert!(header.contains(&format!("#define {name} {value}u\n")), "{name} is {value}");
    }
}
