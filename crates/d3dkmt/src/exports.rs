//! The exported names. Each is listed once, with the structure that it takes and the function that
//! carries it out. A name that the library does not support returns STATUS_NOT_SUPPORTED. One of
//! the rooms that may use `unsafe`, for the names themselves.
//!
//! Invariants: a structure is copied in once and copied out once. A panic becomes
//! STATUS_INTERNAL_ERROR.

#![allow(unsafe_code)]

use crate::call::Call;
use crate::caller::Caller;
use crate::library::{self, Library};
use crate::{
    adapter, device, doorbell, gpu_address, keyed_mutex, legacy, memory, queue, resource, sharing,
    sync,
};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tidegate_calls::Status;
use tidegate_wddm_abi::d3dkmthk as args;

/// What the system calls when the library is unloaded, by dlclose or at the end of the program.
// SAFETY: the section holds addresses of functions without arguments.
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

extern "C" fn end() {
    let _ = catch_unwind(library::end_process);
}

/// What a call returns besides an error.
trait Outcome {
    fn status(self) -> Status;
}

impl Outcome for () {
    fn status(self) -> Status {
        Status::SUCCESS
    }
}

impl Outcome for Status {
    fn status(self) -> Status {
        self
    }
}

/// Runs a call. A panic ends here.
fn enter<T: Outcome>(act: impl FnOnce() -> Result<T, Status>) -> i32 {
    let outcome = catch_unwind(AssertUnwindSafe(act)).unwrap_or(Err(Status::INTERNAL_ERROR));
    outcome.map_or_else(|refusal| refusal, Outcome::status).0
}

macro_rules! run {
    (reads, $call:ident, $arguments:ident, $carry_out:path) => {
        $carry_out(&$call, &$call.caller.read($arguments.expose_provenance() as u64)?)
    };
    (updates, $call:ident, $arguments:ident, $carry_out:path) => {{
        let address = $arguments.expose_provenance() as u64;
        let mut copy = $call.caller.read(address)?;
        let outcome = $carry_out(&$call, &mut copy);
        $call.caller.write(address, copy)?;
        outcome
    }};
}

macro_rules! calls {
    ($($access:ident $name:ident($arguments:ty) = $carry_out:path;)+) => {
        $(
            #[doc = concat!("`", stringify!($name), "` of the public header.")]
            ///
            /// # Safety
            /// The argument is NULL, or follows the header.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(arguments: *mut $arguments) -> i32 {
                enter(|| {
                    if arguments.is_null() {
                        return Err(Status::INVALID_PARAMETER);
                    }
                    // SAFETY: the caller of this function vouches for its argument.
                    let caller = unsafe { Caller::of_call() };
                    let call = Call { library: Library::get()?, caller };
                    run!($access, call, arguments, $carry_out)
                })
            }
        )+

        /// The names that are supported.
        pub const SUPPORTED: &[&str] =
            &[$(stringify!($name),)+ "D3DKMTShareObjects", "D3DKMTCloseDxCoreDevice"];
    };
}

