//! Commands that the CMP refuses, and calls before the start: the answer of each entry of the
//! driver.

use Missing::{Refused, Tolerated};
use std::ops::Deref;
use tidegate_ddi::memory::{
    FenceStorageSurfaceData, FenceStorageValueType, StandardAllocation, StandardAllocationType,
};
use tidegate_ddi::queue::CreateDevice;
use tidegate_ddi::scheduling::{
    SchedulingProperties, SetContextSchedulingProperties, SetupPriorityBands,
};
use tidegate_ddi::{NativeFenceDdi, PeerDoorbell, PowerAction, PowerDdi, PriorityBandDdi};
use tidegate_testbed::prelude::driver::*;

const ENGINE: EngineId = EngineId::of_node(1);
const PLACE: PhysicalAddress = PhysicalAddress(0x100);

/// A machine with an object of each kind on node 1, and nothing in its journal.
struct Scene {
    machine: Machine,
    device: DriverHandle,
    hw_context: DriverHandle,
    context: DriverHandle,
    kernel_queue: DriverHandle,
    user_queue: DriverHandle,
    doorbell: DriverHandle,
    fence: DriverHandle,
}

fn scene() -> Scene {
    let (machine, owned) = Machine::with_owned(5, 1);
    let kernel_queue = machine.queue(owned.context, 0x50, false, 0x8000);
    let user_queue = machine.queue(owned.context, 0x51, true, 0x8008);
    let doorbell = machine.doorbell(user_queue, 0xD0);
    let level = machine.passive();
    let plain = ConnectDoorbellFlags::empty();
    machine.driver.connect_doorbell(&level, doorbell, plain).unwrap();
    let fence = machine.fence(0xF0);
    machine.open(fence, owned.device, 0x100);
    let context = machine.context(owned.device, 1, false);
    machine.journal.take();
    let (device, hw_context) = (owned.device, owned.context);
    Scene { machine, device, hw_context, context, kernel_queue, user_queue, doorbell, fence }
}

impl Deref for Scene {
    type Target = Machine;

    fn deref(&self) -> &Machine {
        &self.machine
    }
}

impl Scene {
    /// Makes a call that has no result. Returns the failure that the driver has recorded for it.
    fn must(&self, ddi: &str, call: impl FnOnce(&Machine)) -> Result<(), Status> {
        let before = self.driver.violations().len();
        call(&self.machine);
        match &self.driver.violations()[before..] {
            [] => Ok(()),
            [violation] => {
                assert_eq!(violation.ddi, ddi);
                Err(violation.error.into())
            }
            more => panic!("{more:?}"),
        }
    }

    fn set_root(&self, root: Option<u64>) -> Result<(), Status> {
        let root = root.map(PhysicalAddress);
        let args = SetRootPageTable { address_space: 5, physical_adapter: 0, root };
        self.driver.set_root_page_table(&self.passive(), args)
    }

    fn submit_packet(&self) -> Result<(), Status> {
        let packet = SubmitCommandVirtual {
            context: self.context,
            engine: ENGINE,
            dma_buffer_gpu_va: 0x1_0000,
            dma_buffer_bytes: 64,
            submission_fence_id: 1,
            flags: SubmitCommandFlags::empty(),
        };
        self.driver.submit_command_virtual(&self.dispatch(), packet)
    }

    fn suspend(&self) -> Result<(), Status> {
        self.driver.suspend_context(&self.passive(), self.hw_context, 1).map(|_complete| ())
    }

    fn signal(&self, fence: DriverHandle) -> Result<(), Status> {
        let cell = FenceCell::plain(self.platform.page(1).word(0));
        self.must("DxgkDdiUpdateCurrentValuesFromCpu", |machine| {
            let update = UpdateCurrentValue { fence, value: 7, current_value: Some(&cell) };
            let mode = UpdateCurrentMode::Write;
            machine.driver.update_current_values_from_cpu(&machine.dispatch(), &[update], mode);
        })
    }

