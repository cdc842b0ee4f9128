//! Descriptions: their short forms, what is chosen where they say nothing, and reading them back.

use crate::bench::{bench, bench_on, bench_with};
use tidegate_d3d12::*;
use tidegate_testbed::prelude::*;

/// The glob import above leaves the `Result` of the standard library in place.
fn parsed(text: &str) -> Result<u64, std::num::ParseIntError> {
    text.parse()
}

#[test]
fn short_forms_say_what_the_long_ones_do() {
    assert_eq!(parsed("7"), Ok(7));
    let long = QueueDesc {
        name: "physics".to_owned(),
        list_type: CommandListType::Compute,
        priority: Priority::High,
        submission: Some(Submission::Hardware),
        flags: QueueFlags::DISABLE_GPU_TIMEOUT,
        node: Some(1),
        node_mask: 1,
        engines: EnginePolicy::ByCommands,
    };
    let short = QueueDesc::compute("physics")
        .priority(Priority::High)
        .submission(Submission::Hardware)
        .flags(QueueFlags::DISABLE_GPU_TIMEOUT)
        .node(1)
        .node_mask(1)
        .engines(EnginePolicy::ByCommands);
    assert_eq!(short, long);
    assert_eq!(QueueDesc::default(), QueueDesc::direct("direct"));
    let types = [QueueDesc::direct("q"), QueueDesc::compute("q"), QueueDesc::copy("q")];
    assert_eq!(types.map(|desc| desc.list_type as u32), [0, 2, 3]);

    let heaps = [BufferDesc::new("b", 4), BufferDesc::upload("b", 4), BufferDesc::readback("b", 4)];
    assert_eq!(heaps.map(|desc| desc.heap), [Heap::Default, Heap::Upload, Heap::Readback]);

    assert_eq!(TextureDesc::default().subresources(), 1);
    assert_eq!(HeapDesc::default(), HeapDesc::new("", 0));
    let chain = SwapChainDesc::new("s", 64, 48).buffers(3).frame_latency(1);
    assert_eq!((chain.width, chain.height, chain.buffers, chain.frame_latency), (64, 48, 3, 1));
    assert_eq!(SwapChainDesc { name: "s".to_owned(), ..SwapChainDesc::default() }.buffers, 2);

    let fence = FenceDesc::new("f").initial_value(3).shared_cross_adapter();
    assert_eq!(fence.flags, FenceFlags::SHARED | FenceFlags::SHARED_CROSS_ADAPTER);
    assert_eq!(FenceDesc::new("f").non_monitored().flags, FenceFlags::NON_MONITORED);

    let options = DeviceOptions::new("game").ring_slots(16).fences(FenceChoice::Monitored);
    assert_eq!((options.process_name.as_str(), options.ring_slots), ("game", 16));
    assert_eq!(DeviceOptions::new("app"), DeviceOptions::default());
}

#[test]
// spec: ME-018
fn objects_return_their_descriptions() {
    bench(|b| {
        let desc = QueueDesc::compute("physics").priority(Priority::High).node_mask(1);
        let queue = b.device.create_queue(desc.clone()).unwrap();
        assert_eq!(queue.desc(), desc.submission(Submission::User).node(1));
        // As D3D12 reports it (HansKristian-Work/vkd3d, tests/d3d12.c, test_create_command_queue).
        assert_eq!(b.device.create_queue(QueueDesc::copy("any")).unwrap().desc().node_mask, 1);
        let desc = BufferDesc::readback("results", 64);
        assert_eq!(b.device.create_buffer(desc.clone()).unwrap().desc(), desc);
        let on_abort = OnAbort::Report;
        let with = b.device.create_queue_with(QueueDesc::copy("q"), QueueOptions { on_abort });
        assert_eq!(
            (with.unwrap().options(), queue.options().on_abort),
            (QueueOptions { on_abort }, OnAbort::RecreateUser)
        );
        let descs = [
            FenceDesc::new("plain").initial_value(7),
            FenceDesc::new("shared").shared(),
            FenceDesc::new("everywhere").initial_value(1).shared_cross_adapter(),
            FenceDesc::new("queues").non_monitored(),
        ];
        for desc in descs {
            let fence = b.device.create_fence_with(desc.clone()).unwrap();
            fence.signal(9).ok();
            assert_eq!(fence.desc(), desc);
            if desc.flags.contains(FenceFlags::SHARED) {
                let handle = b.device.create_shared_handle(&fence).unwrap();
                let opened = b.device.open_shared_handle("opened", &handle).unwrap();
                assert_eq!(opened.desc(), FenceDesc::new("opened").shared());
            }
        }
        let desc = HeapDesc::new("heap", 0x2_0000);
        assert_eq!(b.device.create_heap(desc.clone()).unwrap().desc(), desc);
        let desc = EventDesc { name: "set".to_owned(), manual_reset: true, initially_set: true };
        assert_eq!(b.device.create_event(desc.clone()).desc(), &desc);
        assert_eq!(b.device.create_query_heap("times", 2).unwrap().name(), "times");
        assert_eq!(b.device.create_descriptor_heap("views", 2).name(), "views");
    });
}

