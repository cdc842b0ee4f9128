//! The two values of a fence as the CPU changes them, and fence logs.

use tidegate_ddi::fence::CreateNativeFence;
use tidegate_ddi::memory::FenceResidency;
use tidegate_testbed::prelude::driver::*;

fn notify(space: u32, current_value: u64) -> AdminCommand {
    AdminCommand::NotifyFence {
        address_space: AddressSpaceId(space),
        current_value: GpuVa(current_value),
    }
}

fn update(
    machine: &Machine,
    fences: &[(DriverHandle, u64, &Word)],
    mode: UpdateCurrentMode,
) -> Vec<AdminCommand> {
    let cells: Vec<FenceCell> =
        fences.iter().map(|(_, _, word)| FenceCell::plain((*word).clone())).collect();
    let fences: Vec<_> = fences
        .iter()
        .zip(&cells)
        .map(|((fence, value, _), cell)| UpdateCurrentValue {
            fence: *fence,
            value: *value,
            current_value: Some(cell),
        })
        .collect();
    machine.journal.take();
    machine.driver.update_current_values_from_cpu(&machine.dispatch(), &fences, mode);
    machine.commands()
}

// spec: NF-135
#[test]
fn a_cpu_signal_is_stored_and_waiting_queues_look_again() {
    let machine = Machine::standard();
    let [five, six] = [machine.device_for(5), machine.device_for(6)];
    let [a, b] = [machine.fence(1), machine.fence(2)];
    machine.open(a, five, 0x100);
    machine.open(a, six, 0x900);
    machine.open(b, six, 0x940);
    let (page, mode) = (machine.platform.page(2), UpdateCurrentMode::Write);
    let commands = update(&machine, &[(a, 42, &page.word(0)), (b, 7, &page.word(1))], mode);
    assert_eq!((page.word(0).load(), page.word(1).load()), (42, 7));
    assert_eq!(commands, [notify(5, 0x100), notify(6, 0x940)], "one look per fence");
    assert_eq!(machine.driver.violations(), []);
}

#[test]
fn a_fence_that_the_driver_does_not_know_is_reported_and_the_others_are_signalled() {
    let machine = Machine::standard();
    let (device, known) = (machine.device_for(5), machine.fence(1));
    machine.open(known, device, 0x100);
    let unknown = machine.fence(2);
    machine.driver.destroy_native_fence(&machine.passive(), unknown);
    let page = machine.platform.page(2);
    let fences = [(unknown, 4, &page.word(0)), (known, 7, &page.word(1))];
    let commands = update(&machine, &fences, UpdateCurrentMode::Write);
    assert_eq!((page.word(0).load(), page.word(1).load()), (0, 7));
    assert_eq!(commands, [notify(5, 0x100)]);
    assert_eq!(machine.driver.violations().len(), 1, "{:?}", machine.driver.violations());
}

// spec: NF-136
#[test]
fn a_notification_alone_stores_nothing() {
    let machine = Machine::standard();
    let (device, fence) = (machine.device_for(5), machine.fence(1));
    machine.open(fence, device, 0x100);
    let cell = machine.platform.page(1).word(0);
    cell.store(9);
    assert_eq!(
        update(&machine, &[(fence, 42, &cell)], UpdateCurrentMode::NotificationOnly),
        [notify(5, 0x100)]
    );
    assert_eq!(cell.load(), 9);
}

// spec: NF-137, NF-138
#[test]
fn waits_for_a_fence_of_a_lost_device_pass_whatever_number_came_and_its_value_is_left_alone() {
    let machine = Machine::standard();
    let (device, fence) = (machine.device_for(5), machine.fence(1));
    machine.open(fence, device, 0x100);
    let cell = FenceCell::in_fence_page(machine.platform.page(PAGE_WORDS).word(0), 0);
    cell.renew(7, 64, MAX_ANNEX_PEAKS);
    let highest = cell.wait_for(u64::MAX);
    let update = |value, mode| {
        machine.journal.take();
        let update = UpdateCurrentValue { fence, value, current_value: Some(&cell) };
        machine.driver.update_current_values_from_cpu(&machine.dispatch(), &[update], mode);
        machine.commands()
    };
    assert_eq!(update(u64::from(u32::MAX), UpdateCurrentMode::AlwaysSignaled), [notify(5, 0x100)]);
    assert_eq!((cell.load(), cell.satisfies(highest)), (7, true));
    // Signals that come later do nothing to it: neither one of the CPU, up or down, nor one of an
    // engine that would rewind it.
    for value in [9, 3, u64::MAX] {
        update(value, UpdateCurrentMode::Write);
        assert_eq!(cell.load(), 7, "a CPU signal of {value}");
    }
    cell.store(2);
    assert_eq!(cell.load(), 7);
}

