//! Preemption requests for the packets of an engine: how the hardware answers them, and what is
//! reported before the answer.

use tidegate_ddi::{CancelCommand, CancellationDdi};
use tidegate_testbed::prelude::driver::*;

const NODE: u32 = 1;
const ENGINE: EngineId = EngineId::of_node(NODE);

fn packet(context: DriverHandle, id: u32, flags: SubmitCommandFlags) -> SubmitCommandVirtual {
    let switches = flags.contains(SubmitCommandFlags::CONTEXT_SWITCH);
    SubmitCommandVirtual {
        context,
        engine: EngineId::of_node(NODE),
        dma_buffer_gpu_va: if switches { 0 } else { 0x1_0000 },
        dma_buffer_bytes: if switches { 0 } else { 64 },
        submission_fence_id: id,
        flags,
    }
}

fn submit(machine: &Machine, context: DriverHandle, id: u32) {
    let args = packet(context, id, SubmitCommandFlags::empty());
    machine.driver.submit_command_virtual(&machine.dispatch(), args).unwrap();
}

fn preempt(machine: &Machine, preemption_fence_id: u32) -> Result<(), Status> {
    machine.driver.preempt_command(
        &machine.dispatch(),
        PreemptCommand { engine: ENGINE, preemption_fence_id },
    )
}

fn preempted(preemption_fence_id: u32, last_completed_fence_id: u32) -> Event {
    Event::Notify(InterruptData::DmaPreempted {
        engine: EngineId::of_node(NODE),
        preemption_fence_id,
        last_completed_fence_id,
    })
}

fn completed(submission_fence_id: u32) -> Event {
    Event::Notify(InterruptData::DmaCompleted {
        engine: EngineId::of_node(NODE),
        submission_fence_id,
    })
}

fn preempt_command(preemption_fence_id: u32) -> AdminCommand {
    AdminCommand::PreemptNode { engine: NODE, preemption_fence_id }
}

/// The hardware answers: its registers say so, and the causes are raised.
fn answer(machine: &Machine, preemption: u64, last: u64, causes: u64) -> Vec<Event> {
    let mut script = machine.device.script.lock_device();
    script.traits.extend([
        (Register::PREEMPTED_ENGINES, 1 << NODE),
        (Register::PREEMPTED_FENCE.offset(NODE), preemption),
        (Register::PREEMPTED_COMPLETED.offset(NODE), last),
    ]);
    script.causes.push_back(causes | Cause::DMA_PREEMPTED.0);
    drop(script);
    machine.interrupt()
}

fn with_dpc(mut reports: Vec<Event>) -> Vec<Event> {
    reports.extend([Event::QueueDpc, Event::NotifyDpc]);
    reports
}

// spec: PRE-023
#[test]
fn a_request_for_packets_that_are_done_and_reported_is_answered_without_the_hardware() {
    let machine = Machine::standard();
    let context = machine.context(machine.device_for(5), NODE, false);
    preempt(&machine, 1).unwrap();
    assert_eq!(
        machine.journal.take(),
        [preempted(1, 0), Event::QueueDpc],
        "nothing was ever submitted"
    );
    submit(&machine, context, 2);
    machine.device.script.lock_device().completed.insert(NODE, 2);
    machine.journal.take();
    preempt(&machine, 3).unwrap();
    assert_eq!(machine.commands(), [preempt_command(3)], "done, and not reported");
    machine.device.script.lock_device().causes.push_back(Cause::engine(NODE).0);
    assert_eq!(machine.interrupt(), with_dpc(vec![completed(2)]));
    preempt(&machine, 4).unwrap();
    assert_eq!(machine.journal.take(), [preempted(4, 2), Event::QueueDpc]);
    // A packet that came back and goes again under its number is not done for that.
    submit(&machine, context, 5);
    machine.journal.take();
    preempt(&machine, 6).unwrap();
    assert_eq!(machine.commands(), [preempt_command(6)]);
}