    fn link(&self, peers: &[u32]) -> Result<(), Status> {
        let peer = |peer: &u32| PeerFence { peer: *peer, monitored_value: None };
        let args = LinkNativeFence {
            fence: self.fence,
            current_value: PLACE,
            history: true,
            monitored_value: PhysicalAddress(0x108),
            peers: peers.iter().map(peer).collect(),
        };
        self.driver.link_native_fence(&self.passive(), args)
    }
}

/// A call of the driver, and what it returns or records.
type Call = fn(&Scene) -> Result<(), Status>;

/// What the driver makes of a queue that the CMP does not know.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    /// Another thread has destroyed the queue meanwhile: the call succeeds.
    Tolerated,
    /// The queue cannot be missing.
    Refused,
}

const QUEUE: QueueId = QueueId(3);
const SUSPEND: AdminCommand = AdminCommand::SuspendQueue { queue: QUEUE };
const DESTROY: AdminCommand = AdminCommand::DestroyQueue { queue: QUEUE };
const KICK: AdminCommand = AdminCommand::KickQueue { queue: QUEUE };
const QUERY_QUEUE: AdminCommand = AdminCommand::QueryQueue { queue: QUEUE };
const QUERY_ENGINE: AdminCommand = AdminCommand::QueryEngine { engine: 1 };
const RESET: AdminCommand = AdminCommand::ResetEngine { engine: 1 };
const POWER: AdminCommand = AdminCommand::PowerEngine { engine: 1, on: true, if_idle: false };
const INVALIDATE: AdminCommand =
    AdminCommand::InvalidateTlb { address_space: AddressSpaceId(5), physical_gpu: 0 };
const CREATE: AdminCommand = AdminCommand::CreateQueue {
    shape: QueueShape {
        engine: 1,
        kind: QueueKind::Kernel,
        address_space: AddressSpaceId(5),
        ring: GpuVa(0),
        slots: 1,
        control: GpuVa(0),
        progress_current: GpuVa(0),
        progress_monitored: GpuVa(0),
    },
    band: 1,
    os_handle: 0,
    context: 0,
};

