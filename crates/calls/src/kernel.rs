//! The surface of one process.
//!
//! Every call validates its handles and numbers and changes nothing when it fails. Statuses, unless
//! stated otherwise: INVALID_PARAMETER for an invalid handle, number or flag; ACCESS_DENIED for an
//! instance without the right; NOT_SUPPORTED by the adapter or node; DEVICE_REMOVED for a lost
//! device; CANCELLED when the machine stopped.

use crate::*;
use tidegate_platform::{Event, QueueNumber};

macro_rules! declare {
    ([]
        local { $($(#[$local_meta:meta])* $Local:ident
            fn $local:ident($($local_arg:ident: $local_ty:ty),* $(,)?) -> $local_out:ty;)* }
        sent { $($(#[$meta:meta])* $Name:ident $how:ident
            fn $f:ident($($arg:ident: $ty:ty $(=> $message:ty)?),* $(,)?) -> $out:ty;)* }
    ) => {
        /// The D3DKMT calls of one process.
        pub trait Kernel: Send + Sync {
            $($(#[$local_meta])* fn $local(&self, $($local_arg: $local_ty),*) -> $local_out;)*
            $($(#[$meta])* fn $f(&self, $($arg: $ty),*) -> $out;)*
        }

        /// The names of the calls: the methods of [`Kernel`].
        pub const CALLS: &[&str] = &[$(stringify!($local),)* $(stringify!($f),)*];
    };
}

for_each_call!(declare! {});

impl dyn Kernel + '_ {
    /// Queues signals of 1 to 32 fences on a kernel-mode hardware queue.
    pub fn submit_signal_to_hw_queue(
        &self,
        hw_queue: Handle,
        fences: &[FenceValue],
    ) -> Result<(), Status> {
        let (hw_queues, flags) = (&[hw_queue], SignalFlags::empty());
        self.submit_signal_to_hw_queues(SubmitSignalToHwQueues { hw_queues, fences, flags })
    }

    /// Queues signals of 1 to 32 fences on a context. They are made when all earlier work is
    /// complete.
    #[doc(alias = "D3DKMTSignalSynchronizationObjectFromGpu")]
    pub fn signal_from_gpu(&self, context: Handle, fences: &[FenceValue]) -> Result<(), Status> {
        let (contexts, flags) = (&[context], SignalFlags::empty());
        self.signal_from_gpu2(SignalFromGpu2 { contexts, fences, flags, cpu_event: None })
    }
}
