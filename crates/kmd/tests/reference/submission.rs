//! Packets on node rings and on kernel-mode hardware queues, and the mailbox below them.

use tidegate_gpu_abi::CONTROL_READ_WORD;
use tidegate_testbed::prelude::driver::*;

/// A ring as the GPU finds it.
struct Ring {
    memory: PhysicalMemory,
    bytes: PhysicalAddress,
    control: PhysicalAddress,
    slots: u64,
}

impl Ring {
    fn of(machine: &Machine, command: &AdminCommand) -> Ring {
        let AdminCommand::CreateQueue { shape, .. } = *command else { panic!("{command:?}") };
        Ring {
            memory: machine.system.clone(),
            bytes: PhysicalAddress(shape.ring.0),
            control: PhysicalAddress(shape.control.0),
            slots: shape.slots,
        }
    }

    fn slot(&self, number: u64) -> RingPacket {
        let Some(Target::Bulk(bytes, 0)) = self.memory.resolve(self.bytes) else {
            panic!("no ring on the bus")
        };
        let mut slot = [0; SLOT_BYTES as usize];
        bytes.read(number % self.slots * SLOT_BYTES, &mut slot).unwrap();
        RingPacket::decode(&slot).unwrap()
    }

    fn word(&self, word: usize) -> tidegate_platform::Word {
        let Some(Target::Protocol(page, 0)) = self.memory.resolve(self.control) else {
            panic!("no control area")
        };
        page.word(word)
    }

    fn is_on_the_bus(&self) -> bool {
        self.memory.resolve(self.bytes).is_some() || self.memory.resolve(self.control).is_some()
    }
}

fn started(config: Config) -> (Machine, Vec<AdminCommand>) {
    let machine = Machine::cold(&Platform::host(), config);
    machine.start(ALL).unwrap();
    let commands = machine.commands();
    (machine, commands)
}

fn packet(context: DriverHandle, node_ordinal: u32, id: u32) -> SubmitCommandVirtual {
    SubmitCommandVirtual {
        context,
        engine: EngineId::of_node(node_ordinal),
        dma_buffer_gpu_va: 0x1_0000 + u64::from(id) * 64,
        dma_buffer_bytes: 64,
        submission_fence_id: id,
        flags: tidegate_ddi::SubmitCommandFlags::empty(),
    }
}

#[test]
fn every_node_gets_a_ring_by_physical_address() {
    let (machine, commands) = started(Config { kernel_ring_slots: 8, ..Config::standard() });
    assert_eq!(commands.len(), 3);
    for (number, command) in commands.iter().enumerate() {
        let AdminCommand::CreateQueue { shape, os_handle, .. } = *command else {
            panic!("{command:?}")
        };
        let QueueShape { engine, kind, slots, .. } = shape;
        assert_eq!((engine, kind, slots, os_handle), (number as u32, QueueKind::Node, 8, 0));
        assert_eq!(Ring::of(&machine, command).word(CONTROL_WRITE_WORD).load(), 0);
    }
}

#[test]
fn packets_go_round_the_ring_and_never_over_one_that_is_not_done() {
    let (machine, commands) = started(Config { kernel_ring_slots: 4, ..Config::standard() });
    let ring = Ring::of(&machine, &commands[1]);
    let context = machine.context(machine.device_for(5), 1, false);
    let submit =
        |id| machine.driver.submit_command_virtual(&machine.dispatch(), packet(context, 1, id));
    for id in 0..11u32 {
        submit(id).unwrap();
        assert_eq!(machine.commands(), [AdminCommand::KickQueue { queue: QueueId(1) }]);
        assert_eq!(ring.word(CONTROL_WRITE_WORD).load(), u64::from(id) + 1);
        let expected = RingPacket::ExecuteDma {
            commands: GpuVa(0x1_0000 + u64::from(id) * 64),
            bytes: 64,
            address_space: AddressSpaceId(5),
            submission_fence_id: id,
            os_handle: 0xC0,
            save_area: GpuVa(0),
            flags: tidegate_gpu_abi::ring::DmaFlags::empty(),
        };
        assert_eq!(ring.slot(u64::from(id)), expected);
        // The engine is three packets behind.
        ring.word(CONTROL_READ_WORD).store(u64::from(id).saturating_sub(2));
    }
    submit(11).unwrap();
    assert_eq!(submit(12), Err(Status::INSUFFICIENT_RESOURCES));
    assert_eq!(ring.word(CONTROL_WRITE_WORD).load(), 12, "what was refused is not published");
    ring.word(CONTROL_READ_WORD).store(9);
    submit(12).unwrap();
}

