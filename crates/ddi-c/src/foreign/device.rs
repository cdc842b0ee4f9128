//! The library of a device model: the two tables of `include/wddm/tidegate_device.h`.
//!
//! The host's functions are called from inside of a function of the device only. Their context is
//! the [`ModelBus`], which lives longer than the library.

use super::library::{Kind, Loaded};
use crate::LoadError;
use crate::model::{Description, MOST_NODES, ModelBus, ModelCode};
use crate::pci::MOST_BARS;
use std::ffi::{CStr, c_char, c_void};
use std::mem::offset_of;
use std::path::Path;
use std::sync::Arc;

/// TIDEGATE_DEVICE_VERSION
const VERSION: u32 = 1;

const MODEL: Kind =
    Kind { what: "device model", remedy: "export the function of include/wddm/tidegate_device.h" };

type At = *const ModelBus;

/// tidegate_device_host
#[repr(C)]
struct HostFunctions {
    version: u32,
    bytes: u32,
    context: At,
    local_memory_base: u64,
    local_memory_bytes: u64,
    now_ns: unsafe extern "C-unwind" fn(At) -> u64,
    dma_read: unsafe extern "C-unwind" fn(At, u64, *mut u8, u64) -> i32,
    dma_write: unsafe extern "C-unwind" fn(At, u64, *const u8, u64) -> i32,
    set_line: unsafe extern "C-unwind" fn(At, i32),
    send_message: unsafe extern "C-unwind" fn(At, u32),
    log: unsafe extern "C-unwind" fn(At, *const c_char),
}

/// tidegate_device_node
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Node {
    kind: u32,
    traits: u32,
}

/// tidegate_device
#[derive(Clone, Copy)]
#[repr(C)]
struct Table {
    version: u32,
    bytes: u32,
    context: *mut c_void,
    vendor_id: u16,
    device_id: u16,
    revision: u32,
    class_code: u32,
    messages: u32,
    bar_bytes: [u64; MOST_BARS],
    traits: u64,
    refresh_period_ns: u64,
    node_count: u32,
    reserved: u32,
    nodes: [Node; MOST_NODES],
    read: Option<unsafe extern "C-unwind" fn(*mut c_void, u32, u64, u32) -> u64>,
    write: Option<unsafe extern "C-unwind" fn(*mut c_void, u32, u64, u32, u64)>,
    step: Option<unsafe extern "C-unwind" fn(*mut c_void) -> u64>,
    reset: Option<unsafe extern "C-unwind" fn(*mut c_void)>,
    close: Option<unsafe extern "C-unwind" fn(*mut c_void)>,
    completed: Option<unsafe extern "C-unwind" fn(*mut c_void, u32) -> u32>,
}

/// The layouts of the header, as `crates/wddm-abi/tests/headers/layouts.c` has them.
const _: () = {
    assert!(size_of::<HostFunctions>() == 80 && offset_of!(HostFunctions, log) == 72);
    assert!(offset_of!(HostFunctions, now_ns) == 32 && size_of::<Node>() == 8);
    assert!(size_of::<Table>() == 504 && offset_of!(Table, bar_bytes) == 32);
    assert!(offset_of!(Table, nodes) == 72 && offset_of!(Table, completed) == 496);
};

/// tidegate_device_open
type Open = unsafe extern "C-unwind" fn(*const HostFunctions, *mut Table) -> i32;

const NO_DEVICE: Table = Table {
    version: VERSION,
    bytes: size_of::<Table>() as u32,
    context: std::ptr::null_mut(),
    vendor_id: 0,
    device_id: 0,
    revision: 0,
    class_code: 0,
    messages: 0,
    bar_bytes: [0; MOST_BARS],
    traits: 0,
    refresh_period_ns: 0,
    node_count: 0,
    reserved: 0,
    nodes: [Node { kind: 0, traits: 0 }; MOST_NODES],
    read: None,
    write: None,
    step: None,
    reset: None,
    close: None,
    completed: None,
};