// spec: NF-137
#[test]
fn a_fence_that_no_cpu_reaches_is_made_and_ended_by_the_hardware() {
    let machine = Machine::cold(&Platform::host(), Config::standard());
    machine.start(ALL_AND_INTRA_GPU).unwrap();
    let (level, passive) = (machine.dispatch(), machine.passive());
    let intra = CreateNativeFence { fence_type: NativeFenceType::IntraGpu, ..fence_args(9) };
    let fence = machine.driver.create_native_fence(&passive, intra).unwrap().0;
    let lost = UpdateCurrentValue { fence, value: u64::MAX, current_value: None };
    let stands_at = |at| {
        let place = FenceResidency {
            fence,
            current_value: PhysicalAddress(at),
            monitored_value: PhysicalAddress(at + 0x1000),
            current_value_cpu: None,
            monitored_value_cpu: None,
        };
        machine.journal.take();
        let told = PagingOperation::NotifyFenceResidency(&[place]);
        machine.driver.build_paging_buffer(&passive, told).unwrap();
        machine.commands()
    };
    let renewed = AdminCommand::RenewFence {
        current_value: PhysicalAddress(0x8000),
        monitored_value: PhysicalAddress(0x9000),
        stride_bytes: 64,
    };
    assert_eq!(stands_at(0x8000), [renewed]);
    assert_eq!(stands_at(0x2_0000), [], "it has moved: what it is went along");
    machine.driver.update_current_values_from_cpu(
        &level,
        &[lost],
        UpdateCurrentMode::AlwaysSignaled,
    );
    let condemned = AdminCommand::CondemnFence { current_value: PhysicalAddress(0x2_0000) };
    assert_eq!(machine.commands(), [condemned, AdminCommand::RescanWaits]);
    machine.driver.update_current_values_from_cpu(&level, &[lost], UpdateCurrentMode::Write);
    assert_eq!(machine.driver.violations(), [], "a signal after the end does nothing");
}

#[test]
fn the_cmp_is_told_by_the_address_that_it_has_of_its_own() {
    let machine = Machine::with(Config { system_process_mapping: true, ..Config::standard() });
    let args = CreateNativeFence { system_process_va: Some((0x7100, 0x9100)), ..fence_args(9) };
    let fence = machine.driver.create_native_fence(&machine.passive(), args).unwrap().0;
    machine.open(fence, machine.device_for(5), 0x100);
    let cell = machine.platform.page(1).word(0);
    assert_eq!(
        update(&machine, &[(fence, 1, &cell)], UpdateCurrentMode::Write),
        [notify(0, 0x7100)]
    );
}

#[test]
fn waiters_are_told_by_another_address_when_one_is_unmapped_meanwhile() {
    let machine = Machine::standard();
    let [five, six] = [machine.device_for(5), machine.device_for(6)];
    let fence = machine.fence(1);
    let cell = machine.platform.page(1).word(0);
    let all = [AdminCommand::RescanWaits];
    assert_eq!(
        update(&machine, &[(fence, 1, &cell)], UpdateCurrentMode::Write),
        all,
        "the fence has no open instance"
    );
    machine.open(fence, five, 0x100);
    machine.open(fence, six, 0x900);
    machine.refuse(&notify(0, 0), AdminError::BadAddress as u64);
    let commands = update(&machine, &[(fence, 2, &cell)], UpdateCurrentMode::Write);
    assert_eq!(commands, [notify(5, 0x100), notify(6, 0x900)]);
    let records = machine.driver.violations();
    assert_eq!(records[0].error, KmdError::Refused(AdminError::BadAddress));
    assert_eq!((records.len(), records[0].ddi), (1, "DxgkDdiUpdateCurrentValuesFromCpu"));
}

