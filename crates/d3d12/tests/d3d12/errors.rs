//! Typed errors of lists, queues, buffers and devices.

use crate::bench::{bench, bench_on, bench_with, desc};
use tidegate_d3d12::*;
use tidegate_testbed::prelude::*;

#[test]
// spec: ME-052
fn a_list_takes_what_its_type_takes() {
    bench(|b| {
        let buffer = b.buffer(64);
        let types = [CommandListType::Direct, CommandListType::Compute, CommandListType::Copy];
        let taken = types.map(|list_type| {
            let mut list = b.device.create_command_list(list_type);
            list.copy(&buffer, 32, &buffer, 0, 32).unwrap();
            list.fill(&buffer, 0, 64, 7).unwrap();
            list.timed(5).unwrap();
            let args = [Arg::Buffer(&buffer, 8), Arg::U32(1), Arg::U64(2), Arg::F32(3.0)];
            (
                list.dispatch_by_number(1, [1, 1, 1], &args).is_ok(),
                list.draw_by_number(8, [1, 1, 1], &args).is_ok(),
            )
        });
        assert_eq!(taken, [(true, true), (true, false), (false, false)]);
        let refused = b
            .device
            .create_command_list(CommandListType::Compute)
            .draw_by_number(8, [1; 3], &[])
            .unwrap_err();
        assert_eq!(
            refused.to_string(),
            "a compute list takes no draw; record it in a list of a direct queue"
        );
    });
}

#[test]
fn ranges_and_numbers_are_checked_while_recording() {
    bench(|b| {
        let (small, big) = (b.buffer(64), b.buffer(128));
        let mut list = b.device.create_command_list(CommandListType::Compute);
        let copy = list.copy(&small, 1, &big, 0, 64).unwrap_err();
        assert_eq!(
            copy.to_string(),
            "a copy's destination: bytes 1..65 leave buffer 'b' of 64 bytes; correct offset or length"
        );
        assert!(matches!(list.copy(&small, u64::MAX, &big, 0, 2), Err(Error::OutOfRange { .. })));
        assert!(matches!(list.copy(&small, 0, &big, 0, 0), Err(Error::BadValue { .. })));
        assert!(matches!(list.copy(&small, 0, &big, 0, 1 << 63), Err(Error::OutOfRange { .. })));
        assert!(matches!(list.fill(&small, 0, 6, 0), Err(Error::BadValue { .. })));
        assert!(matches!(list.dispatch_by_number(1, [1, 0, 1], &[]), Err(Error::BadValue { .. })));
        assert!(matches!(
            list.dispatch_by_number(1, [1; 3], &[Arg::U32(0); 61]),
            Err(Error::BadValue { .. })
        ));
        assert!(matches!(
            list.dispatch_by_number(1, [1; 3], &[Arg::Buffer(&small, 65)]),
            Err(Error::OutOfRange { .. })
        ));
        assert_eq!(list.commands(), 0, "a refused command leaves nothing");
        list.copy_unchecked(0, u64::MAX, u64::MAX).unwrap();
        assert_eq!(list.close().unwrap().commands(), 1);
        assert!(matches!(
            small.write(60, &[0; 8]),
            Err(Error::OutOfRange { offset: 60, bytes: 8, size: 64, .. })
        ));
        assert!(matches!(small.read(u64::MAX, &mut [0; 1]), Err(Error::OutOfRange { .. })));
        small.write(60, &[1, 2, 3, 4]).unwrap();
        let mut out = [0; 4];
        small.read(60, &mut out).unwrap();
        assert_eq!(out, [1, 2, 3, 4]);
    });
}

#[test]
fn queues_refuse_foreign_objects_and_other_types() {
    bench(|b| {
        let other = b.another();
        let queue = b.queue(Submission::User);
        let compute = b.device.create_command_list(CommandListType::Compute).close().unwrap();
        assert!(matches!(queue.execute(&[&compute]), Err(Error::WrongQueue { .. })));
        assert!(matches!(queue.execute(&[&other.list(1)]), Err(Error::Foreign { .. })));
        let fence = other.device.create_fence("f", 0).unwrap();
        assert!(matches!(queue.signal(&fence, 1), Err(Error::Foreign { .. })));
        let mut list = b.device.create_command_list(CommandListType::Copy);
        assert!(matches!(list.fill(&other.buffer(4), 0, 4, 0), Err(Error::Foreign { .. })));
        queue.execute(&[]).unwrap();
        assert_eq!(queue.stats(), QueueStats::default());
    });
}

#[test]
fn a_full_list_takes_no_command_and_can_be_closed() {
    bench(|b| {
        let buffer = b.buffer(64);
        let mut list = b.device.create_command_list(CommandListType::Compute);
        let args = [Arg::Buffer(&buffer, 0); 28];
        let full = loop {
            if let Err(error) = list.dispatch_by_number(1, [1; 3], &args) {
                break error;
            }
            assert!(list.commands() < 100_000, "32 KiB times 512 are 16 MiB");
        };
        let said = "a command list: it holds 16 MiB of commands; close it and record another";
        assert_eq!(full.to_string(), said);
        let commands = list.commands();
        assert!(commands > 40_000, "{commands} commands");
        assert_eq!(list.timed(1).unwrap_err().to_string(), said);
        assert_eq!(list.close().unwrap().commands(), commands);
    });
}

