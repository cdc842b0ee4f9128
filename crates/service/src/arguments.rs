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
    ReleaseKeyedMutexMessage carries ReleaseKeyedMutex {
        mutex: Handle, key: u64, fence_value: u64, replaces_data: bool, [data: u8]
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
    /// The byte count of the message's file (`long`).
    File(u32),
    /// The byte count of the pieces that were sent before, where a message has no file.
    Pieces(u32),
}

#[derive(Debug, Serialize, Deserialize)]
pub struct CreateDoorbellMessage {
    pub hw_queue: Handle,
    pub ring: Handle,
    pub control: Handle,
    pub flags: u32,
    pub private_data: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{decode, encode};
    use serde::de::DeserializeOwned;

    /// The argument as a session lends it to the kernel, in words.
    fn lent<M: Lend + Serialize + DeserializeOwned>(
        message: M,
        say: impl Fn(M::Lent<'_>) -> String,
    ) -> String {
        let there: M = decode(&encode(&message)).unwrap();
        say(there.lend())
    }

    fn at(fence: u32, value: u64) -> FenceValue {
        FenceValue { fence: Handle(fence), value }
    }

    #[test]
    fn an_argument_with_lists_is_lent_as_it_was_given() {
        let operations = [
            TileOperation { first: 3, count: 4, memory: Some((Handle(6), 1 << 40)) },
            TileOperation { first: u64::MAX, count: 0, memory: None },
        ];
        let (reserved, fence) = (Handle(1), Handle(2));
        let update = UpdateGpuVirtualAddress { reserved, operations: &operations, fence, value: 9 };
        let message = UpdateGpuVirtualAddressMessage::from(update);
        assert_eq!(lent(message, |lent| format!("{lent:?}")), format!("{update:?}"));

        let resident =
            MakeResident { paging_queue: Handle(7), allocations: &[Handle(5), Handle(4)] };
        let message = MakeResidentMessage::from(resident);
        assert_eq!(lent(message, |lent| format!("{lent:?}")), format!("{resident:?}"));

        let signal = SubmitSignalToHwQueues {
            hw_queues: &[Handle(9), Handle(8)],
            fences: &[at(3, u64::MAX), at(2, 0)],
            flags: SignalFlags::ALLOW_FENCE_REWIND,
        };
        let message = SubmitSignalToHwQueuesMessage::from(signal);
        assert_eq!(lent(message, |lent| format!("{lent:?}")), format!("{signal:?}"));
    }

    #[test]
    fn a_resource_travels_with_the_data_of_each_allocation() {
        let allocations = [Handle(6), Handle(5)];
        let data = ResourceData {
            runtime: vec![1],
            driver: vec![2, 3],
            allocations: vec![vec![4, 5, 6], Vec::new()],
        };
        for nt_security_sharing in [false, true] {
            let args = CreateResource {
                device: Handle(1),
                allocations: &allocations,
                data: &data,
                nt_security_sharing,
            };
            let sent: CreateResourceMessage =
                decode(&encode(&CreateResourceMessage::from(args))).unwrap();
            assert_eq!((sent.device, &sent.allocations[..]), (Handle(1), &allocations[..]));
            assert_eq!((sent.data, sent.nt_security_sharing), (data.clone(), nt_security_sharing));
        }
    }

    #[test]
    fn a_flag_that_is_not_published_reaches_the_kernel() {
        let flags = SignalFlags::from_bits_retain(0x8000_0001);
        let there: SignalFlags = decode(&encode(&flags)).unwrap();
        assert_eq!(there.lend().bits(), 0x8000_0001);
    }

    #[test]
    fn a_list_that_says_more_than_it_has_is_no_argument() {
        let message = MakeResidentMessage { paging_queue: Handle(1), allocations: vec![Handle(2)] };
        let mut body = encode(&message);
        assert_eq!(body, [1, 1, 2], "the queue, the count, the allocation");
        body[1] = 2;
        assert!(decode::<MakeResidentMessage>(&body).is_none());
        body[1] = 0;
        assert!(decode::<MakeResidentMessage>(&body).is_none(), "one allocation is left over");
    }
}
