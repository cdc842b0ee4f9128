//! Handles of keys and threads, references to objects, and the paths of keys.

use crate::host::Host;
use crate::registry::{Handle, Handles, SOFTWARE_KEY, Value, Values};
use crate::rule::Rule;
use tidegate_ddi::Status;

const DEVICE: &str =
    r"\Registry\Machine\System\CurrentControlSet\Enum\PCI\TIDEGATE\0\Device Parameters";
const SERVICES: &str = r"\Registry\Machine\System\CurrentControlSet\Services";

const OBJECT_NAME_NOT_FOUND: Status = Status(0xC000_0034_u32.cast_signed());
const INVALID_HANDLE: Status = Status(0xC000_0008_u32.cast_signed());
/// Numbers of handles of keys.
const KEYS_AT: u64 = 0x8_0000_0000;

/// A key to open.
pub(crate) enum Root {
    /// A path from the root of the registry, or below the key of a handle.
    Path(u64),
    /// IoOpenDeviceRegistryKey: the software key and the hardware key.
    Driver,
    Device,
    /// RTL_REGISTRY_SERVICES.
    Services,
}

impl Host {
    /// The name of a key in the registry; `None` for one of another driver.
    fn key_name(&self, path: &str) -> Option<String> {
        let path = path.to_uppercase();
        let service = format!(r"{SERVICES}\{}", self.name);
        let roots = [(SOFTWARE_KEY, "DRIVER"), (DEVICE, "DEVICE"), (&service, "SERVICE")];
        roots.iter().find_map(|(root, name)| {
            let rest = path.strip_prefix(&root.to_uppercase())?;
            (rest.is_empty() || rest.starts_with('\\')).then(|| format!("{name}{rest}"))
        })
    }

    /// Opens a key. Returns its handle.
    pub(crate) fn open_key(&self, root: &Root, path: &str, create: bool) -> Result<u64, Status> {
        let path = path.trim_end_matches('\\');
        let below = |root: &str| match path {
            "" => root.to_owned(),
            _ => format!(r"{root}\{path}"),
        };
        let name = match *root {
            Root::Path(0) => self.key_name(path),
            Root::Path(handle) => match self.handles.lock().open.get(&handle) {
                Some(Handle::Key(root)) => Some(below(root).to_uppercase()),
                _ => return Err(INVALID_HANDLE),
            },
            Root::Driver => Some(below("DRIVER").to_uppercase()),
            Root::Device => Some(below("DEVICE").to_uppercase()),
            Root::Services => self.key_name(&below(SERVICES)),
        };
        let name = name.ok_or(OBJECT_NAME_NOT_FOUND)?;
        let mut handles = self.handles.lock();
        let is_root = !name.contains('\\');
        if is_root || create {
            handles.registry.keys.entry(name.clone()).or_default();
        }
        if !handles.registry.keys.contains_key(&name) {
            return Err(OBJECT_NAME_NOT_FOUND);
        }
        handles.opened += 1;
        let handle = KEYS_AT + 4 * handles.opened;
        handles.open.insert(handle, Handle::Key(name));
        Ok(handle)
    }

    fn with_key<R>(
        &self,
        function: &str,
        handle: u64,
        call: impl FnOnce(&mut Values) -> Result<R, Status>,
    ) -> Result<R, Status> {
        let found = {
            let mut handles = self.handles.lock();
            let Handles { registry, open, .. } = &mut *handles;
            match open.get(&handle) {
                Some(Handle::Key(name)) => registry.keys.get_mut(name).map(call),
                _ => None,
            }
        };
        found.unwrap_or_else(|| {
            self.violation(
                Rule::Handle,
                format!("{function} of {handle:#x}: it is not the handle of a key"),
            );
            Err(INVALID_HANDLE)
        })
    }

    /// Returns a value of a key.
    pub(crate) fn value(&self, function: &str, handle: u64, name: &str) -> Result<Value, Status> {
        self.with_key(function, handle, |values| {
            values.get(&name.to_uppercase()).cloned().ok_or(OBJECT_NAME_NOT_FOUND)
        })
    }

    pub(crate) fn set_value(&self, handle: u64, value: Value) -> Result<(), Status> {
        self.with_key("ZwSetValueKey", handle, |values| {
            values.insert(value.name.to_uppercase(), value);
            Ok(())
        })
    }

    /// Opens the handle of a thread, which has its object's address.
    pub(crate) fn open_thread(&self, at: u64) {
        self.handles.lock().open.insert(at, Handle::Thread);
    }

    /// ZwClose.
    pub(crate) fn close_handle(&self, handle: u64) -> bool {
        let closed = self.handles.lock().open.remove(&handle).is_some();
        if !closed {
            self.violation(
                Rule::Handle,
                format!("ZwClose of {handle:#x}: it is not an open handle"),
            );
        }
        closed
    }

    /// ObReferenceObjectByHandle: references the object of a thread's handle.
    pub(crate) fn reference_handle(&self, handle: u64) -> bool {
        let is_thread = matches!(self.handles.lock().open.get(&handle), Some(Handle::Thread));
        if is_thread {
            self.reference(handle);
        } else {
            self.violation(
                Rule::Handle,
                format!(
                    "ObReferenceObjectByHandle of {handle:#x}: it is not the handle of a thread"
                ),
            );
        }
        is_thread
    }

    pub(crate) fn reference(&self, object: u64) {
        *self.handles.lock().references.entry(object).or_default() += 1;
    }

    pub(crate) fn dereference(&self, object: u64) {
        let left = {
            let mut handles = self.handles.lock();
            let count = handles.references.get_mut(&object);
            let left = count.map(|count| {
                *count -= 1;
                *count
            });
            if left == Some(0) {
                handles.references.remove(&object);
            }
            left
        };
        if left.is_none() {
            self.violation(
                Rule::Handle,
                format!("ObDereferenceObject of {object:#x} without a reference"),
            );
        }
    }

    /// DxgkCbReleaseHandleData.
    pub(crate) fn release_handle_data(&self, acquired: u64) {
        if !self.handle_data.lock().release(acquired) {
            let what = format!("DxgkCbReleaseHandleData of {acquired:#x}, which is not acquired");
            self.violation(Rule::Handle, what);
        }
    }

    /// Records handles and references that the driver keeps when it is unloaded.
    pub(crate) fn check_handles(&self) {
        let (open, references) = {
            let handles = self.handles.lock();
            (handles.open.len(), handles.references.len())
        };
        if open > 0 {
            self.violation(
                Rule::Handle,
                format!("the driver was unloaded with {open} open handles"),
            );
        }
        let acquired = self.handle_data.lock().acquired();
        if acquired > 0 {
            self.violation(
                Rule::Handle,
                format!(
                    "the driver was unloaded with {acquired} handles of DxgkCbAcquireHandleData"
                ),
            );
        }
        if references > 0 {
            self.violation(
                Rule::Handle,
                format!("the driver was unloaded with references to {references} objects"),
            );
        }
    }
}
