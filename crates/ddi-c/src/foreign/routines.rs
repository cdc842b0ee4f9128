//! Routines that a driver gives by address: of DPCs and of threads.

use crate::dpc_queue::Routines;
use std::ffi::c_void;
use std::mem::transmute;
use std::ptr::with_exposed_provenance;

/// KDEFERRED_ROUTINE
type Deferred = unsafe extern "C-unwind" fn(u64, u64, u64, u64);
/// KSTART_ROUTINE
type Start = unsafe extern "C-unwind" fn(u64);

/// KSYNCHRONIZE_ROUTINE
pub(super) type SynchronizeRoutine = unsafe extern "C-unwind" fn(*mut c_void) -> u8;

/// The calls of routines.
pub(crate) const ROUTINES: Routines = Routines { deferred, start };

fn deferred(routine: u64, [dpc, context, one, two]: [u64; 4]) {
    // SAFETY: the driver passes the address of a function of this type, by the contract of
    // KeInitializeDpc.
    let routine = unsafe { transmute::<*const c_void, Deferred>(code(routine)) };
    // SAFETY: the arguments are those that the driver gave.
    unsafe { routine(dpc, context, one, two) }
}

fn start(routine: u64, context: u64) {
    // SAFETY: as above, by the contract of PsCreateSystemThread.
    let routine = unsafe { transmute::<*const c_void, Start>(code(routine)) };
    // SAFETY: the argument is that which the driver gave.
    unsafe { routine(context) }
}

fn code(address: u64) -> *const c_void {
    with_exposed_provenance(address as usize)
}