calls! {
    updates D3DKMTEnumAdapters(args::EnumAdapters) = adapter::enum_adapters;
    updates D3DKMTEnumAdapters2(args::EnumAdapters2) = adapter::enum_adapters2;
    updates D3DKMTEnumAdapters3(args::EnumAdapters3) = adapter::enum_adapters3;
    updates D3DKMTOpenAdapterFromLuid(args::OpenAdapterFromLuid) = adapter::open_adapter_from_luid;
    reads D3DKMTCloseAdapter(args::CloseAdapter) = adapter::close_adapter;
    reads D3DKMTQueryAdapterInfo(args::QueryAdapterInfo) = adapter::query_adapter_info;
    updates D3DKMTQueryVideoMemoryInfo(args::QueryVideoMemoryInfo) = adapter::query_video_memory_info;
    updates D3DKMTIsFeatureEnabled(args::IsFeatureEnabled) = adapter::is_feature_enabled;
    updates D3DKMTQueryClockCalibration(args::QueryClockCalibration) = adapter::query_clock_calibration;
    reads D3DKMTEscape(args::Escape) = adapter::escape;

    updates D3DKMTCreateDevice(args::CreateDevice) = device::create_device;
    reads D3DKMTDestroyDevice(args::DestroyDevice) = device::destroy_device;
    updates D3DKMTGetDeviceState(args::GetDeviceState) = device::get_device_state;
    reads D3DKMTMarkDeviceAsError(args::MarkDeviceAsError) = device::mark_device_as_error;
    updates D3DKMTCreateContextVirtual(args::CreateContextVirtual) = device::create_context_virtual;
    reads D3DKMTDestroyContext(args::DestroyContext) = device::destroy_context;
    reads D3DKMTSubmitCommand(args::SubmitCommand) = device::submit_command;
    updates D3DKMTCreateHwContext(args::CreateHwContext) = device::create_hw_context;
    reads D3DKMTDestroyHwContext(args::DestroyHwContext) = device::destroy_hw_context;
    reads D3DKMTSetContextSchedulingPriority(args::SetContextSchedulingPriority)
        = device::set_context_scheduling_priority;
    updates D3DKMTGetContextSchedulingPriority(args::SetContextSchedulingPriority)
        = device::get_context_scheduling_priority;
    reads D3DKMTSetContextInProcessSchedulingPriority(args::SetContextInProcessSchedulingPriority)
        = device::set_context_in_process_scheduling_priority;
    updates D3DKMTGetContextInProcessSchedulingPriority(args::SetContextInProcessSchedulingPriority)
        = device::get_context_in_process_scheduling_priority;

    updates D3DKMTCreateHwQueue(args::CreateHwQueue) = queue::create_hw_queue;
    reads D3DKMTDestroyHwQueue(args::DestroyHwQueue) = queue::destroy_hw_queue;
    reads D3DKMTSubmitCommandToHwQueue(args::SubmitCommandToHwQueue)
        = queue::submit_command_to_hw_queue;
    reads D3DKMTSubmitWaitForSyncObjectsToHwQueue(args::SubmitWaitForSyncObjectsToHwQueue)
        = queue::submit_wait_to_hw_queue;
    reads D3DKMTSubmitSignalSyncObjectsToHwQueue(args::SubmitSignalSyncObjectsToHwQueue)
        = queue::submit_signal_to_hw_queues;
    updates D3DKMTGetNativeFenceLogDetail(args::GetNativeFenceLogDetail)
        = queue::get_native_fence_log_detail;

    updates D3DKMTCreateDoorbell(args::CreateDoorbell) = doorbell::create_doorbell;
    reads D3DKMTConnectDoorbell(args::ConnectDoorbell) = doorbell::connect_doorbell;
    reads D3DKMTDestroyDoorbell(args::DestroyDoorbell) = doorbell::destroy_doorbell;
    reads D3DKMTNotifyWorkSubmission(args::NotifyWorkSubmission) = doorbell::notify_work_submission;

    updates D3DKMTCreateAllocation(args::CreateAllocation) = memory::create_allocation;
    updates D3DKMTCreateAllocation2(args::CreateAllocation) = memory::create_allocation2;
    reads D3DKMTDestroyAllocation(args::DestroyAllocation) = memory::destroy_allocation;
    reads D3DKMTDestroyAllocation2(args::DestroyAllocation2) = memory::destroy_allocation2;
    updates D3DKMTQueryResourceInfo(args::QueryResourceInfo) = resource::query_resource_info;
    updates D3DKMTQueryResourceInfoFromNtHandle(args::QueryResourceInfoFromNtHandle)
        = resource::query_resource_info_from_nt_handle;
    updates D3DKMTOpenResource(args::OpenResource) = resource::open_resource;
    updates D3DKMTOpenResource2(args::OpenResource) = resource::open_resource2;
    updates D3DKMTOpenResourceFromNtHandle(args::OpenResourceFromNtHandle)
        = resource::open_resource_from_nt_handle;
    updates D3DKMTLock2(args::Lock2) = memory::lock2;
    reads D3DKMTUnlock2(args::Unlock2) = memory::unlock2;
    updates D3DKMTCreatePagingQueue(args::CreatePagingQueue) = memory::create_paging_queue;
    reads D3DKMTDestroyPagingQueue(args::DestroyPagingQueue) = memory::destroy_paging_queue;
    updates D3DKMTMakeResident(args::MakeResident) = memory::make_resident;
    updates D3DKMTEvict(args::Evict) = memory::evict;
    reads D3DKMTQueryAllocationResidency(args::QueryAllocationResidency)
        = memory::query_allocation_residency;
    reads D3DKMTSetAllocationPriority(args::SetAllocationPriority) = memory::set_allocation_priority;
    reads D3DKMTGetAllocationPriority(args::GetAllocationPriority) = memory::get_allocation_priority;

    updates D3DKMTReserveGpuVirtualAddress(args::ReserveGpuVirtualAddress) = gpu_address::reserve;
    updates D3DKMTMapGpuVirtualAddress(args::MapGpuVirtualAddress) = gpu_address::map;
    reads D3DKMTUpdateGpuVirtualAddress(args::UpdateGpuVirtualAddress) = gpu_address::update;
    reads D3DKMTFreeGpuVirtualAddress(args::FreeGpuVirtualAddress) = gpu_address::free;

    updates D3DKMTCreateSynchronizationObject2(args::CreateSynchronizationObject2)
        = sync::create_synchronization_object2;
    updates D3DKMTCreateNativeFence(args::CreateNativeFence) = sync::create_native_fence;
    reads D3DKMTDestroySynchronizationObject(args::DestroySynchronizationObject)
        = sync::destroy_synchronization_object;
    reads D3DKMTWaitForSynchronizationObjectFromCpu(args::WaitForSynchronizationObjectFromCpu)
        = sync::wait_from_cpu;
    reads D3DKMTSignalSynchronizationObjectFromCpu(args::SignalSynchronizationObjectFromCpu)
        = sync::signal_from_cpu;
    reads D3DKMTWaitForSynchronizationObjectFromGpu(args::WaitForSynchronizationObjectFromGpu)
        = sync::wait_from_gpu;
    reads D3DKMTSignalSynchronizationObjectFromGpu(args::SignalSynchronizationObjectFromGpu)
        = sync::signal_from_gpu;
    reads D3DKMTSignalSynchronizationObjectFromGpu2(args::SignalSynchronizationObjectFromGpu2)
        = sync::signal_from_gpu2;

    updates D3DKMTCreateSynchronizationObject(args::CreateSynchronizationObject)
        = legacy::create_synchronization_object;
    updates D3DKMTOpenSynchronizationObject(args::OpenSynchronizationObject)
        = legacy::open_synchronization_object;
    reads D3DKMTWaitForSynchronizationObject(args::WaitForSynchronizationObject)
        = legacy::wait_for_synchronization_object;
    reads D3DKMTWaitForSynchronizationObject2(args::WaitForSynchronizationObject2)
        = legacy::wait_for_synchronization_object2;
    reads D3DKMTSignalSynchronizationObject(args::SignalSynchronizationObject)
        = legacy::signal_synchronization_object;
    reads D3DKMTSignalSynchronizationObject2(args::SignalSynchronizationObject2)
        = legacy::signal_synchronization_object2;

    updates D3DKMTOpenSyncObjectFromNtHandle(args::OpenSyncObjectFromNtHandle)
        = sharing::open_sync_object_from_nt_handle;
    updates D3DKMTOpenSyncObjectFromNtHandle2(args::OpenSyncObjectFromNtHandle2)
        = sharing::open_sync_object_from_nt_handle2;
    updates D3DKMTOpenNativeFenceFromNtHandle(args::OpenNativeFenceFromNtHandle)
        = sharing::open_native_fence_from_nt_handle;
    updates D3DKMTOpenSyncObjectNtHandleFromName(args::OpenSyncObjectNtHandleFromName)
        = sharing::open_sync_object_nt_handle_from_name;
    updates D3DKMTCreateKeyedMutex(args::CreateKeyedMutex) = keyed_mutex::create_keyed_mutex;
    updates D3DKMTCreateKeyedMutex2(args::CreateKeyedMutex2) = keyed_mutex::create_keyed_mutex2;
    updates D3DKMTOpenKeyedMutex(args::OpenKeyedMutex) = keyed_mutex::open_keyed_mutex;
    updates D3DKMTOpenKeyedMutex2(args::OpenKeyedMutex2) = keyed_mutex::open_keyed_mutex2;
    updates D3DKMTOpenKeyedMutexFromNtHandle(args::OpenKeyedMutexFromNtHandle)
        = keyed_mutex::open_keyed_mutex_from_nt_handle;
    reads D3DKMTDestroyKeyedMutex(args::DestroyKeyedMutex) = keyed_mutex::destroy_keyed_mutex;
    updates D3DKMTAcquireKeyedMutex(args::AcquireKeyedMutex) = keyed_mutex::acquire_keyed_mutex;
    updates D3DKMTAcquireKeyedMutex2(args::AcquireKeyedMutex2) = keyed_mutex::acquire_keyed_mutex2;
    reads D3DKMTReleaseKeyedMutex(args::ReleaseKeyedMutex) = keyed_mutex::release_keyed_mutex;
    reads D3DKMTReleaseKeyedMutex2(args::ReleaseKeyedMutex2) = keyed_mutex::release_keyed_mutex2;

    updates D3DKMTOpenNtHandleFromName(args::OpenNtHandleFromName) = sharing::open_nt_handle_from_name;
}

