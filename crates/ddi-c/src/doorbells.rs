//! Doorbells: the rows of the DDI of WDDM 3.1.
//!
//! - A ring and its control area are allocations of the driver. Their private data has the address
//!   in the process and the size, as a user-mode driver passes them (`docs/hardware.md`).
//! - A driver returns the address at which it has mapped the page of a doorbell. The page itself is
//!   the device's.

use crate::CDriver;
use crate::address::address_of_first;
use crate::pci::DOORBELLS;
use crate::rule::Rule;
use std::sync::Arc;
use tidegate_ddi::doorbell::{ConnectDoorbellFlags, ConnectedDoorbell, CreateDoorbell};
use tidegate_ddi::{
    DoorbellStatus, DriverHandle, NoHint, Passive, RingHint, Status, UserModeSubmissionCaps,
    UserModeSubmissionDdi,
};
use tidegate_gpu_abi::{QueueId, SummaryHint};
use tidegate_platform::Page;
use tidegate_wddm_abi::d3dkmddi;

/// Bytes from the doorbell of one queue to the next.
const DOORBELL_STRIDE: u64 = 4096;

/// Returns the queue whose doorbell a driver sees at an address.
fn queue_at(address: u64) -> Option<QueueId> {
    let offset = DOORBELLS.offset_of(address)?;
    let number = offset.is_multiple_of(DOORBELL_STRIDE).then_some(offset / DOORBELL_STRIDE)?;
    u32::try_from(number).ok().map(QueueId)
}

impl CDriver {
    // spec: UMS-067
    fn add_doorbell(&self, args: &mut CreateDoorbell) -> Result<DriverHandle, Status> {
        let ring = self.add_words(args.ring.ring_gpu_va, args.ring.ring.len())?;
        let control_bytes = 8 * args.ring.control.len() as u64;
        let control = self.add_words(args.ring.control_gpu_va, control_bytes);
        let control = control.inspect_err(|_| self.remove_allocations(&[ring]))?;
        let mut c = d3dkmddi::CreateDoorbell {
            hw_queue: args.hw_queue.0,
            doorbell: args.os_handle.0,
            private_driver_data_size: args.private_data.len() as u32,
            private_driver_data: address_of_first(&mut args.private_data),
            ring_buffer: ring,
            ring_buffer_control: control,
            flags: args.flags.bits(),
        };
        let created = self.call("DxgkDdiCreateDoorbell", |e| e.create_doorbell(&mut c));
        created.inspect_err(|_| self.remove_allocations(&[ring, control]))?;
        self.objects.lock().rings.insert(c.doorbell, [ring, control]);
        Ok(DriverHandle(c.doorbell))
    }

    fn connect(
        &self,
        doorbell: DriverHandle,
        flags: ConnectDoorbellFlags,
    ) -> Result<ConnectedDoorbell, Status> {
        let mut c = d3dkmddi::ConnectDoorbell {
            doorbell: doorbell.0,
            flags: flags.bits(),
            status: DoorbellStatus::Connected as u32,
            ..d3dkmddi::ConnectDoorbell::ZERO
        };
        self.call("DxgkDdiConnectDoorbell", |e| e.connect_doorbell(&mut c))?;
        self.connected(&c, flags).ok_or_else(|| {
            self.host().violation(
                Rule::Answer,
                format!(
                    "DxgkDdiConnectDoorbell returned KernelCpuVirtualAddress {:#x} and Status {}: \
                     no doorbell is connected there",
                    c.kernel_cpu_va, c.status
                ),
            );
            Status::INVALID_PARAMETER
        })
    }

    fn connected(
        &self,
        c: &d3dkmddi::ConnectDoorbell,
        flags: ConnectDoorbellFlags,
    ) -> Option<ConnectedDoorbell> {
        const CONNECTED: u32 = DoorbellStatus::Connected as u32;
        const NOTIFY: u32 = DoorbellStatus::ConnectedNotify as u32;
        let device = &self.host().hardware.device;
        let queue = queue_at(c.kernel_cpu_va)?;
        let (page, summary, bit) = device.doorbell_page(queue)?;
        let second = |needed: bool| -> Option<Option<Page>> {
            let page = queue_at(c.secondary_kernel_cpu_va)
                .and_then(|queue| device.secondary_doorbell_page(queue));
            (page.is_some() || !needed).then_some(page)
        };
        let secondary = second(flags.contains(ConnectDoorbellFlags::REQUIRE_SECONDARY_ADDRESS))?;
        let (status, hint): (DoorbellStatus, Arc<dyn RingHint>) = match c.status {
            CONNECTED => {
                let (ringer, device) = (summary.ringer(bit), Arc::clone(device));
                (DoorbellStatus::Connected, Arc::new(SummaryHint { ringer, device, queue }))
            }
            NOTIFY => (DoorbellStatus::ConnectedNotify, Arc::new(NoHint)),
            _ => return None,
        };
        Some(ConnectedDoorbell { page, secondary, value_base: 0, status, hint })
    }
}

impl UserModeSubmissionDdi for CDriver {
    fn query_user_mode_submission_caps(&self, _level: &Passive) -> UserModeSubmissionCaps {
        self.user_mode_submission_caps()
    }

    fn create_doorbell(
        &self,
        _level: &Passive,
        args: &mut CreateDoorbell,
    ) -> Result<DriverHandle, Status> {
        self.add_doorbell(args)
    }

    fn connect_doorbell(
        &self,
        _level: &Passive,
        doorbell: DriverHandle,
        flags: ConnectDoorbellFlags,
    ) -> Result<ConnectedDoorbell, Status> {
        self.connect(doorbell, flags)
    }

    fn disconnect_doorbell(&self, _level: &Passive, doorbell: DriverHandle) {
        let mut c = d3dkmddi::DisconnectDoorbell { doorbell: doorbell.0, flags: 0 };
        self.must("DxgkDdiDisconnectDoorbell", |e| e.disconnect_doorbell(&mut c));
    }

    fn destroy_doorbell(&self, _level: &Passive, doorbell: DriverHandle) {
        let mut c = d3dkmddi::DestroyDoorbell { doorbell: doorbell.0 };
        self.must("DxgkDdiDestroyDoorbell", |e| e.destroy_doorbell(&mut c));
        let rings = self.objects.lock().rings.remove(&doorbell.0);
        rings.into_iter().for_each(|rings| self.remove_allocations(&rings));
    }

    fn notify_work_submission(&self, _level: &Passive, hw_queue: DriverHandle) {
        let mut c = d3dkmddi::NotifyWorkSubmission { hw_queue: hw_queue.0, flags: 0 };
        self.must("DxgkDdiNotifyWorkSubmission", |e| e.notify_work_submission(&mut c));
    }
}
