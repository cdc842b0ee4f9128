//! Arguments in messages: the form of those that borrow memory, and how a service lends them to the
//! kernel.

// Each field is the argument's in `tidegate_calls`.
#![allow(missing_docs)]

use serde::{Deserialize, Serialize};
use tidegate_calls::*;

/// An argument as a message carries it.
pub(crate) trait Lend {
    /// The argument of the call.
    type Lent<'a>
    where
        Self: 'a;

    fn lend(&self) -> Self::Lent<'_>;
}

macro_rules! lend_copies {
    ($($ty:ty),* $(,)?) => {$(
        impl Lend for $ty {
            type Lent<'a> = $ty;

            fn lend(&self) -> $ty {
                *self
            }
        }
    )*};
}

lend_copies! {
    i32, u32, u64, DeviceErrorReason, Handle, Present, ResidencyPriority, SegmentGroup, SignalFlags,
    SubmitCommand, SubmitCommandToHwQueue,
}

impl<T: 'static> Lend for Vec<T> {
    type Lent<'a> = &'a [T];

    fn lend(&self) -> &[T] {
        self
    }
}

/// The form of an argument that borrows memory: the same fields, with the borrowed lists in
/// vectors.
macro_rules! carried {
    ($($Message:ident carries $Argument:ident {
        $($field:ident: $ty:ty,)* $([$list:ident: $item:ty])*
    })*) => {$(
        #[derive(Debug, Serialize, Deserialize)]
        pub struct $Message {
            $(pub $field: $ty,)*
            $(pub $list: Vec<$item>,)*
        }

        impl From<$Argument<'_>> for $Message {
            fn from(argument: $Argument<'_>) -> $Message {
                $Message {
                    $($field: argument.$field,)*
                    $($list: argument.$list.to_vec(),)*
                }
            }
        }

        impl Lend for $Message {
            type Lent<'a> = $Argument<'a>;

            fn lend(&self) -> $Argument<'_> {
                $Argument { $($field: self.$field,)* $($list: &self.$list,)* }
            }
        }
    )*};
}

carried! {
    UpdateGpuVirtualAddressMessage carries UpdateGpuVirtualAddress {
        reserved: Handle, fence: Handle, value: u64, [operations: TileOperation]
    }
    MakeResidentMessage carries MakeResident { paging_queue: Handle, [allocations: Handle] }
    SubmitSignalToHwQueuesMessage carries SubmitSignalToHwQueues {
        flags: SignalFlags, [hw_queues: Handle] [fences: FenceValue]
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub struct CreateResourceMessage {
    pub device: Handle,
    pub allocations: Vec<Handle>,
    pub data: ResourceData,
    pub nt_security_sharing: bool,
}

impl From<CreateResource<'_>> for CreateResourceMessage {
    fn from(args: CreateResource<'_>) -> CreateResourceMessage {
        let CreateResource { device, nt_security_sharing, .. } = args;
        let (allocations, data) = (args.allocations.to_vec(), args.data.clone());
        CreateResourceMessage { device, allocations, data, nt_security_sharing }
    }
}

/// The name of a shared resource.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum SharedName {
    /// A global handle.
    Global(u32),
    /// The NT handle that is the message's file.
    File,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct CreateMonitoredFenceMessage {
    pub device: Handle,
    pub initial_value: u64,
    pub flags: SyncObjectFlags,
    pub engine_affinity: u32,
    pub name: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct CreateNativeFenceMessage {
    pub device: Handle,
    pub initial_value: u64,
    pub fence_type: NativeFenceType,
    pub flags: SyncObjectFlags,
    pub engine_affinity: u32,
    pub private_data: Vec<u8>,
    pub name: String,
}

/// The NT handle is the message's file.
#[derive(Debug, Serialize, Deserialize)]
pub struct OpenSyncObjectMessage {
    pub device: Handle,
    pub flags: SyncObjectFlags,
    pub engine_affinity: u32,
}

/// A CPU event stores `over` to the word of its slot.
#[derive(Debug, Serialize, Deserialize)]
pub struct SignalFromGpu2Message {
    pub contexts: Vec<Handle>,
    pub fences: Vec<FenceValue>,
    pub flags: SignalFlags,
    pub event: Option<SlotKey>,
}

/// By global handle; without one by the NT handle that is the message's file.
#[derive(Debug, Serialize, Deserialize)]
pub struct OpenSynchronizationObjectMessage {
    pub shared: Option<u32>,
    pub device: Option<Handle>,
    pub flags: SyncObjectFlags,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct RenderMessage {
    pub contexts: Vec<Handle>,
    pub commands: Commands,
    pub allocations: Vec<(Handle, bool)>,
}

/// The commands of a render call.
#[derive(Debug, Serialize, Deserialize)]
pub enum Commands {
    Here(Vec<u8>),
    /// So many bytes in the message's file (`long`).
    File(u32),
}

#[derive(Debug, Serialize, Deserialize)]
pub struct CreateDoorbellMessage {
    pub hw_queue: Handle,
    pub ring: Handle,
    pub control: Handle,
    pub flags: u32,
    pub private_data: Vec<u8>,
}