/// A failed assertion of an application prints its objects: by name, kind and state.
#[test]
fn objects_are_printed_by_name_kind_and_state() {
    bench(|b| {
        let device = &b.device;
        assert_eq!(device.adapter().nodes.len(), 3);
        let name = device.options().process_name.clone();
        let queue = device.create_queue(QueueDesc::copy("uploads")).unwrap();
        let fence = device.create_fence("frames", 4).unwrap();
        let event = device.create_event(EventDesc::manual_reset().named("done"));
        assert!(event.is_manual_reset() && fence.trace_id().is_some());
        let allocator = device.create_command_allocator("lists", CommandListType::Copy);
        assert_eq!(allocator.list_type(), CommandListType::Copy);
        let buffer = device.create_buffer(BufferDesc::new("mesh", 256)).unwrap();
        let heap = device.create_heap(HeapDesc::new("heap", 0x2_0000)).unwrap();
        let desc = TextureDesc::new_2d("sky", Format::R8G8B8A8Unorm, 4, 4);
        let texture = device.create_texture(desc).unwrap();
        let mut list = device.create_command_list(CommandListType::Copy);
        list.timed(5).unwrap();
        let recording = format!("{list:?}");
        let closed = list.close().unwrap();
        assert_eq!(closed.list_type(), CommandListType::Copy);
        let reached = fence.reached(4);
        let report = device.teardown_report();
        assert!(!report.is_complete(), "its device lives");
        let printed = [
            format!("{device:?}"),
            format!("{queue:?}"),
            format!("{fence:?}"),
            format!("{event:?}"),
            format!("{allocator:?}"),
            format!("{buffer:?}"),
            format!("{heap:?}"),
            format!("{texture:?}"),
            recording,
            format!("{closed:?}"),
            format!("{reached:?}"),
            format!("{report:?}"),
        ];
        let expected = [
            format!("Device({name:?})"),
            "Queue(\"uploads\", copy, user)".to_owned(),
            "Fence(\"frames\", native, 4)".to_owned(),
            "Event(\"done\", manual reset, not set)".to_owned(),
            "CommandAllocator(\"lists\", copy)".to_owned(),
            format!("Buffer(\"mesh\", 256 bytes at {:#x})", buffer.gpu_va()),
            "ResourceHeap(\"heap\", 131072 bytes)".to_owned(),
            format!("Texture(\"sky\", R8G8B8A8_UNORM at {:#x})", texture.gpu_va()),
            "CommandList(copy, 1 commands)".to_owned(),
            format!("ClosedList(copy, 1 commands at {:#x})", closed.gpu_va()),
            "Reached(\"frames\", 4, waits: false)".to_owned(),
            "TeardownReport([])".to_owned(),
        ];
        assert_eq!(printed, expected);
    });
}

#[test]
fn a_queue_takes_the_best_submission_model_of_its_node() {
    let chosen = |options: DeviceOptions, setup| {
        let (seen, queues) = std::sync::mpsc::channel();
        bench_on(&Platform::virtual_time(StepCosts::free()), setup, options, move |b| {
            for node in 0..3 {
                let queue = b.device.create_queue(QueueDesc::copy("upload").node(node)).unwrap();
                seen.send(queue.submission()).unwrap();
            }
            let shared = b.device.default_queue(CommandListType::Copy, None).unwrap();
            assert_eq!(
                shared.submission(),
                b.device
                    .default_queue(CommandListType::Copy, shared.submission())
                    .unwrap()
                    .submission()
            );
        });
        queues.iter().collect::<Vec<_>>()
    };
    let all = |model| vec![model; 3];
    assert_eq!(chosen(DeviceOptions::default(), setup(|_| ())), all(Submission::User));
    let monitored = DeviceOptions::default().fences(FenceChoice::Monitored);
    assert_eq!(chosen(monitored, setup(|_| ())), all(Submission::Hardware));
    let one_without = setup(|config| config.driver.user_mode_nodes = !(1 << 1));
    let (user, hardware) = (Submission::User, Submission::Hardware);
    assert_eq!(chosen(DeviceOptions::default(), one_without), [user, hardware, user]);
}

/// Two threads ask before either has created it: a kernel call takes time.
// spec: ME-080
#[test]
fn a_default_queue_that_two_threads_create_is_one_queue() {
    let platform = Platform::virtual_time(StepCosts::free().with(Step::KernelCall, 100));
    bench_on(&platform, setup(|_| ()), DeviceOptions::default(), |b| {
        let (device, other) = (b.device.clone(), b.platform.page(1).word(0));
        let returned = other.clone();
        let thread = b.platform.spawn("component", move || {
            let queue = device.default_queue(CommandListType::Copy, None).unwrap();
            returned.store(queue.numbers()[0].0);
        });
        let queue = b.device.default_queue(CommandListType::Copy, None).unwrap();
        thread.join();
        assert_eq!(other.load(), queue.numbers()[0].0);
    });
}

#[test]
fn a_device_that_the_application_removed_stays_removed() {
    bench_with(DeviceOptions::default(), |b| {
        let (queue, gate) = b.gated(Submission::User);
        let done = b.device.create_fence("done", 0).unwrap();
        queue.execute(&[&b.list(5)]).unwrap();
        queue.signal(&done, 1).unwrap();
        b.device.remove();
        assert_eq!((done.completed_value(), gate.completed_value()), (u64::MAX, u64::MAX));
        let reason = RemovedReason::ByApplication;
        assert_eq!(b.device.removed_reason(), Some(reason.clone()));
        assert_eq!(reason.code(), ErrorCode::DeviceRemoved);
        assert_eq!(reason.code().hresult(), 0x887A_0005);
        for refused in [done.wait(1), gate.signal(1), queue.signal(&done, 2), queue.wait_idle()] {
            let error = refused.unwrap_err();
            assert_eq!(error, Error::DeviceRemoved(reason.clone()));
            assert_eq!(error.code(), ErrorCode::DeviceRemoved);
        }
        b.device.remove();
        assert_eq!(b.device.removed_reason(), Some(reason));
        // Another device of the machine goes on.
        assert_eq!(b.another().device.removed_reason(), None);
    });
}
