//! The calls of the C library: each supported name with the fields of its structure. One of the
//! rooms that may use `unsafe`.
//!
//! Invariant: a field that the call follows as an address is described as one. The compiler checks
//! the sizes.

#![allow(unsafe_code)]

use crate::c_library::field::Field::{self, *};
use crate::c_library::field::Kind::{self, *};
use crate::c_library::memory::Memory;
use std::alloc::Layout;
use std::ffi::c_void;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};
use tidegate::calls::Status;
use tidegate_d3dkmt::exports;
use tidegate_wddm_abi::d3dkmthk as args;

/// A call, with one of the forms of its arguments.
pub(crate) struct Call {
    /// The exported name.
    pub(crate) name: &'static str,
    /// The argument's fields.
    pub(crate) fields: &'static [Field],
    /// Size and alignment of the argument.
    pub(crate) layout: Layout,
    enter: fn(u64) -> i32,
}

/// Where a call returns what the caller keeps.
#[derive(Default)]
pub(crate) struct Outputs {
    /// Handles, of 32 bits.
    pub(crate) handles: Vec<(u64, Kind)>,
    /// Addresses of the GPU.
    pub(crate) gpu_addresses: Vec<u64>,
    descriptors: Vec<u64>,
    words: Vec<u64>,
}

impl Outputs {
    /// Adds a field that is at this address.
    pub(crate) fn add(&mut self, field: Field, address: u64) {
        match field {
            Makes(kind) => self.handles.push((address, kind)),
            NewGpuAddress => self.gpu_addresses.push(address),
            NewDescriptor => self.descriptors.push(address),
            NewWord => self.words.push(address),
            _ => {}
        }
    }
}

impl Call {
    /// Calls the library with the argument at this address, which is NULL, misaligned, or the
    /// address of a structure of [`Call::fields`] in `memory`. Stores to the words that a success
    /// returns, as a program does. Returns the status, and the descriptors of a success.
    pub(crate) fn enter(
        &self,
        memory: &Memory,
        arguments: u64,
        outputs: &Outputs,
    ) -> (Status, Vec<OwnedFd>) {
        let before: Vec<u64> =
            outputs.words.iter().map(|at| u64::from_ne_bytes(memory.read(*at))).collect();
        let status = Status((self.enter)(arguments));
        if status.0 < 0 {
            return (status, Vec::new());
        }
        for (at, before) in outputs.words.iter().zip(before) {
            let address = u64::from_ne_bytes(memory.read(*at));
            if address != before && address != 0 {
                let word = with_exposed_provenance_mut::<u64>(address as usize);
                // SAFETY: the call has returned the address of a word, whose object lives.
                unsafe { word.write_volatile(address & 0xFF) };
            }
        }
        let taken = outputs.descriptors.iter().map(|at| {
            let descriptor = u64::from_ne_bytes(memory.read(*at));
            // SAFETY: the call has returned a new descriptor, which belongs to the caller.
            unsafe { OwnedFd::from_raw_fd(descriptor as i32) }
        });
        (status, taken.collect())
    }
}

/// The arguments of D3DKMTShareObjects, which are no structure.
#[repr(C)]
#[derive(Clone, Copy)]
struct ShareObjects {
    count: u32,
    objects: u64,
    attributes: u64,
    access: u32,
    nt_handle: u64,
}

fn share_objects(arguments: u64) -> i32 {
    let from = with_exposed_provenance::<ShareObjects>(arguments as usize);
    let all = match arguments != 0 && arguments.is_multiple_of(8) {
        // SAFETY: as for the other calls.
        true => unsafe { from.read() },
        false => ShareObjects { count: 1, objects: 0, attributes: 0, access: 0, nt_handle: 0 },
    };
    let objects = with_exposed_provenance(all.objects as usize);
    let attributes = with_exposed_provenance::<c_void>(all.attributes as usize);
    let nt_handle = with_exposed_provenance_mut(all.nt_handle as usize);
    // SAFETY: as for the other calls.
    unsafe { exports::D3DKMTShareObjects(all.count, objects, attributes, all.access, nt_handle) }
}

/// Returns the first form of a call.
pub(crate) fn named(name: &str) -> &'static Call {
    CALLS.iter().find(|call| call.name == name).expect("the call is in the table")
}

