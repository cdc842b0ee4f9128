//! The host's functions as `include/wddm/tidegate_nt.c` calls them: the structure TIDEGATE_HOST, in
//! the same order.

use super::entries::Entries;
use crate::agents::Waited;
use crate::dpc_queue::Dpc;
use crate::host::Host;
use std::ffi::{CStr, c_char, c_void};
use tidegate_ddi::Status;

/// A pointer to the host that the table has.
type At = *const HostContext;

/// What the functions reach: the host, and the place for the driver's entries.
pub(crate) struct HostContext {
    pub(crate) host: std::sync::Arc<Host>,
    pub(crate) entries: tidegate_platform::Mutex<Option<Entries>>,
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
            let $host = unsafe { &*at };
            $body
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
                context.host.violation(what);
                Status::INVALID_PARAMETER.0
            }
        }
    }
    print: fn(context, what: *const c_char) {
        context.host.print(text(what).trim_end());
    }
    violation: fn(context, what: *const c_char) {
        context.host.violation(text(what));
    }
    check_level: fn(context, function: *const c_char, level: u32) -> u8 {
        u8::from(context.host.check_level(&text(function), level))
    }
    level: fn(_context) -> u32 {
        Host::level()
    }
    set_level: fn(_context, level: u32) -> u32 {
        Host::set_level(level)
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
        match context.host.wait_for(number(at), (is_bounded != 0).then_some(units)) {
            Waited::Done => 0,
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
}