#[test]
fn a_fence_of_several_adapters_is_shared() {
    bench(|b| {
        let create = |flags| {
            let desc = FenceDesc { flags, ..FenceDesc::new("f") };
            b.device.create_fence_with(desc).map(|_| ()).map_err(|error| error.to_string())
        };
        let said = "fence 'f': a fence of several adapters is shared; ask for SHARED too";
        assert_eq!(create(FenceFlags::SHARED_CROSS_ADAPTER), Err(said.to_owned()));
        assert_eq!(create(FenceFlags::SHARED | FenceFlags::SHARED_CROSS_ADAPTER), Ok(()));
    });
}

#[test]
fn nodes_are_chosen_by_type_and_checked() {
    let old_copy = setup(|config| {
        config.gpu.nodes.push(config.gpu.nodes[2].clone());
        config.driver.user_mode_nodes = !(1 << 3);
    });
    bench_on(&Platform::virtual_time(StepCosts::free()), old_copy, DeviceOptions::default(), |b| {
        let nodes = [CommandListType::Direct, CommandListType::Compute, CommandListType::Copy]
            .map(|t| b.device.nodes_for(t));
        assert_eq!(nodes, [vec![0], vec![1], vec![2, 3]]);
        let with = |list_type, submission, node| {
            b.device
                .create_queue(QueueDesc { node: Some(node), ..desc(list_type, submission) })
                .map(|_| ())
        };
        assert_eq!(
            with(CommandListType::Copy, Submission::User, 0),
            Ok(()),
            "a 3D engine copies too"
        );
        assert_eq!(with(CommandListType::Copy, Submission::Hardware, 3), Ok(()));
        for refused in [
            with(CommandListType::Direct, Submission::User, 1),
            with(CommandListType::Compute, Submission::User, 2),
            with(CommandListType::Copy, Submission::User, 3),
            with(CommandListType::Copy, Submission::Packet, 4),
        ] {
            assert!(matches!(refused, Err(Error::NotSupported { .. })), "{refused:?}");
        }
    });
}

#[test]
fn bad_descriptions_are_refused() {
    bench(|b| {
        for ring_slots in [0, 7, 1000, u64::MAX] {
            let options = DeviceOptions { ring_slots, ..DeviceOptions::default() };
            let kernel = b.machine.open("refused").unwrap();
            let refused = Device::new(&b.platform, kernel, options).unwrap_err();
            assert!(matches!(refused, Error::BadValue { .. }), "{refused}");
        }
        let empty = BufferDesc::upload("empty", 0);
        let refused = b.device.create_buffer(empty).unwrap_err();
        assert_eq!(refused.to_string(), "buffer 'empty': it has 0 bytes; give it at least one");
    });
}

// spec: UMS-182
#[test]
fn a_destroy_call_that_is_refused_in_a_drop_is_reported() {
    bench_with(DeviceOptions::default(), |b| {
        let other = b.another();
        let queue = b.queue(Submission::User);
        let report = b.device.teardown_report();
        b.kernel.refuse("destroy", Status::INVALID_PARAMETER);
        drop(queue);
        // In the order of the end: what holds others goes first.
        let calls: Vec<&str> = report.refused().iter().map(|refused| refused.call).collect();
        let allocation = "D3DKMTDestroyAllocation2";
        let expected = [
            "D3DKMTDestroyDoorbell",
            "D3DKMTDestroyHwQueue",
            "D3DKMTDestroyHwContext",
            allocation,
            allocation,
        ];
        assert_eq!(calls, expected);
        let text = report.refused()[0].to_string();
        assert!(text.starts_with("D3DKMTDestroyDoorbell of handle 0x"), "{text}");
        assert!(
            text.contains("STATUS_INVALID_PARAMETER") && text.ends_with("the object is left"),
            "{text}"
        );
        // The report outlives the device, whose own end is refused as well.
        drop(b.device);
        assert_eq!(
            report.refused().last().map(|refused| refused.call),
            Some("D3DKMTDestroyDevice")
        );
        // A process that has ended has no objects any more: that is not a refusal to report.
        let report = other.device.teardown_report();
        other.kernel.refuse("destroy", Status::DEVICE_REMOVED);
        drop(other.device);
        assert_eq!(report.refused(), []);
    });
}

#[test]
// spec: ME-052
fn copy_lists_take_no_clear_and_no_discard() {
    bench(|b| {
        let buffer = b.buffer(64);
        for (list_type, takes) in [
            (CommandListType::Direct, true),
            (CommandListType::Compute, true),
            (CommandListType::Copy, false),
        ] {
            let mut list = b.device.create_command_list(list_type);
            assert_eq!(list.clear_uint(&buffer, 0, 64, 7).is_ok(), takes);
            assert_eq!(list.clear_float(&buffer, 0, 64, 0.5).is_ok(), takes);
            assert_eq!(list.discard(&buffer).is_ok(), takes);
            assert_eq!(list.commands(), if takes { 2 } else { 0 });
            assert!(list.clear_uint(&buffer, 60, 8, 7).is_err());
            assert!(list.clear_uint(&buffer, 0, 3, 7).is_err());
        }
    });
}