macro_rules! calls {
    ($($name:ident($arguments:ident) = [$($field:expr),* $(,)?];)+) => {
        /// All calls, in the order of the library's list. Some have several forms.
        pub(crate) const CALLS: &[Call] = &[
            $(Call {
                name: stringify!($name),
                fields: &[$($field),*],
                layout: Layout::new::<args::$arguments>(),
                enter: |arguments| {
                    let arguments = with_exposed_provenance_mut(arguments as usize);
                    // SAFETY: the address is NULL, misaligned, or of a structure whose fields
                    // are as the header wants them; the addresses in it, too.
                    unsafe { exports::$name(arguments) }
                },
            },)+
            Call {
                name: "D3DKMTShareObjects",
                fields: &[
                    Count(0), List(0, &[Takes(Sync)]), At(ATTRIBUTES), OneOf(ACCESS), At(&[NewDescriptor]),
                ],
                layout: Layout::new::<ShareObjects>(),
                enter: share_objects,
            },
        ];
    };
}

/// SIGNAL_FLAGS: EnqueueCpuEvent, with which a value is an event.
const ENQUEUE: u32 = 1 << 1;
/// GENERIC_ALL, all rights of a fence, none, and one that there is not.
const ACCESS: &[u32] = &[0x1000_0000, 0x1F_0003, 0, 1, 2, 1 << 30];
/// LUID of the adapter.
const LUID_LOW: &[u32] = &[1, 0, 2];
const LUID_HIGH: &[u32] = &[0x7469_6465, 0];
/// OBJECT_ATTRIBUTES.
const ATTRIBUTES: &[Field] = &[Number, Wide, Name, Number, Wide, Wide];
/// Sizes of allocations: a control area, a ring, tiles, none, and more than there is.
const BYTES: &[u64] = &[1 << 12, 1 << 7, 1 << 16, 0, 1, 1 << 50, u64::MAX];
/// Kind and placement of an allocation.
const PLACEMENTS: &[u64] = &[0, 1, 1 << 32, 2 << 32, 1 | 1 << 32, 2, 3 << 32];
const ALLOCATION_DATA: &[Field] = &[OneOfWide(BYTES), OneOfWide(PLACEMENTS)];
const ALLOCATION_INFO: &[Field] =
    &[Makes(Allocation), OneOfWide(ZERO), At(ALLOCATION_DATA), OneOf(DATA_BYTES), Number, Flags];
const ALLOCATION_INFO_2: &[Field] = &[
    Makes(Allocation),
    // Memory of the caller would be replaced.
    OneOfWide(ZERO),
    At(ALLOCATION_DATA),
    OneOf(DATA_BYTES),
    Number,
    Flags,
    NewGpuAddress,
    Wide,
    Wide,
    Wide,
    Wide,
    Wide,
    Wide,
];
const OPEN_INFO: &[Field] = &[Makes(Allocation), Wide, Number];
const OPEN_INFO_2: &[Field] =
    &[Makes(Allocation), Wide, Number, NewGpuAddress, Wide, Wide, Wide, Wide, Wide, Wide];
const STANDARD_ALLOCATION: &[Field] = &[OneOf(&[1, 2]), OneOfWide(BYTES), Flags];
const STANDARD_BYTES: &[u32] = &[24, 0, 8];
const DATA_BYTES: &[u32] = &[16, 0, 15];
/// Mostly NULL.
const NOTHING: &[u64] = &[0, 4096];
const TWO_ADAPTERS: &[Field] = &[Makes(Adapter), Numbers(4), Makes(Adapter), Numbers(4)];
const QUERIES: &[u32] =
    &[3, 6, 8, 13, 15, 17, 18, 22, 24, 25, 30, 31, 34, 42, 49, 57, 65, 70, 75, 77, 80, 0, 99];