#[test]
fn packets_that_no_node_can_run_are_refused() {
    let (machine, _) = started(Config::standard());
    let device = machine.device_for(5);
    let (software, hardware) =
        (machine.context(device, 1, false), machine.context(device, 1, true));
    let submit = |args| machine.driver.submit_command_virtual(&machine.dispatch(), args);
    let bytes =
        |dma_buffer_bytes| SubmitCommandVirtual { dma_buffer_bytes, ..packet(software, 1, 1) };
    for bad in [
        packet(hardware, 1, 1),
        packet(software, 2, 1),
        packet(device, 1, 1),
        bytes(0),
        bytes(12),
        bytes(!7),
    ] {
        assert_eq!(submit(bad), Err(Status::INVALID_PARAMETER), "{bad:?}");
    }
    assert_eq!(machine.commands(), []);
    submit(bytes(16 << 20)).unwrap();
}

fn work(hw_queue: DriverHandle, progress_fence_id: u64) -> SubmitCommandToHwQueue {
    SubmitCommandToHwQueue {
        hw_queue,
        progress_fence_id,
        dma_buffer_gpu_va: 0x4_0000,
        dma_buffer_bytes: 128,
    }
}

#[test]
fn a_kernel_mode_queue_has_a_ring_of_the_driver_s() {
    let (machine, _) = started(Config { kernel_ring_slots: 2, ..Config::standard() });
    let owned = machine.owned(5, 2);
    let queue = machine.queue(owned.context, 0x50, false, 0x8000);
    let made = machine.commands();
    assert!(matches!(
        made[..],
        [AdminCommand::CreateQueue {
            shape: QueueShape { engine: 2, kind: QueueKind::Kernel, .. },
            os_handle: 0x50,
            ..
        }]
    ));
    let ring = Ring::of(&machine, &made[0]);
    let level = machine.dispatch();
    for progress in 1..=5 {
        machine.driver.submit_command_to_hw_queue(&level, work(queue, progress)).unwrap();
        let expected = RingPacket::execute(GpuVa(0x4_0000), 128, progress);
        assert_eq!(ring.slot(progress - 1), expected);
        assert_eq!(machine.commands(), [AdminCommand::KickQueue { queue: QueueId(3) }]);
        ring.word(CONTROL_READ_WORD).store(progress);
    }
    assert_eq!(
        machine.driver.submit_command_to_hw_queue(&level, work(queue, 0)),
        Err(Status::INVALID_PARAMETER)
    );
    machine.driver.destroy_hw_queue(&machine.passive(), queue);
    assert_eq!(machine.commands(), [AdminCommand::DestroyQueue { queue: QueueId(3) }]);
    assert!(!ring.is_on_the_bus());
}

#[test]
fn a_user_mode_queue_takes_no_kernel_submission() {
    let (machine, _) = started(Config::standard());
    let owned = machine.owned(5, 1);
    let queue = machine.queue(owned.context, 0x50, true, 0x8000);
    for _ in 0..2 {
        let refused =
            machine.driver.submit_command_to_hw_queue(&machine.dispatch(), work(queue, 1));
        assert_eq!(refused, Err(Status::INVALID_PARAMETER));
        machine.doorbell(machine.queue(owned.context, 0x51, true, 0x8008), 0xD0);
    }
}

#[test]
fn the_mailbox_writes_what_differs_and_all_of_it_after_a_start() {
    let (machine, _) = started(Config::standard());
    let context = machine.context(machine.device_for(5), 1, false);
    let submit = || {
        let before = machine.device.script.lock_device().writes;
        machine.driver.submit_command_virtual(&machine.dispatch(), packet(context, 1, 1)).unwrap();
        machine.device.script.lock_device().writes - before
    };
    submit();
    assert_eq!(submit(), 1, "the same kick again is one write");
    machine.driver.stop_device(&machine.passive());
    let before = machine.device.script.lock_device().writes;
    machine.start(&[]).unwrap();
    assert!(
        machine.device.script.lock_device().writes - before >= 17,
        "the registers may have lost their content"
    );
}

#[test]
fn what_the_cmp_refuses_and_a_device_that_is_gone_are_told_apart() {
    let (machine, _) = started(Config::standard());
    let context = machine.context(machine.device_for(5), 1, false);
    let submit =
        || machine.driver.submit_command_virtual(&machine.dispatch(), packet(context, 1, 1));
    machine.refuse(&AdminCommand::KickQueue { queue: QueueId(0) }, AdminError::NoSuchQueue as u64);
    assert_eq!(submit(), Err(Status::INVALID_PARAMETER));
    machine.refuse(&AdminCommand::KickQueue { queue: QueueId(0) }, u64::MAX);
    assert_eq!(submit(), Err(Status::DEVICE_REMOVED));
}
