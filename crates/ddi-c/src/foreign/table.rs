//! The host's functions as `include/wddm/tidegate_nt.c` calls them: the structure TIDEGATE_HOST, in
//! the same order.

use super::entries::Entries;
use super::routines::SynchronizeRoutine;
use crate::dpc_queue::{Dpc, Work};
use crate::handles::Root;
use crate::host::Host;
use crate::registry::Value;
use crate::rule::Rule;
use crate::steps::When;
use crate::waits::Waited;
use std::ffi::{CStr, c_char, c_void};
use std::mem::transmute;
use tidegate_ddi::Status;
use tidegate_wddm_abi::d3dkmddi::DisconnectDoorbellCallback;

const STATUS_ALERTED: u32 = 0x101;
const STATUS_TIMEOUT: u32 = 0x102;

/// A pointer to the host that the table has.
type At = *const HostContext;

/// What the functions reach: the host, and the place for the driver's entries.
pub(crate) struct HostContext {
    pub(crate) host: std::sync::Arc<Host>,
    pub(crate) entries: tidegate_platform::Mutex<Option<Entries>>,
    pub(crate) callbacks: Callbacks,
}

/// Callbacks that are functions of `tidegate_nt.c`, because they have no argument for the adapter.
#[derive(Clone, Copy)]
pub(crate) struct Callbacks {
    pub(crate) disconnect_doorbell: u64,
    pub(crate) get_os_caps: u64,
    pub(crate) get_handle_data: u64,
    pub(crate) acquire_handle_data: u64,
    pub(crate) release_handle_data: u64,
}

macro_rules! host_table {
    ($($field:ident: fn($host:ident $(, $arg:ident: $ty:ty)*) $(-> $ret:ty)? $body:block)*) => {
        /// TIDEGATE_HOST.
        #[repr(C)]
        pub(crate) struct HostTable {
            bytes: u64,
            host: At,
            $($field: unsafe extern "C-unwind" fn(At $(, $ty)*) $(-> $ret)?,)*
        }

        impl HostTable {
            /// Returns the table of a host, which lives as long as the table is used.
            pub(crate) fn new(context: &HostContext) -> HostTable {
                HostTable { bytes: size_of::<HostTable>() as u64, host: context, $($field,)* }
            }
        }

        $(unsafe extern "C-unwind" fn $field(at: At $(, $arg: $ty)*) $(-> $ret)? {
            // SAFETY: the table has this pointer, and what it points to outlives the library.
            let context = unsafe { &*at };
            context.host.step(stringify!($field), When::Before);
            let result = {
                let $host = context;
                let call = || $body;
                call()
            };
            context.host.step(stringify!($field), When::After);
            result
        })*
    };
}

// SAFETY: the pointer is to a context that threads share; the others are functions.
unsafe impl Send for HostTable {}
// SAFETY: as above.
unsafe impl Sync for HostTable {}

fn text<'a>(at: *const c_char) -> std::borrow::Cow<'a, str> {
    // SAFETY: the functions that take a text get a C string that lives during the call.
    unsafe { CStr::from_ptr(at) }.to_string_lossy()
}

/// # Safety
/// `at` has as many units, or there are none.
unsafe fn wide(at: *const u16, units: u32) -> String {
    if at.is_null() || units == 0 {
        return String::new();
    }
    // SAFETY: by the contract of this function.
    String::from_utf16_lossy(unsafe { std::slice::from_raw_parts(at, units as usize) })
}

fn number(at: *mut c_void) -> u64 {
    at.expose_provenance() as u64
}

fn pointer(at: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(at as usize)
}

