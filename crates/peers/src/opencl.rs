//! The calls of OpenCL that `kernels` times, on the CPU device of the first platform: PoCL. The
//! library is loaded at run time.
//!
//! Invariants that make the calls sound: the signatures come from the Khronos header; every
//! handle is of this one context; the library is never unloaded while a handle lives. Room with
//! `unsafe` code: a call of OpenCL is one.

#![allow(unsafe_code)]

use crate::Trouble;
use libloading::Library;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut};

type Handle = *mut c_void;
/// An event that a command waits for, or that it completes.
pub(crate) type Event = Handle;
pub(crate) type Queue = Handle;

const LIBRARY: &str = "libOpenCL.so.1";
const DEVICE_NAME: u32 = 0x102B;
const ALL_DEVICES: u64 = 0xFFFF_FFFF;
const QUEUE_PROPERTIES: u64 = 0x1093;
const OUT_OF_ORDER: u64 = 1;
const COMPLETE: i32 = 0;

/// Declares the calls: fields of the loaded library.
macro_rules! calls {
    ($($field:ident $name:literal ($($argument:ty),*) $(-> $result:ty)?;)*) => {
        struct Calls {
            $($field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            /// Keeps the code of the calls loaded.
            _library: Library,
        }

        impl Calls {
            fn load() -> Result<Calls, Trouble> {
                // SAFETY: the system's OpenCL loader has initialisers that are sound to run.
                let library = unsafe { Library::new(LIBRARY) }
                    .map_err(|e| format!("no OpenCL loader: {e}"))?;
                $(
                    // SAFETY: the signature is the header's, and the library outlives it.
                    let $field = *unsafe { library.get($name) }
                        .map_err(|e| format!("OpenCL: {e}"))?;
                )*
                Ok(Calls { $($field,)* _library: library })
            }
        }
    };
}

calls! {
    platforms b"clGetPlatformIDs\0" (u32, *mut Handle, *mut u32) -> i32;
    devices b"clGetDeviceIDs\0" (Handle, u64, u32, *mut Handle, *mut u32) -> i32;
    device_info b"clGetDeviceInfo\0" (Handle, u32, usize, *mut c_void, *mut usize) -> i32;
    context b"clCreateContext\0" (*const isize, u32, *const Handle, *const c_void, Handle, *mut i32) -> Handle;
    queue b"clCreateCommandQueueWithProperties\0" (Handle, Handle, *const u64, *mut i32) -> Handle;
    program b"clCreateProgramWithSource\0" (Handle, u32, *const *const c_char, *const usize, *mut i32) -> Handle;
    build b"clBuildProgram\0" (Handle, u32, *const Handle, *const c_char, *const c_void, Handle) -> i32;
    kernel b"clCreateKernel\0" (Handle, *const c_char, *mut i32) -> Handle;
    enqueue b"clEnqueueNDRangeKernel\0" (Handle, Handle, u32, *const usize, *const usize, *const usize, u32, *const Handle, *mut Handle) -> i32;
    user_event b"clCreateUserEvent\0" (Handle, *mut i32) -> Handle;
    set_user_event b"clSetUserEventStatus\0" (Handle, i32) -> i32;
    wait b"clWaitForEvents\0" (u32, *const Handle) -> i32;
    release_event b"clReleaseEvent\0" (Handle) -> i32;
    flush b"clFlush\0" (Handle) -> i32;
    finish b"clFinish\0" (Handle) -> i32;
}

/// A context on one device, with an empty kernel. Its handles live as long as the process.
pub(crate) struct OpenCl {
    calls: Calls,
    device: Handle,
    context: Handle,
    kernel: Handle,
}

fn checked(call: &str, status: i32) -> Result<(), Trouble> {
    if status == 0 { Ok(()) } else { Err(format!("{call}: error {status}")) }
}

impl OpenCl {
    pub(crate) fn open() -> Result<OpenCl, Trouble> {
        const SOURCE: &CStr = c"kernel void empty() {}";
        let calls = Calls::load()?;
        let (mut platform, mut device, mut status) = (null_mut(), null_mut(), 0);
        // SAFETY: the pointers are to live handles, of which each call fills one.
        checked("clGetPlatformIDs", unsafe {
            (calls.platforms)(1, &raw mut platform, null_mut())
        })?;
        // SAFETY: as above.
        let found =
            unsafe { (calls.devices)(platform, ALL_DEVICES, 1, &raw mut device, null_mut()) };
        checked("clGetDeviceIDs", found)?;
        // SAFETY: one live device is named; no callback is given.
        let context = unsafe {
            (calls.context)(null(), 1, &raw const device, null(), null_mut(), &raw mut status)
        };
        checked("clCreateContext", status)?;
        let source = SOURCE.as_ptr();
        // SAFETY: one string that ends with a zero, which null lengths say.
        let program =
            unsafe { (calls.program)(context, 1, &raw const source, null(), &raw mut status) };
        checked("clCreateProgramWithSource", status)?;
        // SAFETY: the program is live; no options and no callback.
        let built = unsafe { (calls.build)(program, 0, null(), null(), null(), null_mut()) };
        checked("clBuildProgram", built)?;
        // SAFETY: the program was built, and has a kernel of this name.
        let kernel = unsafe { (calls.kernel)(program, c"empty".as_ptr(), &raw mut status) };
        checked("clCreateKernel", status)?;
        Ok(OpenCl { calls, device, context, kernel })
    }

    /// The name that the driver gives its device.
    pub(crate) fn name(&self) -> String {
        let mut name = [0u8; 256];
        // SAFETY: the buffer is as long as the call is told.
        let status = unsafe {
            (self.calls.device_info)(
                self.device,
                DEVICE_NAME,
                name.len(),
                name.as_mut_ptr().cast(),
                null_mut(),
            )
        };
        let text = CStr::from_bytes_until_nul(&name).unwrap_or_default();
        if status == 0 { text.to_string_lossy().into_owned() } else { "PoCL".to_owned() }
    }

    pub(crate) fn queue(&self, is_out_of_order: bool) -> Result<Queue, Trouble> {
        let properties = [QUEUE_PROPERTIES, OUT_OF_ORDER, 0];
        let properties = if is_out_of_order { properties.as_ptr() } else { null() };
        let mut status = 0;
        // SAFETY: the properties end with a zero, or are none.
        let queue =
            unsafe { (self.calls.queue)(self.context, self.device, properties, &raw mut status) };
        checked("clCreateCommandQueueWithProperties", status).map(|()| queue)
    }

    /// Enqueues the empty kernel with one item behind an event. Returns its event.
    pub(crate) fn enqueue(&self, queue: Queue, behind: Option<Event>) -> Result<Event, Trouble> {
        let (one, mut event) = (1usize, null_mut());
        let (count, list) =
            behind.as_ref().map_or((0, null()), |event| (1, std::ptr::from_ref(event)));
        // SAFETY: one dimension with live sizes; the list has `count` live events.
        let status = unsafe {
            (self.calls.enqueue)(
                queue,
                self.kernel,
                1,
                null(),
                &raw const one,
                &raw const one,
                count,
                list,
                &raw mut event,
            )
        };
        checked("clEnqueueNDRangeKernel", status).map(|()| event)
    }

    pub(crate) fn user_event(&self) -> Result<Event, Trouble> {
        let mut status = 0;
        // SAFETY: the context is live.
        let event = unsafe { (self.calls.user_event)(self.context, &raw mut status) };
        checked("clCreateUserEvent", status).map(|()| event)
    }

    pub(crate) fn complete(&self, user_event: Event) -> Result<(), Trouble> {
        // SAFETY: a live user event, completed once.
        let status = unsafe { (self.calls.set_user_event)(user_event, COMPLETE) };
        checked("clSetUserEventStatus", status)
    }

    pub(crate) fn wait(&self, event: Event) -> Result<(), Trouble> {
        // SAFETY: one live event.
        checked("clWaitForEvents", unsafe { (self.calls.wait)(1, &raw const event) })
    }

    pub(crate) fn release(&self, event: Event) -> Result<(), Trouble> {
        // SAFETY: the caller gives up its reference.
        checked("clReleaseEvent", unsafe { (self.calls.release_event)(event) })
    }

    pub(crate) fn flush(&self, queue: Queue) -> Result<(), Trouble> {
        // SAFETY: a live queue.
        checked("clFlush", unsafe { (self.calls.flush)(queue) })
    }

    pub(crate) fn finish(&self, queue: Queue) -> Result<(), Trouble> {
        // SAFETY: a live queue.
        checked("clFinish", unsafe { (self.calls.finish)(queue) })
    }
}