/// The bus of the model that calls.
fn bus<'a>(at: At) -> &'a ModelBus {
    // SAFETY: the host's table has this pointer, and the bus outlives the library.
    unsafe { &*at }
}

unsafe extern "C-unwind" fn now_ns(at: At) -> u64 {
    bus(at).now_ns()
}

fn answer(is_done: bool) -> i32 {
    if is_done { 0 } else { -1 }
}

/// Returns a length as one of memory, if memory can have it and the address is one.
fn length(at: *const u8, bytes: u64) -> Option<usize> {
    let length = usize::try_from(bytes).ok().filter(|length| *length <= isize::MAX as usize)?;
    (!at.is_null()).then_some(length)
}

unsafe extern "C-unwind" fn dma_read(at: At, address: u64, to: *mut u8, bytes: u64) -> i32 {
    let Some(length) = length(to, bytes) else { return answer(bytes == 0) };
    // SAFETY: the device passes memory of as many bytes, which no other code uses meanwhile.
    let out = unsafe { std::slice::from_raw_parts_mut(to, length) };
    answer(bus(at).dma_read(address, out))
}

unsafe extern "C-unwind" fn dma_write(at: At, address: u64, from: *const u8, bytes: u64) -> i32 {
    let Some(length) = length(from, bytes) else { return answer(bytes == 0) };
    // SAFETY: as above.
    let from = unsafe { std::slice::from_raw_parts(from, length) };
    answer(bus(at).dma_write(address, from))
}

unsafe extern "C-unwind" fn set_line(at: At, is_high: i32) {
    bus(at).set_line(is_high != 0);
}

unsafe extern "C-unwind" fn send_message(at: At, message: u32) {
    bus(at).send_message(message);
}

unsafe extern "C-unwind" fn log(at: At, text: *const c_char) {
    if !text.is_null() {
        // SAFETY: the device passes a C string that lives during the call.
        bus(at).print(unsafe { CStr::from_ptr(text) }.to_string_lossy().trim_end());
    }
}

/// The functions that every device has.
#[derive(Clone, Copy)]
struct Functions {
    context: *mut c_void,
    read: unsafe extern "C-unwind" fn(*mut c_void, u32, u64, u32) -> u64,
    write: unsafe extern "C-unwind" fn(*mut c_void, u32, u64, u32, u64),
    step: unsafe extern "C-unwind" fn(*mut c_void) -> u64,
    reset: unsafe extern "C-unwind" fn(*mut c_void),
    completed: Option<unsafe extern "C-unwind" fn(*mut c_void, u32) -> u32>,
}

/// An open device.
struct Opened {
    // Closed first, then unloaded. The host's table and the bus live until then.
    close: Close,
    loaded: Loaded,
    _host: Box<HostFunctions>,
    _bus: Arc<ModelBus>,
}

/// Closes the device when it is dropped.
struct Close {
    close: Option<unsafe extern "C-unwind" fn(*mut c_void)>,
    context: *mut c_void,
}

impl Drop for Close {
    fn drop(&mut self) {
        if let Some(close) = self.close {
            // SAFETY: the library is loaded, and no other function of the device runs or follows.
            unsafe { close(self.context) };
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // Another agent may be inside of the code.
        if tidegate_platform::current::is_panicking() {
            self.close.close = None;
            self.loaded.keep();
        }
    }
}

struct Code {
    functions: Functions,
    _opened: Opened,
}

// SAFETY: the device's functions may be called on any thread, one at a time, by the contract of
// tidegate_device.h. The other pointers are to memory of this value and of the bus.
unsafe impl Send for Code {}

impl ModelCode for Code {
    fn read(&self, bar: u32, offset: u64, bytes: u32) -> u64 {
        let Functions { context, read, .. } = self.functions;
        // SAFETY: the library is loaded and its device open; one agent calls it at a time.
        unsafe { read(context, bar, offset, bytes) }
    }

