//! Allocations of processes as objects of the driver: what it refuses.

use std::cell::RefCell;
use tidegate_ddi::allocation::{CloseAllocation, CreateAllocation, OpenAllocation};
use tidegate_ddi::memory::PagingBuffer;
use tidegate_ddi::patch::{Render, RenderAllocation};
use tidegate_ddi::{AllocationDdi, PatchDdi};
use tidegate_kmd::Config;
use tidegate_testbed::prelude::driver::*;

const BYTES: u64 = 0x2000;

fn machine() -> Machine {
    Machine::with(Config { opens_allocations: true, dma_patching: true, ..Config::standard() })
}

fn create(machine: &Machine, bytes: u64) -> Result<DriverHandle, Status> {
    machine.driver.create_allocation(&machine.passive(), CreateAllocation { bytes })
}

fn open(machine: &Machine, device: DriverHandle, allocation: DriverHandle) -> DriverHandle {
    let args = OpenAllocation {
        device,
        os_handle: OsHandle(0xA0),
        allocation,
        bytes: BYTES,
        create: true,
    };
    machine.driver.open_allocation(&machine.passive(), args).unwrap()
}

/// Closes an allocation for a device. Returns the entry that the driver blames, if any.
fn close(machine: &Machine, device: DriverHandle, opened: DriverHandle) -> Option<&'static str> {
    let args = CloseAllocation { device, os_handle: OsHandle(0xA0), opened };
    machine.driver.close_allocation(&machine.passive(), args);
    machine.driver.violations().last().map(|violation| violation.ddi)
}

#[test]
fn an_allocation_has_bytes() {
    let machine = machine();
    assert_eq!(create(&machine, 0), Err(Status::INVALID_PARAMETER));
    assert!(create(&machine, 1).is_ok());
}

#[test]
fn a_device_closes_what_it_has_opened() {
    let machine = machine();
    let [mine, other] = [5, 6].map(|space| machine.device_for(space));
    let allocation = create(&machine, BYTES).unwrap();
    let [first, second] = [mine, other].map(|device| open(&machine, device, allocation));
    assert_eq!(close(&machine, mine, first), None);
    assert_eq!(close(&machine, mine, second), Some("DxgkDdiCloseAllocation"));
}

#[test]
fn an_allocation_is_destroyed_when_no_device_has_it_open() {
    let machine = machine();
    let device = machine.device_for(5);
    let allocation = create(&machine, BYTES).unwrap();
    let opened = open(&machine, device, allocation);
    machine.driver.destroy_allocation(&machine.passive(), allocation);
    assert_eq!(machine.driver.violations()[0].ddi, "DxgkDdiDestroyAllocation");

    let allocation = create(&machine, BYTES).unwrap();
    machine.driver.destroy_allocation(&machine.passive(), allocation);
    assert_eq!(machine.driver.violations().len(), 1);
    assert_ne!(opened, allocation);
}

#[test]
fn a_list_names_open_allocations_and_their_sizes() {
    let machine = machine();
    let device = machine.device_for(5);
    let context = machine.context(device, 0, false);
    let opened = open(&machine, device, create(&machine, BYTES).unwrap());
    let buffer = PagingBuffer::new(machine.platform.bulk(64));
    let render = |listed: RenderAllocation| {
        let args = Render {
            context,
            commands: &[],
            allocations: &[listed],
            dma_buffer: &buffer,
            private_data: &RefCell::new(None),
        };
        machine.driver.render(&machine.passive(), args).map(|_| ())
    };
    let listed =
        RenderAllocation { gpu_va: 0x1_0000, bytes: BYTES, write: true, opened: Some(opened) };
    assert_eq!(render(listed), Ok(()));
    let refused = Err(Status::INVALID_PARAMETER);
    assert_eq!(render(RenderAllocation { opened: None, ..listed }), refused);
    assert_eq!(render(RenderAllocation { bytes: 2 * BYTES, ..listed }), refused);
}