#[test]
fn a_fence_with_a_waiting_word_is_named_to_the_hardware_by_one_register() {
    let machine = Machine::standard();
    let (level, device) = (machine.passive(), machine.device_for(5));
    let [fence, gone] = [machine.fence(1), machine.fence(2)];
    machine.open(fence, device, 0x100);
    machine.driver.destroy_native_fence(&level, gone);
    let at = PhysicalAddress(0x4040);
    assert!(machine.driver.waiting_word(&level, gone, at).is_err());
    let word = machine.driver.waiting_word(&level, fence, at).expect("the hardware has the words");
    machine.device.waiting.store(3);
    assert_eq!(word.load(), 3);
    let cell = FenceCell::plain(machine.platform.page(1).word(0));
    for (mode, value) in [(UpdateCurrentMode::Write, 42), (UpdateCurrentMode::NotificationOnly, 42)]
    {
        machine.journal.take();
        let update = UpdateCurrentValue { fence, value, current_value: Some(&cell) };
        machine.driver.update_current_values_from_cpu(&machine.dispatch(), &[update], mode);
        let events = machine.journal.take();
        assert!(matches!(*events, [Event::FenceStored(0x4040)]), "{events:?}");
        assert_eq!(cell.load(), 42);
    }
}

#[test]
fn monitored_values_of_known_fences_are_published() {
    let machine = Machine::standard();
    let [kept, gone] = [machine.fence(1), machine.fence(2)];
    machine.driver.destroy_native_fence(&machine.passive(), gone);
    let page = machine.platform.page(2);
    let words = [page.word(0), page.word(1)];
    let fences = [gone, kept].map(|fence| UpdateMonitoredValue {
        fence,
        value: 41,
        monitored_value: &words[usize::from(fence == gone)],
    });
    machine.driver.update_monitored_values(&machine.dirql(), &fences);
    assert_eq!(
        (page.word(0).load(), page.word(1).load()),
        (41, 0),
        "storage of a destroyed fence is left alone"
    );
    assert_eq!(machine.driver.violation_count(), 1);
}

fn keep(fence: DriverHandle, space: u32, current_value: u64) -> AdminCommand {
    AdminCommand::KeepShadow {
        fence: fence.0,
        address_space: AddressSpaceId(space),
        current_value: GpuVa(current_value),
        monitored_value: GpuVa(current_value + 0x1000),
    }
}

#[test]
fn a_cmp_that_keeps_shadows_is_told_of_fences_by_mailbox_and_of_values_by_registers() {
    let machine = Machine::cold(&Platform::host(), Config::standard());
    let traits = (Register::DEVICE_TRAITS, DeviceTraits::MONITORED_SHADOW.0);
    machine.device.script.lock_device().traits.extend([traits]);
    machine.start(ALL).unwrap();
    let [five, six] = [machine.device_for(5), machine.device_for(6)];
    let [a, b] = [machine.fence(1), machine.fence(2)];
    machine.journal.take();
    let locals =
        [machine.open(a, five, 0x100), machine.open(a, six, 0x900), machine.open(b, six, 0x940)];
    assert_eq!(machine.commands(), [keep(a, 5, 0x100), keep(a, 6, 0x900), keep(b, 6, 0x940)]);
    // A mailbox command could wait for an engine's turn, and this is device interrupt level.
    let page = machine.platform.page(2);
    let words = [page.word(0), page.word(1)];
    let updates = [(a, 41), (b, u64::MAX)].map(|(fence, value)| UpdateMonitoredValue {
        fence,
        value,
        monitored_value: &words[usize::from(fence == b)],
    });
    machine.driver.update_monitored_values(&machine.dirql(), &updates);
    assert_eq!(
        (page.word(0).load(), page.word(1).load()),
        (41, u64::MAX),
        "memory has them as well"
    );
    assert_eq!(machine.journal.take(), [Event::Shadow(a.0, 41), Event::Shadow(b.0, u64::MAX)]);
    // An instance that cannot be told of is not opened.
    machine.refuse(&keep(a, 0, 0), AdminError::BadAddress as u64);
    let refused = machine.driver.open_native_fence(&machine.passive(), open_args(b, five, 0x500));
    assert!(refused.is_err());
    machine.accept();
    machine.journal.take();
    for local in locals {
        machine.driver.close_native_fence(&machine.passive(), local);
    }
    assert_eq!(machine.journal.take(), [], "a shadow lives as long as its fence");
    machine.driver.destroy_native_fence(&machine.passive(), a);
    assert_eq!(machine.commands(), [AdminCommand::DropShadow { fence: a.0 }]);
    let other = machine.fence(3);
    let local = machine.open(other, five, 0x500);
    machine.driver.close_native_fence(&machine.passive(), local);
    machine.driver.destroy_native_fence(&machine.passive(), other);
    [five, six].iter().for_each(|d| machine.driver.destroy_device(&machine.passive(), *d));
    assert_eq!(
        machine.driver.violations(),
        [],
        "what was refused holds neither address nor device"
    );
    // One that is left when the adapter stops goes then.
    machine.driver.stop_device(&machine.passive());
    assert!(machine.commands().contains(&AdminCommand::DropShadow { fence: b.0 }));
}

