//! The registry of a driver: keys with values, from a TOML file, and handles of keys and threads.
//!
//! The file has tables `driver` (the software key), `device` (the hardware key) and `service` (the
//! RegistryPath of DriverEntry). A table in a table is a subkey. An integer is a REG_DWORD, or a
//! REG_QWORD if it needs more than 32 bits; a string a REG_SZ; a list of strings a REG_MULTI_SZ; a
//! list of integers a REG_BINARY; a boolean a REG_DWORD of 1 or 0.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The variable with the path of the file.
const VARIABLE: &str = "TIDEGATE_REGISTRY";

/// The path of the software key.
pub(crate) const SOFTWARE_KEY: &str = r"\Registry\Machine\System\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}\0000";

const REG_SZ: u32 = 1;
const REG_BINARY: u32 = 3;
const REG_DWORD: u32 = 4;
const REG_MULTI_SZ: u32 = 7;
const REG_QWORD: u32 = 11;

/// Bytes of a value: VALUE_BYTES of `tidegate_nt/registry.c`.
const MOST_VALUE_BYTES: usize = 4096;

/// Why a file cannot be a registry.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the registry {}: {reason}", path.display())]
pub struct RegistryError {
    path: PathBuf,
    reason: String,
}

/// A value: its name, its type and its bytes.
#[derive(Clone)]
pub(crate) struct Value {
    pub(crate) name: String,
    pub(crate) kind: u32,
    pub(crate) bytes: Vec<u8>,
}

/// Values by their upper-case names.
pub(crate) type Values = BTreeMap<String, Value>;

/// Keys of a driver's registry with their values.
#[derive(Clone, Default)]
pub struct Registry {
    /// By `driver`, `device` or `service` and the path below it, in upper case.
    pub(crate) keys: BTreeMap<String, Values>,
}

impl Registry {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read or is not TOML, or a value is of a kind that the registry lacks.
    pub fn load(path: &Path) -> Result<Registry, RegistryError> {
        let error = |reason: String| RegistryError { path: path.to_owned(), reason };
        let text = std::fs::read_to_string(path).map_err(|e| error(e.to_string()))?;
        let tables: toml::Table = toml::from_str(&text).map_err(|e| error(e.to_string()))?;
        let mut registry = Registry::default();
        for (name, table) in &tables {
            let (true, toml::Value::Table(table)) =
                (["driver", "device", "service"].contains(&name.as_str()), table)
            else {
                return Err(error(format!("{name}: tables are driver, device and service")));
            };
            registry.add(name.to_uppercase(), table).map_err(error)?;
        }
        Ok(registry)
    }

    /// Reads the file that the variable TIDEGATE_REGISTRY names; an empty registry without it.
    ///
    /// # Errors
    /// As [`Registry::load`].
    pub fn from_environment() -> Result<Registry, RegistryError> {
        std::env::var_os(VARIABLE)
            .map_or_else(|| Ok(Registry::default()), |path| Registry::load(Path::new(&path)))
    }

    fn add(&mut self, path: String, table: &toml::Table) -> Result<(), String> {
        let mut values = Values::new();
        for (name, value) in table {
            let (kind, bytes) = match value {
                toml::Value::Table(table) => {
                    self.add(format!(r"{path}\{}", name.to_uppercase()), table)?;
                    continue;
                }
                toml::Value::Boolean(set) => (REG_DWORD, u32::from(*set).to_le_bytes().to_vec()),
                toml::Value::Integer(number) => match u32::try_from(*number) {
                    Ok(number) => (REG_DWORD, number.to_le_bytes().to_vec()),
                    Err(_) => (REG_QWORD, number.to_le_bytes().to_vec()),
                },
                toml::Value::String(text) => (REG_SZ, wide(text)),
                toml::Value::Array(items) => list(items).ok_or_else(|| {
                    format!("{name}: a list has strings, or integers from 0 to 255")
                })?,
                other => return Err(format!("{name}: no type for {}", other.type_str())),
            };
            if bytes.len() > MOST_VALUE_BYTES {
                return Err(format!("{name}: a value has {MOST_VALUE_BYTES} bytes at most"));
            }
            values.insert(name.to_uppercase(), Value { name: name.clone(), kind, bytes });
        }
        self.keys.insert(path, values);
        Ok(())
    }
}

/// A text as UTF-16 with its end.
fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}

fn list(items: &[toml::Value]) -> Option<(u32, Vec<u8>)> {
    let texts: Option<Vec<&str>> = items.iter().map(toml::Value::as_str).collect();
    if let Some(texts) = texts {
        let mut bytes: Vec<u8> = texts.into_iter().flat_map(wide).collect();
        bytes.extend([0, 0]);
        return Some((REG_MULTI_SZ, bytes));
    }
    let byte = |item: &toml::Value| u8::try_from(item.as_integer()?).ok();
    Some((REG_BINARY, items.iter().map(byte).collect::<Option<Vec<u8>>>()?))
}

/// What a handle names.
pub(crate) enum Handle {
    Thread,
    /// The path of a key, in upper case.
    Key(String),
}

/// The state of the registry, of handles, and of references to objects.
#[derive(Default)]
pub(crate) struct Handles {
    pub(crate) registry: Registry,
    pub(crate) open: BTreeMap<u64, Handle>,
    pub(crate) opened: u64,
    pub(crate) references: BTreeMap<u64, u32>,
}

impl Handles {
    pub(crate) fn new(registry: Registry) -> Handles {
        Handles { registry, ..Handles::default() }
    }
}
