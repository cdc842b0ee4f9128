//! Flips, the screen, and vertical syncs.

use tidegate_ddi::display::SetVidPnSourceAddressFlags;
use tidegate_ddi::{DisplayDdi, InterruptType, PixelFormat, SetVidPnSourceAddress, Surface};
use tidegate_gpu_abi::display::encode_surface;
use tidegate_testbed::prelude::driver::*;

const FLIP: SetVidPnSourceAddress = SetVidPnSourceAddress {
    vid_pn_source_id: 0,
    primary_address: PhysicalAddress(0x5_0000),
    surface: Surface { width: 64, height: 32, pitch_bytes: 256, format: PixelFormat::A8B8G8R8 },
    flags: SetVidPnSourceAddressFlags::FLIP_ON_NEXT_VSYNC,
};

fn machine(period_ns: u64) -> Machine {
    let machine = Machine::cold(&Platform::host(), Config::standard());
    machine.device.script.lock_device().traits.insert(Register::DISPLAY_PERIOD, period_ns);
    machine.start(&[]).unwrap();
    machine.journal.take();
    machine
}

fn written(machine: &Machine) -> Vec<(Register, u64)> {
    std::mem::take(&mut machine.device.script.lock_device().display)
}

// spec: PRE-017
#[test]
fn a_device_with_a_display_is_declared_to_flip_at_vertical_syncs() {
    let caps_of = |period_ns| {
        let machine = machine(period_ns);
        machine.driver.query_adapter_caps(&machine.passive())
    };
    let caps = caps_of(1_000);
    assert_eq!(
        (caps.flip_on_vsync_mmio, caps.display.map(|d| d.refresh_period_ns)),
        (true, Some(1_000))
    );
    // None, and one that is not there: its registers read as all ones.
    for none in [0, u64::MAX] {
        let caps = caps_of(none);
        assert_eq!((caps.flip_on_vsync_mmio, caps.display), (false, None));
    }
}

#[test]
fn the_address_commits_a_flip() {
    let m = machine(1_000);
    let (level, passive) = (m.dirql(), m.passive());
    assert_eq!(m.driver.set_vid_pn_source_address(&level, FLIP), Ok(()));
    let (size, pitch) = encode_surface(&FLIP.surface);
    let expected = [
        (Register::DISPLAY_FLIP, 1),
        (Register::DISPLAY_SIZE, size),
        (Register::DISPLAY_PITCH, pitch),
        (Register::DISPLAY_ADDRESS, 0x5_0000),
    ];
    assert_eq!(written(&m), expected);
    let at_once = SetVidPnSourceAddress { flags: SetVidPnSourceAddressFlags::empty(), ..FLIP };
    assert_eq!(m.driver.set_vid_pn_source_address(&level, at_once), Ok(()));
    assert_eq!(written(&m)[0], (Register::DISPLAY_FLIP, 0), "no flag asks for the vertical sync");
    // The two bits of control do not know of each other.
    m.driver.set_vid_pn_source_visibility(&passive, 0, true).unwrap();
    m.driver.control_interrupt(&passive, InterruptType::CrtcVsync, true).unwrap();
    m.driver.set_vid_pn_source_visibility(&passive, 0, false).unwrap();
    m.driver.control_interrupt(&passive, InterruptType::CrtcVsync, false).unwrap();
    let values: Vec<u64> = written(&m).into_iter().map(|(_, value)| value).collect();
    assert_eq!(values, [1, 3, 2, 0]);
    let wrong = [
        (SetVidPnSourceAddress { vid_pn_source_id: 1, ..FLIP }, Status::INVALID_PARAMETER),
        (
            SetVidPnSourceAddress { surface: Surface { pitch_bytes: 4, ..FLIP.surface }, ..FLIP },
            Status::INVALID_PARAMETER,
        ),
        (
            SetVidPnSourceAddress { flags: SetVidPnSourceAddressFlags::FLIP_IMMEDIATE, ..FLIP },
            Status::NOT_SUPPORTED,
        ),
    ];
    for (flip, status) in wrong {
        assert_eq!(m.driver.set_vid_pn_source_address(&level, flip), Err(status), "{flip:?}");
    }
    let other = m.driver.control_interrupt(&passive, InterruptType::DmaCompleted, false);
    assert_eq!(other, Err(Status::NOT_SUPPORTED));
    assert_eq!(written(&m), []);
    let none = machine(0);
    assert_eq!(none.driver.set_vid_pn_source_address(&level, FLIP), Err(Status::NOT_SUPPORTED));
}

// spec: PRE-080
#[test]
fn a_vertical_sync_is_reported_behind_all_that_engines_have_to_say() {
    let m = Machine::standard();
    m.journal.take();
    {
        let mut script = m.device.script.lock_device();
        script.traits.insert(Register::DISPLAY_LATCHED, 0x5_0000);
        script.completed.extend([(0, 3), (2, 9)]);
        // The sync is seen first, and a packet completes while it is looked at.
        script.causes.extend([Cause::VSYNC.0 | Cause::engine(0).0, Cause::engine(2).0]);
    }
    let completed = |node_ordinal, submission_fence_id| {
        Event::Notify(InterruptData::DmaCompleted {
            engine: EngineId::of_node(node_ordinal),
            submission_fence_id,
        })
    };
    let physical_address = PhysicalAddress(0x5_0000);
    let synced = Event::Notify(InterruptData::CrtcVsync { vid_pn_target_id: 0, physical_address });
    let expected = [completed(0, 3), completed(2, 9), synced, Event::QueueDpc, Event::NotifyDpc];
    assert_eq!(m.interrupt(), expected);
}
