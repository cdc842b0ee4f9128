//! The reports of page faults, and their order among completions.

use crate::interrupts::{SIGNALED, Scene, native, scene, with_dpc};
use tidegate_ddi::GeneralErrorCode;
use tidegate_testbed::prelude::driver::*;

// spec: HS-016
#[test]
fn a_fault_names_the_queue_or_the_packet() {
    let Scene { machine, .. } = scene(InterruptMode::FenceArray);
    let mut script = machine.device.script.lock_device();
    script.completed.insert(1, 8);
    script.faults.extend([
        (QueueId(4), 0xDEAD_0000, 12, 2 | 3 << 8 | 7 << 16 | 5 << 32),
        (QueueId(1), 0xBEEF_0000, 9, 1),
        (QueueId(77), 0, 0, 3),
        (QueueId(6), 0, 3, 4),
        (QueueId(6), 0, 4, 99),
    ]);
    drop(script);
    let cause = Cause::FAULT.0 | Cause::engine(1).0 | SIGNALED;
    let events = machine.interrupt_with(cause, &[(QueueId(3), 0x100)]);
    let fault = |gpu_va, primitive_api_sequence_number, error_code, what| PageFault {
        gpu_va,
        primitive_api_sequence_number,
        error_code: FaultErrorCode(error_code),
        what,
        ..PageFault::default()
    };
    let queue = |node_ordinal, os, slot, fault| {
        Event::Notify(InterruptData::HwQueuePageFaulted {
            engine: EngineId::of_node(node_ordinal),
            faulted: OsHandle(os),
            faulted_fence_id: slot * 100,
            slot,
            fault,
        })
    };
    let store = PageFault {
        flags: PageFaultFlags::WRITE,
        pipeline_stage: RenderPipelineStage::OutputMerger,
        bind_table_entry: 5,
        page_table_level: 3,
        ..fault(0xDEAD_0000, 120, 0, "a store to an address that is not mapped or not writable")
    };
    let load = fault(0xBEEF_0000, 90, 0, "a load from an address that is not mapped");
    let packet = InterruptData::DmaPageFaulted {
        engine: EngineId::of_node(1),
        faulted_fence_id: 9,
        fault: load,
    };
    let expected = with_dpc(vec![
        Event::Notify(InterruptData::DmaCompleted {
            engine: EngineId::of_node(1),
            submission_fence_id: 8,
        }),
        native(1, Some(&[0xF1]), None),
        queue(1, 0x52, 12, store),
        Event::Notify(packet),
        queue(0, 0x61, 3, fault(0, 30, 2, "arguments that a program rejected")),
        queue(
            0,
            0x61,
            4,
            fault(0, 40, 99 << 1 | 1, "a fault of a kind that the driver does not know"),
        ),
    ]);
    assert_eq!(events, expected);
}

// The engine went on behind the packet that faulted, and the cause of the fault came after the
// causes were read.
#[test]
fn a_fault_that_completions_have_passed_is_reported_in_the_order_of_the_packets() {
    let Scene { machine, .. } = scene(InterruptMode::FenceArray);
    let mut script = machine.device.script.lock_device();
    script.completed.insert(1, 8);
    script.faults.push_back((QueueId(1), 0xBEEF_0000, 7, 1));
    drop(script);
    let events = machine.interrupt_with(Cause::engine(1).0, &[]);
    let completed = |submission_fence_id| {
        Event::Notify(InterruptData::DmaCompleted {
            engine: EngineId::of_node(1),
            submission_fence_id,
        })
    };
    let (gpu_va, what) = (0xBEEF_0000, "a load from an address that is not mapped");
    let fault =
        PageFault { gpu_va, primitive_api_sequence_number: 70, what, ..PageFault::default() };
    let packet =
        InterruptData::DmaPageFaulted { engine: EngineId::of_node(1), faulted_fence_id: 7, fault };
    assert_eq!(events, with_dpc(vec![completed(6), Event::Notify(packet), completed(8)]));
}