/// `D3DKMTShareObjects` of the public header. The NT handle is a descriptor that closes on exec.
///
/// # Safety
/// The arguments are NULL, or follow the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn D3DKMTShareObjects(
    count: u32,
    objects: *const u32,
    attributes: *const c_void,
    access: u32,
    nt_handle: *mut u64,
) -> i32 {
    enter(|| {
        // SAFETY: the caller of this function vouches for its arguments.
        let call = Call { library: Library::get()?, caller: unsafe { Caller::of_call() } };
        let objects = (objects.expose_provenance() as u64, count);
        let attributes = attributes.expose_provenance() as u64;
        let nt_handle = nt_handle.expose_provenance() as u64;
        sharing::share_objects(&call, objects, attributes, access, nt_handle)
    })
}

/// `D3DKMTCloseDxCoreDevice` of the public library libdxg: ends the objects of this process, and
/// its connection to the kernel. A later call that enumerates or opens adapters connects anew.
#[unsafe(no_mangle)]
pub extern "C" fn D3DKMTCloseDxCoreDevice() {
    enter(|| {
        if let Some(library) = Library::started() {
            library.close();
        }
        Ok(())
    });
}

macro_rules! unsupported {
    ($($name:ident)+) => {
        $(
            #[doc = concat!("`", stringify!($name), "` of the public header: STATUS_NOT_SUPPORTED.")]
            #[unsafe(no_mangle)]
            pub extern "C" fn $name() -> i32 {
                Status::NOT_SUPPORTED.0
            }
        )+

        /// The names that return STATUS_NOT_SUPPORTED.
        pub const UNSUPPORTED: &[&str] = &[$(stringify!($name),)+];
    };
}

