//! Flips at the call surface: how many can be queued, flips that meet a change of power or a reset,
//! and waits for a vertical sync that never comes.

use tidegate_testbed::prelude::*;

/// A refresh, in nanoseconds.
const PERIOD: u64 = 1_000_000;
const ENGINE: u32 = 0;

fn with_display(config: &mut MachineConfig) {
    *config = config.clone().with_display(PERIOD);
}

fn managed(config: &mut MachineConfig) {
    with_display(config);
    config.kernel.power = PowerManagement::Managed;
}

fn picture(client: &Client) -> Allocation {
    client.allocate_in(4096, Placement::System)
}

fn present(client: &Client, context: Handle, picture: &Allocation) -> Result<(), Status> {
    client.kernel.present(Present {
        queue: PresentQueue::Context(context),
        allocation: picture.handle,
        surface: Surface::packed(16, 16, PixelFormat::A8B8G8R8),
        vid_pn_source_id: 0,
        sync_interval: 1,
        shown: None,
    })
}

/// The flips that were shown, after all of them can have been.
fn shown(w: &World) -> u64 {
    w.pass(40 * PERIOD);
    w.adapter().display_stats().shown
}

/// The flip that is refused keeps nothing, and the ones before it are shown in order.
#[test]
fn flips_beyond_the_limit_are_refused_until_others_are_shown() {
    world_with(with_display).run(|w| {
        let (context, gate, pictures) = (w.context(ENGINE), w.native(0), [picture(w), picture(w)]);
        w.on(context).wait(&gate, 1);
        let queued = (0..100).take_while(|_| present(w, context, &pictures[0]).is_ok()).count();
        assert_eq!(queued, 16);
        let refused = present(w, context, &pictures[1]);
        assert_eq!(refused, Err(Status::GRAPHICS_TRY_AGAIN_LATER));
        w.kernel.destroy_allocation(pictures[1].handle).unwrap();
        w.signal(&gate, 1);
        assert_eq!(shown(w), 16);
        present(w, context, &pictures[0]).unwrap();
        assert_eq!(shown(w), 17);
    });
}

/// The flips of a context that ends before its work are queued no longer.
#[test]
fn the_flips_of_a_context_that_ends_take_no_place() {
    world_with(with_display).run(|w| {
        let (gate, of_this) = (w.native(0), picture(w));
        for _ in 0..3 {
            let context = w.context(ENGINE);
            w.on(context).wait(&gate, 1);
            (0..10).for_each(|_| present(w, context, &of_this).unwrap());
            w.kernel.destroy_context(context).unwrap();
        }
        assert_eq!(shown(w), 0);
        let context = w.context(ENGINE);
        (0..16).for_each(|_| present(w, context, &of_this).unwrap());
        assert_eq!(shown(w), 16);
    });
}

/// The agent that restores the screen has the right to carry out steps. It passes on a flip that
/// becomes ready meanwhile.
#[test]
fn a_flip_that_becomes_ready_while_the_screen_gets_its_power_back_is_shown() {
    world_with(managed).run(|w| {
        let (context, picture) = (w.context(ENGINE), picture(w));
        present(w, context, &picture).unwrap();
        assert_eq!(shown(w), 1);
        assert_eq!(w.adapter().set_power_state(DevicePowerState::D3), Ok(DevicePowerState::D3));
        let n = (**w).clone();
        w.hooked.once(Entry::SetVidPnSourceVisibility, move || {
            present(&n, context, &picture).unwrap();
        });
        assert_eq!(w.adapter().set_power_state(DevicePowerState::D0), Ok(DevicePowerState::D0));
        assert_eq!(shown(w), 2);
    });
}

/// Presents while the adapter is reset, so that the step of the flip waits at the driver's gate and
/// the screen is restored after it.
fn present_beside_a_reset(w: &World) {
    let (context, picture) = (w.context(ENGINE), picture(w));
    present(w, context, &picture).unwrap();
    assert_eq!(shown(w), 1);
    let n = w.client("presents again");
    let (platform, again) = (w.platform.clone(), (**w).clone());
    w.hooked.once(Entry::ResetFromTimeout, move || {
        present(&again, context, &picture).unwrap();
        platform.sleep_until(platform.now().after(PERIOD / 10));
    });
    n.kernel.debug_timeouts(TdrTest::ForceTdr).unwrap();
    w.pass(40 * PERIOD);
}

/// The driver's calls of the display since the reset: the screen goes dark, the step that waited
/// runs, the screen is restored, and the flip is shown.
const BESIDE_A_RESET: [Entry; 8] = [
    Entry::ControlInterrupt,
    Entry::SetVidPnSourceVisibility,
    Entry::ControlInterrupt,
    Entry::ControlInterrupt,
    Entry::SetVidPnSourceVisibility,
    Entry::SetVidPnSourceAddress,
    Entry::SetVidPnSourceAddress,
    Entry::ControlInterrupt,
];

#[test]
fn a_flip_whose_step_meets_a_reset_is_shown_and_the_screen_is_restored() {
    world_with(with_display).run(|w| {
        present_beside_a_reset(w);
        let calls = w.driver.take_names().into_iter();
        let calls = calls.skip_while(|name| *name != "ResetFromTimeout");
        let of_display = BESIDE_A_RESET.map(|entry| entry.name());
        let calls: Vec<_> = calls.filter(|name| of_display.contains(name)).collect();
        assert_eq!(calls, of_display);
        assert_eq!((w.state(), shown(w)), (Ok(DeviceState::Active), 2));
    });
}

/// Each call that restores the screen must succeed, as in any other step.
#[test]
fn a_driver_that_does_not_restore_the_screen_stops_the_adapter_with_the_name_of_the_entry() {
    for (place, named) in [
        (3, "DxgkDdiControlInterrupt"),
        (4, "DxgkDdiSetVidPnSourceVisibility"),
        (5, "DxgkDdiSetVidPnSourceAddress"),
    ] {
        let status = Status::INSUFFICIENT_RESOURCES;
        let (w, report) = world_with(with_display).run_to_report(move |w| {
            let since_the_reset = w.platform.page(1).word(0);
            let counts = since_the_reset.clone();
            w.hooked.on(Entry::ResetFromTimeout, move || counts.store(1));
            for entry in [3, 4, 5].map(|of_each| BESIDE_A_RESET[of_each]) {
                let (counts, hooked) = (since_the_reset.clone(), Arc::downgrade(&w.hooked));
                w.hooked.on(entry, move || {
                    if counts.load() != 0 && counts.fetch_add(1) == place + 1 {
                        hooked.upgrade().unwrap().fail_next(entry, status);
                    }
                });
            }
            present_beside_a_reset(w);
            assert_eq!(w.state(), Ok(DeviceState::Stopped), "{named}");
        });
        assert!(report.completed(), "{named}: {report:?}");
        assert_eq!(w.adapter().bug_checks(), [BugCheck::DdiFailed { ddi: named, status }]);
    }
}

/// A machine whose display never interrupts stands still, and the wait for the vertical sync ends
/// with it.
#[test]
fn a_wait_for_a_vertical_sync_ends_with_the_machine() {
    let silent = Overrides::default().control_interrupt(|_, _, _, _| Ok(()));
    let (w, report) = setup(with_display).overriding(silent).start().run_to_report(|w| {
        assert_eq!(w.kernel.wait_for_vertical_blank_event(), Err(Status::CANCELLED));
    });
    assert_eq!(report.blocked.len(), 1, "{report:?}");
    assert_eq!(w.adapter().bug_checks(), []);
}