/// The old place may be another fence's soon: a copy that is kept there would answer for that one.
#[test]
fn a_fence_that_moves_leaves_no_shadow_behind() {
    let machine = Machine::cold(&Platform::host(), Config::standard());
    let traits = (Register::DEVICE_TRAITS, DeviceTraits::MONITORED_SHADOW.0);
    machine.device.script.lock_device().traits.extend([traits]);
    machine.start(ALL).unwrap();
    let (five, fence) = (machine.device_for(5), machine.fence(1));
    let stands_at = |monitored_value| {
        let place = FenceResidency {
            fence,
            current_value: PhysicalAddress(0x8000),
            monitored_value: PhysicalAddress(monitored_value),
            current_value_cpu: None,
            monitored_value_cpu: None,
        };
        machine.journal.take();
        let told = PagingOperation::NotifyFenceResidency(&[place]);
        machine.driver.build_paging_buffer(&machine.passive(), told).unwrap();
        machine.commands()
    };
    let gone = AdminCommand::DropShadow { fence: fence.0 };
    assert_eq!(stands_at(0x1_0000), [], "it was made there, and has no instance yet");
    let local = machine.open(fence, five, 0x100);
    assert_eq!(stands_at(0x1_0000), [], "it is where it was");
    assert_eq!(stands_at(0x2_0000), [gone, keep(fence, 5, 0x100)]);
    machine.driver.close_native_fence(&machine.passive(), local);
    assert_eq!(stands_at(0x3_0000), [gone], "the fence has no open instance");
    assert_eq!(machine.driver.violations(), []);
}

#[test]
fn private_data_comes_back_and_fences_need_their_feature() {
    let (machine, level) = Machine::at_passive();
    assert_eq!(machine.driver.create_native_fence(&level, fence_args(9)).unwrap().1, [9; 64]);
    let intra = tidegate_ddi::fence::CreateNativeFence {
        fence_type: NativeFenceType::IntraGpu,
        ..fence_args(9)
    };
    assert_eq!(machine.driver.create_native_fence(&level, intra), Err(Status::NOT_SUPPORTED));
    let plain =
        Machine::cold(&Platform::host(), Config { native_fence: false, ..Config::standard() });
    plain.start(ALL).unwrap();
    assert_eq!(plain.driver.create_native_fence(&level, fence_args(9)), Err(Status::NOT_SUPPORTED));
}

#[test]
fn two_fences_cannot_be_open_at_one_address_of_one_process() {
    let (machine, level) = Machine::at_passive();
    let [five, also_five, six] = [5, 5, 6].map(|space| machine.device_for(space));
    let [a, b] = [machine.fence(1), machine.fence(2)];
    let instances = [
        machine.open(a, five, 0x100),
        machine.open(a, also_five, 0x100),
        machine.open(b, six, 0x100),
    ];
    let clash = machine.driver.open_native_fence(&level, open_args(b, also_five, 0x100));
    assert_eq!(clash, Err(Status::INVALID_PARAMETER));
    let context = machine.context(also_five, 1, true);
    let mut queue = queue_args(context, 0x50, true, 0x100);
    queue.progress_fence = ProgressFence::Native(b);
    let clash = machine.driver.create_hw_queue(&level, queue);
    assert_eq!(clash, Err(Status::INVALID_PARAMETER));
    machine.driver.destroy_context(&level, context);
    instances.iter().for_each(|local| machine.driver.close_native_fence(&level, *local));
    [a, b].iter().for_each(|fence| machine.driver.destroy_native_fence(&level, *fence));
    [five, also_five, six].iter().for_each(|device| machine.driver.destroy_device(&level, *device));
    machine.driver.stop_device(&level);
    assert_eq!(machine.driver.violations(), [], "what was refused left no object");
}