unsupported! {
    D3DKMTAdjustFullscreenGamma
    D3DKMTBeginTrackedWorkload
    D3DKMTCancelPresents
    D3DKMTChangeSurfacePointer
    D3DKMTChangeVideoMemoryReservation
    D3DKMTCheckExclusiveOwnership
    D3DKMTCheckMonitorPowerState
    D3DKMTCheckMultiPlaneOverlaySupport
    D3DKMTCheckMultiPlaneOverlaySupport2
    D3DKMTCheckMultiPlaneOverlaySupport3
    D3DKMTCheckOcclusion
    D3DKMTCheckSharedResourceAccess
    D3DKMTCheckVidPnExclusiveOwnership
    D3DKMTConfigureSharedResource
    D3DKMTCreateBundleObject
    D3DKMTCreateContext
    D3DKMTCreateDCFromMemory
    D3DKMTCreateOutputDupl
    D3DKMTCreateOverlay
    D3DKMTCreateProtectedSession
    D3DKMTCreateSyncFile
    D3DKMTCreateTrackedWorkload
    D3DKMTDestroyDCFromMemory
    D3DKMTDestroyOutputDupl
    D3DKMTDestroyOverlay
    D3DKMTDestroyProtectedSession
    D3DKMTDestroyTrackedWorkload
    D3DKMTEndTrackedWorkload
    D3DKMTEnumProcesses
    D3DKMTExtractBundleObject
    D3DKMTFlipOverlay
    D3DKMTFlushHeapTransitions
    D3DKMTGetAvailableTrackedWorkloadIndex
    D3DKMTGetDWMVerticalBlankEvent
    D3DKMTGetDisplayModeList
    D3DKMTGetMultiPlaneOverlayCaps
    D3DKMTGetMultisampleMethodList
    D3DKMTGetOverlayState
    D3DKMTGetPostCompositionCaps
    D3DKMTGetPresentHistory
    D3DKMTGetPresentQueueEvent
    D3DKMTGetProcessDeviceRemovalSupport
    D3DKMTGetProcessSchedulingPriorityClass
    D3DKMTGetResourcePresentPrivateDriverData
    D3DKMTGetRuntimeData
    D3DKMTGetScanLine
    D3DKMTGetSharedPrimaryHandle
    D3DKMTGetSharedResourceAdapterLuid
    D3DKMTGetTrackedWorkloadStatistics
    D3DKMTInvalidateActiveVidPn
    D3DKMTInvalidateCache
    D3DKMTLock
    D3DKMTOfferAllocations
    D3DKMTOpenAdapterFromDeviceName
    D3DKMTOpenAdapterFromGdiDisplayName
    D3DKMTOpenAdapterFromHdc
    D3DKMTOpenProtectedSessionFromNtHandle
    D3DKMTOpenSyncObjectFromSyncFile
    D3DKMTOutputDuplGetFrameInfo
    D3DKMTOutputDuplGetMetaData
    D3DKMTOutputDuplGetPointerShapeData
    D3DKMTOutputDuplPresent
    D3DKMTOutputDuplPresentToHwQueue
    D3DKMTOutputDuplReleaseFrame
    D3DKMTPinDirectFlipResources
    D3DKMTPinResources
    D3DKMTPollDisplayChildren
    D3DKMTPresent
    D3DKMTPresentMultiPlaneOverlay
    D3DKMTPresentMultiPlaneOverlay2
    D3DKMTPresentMultiPlaneOverlay3
    D3DKMTPresentRedirected
    D3DKMTQueryFSEBlock
    D3DKMTQueryFeatureInterface
    D3DKMTQueryFeatureSupport
    D3DKMTQueryHybridListValue
    D3DKMTQueryProcessOfferInfo
    D3DKMTQueryProtectedSessionInfoFromNtHandle
    D3DKMTQueryProtectedSessionStatus
    D3DKMTQueryRemoteVidPnSourceFromGdiDisplayName
    D3DKMTQueryStatistics
    D3DKMTQueryVidPnExclusiveOwnership
    D3DKMTReclaimAllocations
    D3DKMTReclaimAllocations2
    D3DKMTRegisterBudgetChangeNotification
    D3DKMTRegisterTrimNotification
    D3DKMTRegisterVailProcess
    D3DKMTReleaseProcessVidPnSourceOwners
    D3DKMTRender
    D3DKMTResetTrackedWorkload
    D3DKMTSetDisplayMode
    D3DKMTSetDisplayPrivateDriverFormat
    D3DKMTSetFSEBlock
    D3DKMTSetGammaRamp
    D3DKMTSetHwProtectionTeardownRecovery
    D3DKMTSetMonitorColorSpaceTransform
    D3DKMTSetProcessSchedulingPriorityClass
    D3DKMTSetQueuedLimit
    D3DKMTSetStablePowerState
    D3DKMTSetStereoEnabled
    D3DKMTSetSyncRefreshCountWaitTarget
    D3DKMTSetVidPnSourceHwProtection
    D3DKMTSetVidPnSourceOwner
    D3DKMTSetVidPnSourceOwner1
    D3DKMTSetVidPnSourceOwner2
    D3DKMTShareObjectWithHost
    D3DKMTSharedPrimaryLockNotification
    D3DKMTSharedPrimaryUnLockNotification
    D3DKMTSubmitPresentBltToHwQueue
    D3DKMTSubmitPresentToHwQueue
    D3DKMTTrimProcessCommitment
    D3DKMTUnlock
    D3DKMTUnpinDirectFlipResources
    D3DKMTUnpinResources
    D3DKMTUnregisterBudgetChangeNotification
    D3DKMTUnregisterTrimNotification
    D3DKMTUpdateAllocationProperty
    D3DKMTUpdateOverlay
    D3DKMTWaitForIdle
    D3DKMTWaitForVerticalBlankEvent
    D3DKMTWaitForVerticalBlankEvent2
    D3DKMTWaitSyncFile
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! attributes {
        ([]
            local { $($(#[$local_meta:meta])* $Local:ident fn $local:ident($($local_arg:tt)*)
                -> $local_out:ty;)* }
            sent { $($(#[$meta:meta])* $Name:ident $how:ident fn $f:ident($($arg:tt)*)
                -> $out:ty;)* }
        ) => {
            [$($(stringify!($local_meta),)*)* $($(stringify!($meta),)*)*]
        };
    }

    #[test]
    fn each_published_name_of_the_table_of_calls_is_exported() {
        let attributes = tidegate_calls::for_each_call!(attributes! {});
        let names = attributes.iter().filter_map(|attribute| {
            let name = attribute.strip_prefix("doc(alias = \"")?.strip_suffix("\")")?;
            name.strip_prefix("D3DKMT").filter(|rest| !rest.starts_with('_')).map(|_| name)
        });
        let names: Vec<_> = names.collect();
        assert!(names.len() > 50, "{names:?}");
        let exported = |name: &&str| SUPPORTED.contains(name) || UNSUPPORTED.contains(name);
        assert_eq!(names.into_iter().find(|name| !exported(name)), None);
    }
}