/// Multiples of a tile, and something else.
const TILES: &[u64] = &[1 << 16, 0, 1 << 17, 1 << 20, 1 << 12, 1 << 46, u64::MAX];
const PAGES: &[u64] = &[16, 0, 1, 32, u64::MAX >> 4];
const PROTECTIONS: &[u64] = &[1, 0, 8, 4, 3, 1 << 9];
const OPERATION: &[Field] = &[
    OneOf(&[0, 1, 2, 3]),
    Align,
    GpuAddress,
    OneOfWide(TILES),
    Takes(Allocation),
    Align,
    OneOfWide(TILES),
    Wide,
    Wide,
    Wide,
];
const NODES: &[u32] = &[2, 0, 1, 3, u32::MAX];
const SYNC_TYPES: &[u32] = &[5, 1, 2, 3, 6, 7, 0];
/// Breaks of the debugger, and types that there are not. The others reset the adapter for all
/// processes.
const DEBUG_CONTROLS: &[u32] = &[1, 2, 4, 6, 7, 9];
/// All of the data, without the end of its node, and too few for a type. No data forces a timeout.
const ESCAPE_BYTES: &[u32] = &[8, 7, 3];
const ZERO: &[u64] = &[0];
/// 0 and 1 us, and a time of the clock.
const TIMEOUTS: &[u64] = &[0, (-10_i64).cast_unsigned(), 1];

