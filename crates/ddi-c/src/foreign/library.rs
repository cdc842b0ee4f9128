//! Private copies of shared libraries, and the library of a driver.
//!
//! The file is copied into memory first. The dynamic linker takes each copy for another library, so
//! each has its own variables.

use super::table::{Callbacks, HostTable};
use crate::LoadError;
use rustix::fs::{MemfdFlags, memfd_create};
use std::ffi::{CStr, CString, c_void};
use std::fs::File;
use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::ptr::NonNull;
use tidegate_ddi::Status;

/// `NTSTATUS TidegateBind(const TIDEGATE_HOST *)`
type Bind = unsafe extern "C-unwind" fn(*const HostTable) -> i32;
/// `NTSTATUS DriverEntry(PDRIVER_OBJECT, PUNICODE_STRING)`
type DriverEntry = unsafe extern "C-unwind" fn(u64, *mut UnicodeString) -> i32;

#[repr(C)]
struct UnicodeString {
    length: u16,
    maximum_length: u16,
    buffer: *const u16,
}

/// A loaded library. It is unloaded when this is dropped.
pub(crate) struct Library {
    loaded: Loaded,
    bind: Bind,
    driver_entry: DriverEntry,
    pub(crate) callbacks: Callbacks,
}

/// What is loaded, for messages.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    pub(super) what: &'static str,
    /// What to do about a missing symbol.
    pub(super) remedy: &'static str,
}

const DRIVER: Kind =
    Kind { what: "driver", remedy: "compile DriverEntry and include/wddm/tidegate_nt.c into it" };

/// A library of the dynamic linker.
pub(super) struct Loaded {
    handle: NonNull<c_void>,
    /// The path of the copy. The linker returns a library that it has under this name, so the
    /// descriptor in it stays open as long as the library is in memory.
    name: CString,
    copy: ManuallyDrop<OwnedFd>,
    /// Whether the code stays when this is dropped.
    is_kept: bool,
}

// SAFETY: the handle is used by `dlsym` and `dlclose` only, which any thread may call.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

impl Drop for Loaded {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        // SAFETY: the handle is open, and no function of the library is called afterwards.
        unsafe { libc::dlclose(self.handle.as_ptr()) };
        // SAFETY: the name is a C string. This only looks the library up.
        let left = unsafe { libc::dlopen(self.name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if left.is_null() {
            // SAFETY: the descriptor is dropped here only, once.
            unsafe { ManuallyDrop::drop(&mut self.copy) };
        } else {
            // SAFETY: `handle` was returned by the line above. The library was linked to stay.
            unsafe { libc::dlclose(left) };
        }
    }
}

impl Loaded {
    /// Copies and links a library.
    pub(super) fn open(path: &Path, kind: Kind) -> Result<Loaded, LoadError> {
        let what = kind.what;
        let read = |error| LoadError::Read { what, path: path.to_owned(), error };
        let copy = copy(path).map_err(read)?;
        let name = CString::new(format!("/proc/self/fd/{}", copy.as_raw_fd()))
            .map_err(|error| read(io::Error::from(error)))?;
        // SAFETY: the name is a C string. The library's initialisers are code that the caller
        // chose to load.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        let Some(handle) = NonNull::new(handle) else {
            return Err(LoadError::Link { what, path: path.to_owned(), reason: last_error() });
        };
        Ok(Loaded { handle, name, copy: ManuallyDrop::new(copy), is_kept: false })
    }

    /// Returns the address of a symbol.
    pub(super) fn symbol(
        &self,
        name: &'static CStr,
        path: &Path,
        Kind { what, remedy }: Kind,
    ) -> Result<NonNull<c_void>, LoadError> {
        // SAFETY: the handle is open, and the name is a C string.
        let found = unsafe { libc::dlsym(self.handle.as_ptr(), name.as_ptr()) };
        let (path, name) = (path.to_owned(), name.to_str().unwrap_or(""));
        NonNull::new(found).ok_or(LoadError::Symbol { what, path, name, remedy })
    }

    /// Keeps the code in memory for ever: something still runs it.
    pub(super) fn keep(&mut self) {
        self.is_kept = true;
    }
}

impl Library {
    /// Copies and loads a driver, and finds its functions.
    pub(crate) fn load(path: &Path) -> Result<Library, LoadError> {
        let loaded = Loaded::open(path, DRIVER)?;
        let symbol = |name| loaded.symbol(name, path, DRIVER);
        let (bind, driver_entry) = (symbol(c"TidegateBind")?, symbol(c"DriverEntry")?);
        let address =
            |name| symbol(name).map(|at: NonNull<c_void>| at.as_ptr().expose_provenance() as u64);
        let callbacks = Callbacks {
            disconnect_doorbell: address(c"TidegateDisconnectDoorbell")?,
            get_os_caps: address(c"TidegateGetOSCaps")?,
            get_handle_data: address(c"TidegateGetHandleData")?,
            acquire_handle_data: address(c"TidegateAcquireHandleData")?,
            release_handle_data: address(c"TidegateReleaseHandleData")?,
        };
        // SAFETY: the symbols are functions of these types, by the contract of drivers and of
        // `tidegate_nt.c`. A function pointer has the size of a data pointer on Linux.
        let (bind, driver_entry) = unsafe {
            (
                std::mem::transmute::<*mut c_void, Bind>(bind.as_ptr()),
                std::mem::transmute::<*mut c_void, DriverEntry>(driver_entry.as_ptr()),
            )
        };
        Ok(Library { loaded, bind, driver_entry, callbacks })
    }

    /// Keeps the code in memory for ever: a thread still runs it.
    pub(crate) fn keep(&mut self) {
        self.loaded.keep();
    }

    /// Gives the host's functions to the driver. `table` and its host live until the library is
    /// unloaded.
    pub(crate) fn bind(&self, table: &HostTable) -> Status {
        // SAFETY: the function takes the table, which it keeps and which lives long enough.
        Status(unsafe { (self.bind)(table) })
    }

    /// Calls DriverEntry with the address of a driver object, which lives as long as the library.
    pub(crate) fn enter(&self, driver_object: u64, name: &str) -> Status {
        let path = format!("\\Registry\\Machine\\System\\CurrentControlSet\\Services\\{name}");
        let mut units: Vec<u16> = path.encode_utf16().collect();
        units.push(0);
        let bytes = u16::try_from(2 * units.len()).unwrap_or(u16::MAX);
        let mut registry_path = UnicodeString {
            length: bytes.saturating_sub(2),
            maximum_length: bytes,
            buffer: units.as_ptr(),
        };
        // SAFETY: both arguments live during the call. A driver object has no published members,
        // so the driver only passes its address on.
        Status(unsafe { (self.driver_entry)(driver_object, &mut registry_path) })
    }
}

/// Copies a file into memory that has a descriptor.
fn copy(path: &Path) -> io::Result<OwnedFd> {
    let bytes = std::fs::read(path)?;
    let mut file = File::from(memfd_create("tidegate library", MemfdFlags::CLOEXEC)?);
    file.write_all(&bytes)?;
    Ok(OwnedFd::from(file))
}

/// What the dynamic linker says.
fn last_error() -> String {
    // SAFETY: called after a failure, on the same thread.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "the dynamic linker gives no reason".to_owned();
    }
    // SAFETY: the linker's text is a C string until the next failure on this thread.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
