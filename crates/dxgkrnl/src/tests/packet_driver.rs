//! A driver of WDDM 2.0 that takes packets and nothing else: the least that a driver writes.

use crate::{Adapter, AdapterConfig, ObjectNames};
use std::sync::Arc;
use tidegate_calls::{CreateContextVirtual, Kernel, Priority, SubmitCommand};
use tidegate_ddi::memory::{PageTableShape, PagingOperation, Segment, UpdatePageTable};
use tidegate_ddi::queue::{CreateContext, CreateDevice, SetRootPageTable, SubmitCommandVirtual};
use tidegate_ddi::{
    AdapterCaps, DdiVersion, Dirql, Dispatch, Driver, DriverHandle, EngineId, EntryGroup,
    InterruptData, InterruptService, MonitoredNotification, NodeMetadata, Passive, StartInfo,
    Status, VidSchCaps,
};
use tidegate_platform::{Mutex, PhysicalAddress, PhysicalMemory, Platform};

/// A device whose packets are complete when the test raises the interrupt.
pub(crate) struct PacketDriver {
    start: Mutex<Option<StartInfo>>,
    line: Mutex<Option<Arc<dyn InterruptService>>>,
    submitted: Mutex<Vec<u32>>,
    refuses: Mutex<bool>,
    /// How each node notifies of monitored fences.
    nodes: Vec<MonitoredNotification>,
}

impl PacketDriver {
    pub(super) fn new(platform: &Platform) -> Arc<PacketDriver> {
        PacketDriver::with_nodes(platform, &[MonitoredNotification::Basic])
    }

    pub(super) fn with_nodes(
        platform: &Platform,
        nodes: &[MonitoredNotification],
    ) -> Arc<PacketDriver> {
        Arc::new(PacketDriver {
            start: platform.mutex("start info", None),
            line: platform.mutex("interrupt line", None),
            submitted: platform.mutex("packets", Vec::new()),
            refuses: platform.mutex("refusal", false),
            nodes: nodes.to_vec(),
        })
    }

    /// How many packets it has.
    pub(super) fn submitted(&self) -> usize {
        self.submitted.lock().len()
    }

    /// The next packet is malformed.
    pub(super) fn refuse_next(&self) {
        *self.refuses.lock() = true;
    }

    fn complete_all(&self) {
        let line = self.line.lock().clone().unwrap();
        line.raise();
        line.turn_ended();
    }
}

impl Driver for PacketDriver {
    fn ddi_version(&self) -> DdiVersion {
        DdiVersion::WDDM_2_0
    }

    fn start_device(&self, _: &Passive, start: StartInfo) -> Result<(), Status> {
        *self.start.lock() = Some(start);
        Ok(())
    }

    fn stop_device(&self, _: &Passive) {}

    fn query_adapter_caps(&self, _: &Passive) -> AdapterCaps {
        let node = |monitored_notification: &MonitoredNotification| NodeMetadata {
            engine_type: tidegate_d3dukmdt::EngineKind::ThreeD,
            friendly_name: "3D".to_owned(),
            context_scheduling: false,
            user_mode_submission: false,
            max_in_flight_hw_queue_buffers: 0,
            writes_fences: false,
            monitored_notification: *monitored_notification,
        };
        AdapterCaps {
            scheduling: VidSchCaps::MULTI_ENGINE_AWARE,
            nodes: self.nodes.iter().map(node).collect(),
            physical_adapters: 1,
            ..AdapterCaps::default()
        }
    }

    fn page_table_shape(&self, _: &Passive) -> PageTableShape {
        PageTableShape { page_bytes: 65_536, levels: 3, index_bits: 9, table_bytes: 4096 }
    }

    fn query_segments(&self, _: &Passive) -> Vec<Segment> {
        Vec::new()
    }

    fn update_page_table(&self, _: &Passive, _: UpdatePageTable<'_>) -> Result<(), Status> {
        Ok(())
    }

    fn build_paging_buffer(&self, _: &Passive, _: PagingOperation<'_>) -> Result<(), Status> {
        Ok(())
    }

    fn set_root_page_table(&self, _: &Passive, _: SetRootPageTable) -> Result<(), Status> {
        Ok(())
    }

    fn create_device(&self, _: &Passive, args: CreateDevice) -> Result<DriverHandle, Status> {
        Ok(DriverHandle(args.os_handle.0))
    }

    fn destroy_device(&self, _: &Passive, _: DriverHandle) {}

    fn create_context(&self, _: &Passive, args: CreateContext) -> Result<DriverHandle, Status> {
        Ok(DriverHandle(args.os_handle.0))
    }

    fn destroy_context(&self, _: &Passive, _: DriverHandle) {}

    fn submit_command_virtual(
        &self,
        _: &Dispatch,
        args: SubmitCommandVirtual,
    ) -> Result<(), Status> {
        if std::mem::take(&mut *self.refuses.lock()) {
            return Err(Status::INVALID_PARAMETER);
        }
        self.submitted.lock().push(args.submission_fence_id);
        Ok(())
    }

    fn interrupt_routine(&self, level: &Dirql<'_>) -> bool {
        let last = self.submitted.lock().pop();
        let callbacks = self.start.lock().as_ref().unwrap().callbacks.clone();
        if let Some(submission_fence_id) = last {
            let engine = EngineId::of_node(0);
            let data = InterruptData::DmaCompleted { engine, submission_fence_id };
            callbacks.notify_interrupt(level, data);
            callbacks.queue_dpc(level);
        }
        last.is_some()
    }

    fn dpc_routine(&self, level: &Dispatch) {
        let callbacks = self.start.lock().as_ref().unwrap().callbacks.clone();
        callbacks.notify_dpc(level);
    }

    fn connect_interrupt(&self, _: &Passive, service: Arc<dyn InterruptService>) {
        *self.line.lock() = Some(service);
    }
}

#[test]
fn a_driver_for_packets_writes_the_base_entries_alone_and_runs_packets() {
    let platform = Platform::closed_host();
    let driver = PacketDriver::new(&platform);
    let as_driver: Arc<dyn Driver> = driver.clone();
    assert!(EntryGroup::ALL.iter().all(|group| !as_driver.has(*group)));
    let memory = PhysicalMemory::new(&platform, PhysicalAddress(0));
    let config = AdapterConfig::standard(&platform);
    let names = ObjectNames::new(&platform);
    let adapter = Adapter::start(&platform, as_driver, &memory, &names, config).unwrap();
    let process = adapter.open("a process").unwrap();
    let device = process.create_device().unwrap();
    let args = CreateContextVirtual {
        device,
        node_ordinal: 0,
        engine_affinity: 0,
        priority: Priority::Normal,
    };
    let context = process.create_context_virtual(args).unwrap();
    let packet = |commands_gpu_va| SubmitCommand { context, commands_gpu_va, command_bytes: 64 };
    for at in [0x1_0000, 0x2_0000, 0x3_0000] {
        process.submit_command(packet(at)).unwrap();
        driver.complete_all();
    }
    process.destroy_context(context).unwrap();
    assert_eq!((driver.submitted(), adapter.bug_checks()), (0, Vec::new()));
    drop(process);
    adapter.stop();
}