// spec: PRE-024
#[test]
fn completions_and_faults_are_told_before_what_came_back() {
    let machine = Machine::standard();
    let context = machine.context(machine.device_for(5), NODE, false);
    (1..=4).for_each(|id| submit(&machine, context, id));
    machine.journal.take();
    // The completion has its own cause, or the answer alone tells of it.
    machine.device.script.lock_device().completed.insert(NODE, 2);
    let both = answer(&machine, 5, 2, Cause::engine(NODE).0);
    assert_eq!(both, with_dpc(vec![completed(2), preempted(5, 2)]));
    (6..=8).for_each(|id| submit(&machine, context, id));
    let mut script = machine.device.script.lock_device();
    script.completed.insert(NODE, 6);
    let unmapped = FaultKind::ReadUnmapped as u64;
    script.faults.push_back((QueueId(NODE), 0x123, 7, unmapped));
    drop(script);
    machine.journal.take();
    let told = answer(&machine, 9, 6, Cause::FAULT.0);
    let [first, faulted, last, ..] = &told[..] else { panic!("{told:?}") };
    assert_eq!((first, last), (&completed(6), &preempted(9, 6)));
    let of_packet = matches!(
        faulted,
        Event::Notify(InterruptData::DmaPageFaulted { engine: ENGINE, faulted_fence_id: 7, .. })
    );
    assert!(of_packet, "{told:?}");
}

// spec: PRE-020
#[test]
fn a_packet_that_came_back_is_put_on_the_ring_to_go_on_and_one_without_commands_to_switch() {
    let machine = Machine::cold(&Platform::host(), Config::standard());
    machine.start(ALL).unwrap();
    let AdminCommand::CreateQueue { shape, .. } = machine.commands()[NODE as usize] else {
        panic!("a ring for each node")
    };
    let context = machine.context(machine.device_for(5), NODE, false);
    let flags = [
        SubmitCommandFlags::empty(),
        SubmitCommandFlags::RESUBMISSION,
        SubmitCommandFlags::CONTEXT_SWITCH,
    ];
    for (id, flags) in (1..).zip(flags) {
        machine
            .driver
            .submit_command_virtual(&machine.dispatch(), packet(context, id, flags))
            .unwrap();
    }
    let Some(Target::Bulk(bytes, 0)) = machine.system.resolve(PhysicalAddress(shape.ring.0)) else {
        panic!("no ring on the bus")
    };
    let found = (0..3).map(|number| {
        let mut slot = [0; SLOT_BYTES as usize];
        bytes.read(number % shape.slots * SLOT_BYTES, &mut slot).unwrap();
        match RingPacket::decode(&slot).unwrap() {
            RingPacket::ExecuteDma { bytes, flags, .. } => (bytes, flags),
            other => panic!("{other:?}"),
        }
    });
    let expected = [(64, DmaFlags::empty()), (64, DmaFlags::RESUME), (0, DmaFlags::CONTEXT_SWITCH)];
    assert_eq!(found.collect::<Vec<_>>(), expected);
    let Some(Target::Protocol(page, 0)) = machine.system.resolve(PhysicalAddress(shape.control.0))
    else {
        panic!("no control area")
    };
    assert_eq!(page.word(CONTROL_WRITE_WORD).load(), 3);
    // Without the flag nothing is a buffer of no bytes.
    let mut empty = packet(context, 4, SubmitCommandFlags::empty());
    empty.dma_buffer_bytes = 0;
    let refused = machine.driver.submit_command_virtual(&machine.dispatch(), empty);
    assert_eq!(refused, Err(Status::INVALID_PARAMETER));
}

#[test]
fn the_last_complete_packet_can_be_asked_for_and_one_that_never_comes_be_taken_back() {
    let machine = Machine::standard();
    let context = machine.context(machine.device_for(5), NODE, false);
    machine.device.script.lock_device().completed.insert(NODE, 42);
    let level = machine.dispatch();
    assert_eq!(machine.driver.query_current_fence(&level, ENGINE), Ok(42));
    let nowhere = EngineId::of_node(9);
    assert_eq!(machine.driver.query_current_fence(&level, nowhere), Err(Status::INVALID_PARAMETER));
    let cancelled = |context, engine| {
        let args =
            CancelCommand { context, engine, dma_buffer_gpu_va: 0x1_0000, dma_buffer_bytes: 64 };
        machine.driver.cancel_command(&level, args)
    };
    assert_eq!(cancelled(context, ENGINE), Ok(()));
    assert_eq!(cancelled(context, nowhere), Err(Status::INVALID_PARAMETER));
    assert!(cancelled(DriverHandle(777), ENGINE).is_err());
    let asked = PreemptCommand { engine: nowhere, preemption_fence_id: 1 };
    assert_eq!(machine.driver.preempt_command(&level, asked), Err(Status::INVALID_PARAMETER));
}

#[test]
fn a_request_that_the_hardware_refuses_fails() {
    let machine = Machine::standard();
    let context = machine.context(machine.device_for(5), NODE, false);
    submit(&machine, context, 1);
    machine.refuse(&preempt_command(2), AdminError::Busy as u64);
    assert!(preempt(&machine, 2).is_err());
}
