//! Driver calls that must succeed, and reports of what the adapter does not have: the kernel names
//! the entry and the status, and stops the adapter.

use tidegate_testbed::prelude::*;

const STATUS: Status = Status::INSUFFICIENT_RESOURCES;
const REFRESH_NS: u64 = 1_000_000;
const SETTLED_NS: u64 = 10 * REFRESH_NS;

/// A call of the kernel whose entry fails.
struct Row {
    entry: Entry,
    /// How the bug check names the entry.
    named: &'static str,
    change: fn(&mut MachineConfig),
    /// Comes before the entry is made to fail.
    before: fn(&World),
    /// Has the kernel call the entry. A picture is there.
    call: fn(&World, &Allocation),
}

fn plain(_: &mut MachineConfig) {}

fn managed(config: &mut MachineConfig) {
    config.kernel.power = PowerManagement::Managed;
}

fn present(w: &World, picture: &Allocation) {
    let context = w.context(0);
    let args = Present {
        queue: PresentQueue::Context(context),
        allocation: picture.handle,
        surface: Surface::packed(16, 16, PixelFormat::A8B8G8R8),
        vid_pn_source_id: 0,
        sync_interval: 1,
        shown: None,
    };
    w.kernel.present(args).unwrap();
}

const NODE: EngineId = EngineId::of_node(0);

/// A doorbell's engine goes to F1 when the driver offers it.
fn offer_engine(w: &World) {
    w.connected_queue(0);
    w.hooked.raise(&[engine_state_change(0, EngineState::TransitionToF1)]);
    w.pass(SETTLED_NS);
    assert_eq!(w.adapter().engine_power_state(NODE), ComponentState::F1);
}

fn rows() -> Vec<Row> {
    let row = |entry, named, call| Row { entry, named, change: plain, before: |_| (), call };
    vec![
        row(Entry::SubmitCommandVirtual, "DxgkDdiSubmitCommandVirtual", |w, _| {
            w.submit_packet(w.context(0), &[Command::Timed { ns: 1 }]);
        }),
        row(Entry::SubmitCommandToHwQueue, "DxgkDdiSubmitCommandToHwQueue", |w, _| {
            w.submit(&w.hw_queue(), 1, &[Command::Timed { ns: 1 }]);
        }),
        row(Entry::ControlInterrupt, "DxgkDdiControlInterrupt", present),
        row(Entry::SetVidPnSourceVisibility, "DxgkDdiSetVidPnSourceVisibility", present),
        row(Entry::SetVidPnSourceAddress, "DxgkDdiSetVidPnSourceAddress", present),
        row(Entry::BuildPagingBuffer, "DxgkDdiBuildPagingBuffer", |w, _| {
            let (queue, local) = (w.paging_queue(), w.allocate_in(4096, Placement::LocalOnDemand));
            let pending = w.make_resident(&queue, &[&local]);
            let Residency::Pending { paging_fence_value } = pending else { panic!("{pending:?}") };
            // It is signalled, so that nothing waits for an operation that has failed.
            let _lost = w.wait(queue.fence.handle, paging_fence_value);
        }),
        row(Entry::UpdatePageTable, "UpdatePageTable", |w, picture| {
            w.kernel.destroy_allocation(picture.handle).unwrap();
        }),
        Row {
            entry: Entry::ResumeContext,
            named: "DxgkDdiResumeContext",
            change: plain,
            before: |w| _ = w.connected_queue(0),
            call: |w, _| drop(w.adapter().suspend_contexts().unwrap()),
        },
        Row {
            entry: Entry::SetPowerComponentFState,
            named: "DxgkDdiSetPowerComponentFState",
            change: managed,
            before: offer_engine,
            call: |w, _| w.submit(&w.hw_queue(), 1, &[Command::Timed { ns: 1 }]),
        },
        Row {
            entry: Entry::SetPowerState,
            named: "DxgkDdiSetPowerState",
            change: managed,
            before: |w| {
                let d3 = w.adapter().set_power_state(DevicePowerState::D3);
                assert_eq!(d3, Ok(DevicePowerState::D3));
            },
            call: |w, _| _ = w.adapter().set_power_state(DevicePowerState::D0),
        },
    ]
}

#[test]
fn a_call_that_must_succeed_stops_the_adapter_with_its_name_and_status() {
    for Row { entry, named, change, before, call } in rows() {
        let world = world_with(|config| {
            *config = config.clone().with_display(REFRESH_NS);
            change(config);
        });
        let (w, report) = world.run_to_report(move |w| {
            let picture = w.allocate_in(4096, Placement::Local);
            before(w);
            w.hooked.fail_next(entry, STATUS);
            call(w, &picture);
            w.pass(SETTLED_NS);
            assert!(matches!(w.state(), Ok(DeviceState::Stopped)), "{entry:?}: {:?}", w.state());
            assert_eq!(w.try_context(0, Priority::Normal), Err(Status::DEVICE_REMOVED));
        });
        assert!(report.completed(), "{entry:?}: {report:?}");
        let broken = w.adapter().bug_checks();
        assert_eq!(broken, [BugCheck::DdiFailed { ddi: named, status: STATUS }], "{entry:?}");
        assert_eq!(broken[0].code(), None);
        assert_eq!(broken[0].to_string(), format!("{named} failed with {STATUS}"));
    }
}

#[test]
fn a_vertical_sync_of_a_target_that_is_not_there_breaks_the_contract() {
    let displays: [fn(&mut MachineConfig); 2] =
        [plain, |config| *config = config.clone().with_display(REFRESH_NS)];
    for (has_display, change) in displays.into_iter().enumerate() {
        let target = has_display as u32;
        let (w, _) = world_with(change).run_to_report(move |w| {
            w.hooked.raise(&[InterruptData::CrtcVsync {
                vid_pn_target_id: target,
                physical_address: PhysicalAddress(0),
            }]);
            w.pass(SETTLED_NS);
        });
        assert_eq!(w.adapter().bug_checks(), [BugCheck::UnknownVidPnTarget(target)]);
    }
}

#[test]
fn a_connect_that_does_not_fit_the_doorbell_breaks_the_contract() {
    for status in [DoorbellStatus::DisconnectedRetry, DoorbellStatus::DisconnectedAbort] {
        let wrong = Overrides::default().connect_doorbell(move |inner, level, doorbell, flags| {
            let connected = inner.connect_doorbell(level, doorbell, flags)?;
            Ok(tidegate::ddi::ConnectedDoorbell { status, ..connected })
        });
        let (w, report) = setup(|_| ()).overriding(wrong).start().run_to_report(|w| {
            let queue = w.user_queue(0);
            assert_eq!(queue.connect().err(), Some(Status::DEVICE_REMOVED));
        });
        assert!(report.completed(), "{report:?}");
        assert_eq!(w.adapter().bug_checks(), [BugCheck::DoorbellStatus]);
    }
}

#[test]
fn a_state_of_an_engine_that_is_not_there_breaks_the_contract() {
    for state in [EngineState::Hung, EngineState::TransitionToF1, EngineState::Active] {
        let (w, _) = world().run_to_report(move |w| {
            w.hooked.raise(&[engine_state_change(9, state)]);
            w.pass(SETTLED_NS);
            assert_eq!(w.state(), Ok(DeviceState::Stopped));
        });
        assert_eq!(w.adapter().bug_checks(), [BugCheck::UnknownNode(9)]);
    }
}