calls! {
    D3DKMTOpenAdapterFromLuid(OpenAdapterFromLuid) = [OneOf(LUID_LOW), OneOf(LUID_HIGH), Makes(Adapter)];
    D3DKMTEnumAdapters(EnumAdapters) = [Number, Makes(Adapter), Numbers(79)];
    D3DKMTEnumAdapters2(EnumAdapters2) = [OneOf(&[1, 0, 2]), At(TWO_ADAPTERS)];
    D3DKMTEnumAdapters3(EnumAdapters3) = [Wide, OneOf(&[1, 0, 2]), At(TWO_ADAPTERS)];
    D3DKMTCloseAdapter(CloseAdapter) = [Takes(Adapter)];
    D3DKMTQueryAdapterInfo(QueryAdapterInfo) = [Takes(Adapter), OneOf(QUERIES), Buffer, Size];
    D3DKMTQueryVideoMemoryInfo(QueryVideoMemoryInfo) = [
        OneOfWide(NOTHING), Takes(Adapter), OneOf(&[0, 1, 2]), Wide, Wide, Wide, Wide, OneOf(&[0, 1]),
    ];
    D3DKMTIsFeatureEnabled(IsFeatureEnabled) = [Takes(Adapter), Number, Number];
    D3DKMTQueryClockCalibration(QueryClockCalibration) = [
        Takes(Adapter), OneOf(NODES), OneOf(&[0, 1]), Numbers(7),
    ];
    D3DKMTEscape(Escape) = [
        Takes(Adapter), Takes(Device), OneOf(&[2, 0]), Flags, At(&[OneOf(DEBUG_CONTROLS), Number]),
        OneOf(ESCAPE_BYTES), Takes(Context),
    ];

    D3DKMTCreateDevice(CreateDevice) = [
        Takes(Adapter), Align, Flags, Makes(Device), Wide, Number, Wide, Number, Wide, Number,
    ];
    D3DKMTDestroyDevice(DestroyDevice) = [Takes(Device)];
    D3DKMTGetDeviceState(GetDeviceState) = [Takes(Device), OneOf(&[1, 2, 3, 4, 5, 6, 0]), Align, Numbers(12)];
    D3DKMTMarkDeviceAsError(MarkDeviceAsError) = [Takes(Device), OneOf(&[0, 1, 2, 3])];
    D3DKMTCreateContextVirtual(CreateContextVirtual) = [
        Takes(Device), OneOf(NODES), OneOf(&[0, 1, 2]), Flags, Wide, Number, Number, Makes(Context),
    ];
    D3DKMTDestroyContext(DestroyContext) = [Takes(Context)];
    D3DKMTSubmitCommand(SubmitCommand) = [
        GpuAddress, Number, Flags, Wide, OneOf(&[1, 0, 2, 65]), Handles(Context, 64), Align, Wide, Number,
        OneOf(&[0, 1, 17]), Handles(Allocation, 16), Number, Align, Wide,
    ];
    D3DKMTCreateHwContext(CreateHwContext) = [
        Takes(Device), OneOf(NODES), OneOf(&[0, 1, 2]), Flags, Number, Wide, Makes(HwContext),
    ];
    D3DKMTDestroyHwContext(DestroyHwContext) = [Takes(HwContext)];
    D3DKMTSetContextSchedulingPriority(SetContextSchedulingPriority) = [Takes(Context), Number];
    D3DKMTGetContextSchedulingPriority(SetContextSchedulingPriority) = [Takes(Context), Number];
    D3DKMTSetContextInProcessSchedulingPriority(SetContextInProcessSchedulingPriority) = [
        Takes(HwContext), Number,
    ];
    D3DKMTGetContextInProcessSchedulingPriority(SetContextInProcessSchedulingPriority) = [
        Takes(HwContext), Number,
    ];

    D3DKMTCreateHwQueue(CreateHwQueue) = [
        Takes(HwContext), Flags, Number, Wide, Makes(HwQueue), Makes(Sync), Wide, NewGpuAddress,
    ];
    D3DKMTDestroyHwQueue(DestroyHwQueue) = [Takes(HwQueue)];
    D3DKMTSubmitCommandToHwQueue(SubmitCommandToHwQueue) = [
        Takes(HwQueue), Wide, GpuAddress, Number, Number, Wide, OneOf(&[0, 1, 17]), Wide,
    ];
    D3DKMTSubmitWaitForSyncObjectsToHwQueue(SubmitWaitForSyncObjectsToHwQueue) = [
        Takes(HwQueue), Count(0), List(0, &[Takes(Sync)]), List(0, &[Wide]),
    ];
    D3DKMTSubmitSignalSyncObjectsToHwQueue(SubmitSignalSyncObjectsToHwQueue) = [
        Flags, Count(1), List(1, &[Takes(HwQueue)]), Count(0), List(0, &[Takes(Sync)]), List(0, &[Wide]),
    ];
    D3DKMTGetNativeFenceLogDetail(GetNativeFenceLogDetail) = [
        Takes(HwQueue), Flags, Number, Number, NewGpuAddress, NewGpuAddress, Numbers(16),
    ];

    D3DKMTCreateDoorbell(CreateDoorbell) = [
        Takes(HwQueue), Takes(Allocation), Takes(Allocation), Flags, Size, Buffer, NewWord, Wide, Wide, NewWord,
        Makes(Doorbell),
    ];
    D3DKMTConnectDoorbell(ConnectDoorbell) = [Takes(Doorbell), Flags];
    D3DKMTDestroyDoorbell(DestroyDoorbell) = [Takes(Doorbell)];
    D3DKMTNotifyWorkSubmission(NotifyWorkSubmission) = [Takes(Doorbell), Flags];

    D3DKMTCreateAllocation(CreateAllocation) = [
        Takes(Device), Makes(Resource), Makes(Global), Buffer, Size, At(STANDARD_ALLOCATION),
        OneOf(STANDARD_BYTES), Count(0),
        List(0, ALLOCATION_INFO), Flags, Wide,
    ];
    D3DKMTCreateAllocation2(CreateAllocation) = [
        Takes(Device), Makes(Resource), Makes(Global), Buffer, Size, At(STANDARD_ALLOCATION),
        OneOf(STANDARD_BYTES), Count(0),
        List(0, ALLOCATION_INFO_2), Flags, Wide,
    ];
    D3DKMTDestroyAllocation(DestroyAllocation) = [
        Takes(Device), OneOf(&[0]), List(0, &[Takes(Allocation)]), Count(0),
    ];
    D3DKMTDestroyAllocation2(DestroyAllocation2) = [
        Takes(Device), Takes(Resource), List(0, &[Takes(Allocation)]), Count(0), Flags,
    ];
    D3DKMTQueryResourceInfo(QueryResourceInfo) = [
        Takes(Device), Takes(Global), Buffer, Size, Number, Number, Number,
    ];
    D3DKMTQueryResourceInfoFromNtHandle(QueryResourceInfoFromNtHandle) = [
        Takes(Device), Descriptor, Buffer, Size, Number, Number, Number,
    ];
    D3DKMTOpenResource(OpenResource) = [
        Takes(Device), Takes(Global), Count(0), List(0, OPEN_INFO), Buffer, Size, Buffer, Size, Buffer, Size,
        Makes(Resource),
    ];
    D3DKMTOpenResource2(OpenResource) = [
        Takes(Device), Takes(Global), Count(0), List(0, OPEN_INFO_2), Buffer, Size, Buffer, Size, Buffer, Size,
        Makes(Resource),
    ];
    D3DKMTOpenResourceFromNtHandle(OpenResourceFromNtHandle) = [
        Takes(Device), Descriptor, Count(0), List(0, OPEN_INFO_2), Size, Buffer, Size, Buffer, Size, Buffer,
        Makes(Resource), Number, Wide, Number, Number,
    ];
    D3DKMTLock2(Lock2) = [Takes(Device), Takes(Allocation), Flags, NewWord];
    D3DKMTUnlock2(Unlock2) = [Takes(Device), Takes(Allocation)];
    D3DKMTCreatePagingQueue(CreatePagingQueue) = [
        Takes(Device), OneOf(&[0, 1, u32::MAX, 2]), Makes(PagingQueue), Makes(Sync), Wide, OneOf(&[0, 1]),
    ];
    D3DKMTDestroyPagingQueue(DestroyPagingQueue) = [Takes(PagingQueue)];
    D3DKMTMakeResident(MakeResident) = [
        Takes(PagingQueue), Count(0), List(0, &[Takes(Allocation)]), List(0, &[Number]), Flags, Wide, Wide,
    ];
    D3DKMTEvict(Evict) = [Takes(Device), Count(0), List(0, &[Takes(Allocation)]), Flags, Wide];
    D3DKMTSetAllocationPriority(SetAllocationPriority) = [
        Takes(Device), OneOf(&[0, 1]), List(0, &[Takes(Allocation)]), Count(0), List(0, &[Number]),
    ];
    // Of a resource, whose array has one element.
    D3DKMTSetAllocationPriority(SetAllocationPriority) = [
        Takes(Device), Takes(Resource), OneOfWide(ZERO), OneOf(&[0, 1]), At(&[Number]),
    ];
    D3DKMTGetAllocationPriority(GetAllocationPriority) = [
        Takes(Device), OneOf(&[0, 1]), List(0, &[Takes(Allocation)]), Count(0), List(0, &[Number]),
    ];
    // Of a resource, whose array has one element.
    D3DKMTGetAllocationPriority(GetAllocationPriority) = [
        Takes(Device), Takes(Resource), OneOfWide(ZERO), OneOf(&[0, 1]), At(&[Number]),
    ];
    D3DKMTQueryAllocationResidency(QueryAllocationResidency) = [
        Takes(Device), OneOf(&[0, 1]), List(0, &[Takes(Allocation)]), Count(0), List(0, &[Number]),
    ];
    // Of a resource, whose array has one element.
    D3DKMTQueryAllocationResidency(QueryAllocationResidency) = [
        Takes(Device), Takes(Resource), OneOfWide(ZERO), OneOf(&[0, 1]), At(&[Number]),
    ];

    D3DKMTReserveGpuVirtualAddress(ReserveGpuVirtualAddress) = [
        Takes(PagingQueue), OneOfWide(NOTHING), OneOfWide(NOTHING), OneOfWide(ZERO), OneOfWide(TILES), Number,
        Wide, NewGpuAddress, Wide,
    ];
    D3DKMTMapGpuVirtualAddress(MapGpuVirtualAddress) = [
        Takes(PagingQueue), GpuAddress, OneOfWide(NOTHING), OneOfWide(ZERO), Takes(Allocation),
        OneOfWide(PAGES), OneOfWide(PAGES), OneOfWide(PROTECTIONS), Wide, Number, Wide, NewGpuAddress, Wide,
    ];
    D3DKMTUpdateGpuVirtualAddress(UpdateGpuVirtualAddress) = [
        Takes(Device), Takes(Context), Takes(Sync), Count(0), List(0, OPERATION), Wide, Wide, Wide,
        OneOf(&[0, 1, 2]),
    ];
    D3DKMTFreeGpuVirtualAddress(FreeGpuVirtualAddress) = [Takes(Adapter), GpuAddress, OneOfWide(TILES)];

    D3DKMTCreateSynchronizationObject2(CreateSynchronizationObject2) = [
        Takes(Device), Align, OneOf(SYNC_TYPES), Flags, Wide, Wide, NewGpuAddress, Wide, Wide, Wide, Wide, Wide,
        Makes(Global), Align, Makes(Sync),
    ];
    // A CPU notification.
    D3DKMTCreateSynchronizationObject2(CreateSynchronizationObject2) = [
        Takes(Device), Align, OneOf(&[4]), Flags, Descriptor, Wide, Wide, Wide, Wide, Wide, Wide, Wide,
        Makes(Global), Align, Makes(Sync),
    ];
    D3DKMTCreateNativeFence(CreateNativeFence) = [
        Takes(Device), Makes(Sync), Numbers(16), Wide, OneOf(&[0, 1, 2]), OneOf(&[0, 1, 2]), Flags, Align, Wide,
        NewGpuAddress, NewGpuAddress, Numbers(8), Numbers(7), Align, Flags, Numbers(7),
    ];
    D3DKMTDestroySynchronizationObject(DestroySynchronizationObject) = [Takes(Sync)];
    // A wait that sets an event.
    D3DKMTWaitForSynchronizationObjectFromCpu(WaitForSynchronizationObjectFromCpu) = [
        Takes(Device), Count(0), List(0, &[Takes(Sync)]), List(0, &[Wide]), Event, OneOf(&[0, 1, 2]),
    ];
    // A wait in which the thread sleeps. Each fence has its value.
    D3DKMTWaitForSynchronizationObjectFromCpu(WaitForSynchronizationObjectFromCpu) = [
        Takes(Device), Count(0), List(0, &[Takes(Sync)]), List(0, &[OneOfWide(ZERO)]), OneOfWide(ZERO),
        OneOf(&[0, 1, 2]),
    ];
    D3DKMTSignalSynchronizationObjectFromCpu(SignalSynchronizationObjectFromCpu) = [
        Takes(Device), Count(0), List(0, &[Takes(Sync)]), List(0, &[Wide]), Flags,
    ];
    D3DKMTWaitForSynchronizationObjectFromGpu(WaitForSynchronizationObjectFromGpu) = [
        Takes(Context), Count(0), List(0, &[Takes(Sync)]), ListOrOdd(0), Wide, Wide, Wide, Wide, Wide, Wide, Wide,
    ];
    D3DKMTSignalSynchronizationObjectFromGpu(SignalSynchronizationObjectFromGpu) = [
        Takes(Context), Count(0), List(0, &[Takes(Sync)]), ListOrOdd(0), Wide, Wide, Wide, Wide, Wide, Wide, Wide,
    ];
    D3DKMTSignalSynchronizationObjectFromGpu2(SignalSynchronizationObjectFromGpu2) = [
        Count(0), List(0, &[Takes(Sync)]), FlagsWithout(ENQUEUE), Count(1), List(1, &[Takes(Context)]),
        ListOrOdd(0), Wide, Wide, Wide, Wide, Wide, Wide, Wide,
    ];
    D3DKMTSignalSynchronizationObjectFromGpu2(SignalSynchronizationObjectFromGpu2) = [
        Count(0), List(0, &[Takes(Sync)]), FlagsWith(ENQUEUE), Count(1), List(1, &[Takes(Context)]),
        Descriptor, Wide, Wide, Wide, Wide, Wide, Wide, Wide,
    ];

    D3DKMTCreateSynchronizationObject(CreateSynchronizationObject) = [
        Takes(Device), OneOf(&[1, 2, 3, 0]), Numbers(16), Makes(Sync),
    ];
    D3DKMTOpenSynchronizationObject(OpenSynchronizationObject) = [Takes(Global), Makes(Sync), Numbers(16)];
    D3DKMTWaitForSynchronizationObject(WaitForSynchronizationObject) = [
        Takes(Context), OneOf(&[1, 2, 0, 33]), Handles(Sync, 32),
    ];
    D3DKMTWaitForSynchronizationObject2(WaitForSynchronizationObject2) = [
        Takes(Context), OneOf(&[1, 2, 0, 33]), Handles(Sync, 32), Wide, Wide, Wide, Wide, Wide, Wide, Wide, Wide,
    ];
    D3DKMTSignalSynchronizationObject(SignalSynchronizationObject) = [
        Takes(Context), OneOf(&[1, 2, 0, 33]), Handles(Sync, 32), Flags,
    ];
    D3DKMTSignalSynchronizationObject2(SignalSynchronizationObject2) = [
        Takes(Context), OneOf(&[1, 0, 2, 33]), Handles(Sync, 32), Flags, OneOf(&[0, 1, 64, 65]),
        Handles(Context, 64), Align, Descriptor, Wide, Wide, Wide, Wide, Wide, Wide, Wide,
    ];

    D3DKMTOpenSyncObjectFromNtHandle(OpenSyncObjectFromNtHandle) = [Descriptor, Makes(Sync)];
    D3DKMTOpenSyncObjectFromNtHandle2(OpenSyncObjectFromNtHandle2) = [
        Descriptor, Takes(Device), Flags, Makes(Sync), Align, Wide, NewGpuAddress, Wide, Wide, Wide, Wide, Wide,
        Wide,
    ];
    D3DKMTOpenNativeFenceFromNtHandle(OpenNativeFenceFromNtHandle) = [
        Descriptor, Takes(Device), OneOf(&[0, 1, 2]), Flags, Makes(Sync), Wide, NewGpuAddress, NewGpuAddress,
        Numbers(8), Numbers(16), Numbers(8),
    ];
    D3DKMTOpenSyncObjectNtHandleFromName(OpenSyncObjectNtHandleFromName) = [
        OneOf(ACCESS), At(ATTRIBUTES), NewDescriptor,
    ];
    D3DKMTCreateKeyedMutex(CreateKeyedMutex) = [Wide, Makes(Global), Makes(KeyedMutex)];
    D3DKMTCreateKeyedMutex2(CreateKeyedMutex2) = [
        Wide, Makes(Global), Makes(KeyedMutex), Buffer, Size, Flags,
    ];
    D3DKMTOpenKeyedMutex(OpenKeyedMutex) = [Takes(Global), Makes(KeyedMutex)];
    D3DKMTOpenKeyedMutex2(OpenKeyedMutex2) = [Takes(Global), Makes(KeyedMutex), Buffer, Size];
    D3DKMTOpenKeyedMutexFromNtHandle(OpenKeyedMutexFromNtHandle) = [
        Descriptor, Makes(KeyedMutex), Align, Buffer, Size,
    ];
    D3DKMTDestroyKeyedMutex(DestroyKeyedMutex) = [Takes(KeyedMutex)];
    // An acquire without a timeout would wait for ever, so no mutex is acquired.
    D3DKMTAcquireKeyedMutex(AcquireKeyedMutex) = [
        Takes(Device), Align, Wide, At(&[OneOfWide(TIMEOUTS)]), Wide,
    ];
    D3DKMTAcquireKeyedMutex2(AcquireKeyedMutex2) = [
        Takes(Device), Align, Wide, At(&[OneOfWide(TIMEOUTS)]), Wide, Buffer, Size,
    ];
    D3DKMTReleaseKeyedMutex(ReleaseKeyedMutex) = [Takes(KeyedMutex), Align, Wide, Wide];
    D3DKMTReleaseKeyedMutex2(ReleaseKeyedMutex2) = [
        Takes(KeyedMutex), Align, Wide, Wide, Buffer, Size,
    ];
    D3DKMTOpenNtHandleFromName(OpenNtHandleFromName) = [OneOf(ACCESS), At(ATTRIBUTES), NewDescriptor];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::c_library::field::lay_out;
    use std::collections::BTreeSet;

    #[test]
    fn each_structure_is_as_long_as_the_library_s() {
        for call in CALLS {
            assert_eq!(lay_out(call.fields).1, call.layout.size(), "{}", call.name);
        }
        assert_eq!(lay_out(ALLOCATION_INFO).1, size_of::<args::AllocationInfo>());
        assert_eq!(lay_out(ALLOCATION_INFO_2).1, size_of::<args::AllocationInfo2>());
        assert_eq!(lay_out(OPEN_INFO).1, size_of::<args::OpenAllocationInfo>());
        assert_eq!(lay_out(OPEN_INFO_2).1, size_of::<args::OpenAllocationInfo2>());
        assert_eq!(lay_out(STANDARD_ALLOCATION).1, size_of::<args::CreateStandardAllocation>());
        assert_eq!(lay_out(TWO_ADAPTERS).1, 2 * size_of::<args::AdapterInfo>());
        assert_eq!(lay_out(ATTRIBUTES).1, size_of::<args::ObjectAttributes>());
        assert_eq!(lay_out(OPERATION).1, size_of::<args::UpdateGpuVirtualAddressOperation>());
    }

    #[test]
    fn each_supported_name_is_called() {
        let called: BTreeSet<&str> = CALLS.iter().map(|call| call.name).collect();
        let mut supported: BTreeSet<&str> = exports::SUPPORTED.iter().copied().collect();
        // It takes no argument, and ends the objects that the other calls are made with.
        assert!(supported.remove("D3DKMTCloseDxCoreDevice"));
        assert_eq!(called, supported);
    }
}