// Packet numbers wrap at 32 bits: the packet after u32::MAX is 0, so a fault of u32::MAX is behind
// a completion of 0.
#[test]
fn a_fault_that_completions_have_passed_is_found_over_the_wrap_of_packet_numbers() {
    let completed = |submission_fence_id| InterruptData::DmaCompleted {
        engine: EngineId::of_node(1),
        submission_fence_id,
    };
    let cases = [
        (u32::MAX, 0, Some(u32::MAX - 1)),
        (0, 0, Some(u32::MAX)),
        (u32::MAX, u32::MAX, Some(u32::MAX - 1)),
        (0, u32::MAX, None),
    ];
    for (faulted, complete, before) in cases {
        let Scene { machine, .. } = scene(InterruptMode::FenceArray);
        let mut script = machine.device.script.lock_device();
        script.completed.insert(1, complete.into());
        script.faults.push_back((QueueId(1), 0xBEEF_0000, faulted.into(), 1));
        drop(script);
        let events = machine.interrupt_with(Cause::engine(1).0, &[]);
        let reports: Vec<_> = events
            .into_iter()
            .filter_map(|event| match event {
                Event::Notify(InterruptData::DmaPageFaulted { faulted_fence_id, .. }) => {
                    Some(Err(faulted_fence_id))
                }
                Event::Notify(data) => Some(Ok(data)),
                _ => None,
            })
            .collect();
        let expected = match before {
            Some(before) => vec![Ok(completed(before)), Err(faulted), Ok(completed(complete))],
            None => vec![Ok(completed(complete)), Err(faulted)],
        };
        assert_eq!(reports, expected, "packet {faulted} faulted, {complete} is complete");
    }
}

/// Reports the fault of hardware queue 0x50 in address space 5 at node 1, whose record has this
/// number of a kind.
fn fault_of(faults_name: FaultNaming, kind: u64) -> (OsHandle, u64, PageFault) {
    let machine = Machine::with(Config { faults_name, ..Config::standard() });
    machine.queue(machine.owned(5, 1).context, 0x50, false, 0x8000);
    machine.device.script.lock_device().faults.push_back((QueueId(3), 0xDEAD_0000, 12, kind));
    let events = machine.interrupt_with(Cause::FAULT.0, &[]);
    let mut faults = events.into_iter().filter_map(|event| match event {
        Event::Notify(InterruptData::HwQueuePageFaulted {
            engine,
            faulted,
            faulted_fence_id,
            slot: 12,
            fault,
        }) => {
            assert_eq!(engine, EngineId::of_node(1));
            Some((faulted, faulted_fence_id, fault))
        }
        _ => None,
    });
    faults.next_back().unwrap()
}

// spec: HS-016
#[test]
fn a_fault_names_a_queue_a_context_a_process_or_nothing_and_the_fence_value_of_a_queue() {
    let invalid = PageFaultFlags::FENCE_INVALID;
    for (naming, named, fence_id, flags) in [
        (FaultNaming::HwQueue, 0x50, 1200, PageFaultFlags::empty()),
        (FaultNaming::HwContext, 0xC0, 0, invalid | PageFaultFlags::HW_CONTEXT_VALID),
        (FaultNaming::Process, 5, 0, invalid | PageFaultFlags::PROCESS_HANDLE_VALID),
        (FaultNaming::Engine, 0, 0, invalid),
    ] {
        let (faulted, faulted_fence_id, fault) = fault_of(naming, 1);
        assert_eq!((faulted, faulted_fence_id), (OsHandle(named), fence_id), "{naming:?}");
        assert_eq!(fault.flags, flags, "{naming:?}");
        let (.., store) = fault_of(naming, 2);
        assert_eq!(store.flags, flags | PageFaultFlags::WRITE, "{naming:?}");
    }
}

#[test]
fn each_kind_of_fault_has_a_code_and_a_text() {
    let (page, instruction) = (GeneralErrorCode::PageFault, GeneralErrorCode::InvalidInstruction);
    let (page, instruction) = (FaultErrorCode::general(page), FaultErrorCode::general(instruction));
    for (kind, code, text) in [
        (1, page, "a load from an address that is not mapped"),
        (2, page, "a store to an address that is not mapped or not writable"),
        (3, instruction, "an invalid packet"),
        (4, instruction, "arguments that a program rejected"),
        (5, instruction, "a command that this engine cannot run"),
        (6, FaultErrorCode::device_specific(6), "an access that bypasses the CPUs' caches"),
        (
            7,
            FaultErrorCode::device_specific(7),
            "a wait for a value that the fence's history has lost",
        ),
        (
            200,
            FaultErrorCode::device_specific(200),
            "a fault of a kind that the driver does not know",
        ),
    ] {
        let (.., fault) = fault_of(FaultNaming::HwQueue, kind);
        assert_eq!((fault.error_code, fault.what), (code, text));
        assert_eq!((fault.gpu_va, fault.primitive_api_sequence_number), (0xDEAD_0000, 120));
    }
}