fn log(
    machine: &Machine,
    hw_queue: DriverHandle,
    log_type: LogType,
    at: u64,
) -> SetNativeFenceLogBuffer {
    SetNativeFenceLogBuffer {
        hw_queue,
        log_type,
        number_of_entries: 84,
        notify_every: 0,
        gpu_va: 0x9_0000,
        system_process_gpu_va: 0xA_0000,
        header: machine.platform.page(5).word(0),
        header_address: PhysicalAddress(at),
        entries: machine.platform.bulk(4032),
        entries_address: PhysicalAddress(at + 0x1000),
    }
}

fn placed(kind: LogType, at: u64) -> AdminCommand {
    AdminCommand::SetLogBuffer {
        queue: QueueId(3),
        kind,
        header: PhysicalAddress(at),
        payload: PhysicalAddress(at + 0x1000),
        entries: 84,
        notify_every: 0,
    }
}

#[test]
fn logs_that_come_before_the_ring_are_placed_with_it() {
    let (machine, owned) = Machine::with_owned(5, 1);
    let queue = machine.queue(owned.context, 0x50, true, 0x8000);
    let level = machine.dispatch();
    for (log_type, at) in
        [(LogType::Signals, 0x7000), (LogType::Waits, 0x3000), (LogType::Waits, 0x5000)]
    {
        machine.driver.set_native_fence_log_buffer(&level, log(&machine, queue, log_type, at));
    }
    assert_eq!(machine.commands(), []);
    machine.doorbell(queue, 0xD0);
    assert_eq!(
        machine.commands()[1..],
        [placed(LogType::Waits, 0x5000), placed(LogType::Signals, 0x7000)]
    );
    machine
        .driver
        .set_native_fence_log_buffer(&level, log(&machine, queue, LogType::Signals, 0x9000));
    assert_eq!(machine.commands(), [placed(LogType::Signals, 0x9000)]);
}

// spec: NF-216
#[test]
fn an_update_of_logs_brings_entries_on_their_way_to_memory() {
    let (machine, owned) = Machine::with_owned(5, 1);
    let queue = machine.queue(owned.context, 0x50, true, 0x8000);
    let level = machine.dispatch();
    machine.driver.update_native_fence_logs(&level, &[queue]);
    assert_eq!(machine.device.flushes(), 1);
    assert_eq!(machine.driver.violations(), []);
    machine.driver.update_native_fence_logs(&level, &[queue, owned.context]);
    assert_eq!(machine.driver.violation_count(), 1);
}

// spec: NF-166
#[test]
fn a_gpu_that_has_stopped_watching_is_unlinked() {
    let machine = Machine::standard();
    let fence = machine.fence(1);
    let [current_value, monitored_value] = [PhysicalAddress(0x100), PhysicalAddress(0x108)];
    let link = |peers: &[u32]| {
        let peer = |peer: &u32| PeerFence { peer: *peer, monitored_value: None };
        let peers = peers.iter().map(peer).collect();
        let args = LinkNativeFence { fence, current_value, history: true, monitored_value, peers };
        machine.journal.take();
        machine.driver.link_native_fence(&machine.passive(), args).unwrap();
        machine.commands()
    };
    let watch = |monitored_value| AdminCommand::WatchFence {
        current_value,
        monitored_value,
        history: true,
    };
    let nowhere = PhysicalAddress(0);
    let set = |peer, linked| AdminCommand::LinkPeer {
        current_value,
        peer,
        monitored_value: nowhere,
        linked,
    };
    assert_eq!(link(&[2, 3]), [watch(monitored_value), set(2, true), set(3, true)]);
    assert_eq!(link(&[3, 4]), [set(3, true), set(4, true), set(2, false)]);
    assert_eq!(link(&[]), [set(3, false), set(4, false), watch(nowhere)]);
}