    fn write(&self, bar: u32, offset: u64, bytes: u32, value: u64) {
        let Functions { context, write, .. } = self.functions;
        // SAFETY: as above.
        unsafe { write(context, bar, offset, bytes, value) }
    }

    fn step(&self) -> u64 {
        let Functions { context, step, .. } = self.functions;
        // SAFETY: as above.
        unsafe { step(context) }
    }

    fn reset(&self) {
        let Functions { context, reset, .. } = self.functions;
        // SAFETY: as above.
        unsafe { reset(context) }
    }

    fn completed(&self, node: u32) -> Option<u32> {
        let Functions { context, completed, .. } = self.functions;
        // SAFETY: as above.
        completed.map(|completed| unsafe { completed(context, node) })
    }
}

/// Loads the library of a model and opens its device. Returns what the device says of itself, which
/// is not checked, and its code.
pub(crate) fn open_model(
    path: &Path,
    bus: &Arc<ModelBus>,
) -> Result<(Description, Box<dyn ModelCode>), LoadError> {
    let loaded = Loaded::open(path, MODEL)?;
    let open = loaded.symbol(c"tidegate_device_open", path, MODEL)?;
    // SAFETY: the symbol is a function of this type, by the contract of tidegate_device.h. A
    // function pointer has the size of a data pointer on Linux.
    let open = unsafe { std::mem::transmute::<*mut c_void, Open>(open.as_ptr()) };
    let host = Box::new(HostFunctions {
        version: VERSION,
        bytes: size_of::<HostFunctions>() as u32,
        context: Arc::as_ptr(bus),
        local_memory_base: bus.local_base,
        local_memory_bytes: bus.local_bytes,
        now_ns,
        dma_read,
        dma_write,
        set_line,
        send_message,
        log,
    });
    let mut table = NO_DEVICE;
    // SAFETY: both tables are valid during the call; the host's lives until the device is closed.
    let status = unsafe { open(&raw const *host, &raw mut table) };
    let refused = |reason: String| LoadError::Model { path: path.to_owned(), reason };
    if status != 0 {
        return Err(refused(format!("tidegate_device_open returned {status}")));
    }
    // The functions of another version are at other places: none is called.
    if (table.version, table.bytes) != (VERSION, NO_DEVICE.bytes) {
        return Err(refused(format!(
            "its table is of version {} with {} bytes, and not of version {VERSION} with {}: compile \
             it against this tidegate_device.h",
            table.version, table.bytes, NO_DEVICE.bytes
        )));
    }
    let close = Close { close: table.close, context: table.context };
    let opened = Opened { close, loaded, _host: host, _bus: Arc::clone(bus) };
    let (Some(read), Some(write), Some(step), Some(reset)) =
        (table.read, table.write, table.step, table.reset)
    else {
        let has = [
            ("read", table.read.is_some()),
            ("write", table.write.is_some()),
            ("step", table.step.is_some()),
            ("reset", table.reset.is_some()),
        ];
        let missing = has.iter().filter(|(_, has)| !has).map(|(name, _)| *name);
        let missing: Vec<&str> = missing.collect();
        return Err(refused(format!("its table lacks {}", missing.join(", "))));
    };
    let description = Description {
        vendor_id: table.vendor_id,
        device_id: table.device_id,
        revision: table.revision,
        class_code: table.class_code,
        messages: table.messages,
        bar_bytes: table.bar_bytes,
        traits: table.traits,
        refresh_period_ns: table.refresh_period_ns,
        node_count: table.node_count,
        nodes: table.nodes.iter().map(|node| (node.kind, node.traits)).collect(),
    };
    let (context, completed) = (table.context, table.completed);
    let functions = Functions { context, read, write, step, reset, completed };
    Ok((description, Box::new(Code { functions, _opened: opened })))
}