host_table! {
    initialize: fn(context, table: *const u32) -> i32 {
        // SAFETY: DxgkInitialize gets DRIVER_INITIALIZATION_DATA of the version in its first word.
        match unsafe { Entries::read(table) } {
            Ok(entries) => {
                *context.entries.lock() = Some(entries);
                Status::SUCCESS.0
            }
            Err(what) => {
                context.host.violation(Rule::Answer, what);
                Status::INVALID_PARAMETER.0
            }
        }
    }
    print: fn(context, what: *const c_char) {
        context.host.print(text(what).trim_end());
    }
    violation: fn(context, rule: *const c_char, what: *const c_char) {
        context.host.violation(Rule::of_id(&text(rule)), text(what));
    }
    check_level: fn(context, function: *const c_char, level: u32) -> u8 {
        u8::from(context.host.check_level(&text(function), level))
    }
    level: fn(context) -> u32 {
        context.host.level()
    }
    set_level: fn(context, level: u32) -> u32 {
        context.host.set_level(level)
    }
    acquire_lock: fn(context, lock: *mut c_void) {
        context.host.acquire_lock(number(lock));
    }
    try_lock: fn(context, lock: *mut c_void) -> u8 {
        u8::from(context.host.try_lock(number(lock)))
    }
    release_lock: fn(context, lock: *mut c_void) {
        context.host.release_lock(number(lock));
    }
    forget_lock: fn(context, lock: *mut c_void) {
        context.host.forget_lock(number(lock));
    }
    pool_allocated: fn(context, at: *mut c_void, bytes: u64, tag: u32) {
        context.host.pool_allocated(number(at), bytes, tag);
    }
    pool_freed: fn(context, at: *mut c_void, tag: u32) -> u8 {
        u8::from(context.host.pool_freed(number(at), tag))
    }
    allocation_fails: fn(context) -> u8 {
        u8::from(context.host.allocation_fails())
    }
    allocate_contiguous: fn(context, bytes: u64, words: u32) -> *mut c_void {
        pointer(context.host.allocate_contiguous(bytes, words != 0))
    }
    free_contiguous: fn(context, at: *mut c_void) -> u8 {
        u8::from(context.host.free_contiguous(number(at)))
    }
    physical_address: fn(context, at: *mut c_void) -> u64 {
        context.host.physical_address(number(at))
    }
    read_register: fn(context, at: u64, bytes: u32) -> u64 {
        context.host.read_register(at, bytes)
    }
    write_register: fn(context, at: u64, bytes: u32, value: u64) {
        context.host.write_register(at, bytes, value);
    }
    delay: fn(context, units: u64) -> u8 {
        u8::from(context.host.delay(units))
    }
    stall: fn(context, microseconds: u32) {
        context.host.stall(microseconds);
    }
    time: fn(context) -> u64 {
        context.host.time()
    }
    barrier: fn(context) {
        context.host.platform.fence();
    }
    initialize_event: fn(context, at: *mut c_void, manual_reset: u8, is_set: u8) {
        context.host.initialize_event(number(at), manual_reset != 0, is_set != 0);
    }
    set_event: fn(context, at: *mut c_void) -> u8 {
        u8::from(context.host.set_event(number(at)))
    }
    clear_event: fn(context, at: *mut c_void) -> u8 {
        u8::from(context.host.clear_event(number(at)))
    }
    read_event: fn(context, at: *mut c_void) -> u8 {
        u8::from(context.host.is_event_set(number(at)))
    }
    wait: fn(context, at: *mut c_void, is_bounded: u8, units: u64) -> u32 {
        let units = (is_bounded != 0).then_some(units);
        match context.host.wait_for(&[number(at)], false, units, "KeWaitForSingleObject") {
            Waited::Done(_) => 0,
            Waited::TimedOut => 1,
            Waited::Stopped => 2,
        }
    }
    insert_dpc: fn(
        context, dpc: *mut c_void, routine: u64, argument: u64, one: u64, two: u64
    ) -> u8 {
        let arguments = [one, two];
        let dpc = Dpc { at: number(dpc), routine, context: argument, arguments };
        u8::from(context.host.insert_dpc(dpc))
    }
    remove_dpc: fn(context, dpc: *mut c_void) -> u8 {
        u8::from(context.host.remove_dpc(number(dpc)))
    }
    flush_dpcs: fn(context) {
        context.host.flush_dpcs();
    }
    set_timer: fn(
        context, timer: *mut c_void, units: u64, period_ms: u32, dpc: *mut c_void, routine: u64,
        argument: u64
    ) -> u8 {
        let of_dpc = Dpc { at: number(dpc), routine, context: argument, arguments: [0; 2] };
        let dpc = (!dpc.is_null()).then_some(of_dpc);
        u8::from(context.host.set_timer(number(timer), units, period_ms, dpc))
    }
    cancel_timer: fn(context, timer: *mut c_void) -> u8 {
        u8::from(context.host.cancel_timer(number(timer)))
    }
    start_thread: fn(context, routine: u64, argument: u64) -> *mut c_void {
        pointer(context.host.start_thread(routine, argument))
    }
    end_thread: fn(context) {
        context.host.end_thread();
    }
    check_stack: fn(context, function: *const c_char, at: u64) {
        context.host.check_stack(&text(function), at);
    }
    initialize_semaphore: fn(context, at: *mut c_void, count: i32, limit: i32) {
        context.host.initialize_semaphore(number(at), count, limit);
    }
    release_semaphore: fn(context, at: *mut c_void, by: i32) -> i32 {
        context.host.release_semaphore(number(at), by).unwrap_or(0)
    }
    initialize_mutex: fn(context, at: *mut c_void) {
        context.host.initialize_mutex(number(at));
    }
    acquire_mutex: fn(context, function: *const c_char, at: *mut c_void, waits: u8) -> u8 {
        u8::from(context.host.acquire_mutex(number(at), &text(function), waits != 0))
    }
    release_mutex: fn(context, function: *const c_char, at: *mut c_void) -> u32 {
        context.host.release_mutex(number(at), &text(function)).unwrap_or(0)
    }
    initialize_shared: fn(context, at: *mut c_void) {
        context.host.initialize_shared(number(at));
    }
    acquire_shared: fn(
        context, function: *const c_char, at: *mut c_void, exclusive: u8, recursive: u8, waits: u8
    ) -> u8 {
        let (exclusive, recursive) = (exclusive != 0, recursive != 0);
        let function = text(function);
        u8::from(context.host.acquire_shared(
            number(at), &function, exclusive, recursive, waits != 0,
        ))
    }
    release_shared: fn(context, function: *const c_char, at: *mut c_void) {
        context.host.release_shared(number(at), &text(function));
    }
    owns_shared: fn(context, function: *const c_char, at: *mut c_void) -> u32 {
        context.host.owns_shared(number(at), &text(function))
    }
    delete_object: fn(context, function: *const c_char, at: *mut c_void) {
        context.host.delete_waitable(number(at), &text(function));
    }
    state_of: fn(context, function: *const c_char, at: *mut c_void) -> i32 {
        context.host.state_of(number(at), &text(function))
    }
    wait_many: fn(
        context, objects: *const *mut c_void, count: u32, all: u8, is_bounded: u8, units: u64
    ) -> u32 {
        // SAFETY: KeWaitForMultipleObjects gets an array of as many pointers.
        let objects = unsafe { std::slice::from_raw_parts(objects, count as usize) };
        let objects: Vec<u64> = objects.iter().map(|object| number(*object)).collect();
        let units = (is_bounded != 0).then_some(units);
        match context.host.wait_for(&objects, all != 0, units, "KeWaitForMultipleObjects") {
            Waited::Done(index) => index as u32,
            Waited::TimedOut => STATUS_TIMEOUT,
            Waited::Stopped => STATUS_ALERTED,
        }
    }
    enter_region: fn(context) {
        context.host.enter_region();
    }
    leave_region: fn(context) {
        context.host.leave_region();
    }
    check_region: fn(context, function: *const c_char) {
        context.host.check_region(&text(function));
    }
    queue_work: fn(context, item: *mut c_void, routine: u64, argument: u64) -> u8 {
        let work = Work { at: number(item), routine, context: argument };
        u8::from(context.host.queue_work(work))
    }
    is_work_queued: fn(context, item: *mut c_void) -> u8 {
        u8::from(context.host.is_work_queued(number(item)))
    }
    thread_object: fn(context) -> *mut c_void {
        pointer(context.host.thread_object())
    }
    map_io: fn(context, bus: u64, bytes: u64) -> *mut c_void {
        pointer(context.host.map_io(bus, bytes))
    }
    unmap_io: fn(context, at: *mut c_void, bytes: u64) {
        context.host.unmap_io(number(at), bytes);
    }
    bus_address: fn(context, at: *mut c_void) -> u64 {
        context.host.bus_address(number(at)).unwrap_or(0)
    }
    bug_check: fn(context, code: u32, one: u64, two: u64, three: u64, four: u64) {
        context.host.bug_check(code, [one, two, three, four]);
    }
    reference_handle: fn(context, handle: *mut c_void) -> u8 {
        u8::from(context.host.reference_handle(number(handle)))
    }
    reference: fn(context, object: *mut c_void) {
        context.host.reference(number(object));
    }
    dereference: fn(context, object: *mut c_void) {
        context.host.dereference(number(object));
    }
    close_handle: fn(context, handle: *mut c_void) -> u8 {
        u8::from(context.host.close_handle(number(handle)))
    }
    open_key: fn(
        context, root: u32, parent: *mut c_void, path: *const u16, units: u32, create: u8,
        handle: *mut *mut c_void
    ) -> i32 {
        let root = match root {
            0 => Root::Path(number(parent)),
            1 => Root::Device,
            2 => Root::Driver,
            _ => Root::Services,
        };
        // SAFETY: the functions that take a path pass as many units.
        let path = unsafe { wide(path, units) };
        match context.host.open_key(&root, &path, create != 0) {
            Ok(opened) => {
                // SAFETY: the functions that open a key pass a variable for its handle.
                unsafe { handle.write(pointer(opened)) };
                Status::SUCCESS.0
            }
            Err(status) => status.0,
        }
    }
    query_value: fn(
        context, function: *const c_char, key: *mut c_void, name: *const u16, units: u32,
        kind: *mut u32, data: *mut u8, capacity: u32, bytes: *mut u32
    ) -> i32 {
        // SAFETY: the functions that take a name pass as many units.
        let name = unsafe { wide(name, units) };
        match context.host.value(&text(function), number(key), &name) {
            Ok(value) => {
                let fitting = value.bytes.len().min(capacity as usize);
                // SAFETY: the functions that query a value pass a buffer of `capacity` bytes and
                // variables for the type and the length.
                unsafe {
                    std::ptr::copy_nonoverlapping(value.bytes.as_ptr(), data, fitting);
                    kind.write(value.kind);
                    bytes.write(value.bytes.len() as u32);
                }
                Status::SUCCESS.0
            }
            Err(status) => status.0,
        }
    }
    set_value: fn(
        context, key: *mut c_void, name: *const u16, units: u32, kind: u32, data: *const u8,
        bytes: u32
    ) -> i32 {
        // SAFETY: ZwSetValueKey passes as many units and bytes.
        let (name, bytes) = unsafe {
            let bytes = match data.is_null() {
                true => Vec::new(),
                false => std::slice::from_raw_parts(data, bytes as usize).to_vec(),
            };
            (wide(name, units), bytes)
        };
        let set = context.host.set_value(number(key), Value { name, kind, bytes });
        set.err().unwrap_or(Status::SUCCESS).0
    }
    disconnect_doorbell: fn(context, arguments: *const DisconnectDoorbellCallback) -> i32 {
        // SAFETY: DxgkCbDisconnectDoorbell passes its argument, which is not NULL.
        let arguments = unsafe { arguments.read_unaligned() };
        context.host.disconnect_doorbell(&arguments).err().unwrap_or(Status::SUCCESS).0
    }
    synchronize: fn(context, routine: u64, argument: *mut c_void) -> u8 {
        let routine: *const c_void = std::ptr::with_exposed_provenance(routine as usize);
        // SAFETY: the driver passes a KSYNCHRONIZE_ROUTINE to KeSynchronizeExecution.
        let routine = unsafe { transmute::<*const c_void, SynchronizeRoutine>(routine) };
        // SAFETY: the argument is the one that the driver gave.
        let call = || unsafe { routine(argument) } != 0;
        u8::from(context.host.synchronize("KeSynchronizeExecution", call).unwrap_or(false))
    }
    is_dpc_running: fn(context, dpc: *mut c_void) -> u8 {
        u8::from(context.host.is_dpc_running(number(dpc)))
    }
    os_caps: fn(context) -> u32 {
        context.host.os_caps()
    }
    atomic: fn(_context) {}
    handle_data: fn(context, number: u32, of_device: u32, acquire: u8) -> *mut c_void {
        let mut handles = context.host.handle_data.lock();
        pointer(match acquire {
            0 => handles.find(number, of_device != 0),
            _ => handles.acquire(number, of_device != 0),
        })
    }
    release_handle_data: fn(context, data: *mut c_void) {
        context.host.release_handle_data(number(data));
    }
}
