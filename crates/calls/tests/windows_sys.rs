//! Compares the numbers of the call surface with the public bindings of the same headers. The C
//! structures are compared in `wddm-abi`.

use tidegate_calls::{DoorbellStatus, PagingPriority, SegmentGroup, Status};
use windows_sys::Wdk::Graphics::Direct3D as wdk;
use windows_sys::Win32::Foundation as win32;

#[test]
fn doorbell_statuses_agree() {
    let statuses = [
        (DoorbellStatus::Connected, wdk::D3DDDI_DOORBELLSTATUS_CONNECTED),
        (DoorbellStatus::ConnectedNotify, wdk::D3DDDI_DOORBELLSTATUS_CONNECTED_NOTIFY_KMD),
        (DoorbellStatus::DisconnectedRetry, wdk::D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY),
        (DoorbellStatus::DisconnectedAbort, wdk::D3DDDI_DOORBELLSTATUS_DISCONNECTED_ABORT),
    ];
    for (ours, theirs) in statuses {
        assert_eq!(ours as i32, theirs);
    }
}

#[test]
fn paging_numbers_agree() {
    assert_eq!(wdk::D3DDDI_PAGINGQUEUE_PRIORITY_BELOW_NORMAL, PagingPriority::BelowNormal as i32);
    assert_eq!(wdk::D3DKMT_MEMORY_SEGMENT_GROUP_NON_LOCAL, SegmentGroup::NonLocal as i32);
}

#[test]
fn statuses_agree() {
    let statuses = [
        (Status::TIMEOUT, win32::STATUS_TIMEOUT),
        (Status::PENDING, win32::STATUS_PENDING),
        (Status::INVALID_HANDLE, win32::STATUS_INVALID_HANDLE),
        (Status::INVALID_PARAMETER, win32::STATUS_INVALID_PARAMETER),
        (Status::NO_MEMORY, win32::STATUS_NO_MEMORY),
        (Status::ACCESS_DENIED, win32::STATUS_ACCESS_DENIED),
        (Status::BUFFER_TOO_SMALL, win32::STATUS_BUFFER_TOO_SMALL),
        (Status::OBJECT_TYPE_MISMATCH, win32::STATUS_OBJECT_TYPE_MISMATCH),
        (Status::PRIVILEGE_NOT_HELD, win32::STATUS_PRIVILEGE_NOT_HELD),
        (Status::INSUFFICIENT_RESOURCES, win32::STATUS_INSUFFICIENT_RESOURCES),
        (Status::NOT_SUPPORTED, win32::STATUS_NOT_SUPPORTED),
        (Status::DEVICE_REMOVED, win32::STATUS_DEVICE_REMOVED),
        (Status::CANCELLED, win32::STATUS_CANCELLED),
        (Status::DEVICE_HUNG, win32::STATUS_DEVICE_HUNG),
        (Status::GRAPHICS_INSUFFICIENT_DMA_BUFFER, win32::STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER),
        (Status::GRAPHICS_ADAPTER_WAS_RESET, win32::STATUS_GRAPHICS_ADAPTER_WAS_RESET),
        (Status::GRAPHICS_ALLOCATION_BUSY, win32::STATUS_GRAPHICS_ALLOCATION_BUSY),
        (Status::GRAPHICS_TOO_MANY_REFERENCES, win32::STATUS_GRAPHICS_TOO_MANY_REFERENCES),
        (Status::GRAPHICS_TRY_AGAIN_LATER, win32::STATUS_GRAPHICS_TRY_AGAIN_LATER),
    ];
    for (ours, theirs) in statuses {
        assert_eq!(ours.0, theirs, "{ours:?}");
    }
}
