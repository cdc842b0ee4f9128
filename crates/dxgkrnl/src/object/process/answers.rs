//! The D3DKMT calls of a process, and what each returns once the adapter is removed or the process
//! has ended.
//!
//! Invariant: a call that fails because of a removal, or of the end of its process, returns
//! DEVICE_REMOVED, wherever that met it. The object that the call names may have ended meanwhile,
//! and every other status would blame the caller.

use super::Process;
use tidegate_calls::*;
use tidegate_platform::{Event, QueueNumber};

/// What a call returns.
trait Answer {
    /// Returns the answer of a process, whose adapter may be removed.
    fn of(self, process: &Process) -> Self;
}

impl<T> Answer for Result<T, Status> {
    fn of(self, process: &Process) -> Self {
        self.map_err(|status| match process.objects.port.condition.check_present() {
            Ok(()) if process.handles.lock().is_closed() => Status::DEVICE_REMOVED,
            Ok(()) => status,
            Err(removed) => removed,
        })
    }
}

impl<T> Answer for Option<T> {
    fn of(self, _: &Process) -> Self {
        self
    }
}

impl Answer for AdapterInfo {
    fn of(self, _: &Process) -> Self {
        self
    }
}

macro_rules! answer {
    ([]
        local { $($(#[$local_meta:meta])* $Local:ident
            fn $local:ident($($local_arg:ident: $local_ty:ty),* $(,)?) -> $local_out:ty;)* }
        sent { $($(#[$meta:meta])* $Name:ident $how:ident
            fn $f:ident($($arg:ident: $ty:ty $(=> $message:ty)?),* $(,)?) -> $out:ty;)* }
    ) => {
        impl Kernel for Process {
            $(fn $local(&self, $($local_arg: $local_ty),*) -> $local_out {
                Answer::of(Process::$local(self, $($local_arg),*), self)
            })*
            $(fn $f(&self, $($arg: $ty),*) -> $out {
                Answer::of(Process::$f(self, $($arg),*), self)
            })*
        }
    };
}

tidegate_calls::for_each_call!(answer! {});