/// A command, what the driver makes of a missing queue, and a call that sends the command. Only the
/// kind of the command counts.
type Row = (AdminCommand, Missing, &'static str, Call);

/// Page tables and paging.
fn rows_of_memory() -> Vec<Row> {
    vec![
        (
            AdminCommand::SetAddressSpace {
                address_space: AddressSpaceId(5),
                root: PhysicalAddress(0),
                physical_gpu: 0,
            },
            Refused,
            "a root page table",
            |s| s.set_root(Some(0x9000)),
        ),
        (INVALIDATE, Refused, "another root page table", |s| {
            s.set_root(Some(0x9000)).unwrap();
            s.set_root(Some(0xA000))
        }),
        (INVALIDATE, Refused, "a valid entry that is replaced", |s| {
            s.set_root(Some(0x9000)).unwrap();
            let table = s.platform.bulk(4096);
            let write = |at| {
                let entries = &[PageTableEntry::Table(PhysicalAddress(at))];
                let (table, level, start_index) = (&table, 0, 3);
                let (address_space, physical_adapter) = (5, 0);
                let args = UpdatePageTable {
                    address_space,
                    physical_adapter,
                    table,
                    level,
                    start_index,
                    entries,
                };
                s.driver.update_page_table(&s.passive(), args)
            };
            write(0x1000).unwrap();
            write(0x2000)
        }),
        (AdminCommand::HoldEngines, Refused, "a hold for paging", |s| {
            let level = s.passive();
            s.driver.build_paging_buffer(&level, PagingOperation::HoldEngines)
        }),
        (AdminCommand::ReleaseEngines, Refused, "the end of a hold for paging", |s| {
            let level = s.passive();
            s.driver.build_paging_buffer(&level, PagingOperation::ReleaseEngines)
        }),
        (AdminCommand::MoveFencePage { from: PLACE, to: PLACE }, Refused, "a moved page", |s| {
            let (from, to) = (PhysicalAddress(0x1000), PhysicalAddress(0x2000));
            let operation = PagingOperation::TransferFenceValues { from, to };
            s.driver.build_paging_buffer(&s.passive(), operation)
        }),
    ]
}

/// Packets, hardware queues and doorbells.
fn rows_of_queues() -> Vec<Row> {
    vec![
        (KICK, Refused, "a packet", |s| s.submit_packet()),
        (KICK, Refused, "a command buffer", |s| {
            let args = SubmitCommandToHwQueue {
                hw_queue: s.kernel_queue,
                progress_fence_id: 1,
                dma_buffer_gpu_va: 0x1_0000,
                dma_buffer_bytes: 64,
            };
            s.driver.submit_command_to_hw_queue(&s.dispatch(), args)
        }),
        (KICK, Tolerated, "a notified submission", |s| {
            s.must("DxgkDdiNotifyWorkSubmission", |machine| {
                machine.driver.notify_work_submission(&machine.passive(), s.user_queue);
            })
        }),
        (SUSPEND, Tolerated, "a suspension", |s| s.suspend()),
        (AdminCommand::ResumeQueue { queue: QUEUE }, Tolerated, "a resume", |s| {
            s.suspend().unwrap();
            s.driver.resume_context(&s.passive(), s.hw_context)
        }),
        (CREATE, Refused, "a kernel-mode queue", |s| {
            let args = queue_args(s.hw_context, 0x52, false, 0x8010);
            s.driver.create_hw_queue(&s.passive(), args).map(|_| ())
        }),
        (CREATE, Refused, "the ring of a user-mode queue", |s| {
            let hw_queue = s.queue(s.hw_context, 0x52, true, 0x8010);
            let mut args = doorbell_args(hw_queue, 0xD1, s.ring(16));
            s.driver.create_doorbell(&s.passive(), &mut args).map(|_| ())
        }),
        (DESTROY, Refused, "the end of a kernel-mode queue", |s| {
            s.must("DxgkDdiDestroyHwQueue", |machine| {
                machine.driver.destroy_hw_queue(&machine.passive(), s.kernel_queue);
            })
        }),
        (DESTROY, Refused, "the end of a doorbell", |s| {
            s.must("DxgkDdiDestroyDoorbell", |machine| {
                machine.driver.destroy_doorbell(&machine.passive(), s.doorbell);
            })
        }),
        (
            AdminCommand::ConnectDoorbell { queue: QUEUE, global: false, secondary: false },
            Refused,
            "a connect",
            |s| {
                let (level, plain) = (s.passive(), ConnectDoorbellFlags::empty());
                s.driver.disconnect_doorbell(&level, s.doorbell);
                s.driver.connect_doorbell(&level, s.doorbell, plain).map(|_| ())
            },
        ),
        (AdminCommand::DisconnectDoorbell { queue: QUEUE }, Tolerated, "a disconnect", |s| {
            s.must("DxgkDdiDisconnectDoorbell", |machine| {
                machine.driver.disconnect_doorbell(&machine.passive(), s.doorbell);
            })
        }),
    ]
}

/// Priorities, logs, and the stop.
fn rows_of_settings() -> Vec<Row> {
    vec![
        (
            AdminCommand::SetScheduling {
                queue: QUEUE,
                band: 1,
                realtime_level: 0,
                in_process: 0,
                quantum_ns: 0,
            },
            Tolerated,
            "a priority",
            |s| {
                let properties =
                    SchedulingProperties { in_process_priority: 3, ..Default::default() };
                let args = SetContextSchedulingProperties { context: s.hw_context, properties };
                let level = s.passive();
                s.driver.set_context_scheduling_properties(&level, args)
            },
        ),
        (
            AdminCommand::SetBands { process_quantum_ns: [0; 4], normal_percent: 10 },
            Refused,
            "priority bands",
            |s| {
                let args = SetupPriorityBands::default();
                s.driver.setup_priority_bands(&s.passive(), args)
            },
        ),
        (
            AdminCommand::SetLogBuffer {
                queue: QUEUE,
                kind: LogType::Waits,
                header: PLACE,
                payload: PLACE,
                entries: 1,
                notify_every: 0,
            },
            Tolerated,
            "a log",
            |s| {
                let args = SetNativeFenceLogBuffer {
                    hw_queue: s.kernel_queue,
                    log_type: LogType::Waits,
                    number_of_entries: 84,
                    notify_every: 0,
                    gpu_va: 0x9_0000,
                    system_process_gpu_va: 0xA_0000,
                    header: s.platform.page(5).word(0),
                    header_address: PLACE,
                    entries: s.platform.bulk(4032),
                    entries_address: PhysicalAddress(0x1000),
                };
                s.must("DxgkDdiSetNativeFenceLogBuffer", |machine| {
                    machine.driver.set_native_fence_log_buffer(&machine.dispatch(), args);
                })
            },
        ),
        (DESTROY, Refused, "a stop", |s| {
            s.must("DxgkDdiStopDevice", |machine| machine.driver.stop_device(&machine.passive()))
        }),
    ]
}

/// Fences and their peers.
fn rows_of_fences() -> Vec<Row> {
    vec![
        (
            AdminCommand::NotifyFence { address_space: AddressSpaceId(5), current_value: GpuVa(0) },
            Refused,
            "a signal of an open fence",
            |s| s.signal(s.fence),
        ),
        (AdminCommand::RescanWaits, Refused, "a signal of a fence that is not open", |s| {
            let args = fence_args(0xF1);
            let made = s.driver.create_native_fence(&s.passive(), args);
            s.signal(made.unwrap().0)
        }),
        (
            AdminCommand::WatchFence {
                current_value: PLACE,
                monitored_value: PLACE,
                history: true,
            },
            Refused,
            "the first peer of a fence",
            |s| s.link(&[2]),
        ),
        (
            AdminCommand::LinkPeer {
                current_value: PLACE,
                peer: 2,
                monitored_value: PLACE,
                linked: true,
            },
            Refused,
            "a peer of a fence",
            |s| s.link(&[2]),
        ),
    ]
}

/// Power, and the preemption of packets.
fn rows_of_power_and_packets() -> Vec<Row> {
    vec![
        (AdminCommand::PowerDevice { on: false, if_idle: false }, Refused, "D3", |s| {
            let (state, action) = (DevicePowerState::D3, PowerAction::Sleep);
            s.driver.set_power_state(&s.passive(), state, action)
        }),
        (AdminCommand::PowerDevice { on: true, if_idle: false }, Refused, "D0", |s| {
            let (state, action) = (DevicePowerState::D0, PowerAction::None);
            s.driver.set_power_state(&s.passive(), state, action)
        }),
        (POWER, Refused, "F1", |s| {
            let level = s.passive();
            let f1 = ComponentState::F1;
            s.driver.set_power_component_f_state((&level).into(), ENGINE, f1)
        }),
        (POWER, Refused, "F0", |s| {
            let level = s.dispatch();
            let f0 = ComponentState::F0;
            s.driver.set_power_component_f_state((&level).into(), ENGINE, f0)
        }),
        (
            AdminCommand::PreemptNode { engine: 1, preemption_fence_id: 2 },
            Refused,
            "a preemption request",
            |s| {
                s.submit_packet().unwrap();
                let args = PreemptCommand { engine: ENGINE, preemption_fence_id: 2 };
                s.driver.preempt_command(&s.dispatch(), args)
            },
        ),
    ]
}

/// The state of engines, and resets.
fn rows_of_resets() -> Vec<Row> {
    vec![
        (QUERY_ENGINE, Refused, "the status of an engine", |s| {
            s.driver.query_engine_status(&s.passive(), ENGINE).map(|_| ())
        }),
        (QUERY_QUEUE, Tolerated, "the status of an engine that runs no context", |s| {
            s.driver.query_engine_status(&s.passive(), ENGINE).map(|_| ())
        }),
        (QUERY_ENGINE, Refused, "debug information", |s| {
            let (level, reason) = (s.passive(), DebugReason::TimeoutDetected);
            s.driver.collect_debug_info(&level, None, reason).map(|_| ())
        }),
        (QUERY_QUEUE, Tolerated, "debug information of queues", |s| {
            let (level, reason) = (s.passive(), DebugReason::TimeoutDetected);
            s.driver.collect_debug_info(&level, Some(ENGINE), reason).map(|_| ())
        }),
        (RESET, Refused, "a reset for packets", |s| {
            s.driver.reset_engine(&s.passive(), ENGINE).map(|_| ())
        }),
        (SUSPEND, Tolerated, "a reset for packets beside a suspended context", |s| {
            suspended(s);
            s.driver.reset_engine(&s.passive(), ENGINE).map(|_| ())
        }),
        (POWER, Refused, "a reset for hardware queues", |s| {
            s.driver.reset_hw_engine(&s.passive(), ENGINE)
        }),
        (RESET, Refused, "the end of work in a reset for hardware queues", |s| {
            s.driver.reset_hw_engine(&s.passive(), ENGINE)
        }),
        (SUSPEND, Tolerated, "a reset for hardware queues beside a suspended context", |s| {
            suspended(s);
            s.driver.reset_hw_engine(&s.passive(), ENGINE)
        }),
        (POWER, Refused, "the resume of an engine", |s| {
            s.driver.resume_hw_engine(&s.passive(), ENGINE)
        }),
        (AdminCommand::HoldEngines, Refused, "the reset of an adapter", |s| {
            s.driver.reset_from_timeout(&s.passive())
        }),
        (RESET, Refused, "the end of work in the reset of an adapter", |s| {
            s.driver.reset_from_timeout(&s.passive())
        }),
        (SUSPEND, Tolerated, "the reset of an adapter beside a suspended context", |s| {
            suspended(s);
            s.driver.reset_from_timeout(&s.passive())
        }),
        (AdminCommand::ReleaseEngines, Refused, "the restart of an adapter", |s| {
            s.driver.restart_from_timeout(&s.passive())
        }),
    ]
}

/// Suspends the context for hardware queues, while the CMP accepts that. What is planted stays.
fn suspended(s: &Scene) {
    let planted = std::mem::take(&mut s.machine.device.script.lock_device().refused);
    s.suspend().unwrap();
    s.machine.device.script.lock_device().refused = planted;
}

/// A refused command is an argument that the kernel should not have passed. A device that does not
/// answer is gone. A queue that is missing may have ended beside the call.
#[test]
fn each_command_that_is_refused_fails_the_call_that_sends_it() {
    let rows = [
        rows_of_memory,
        rows_of_queues,
        rows_of_settings,
        rows_of_fences,
        rows_of_power_and_packets,
        rows_of_resets,
    ];
    for (command, missing, name, call) in rows.into_iter().flat_map(|rows| rows()) {
        let answer = |status: Option<u64>| {
            let scene = scene();
            if let Some(status) = status {
                scene.machine.refuse(&command, status);
            }
            let answer = call(&scene);
            let sent = scene.machine.commands();
            let number = command.encode()[0];
            assert!(sent.iter().any(|sent| sent.encode()[0] == number), "{name}: {sent:?}");
            answer
        };
        // A stop finds the objects that are left.
        let plain = if name == "a stop" { Err(Status::INVALID_PARAMETER) } else { Ok(()) };
        assert_eq!(answer(None), plain, "{name}");
        let refused = Err(Status::INVALID_PARAMETER);
        assert_eq!(answer(Some(AdminError::BadAddress as u64)), refused, "{name}");
        assert_eq!(answer(Some(u64::MAX)), Err(Status::DEVICE_REMOVED), "{name}");
        let expected = if missing == Tolerated { Ok(()) } else { refused };
        assert_eq!(answer(Some(AdminError::NoSuchQueue as u64)), expected, "{name}");
    }
}

/// A command that needs the end of an engine's turn is begun and then continued. A call at a level
/// that cannot wait has no such command: to it, a device that answers so is gone.
#[test]
fn a_pending_command_is_continued_by_a_call_that_can_wait() {
    let s = scene();
    let resume = AdminCommand::ResumeQueue { queue: QUEUE };
    s.suspend().unwrap();
    s.refuse(&resume, PENDING);
    s.answer(&SUSPEND, (77, 0));
    s.suspend().unwrap();
    s.journal.take();
    assert_eq!(s.driver.resume_context(&s.passive(), s.hw_context), Ok(()));
    let sent = s.commands();
    let kinds = |command: &AdminCommand| match command {
        AdminCommand::ResumeQueue { .. } => "resume".to_owned(),
        AdminCommand::Continue { ticket, at_once: false } => format!("continue {ticket}"),
        other => panic!("{other:?}"),
    };
    let sent: Vec<String> = sent.iter().map(kinds).collect();
    // The ticket is the result of the command. `Continue` has no result here.
    assert_eq!(sent, ["resume", "continue 77", "resume", "continue 0"]);

    s.refuse(&KICK, PENDING);
    assert_eq!(s.submit_packet(), Err(Status::DEVICE_REMOVED));
}

/// Before its start and after its stop the adapter makes no objects, and reports nothing.
#[test]
fn an_adapter_that_is_not_started_refuses_what_needs_the_start() {
    let cold = || Machine::cold(&Platform::host(), Config::standard());
    let stopped = || {
        let machine = Machine::standard();
        machine.driver.stop_device(&machine.passive());
        assert_eq!(machine.driver.violations(), []);
        machine
    };
    for machine in [cold(), stopped()] {
        let (level, driver) = (machine.passive(), &machine.driver);
        let removed = Status::DEVICE_REMOVED;
        let device = CreateDevice { os_handle: OsHandle(1), address_space: 5 };
        assert_eq!(driver.create_device(&level, device), Err(removed));
        assert_eq!(driver.create_native_fence(&level, fence_args(1)).err(), Some(removed));
        let bands = driver.setup_priority_bands(&level, SetupPriorityBands::default());
        assert_eq!(bands, Err(removed));
        let preemption = PreemptCommand { engine: ENGINE, preemption_fence_id: 1 };
        assert_eq!(driver.preempt_command(&machine.dispatch(), preemption), Err(removed));
        assert_eq!(driver.reset_from_timeout(&level), Err(removed));
        machine.journal.take();
        assert!(!driver.interrupt_routine(&machine.dirql()), "no routine reports to no kernel");
        driver.dpc_routine(&machine.dispatch());
        assert_eq!(machine.journal.take(), []);
        driver.stop_device(&level);
        let violations = driver.violations();
        assert_eq!(violations.len(), 1, "{violations:?}");
        assert_eq!(Status::from(violations[0].error), removed);
    }
}

/// Arguments that no kernel passes.
#[test]
fn arguments_outside_of_what_the_adapter_has_are_refused() {
    let Scene { machine, device, context, kernel_queue, fence, .. } = scene();
    let (level, driver) = (machine.passive(), &machine.driver);
    let invalid = Status::INVALID_PARAMETER;
    let context_on = |node_ordinal, engine_affinity| {
        let args = CreateContext { engine_affinity, ..context_args(device, 0xC9, node_ordinal) };
        driver.create_context(&level, args).err()
    };
    for (node, affinity) in [(3, 1), (1, 0), (1, 3), (1, 2)] {
        assert_eq!(context_on(node, affinity), Some(invalid), "node {node}, affinity {affinity}");
    }
    let root = SetRootPageTable { address_space: 5, physical_adapter: 1, root: None };
    assert_eq!(driver.set_root_page_table(&level, root), Err(invalid));
    let nowhere = [EngineId::of_node(3), EngineId { node_ordinal: 1, engine_ordinal: 1 }];
    for engine in nowhere {
        assert_eq!(driver.query_current_fence(&machine.dispatch(), engine), Err(invalid));
        assert_eq!(driver.query_dependent_engine_group(&level, engine), Err(invalid));
        assert_eq!(driver.query_engine_status(&level, engine).err(), Some(invalid));
        assert_eq!(driver.reset_engine(&level, engine), Err(invalid));
        assert_eq!(driver.reset_hw_engine(&level, engine), Err(invalid));
        assert_eq!(driver.resume_hw_engine(&level, engine), Err(invalid));
    }
    let f1 = ComponentState::F1;
    let at_dispatch = driver.set_power_component_f_state((&machine.dispatch()).into(), ENGINE, f1);
    assert_eq!(at_dispatch, Err(invalid), "F1 waits for the end of a turn");
    let of_kind = |wrong: DriverHandle| {
        let properties = SchedulingProperties::default();
        let args = SetContextSchedulingProperties { context: wrong, properties };
        [
            driver.suspend_context(&level, wrong, 1).err(),
            driver.resume_context(&level, wrong).err(),
            driver.set_context_scheduling_properties(&level, args).err(),
            driver.waiting_word(&level, wrong, PLACE).err(),
        ]
    };
    assert_eq!(of_kind(kernel_queue), [Some(invalid); 4]);
    assert!(driver.waiting_word(&level, fence, PLACE).is_ok());
    let out_of_range = [
        SchedulingProperties { in_process_priority: 8, ..Default::default() },
        SchedulingProperties { in_process_priority: -8, ..Default::default() },
        SchedulingProperties { realtime_band_priority_level: 32, ..Default::default() },
    ];
    for properties in out_of_range {
        let args = SetContextSchedulingProperties { context, properties };
        assert_eq!(driver.set_context_scheduling_properties(&level, args), Err(invalid));
    }
    let bands =
        SetupPriorityBands { target_normal_band_percentage: 51, ..SetupPriorityBands::default() };
    assert_eq!(driver.setup_priority_bands(&level, bands), Err(invalid));
    let queue_of_packets = queue_args(context, 0x52, false, 0x8010);
    assert_eq!(driver.create_hw_queue(&level, queue_of_packets).err(), Some(invalid));
    // This device has no common doorbell, and nothing connects to a doorbell of another kind.
    assert_eq!(driver.common_doorbell(&level).err(), Some(Status::NOT_SUPPORTED));
    let foreign = driver.connect_peer(&level, 2, PeerDoorbell::new(7_u32));
    assert_eq!(foreign, Err(Status::NOT_SUPPORTED));
    assert_eq!((machine.commands(), driver.violations()), (vec![], vec![]), "nothing was sent");
    // Only the hardware changes the value of a fence that no CPU reaches.
    let update = UpdateCurrentValue { fence, value: 7, current_value: None };
    let (dispatch, write) = (machine.dispatch(), UpdateCurrentMode::Write);
    driver.update_current_values_from_cpu(&dispatch, &[update], write);
    let errors = driver.violations().into_iter().map(|violation| Status::from(violation.error));
    assert_eq!(errors.collect::<Vec<_>>(), [invalid]);
}

#[test]
fn fence_storage_is_in_the_memory_of_the_first_physical_adapter() {
    let (machine, level) = Machine::at_passive();
    let segments = |physical_adapter_index| {
        let surface = FenceStorageSurfaceData {
            physical_adapter_index,
            value: FenceStorageValueType::MonitoredValue,
            fence_type: NativeFenceType::Default,
            private_driver_data: &[],
        };
        let allocation_type = StandardAllocationType::FenceStorage;
        let args = StandardAllocation { allocation_type, surface };
        machine.driver.get_standard_allocation_driver_data(&level, args)
    };
    assert_ne!(segments(0), segments(1));
    assert_eq!(segments(1), Err(Status::INVALID_PARAMETER));
}
