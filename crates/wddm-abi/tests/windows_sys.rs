//! Compares constants with the public bindings, and the structures whose bindings are of an older
//! draft. The other structures are compared where `public!` defines them.

use std::mem::offset_of;
use tidegate_wddm_abi::d3dkmthk::*;
use tidegate_wddm_abi::d3dukmdt::*;
use windows_sys::Wdk::Graphics::Direct3D as wdk;

/// The bindings call the doorbell's handle `hHwQueue`. Sizes and offsets are today's.
#[test]
fn doorbell_arguments_agree() {
    assert_eq!(size_of::<ConnectDoorbell>(), size_of::<wdk::D3DKMT_CONNECT_DOORBELL>());
    assert_eq!(size_of::<DestroyDoorbell>(), size_of::<wdk::D3DKMT_DESTROY_DOORBELL>());
    assert_eq!(size_of::<NotifyWorkSubmission>(), size_of::<wdk::D3DKMT_NOTIFY_WORK_SUBMISSION>());
    let flags = offset_of!(wdk::D3DKMT_CONNECT_DOORBELL, Flags);
    assert_eq!(offset_of!(ConnectDoorbell, flags), flags);
    let flags = offset_of!(wdk::D3DKMT_NOTIFY_WORK_SUBMISSION, Flags);
    assert_eq!(offset_of!(NotifyWorkSubmission, flags), flags);
}

#[test]
fn numbers_agree() {
    use SynchronizationObjectType as Type;
    let numbers = [
        (Type::SynchronizationMutex as i32, wdk::D3DDDI_SYNCHRONIZATION_MUTEX),
        (Type::Semaphore as i32, wdk::D3DDDI_SEMAPHORE),
        (Type::Fence as i32, wdk::D3DDDI_FENCE),
        (Type::CpuNotification as i32, wdk::D3DDDI_CPU_NOTIFICATION),
        (Type::MonitoredFence as i32, wdk::D3DDDI_MONITORED_FENCE),
        (Type::PeriodicMonitoredFence as i32, wdk::D3DDDI_PERIODIC_MONITORED_FENCE),
        (DeviceStateType::Execution as i32, wdk::D3DKMT_DEVICESTATE_EXECUTION),
        (DeviceStateType::Reset as i32, wdk::D3DKMT_DEVICESTATE_RESET),
        (DeviceStateType::PageFault as i32, wdk::D3DKMT_DEVICESTATE_PAGE_FAULT),
        (DeviceStateType::PresentQueue as i32, wdk::D3DKMT_DEVICESTATE_PRESENT_QUEUE),
        (WDDM_3_1_CAPS_QUERY as i32, wdk::KMTQAITYPE_WDDM_3_1_CAPS),
    ];
    for (ours, theirs) in numbers {
        assert_eq!(ours, theirs);
    }
    let limits = [
        (SyncObjectAccess::WAIT.bits() as usize, wdk::D3DDDI_SYNC_OBJECT_WAIT),
        (SyncObjectAccess::SIGNAL.bits() as usize, wdk::D3DDDI_SYNC_OBJECT_SIGNAL),
        (MAX_BROADCAST_CONTEXTS, wdk::D3DDDI_MAX_BROADCAST_CONTEXT),
        (MAX_OBJECTS_WAITED_ON, wdk::D3DDDI_MAX_OBJECT_WAITED_ON),
        (MAX_OBJECTS_SIGNALED, wdk::D3DDDI_MAX_OBJECT_SIGNALED),
        (MAX_OBJECTS_PER_HANDLE, wdk::D3DKMT_MAX_OBJECTS_PER_HANDLE),
        (MAX_WRITTEN_PRIMARIES, wdk::D3DDDI_MAX_WRITTEN_PRIMARIES),
        (DOORBELL_PRIVATE_DATA_BYTES, wdk::D3DDDI_DOORBELL_PRIVATEDATA_MAX_BYTES_WDDM3_1),
    ];
    for (ours, theirs) in limits {
        assert_eq!(ours as u32, theirs);
    }
}
