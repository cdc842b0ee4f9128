//! A driver of your own, for hardware that has neither hardware queues, doorbells nor native
//! fences. It is in front of the reference driver, hides what the hardware lacks, and counts
//! packets.

use std::sync::Arc;
use tidegate::d3d12::{BufferDesc, CommandListType, DeviceOptions, QueueDesc, Submission};
use tidegate::ddi::feature::{FeatureSupport, QueryFeatureSupport};
use tidegate::ddi::queue::SubmitCommandVirtual as Packet;
use tidegate::ddi::{AdapterCaps, Dispatch, Driver, DriverLayer, EntryGroup, Passive, Status};
use tidegate::platform::Mutex;
use tidegate::{Machine, MachineConfig, Platform};

struct PacketDriver {
    reference: Arc<dyn Driver>,
    packets_per_node: Mutex<Vec<u32>>,
}

/// Each entry that is not written here is passed on to the reference driver.
impl DriverLayer for PacketDriver {
    fn inner(&self) -> &dyn Driver {
        &*self.reference
    }

    /// Hardware queues, their priorities, doorbells and native fences are optional features.
    fn hides(&self, group: EntryGroup) -> bool {
        group.feature().is_some()
    }

    /// DXGKDDI_QUERYFEATURESUPPORT: the default is no support.
    fn query_feature_support(&self, _: &Passive, _: QueryFeatureSupport) -> FeatureSupport {
        FeatureSupport::default()
    }

    /// DxgkDdiQueryAdapterInfo: without the groups, their capabilities must not be declared.
    fn query_adapter_caps(&self, level: &Passive) -> AdapterCaps {
        let mut caps = self.reference.query_adapter_caps(level);
        caps.scheduling.remove(tidegate::ddi::VidSchCaps::NATIVE_GPU_FENCE);
        for node in &mut caps.nodes {
            node.context_scheduling = false;
            node.user_mode_submission = false;
        }
        self.packets_per_node.lock().resize(caps.nodes.len(), 0);
        caps
    }

    /// DxgkDdiSubmitCommandVirtual: a packet for one node.
    fn submit_command_virtual(&self, level: &Dispatch, packet: Packet) -> Result<(), Status> {
        self.packets_per_node.lock()[packet.engine.node_ordinal as usize] += 1;
        self.reference.submit_command_virtual(level, packet)
    }
}

/// Copies on an adapter with this driver.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let platform = Platform::host();
    let mut own = None;
    let (machine, config) = (Machine::builder(&platform), MachineConfig::standard(&platform));
    let machine = machine.reference_behind(config, |reference| {
        let packets_per_node = platform.mutex("packets of each node", Vec::new());
        own.insert(Arc::new(PacketDriver { reference, packets_per_node })).clone()
    });
    let machine = machine.start()?;
    let device = machine.device(DeviceOptions::new("application"))?;
    let queue = device.create_queue(QueueDesc::copy("copy"))?;
    assert_eq!((queue.submission(), device.makes_native_fences()), (Submission::Packet, false));
    let result = device.create_buffer(BufferDesc::readback("result", 4096))?;
    let source = device.create_buffer(BufferDesc::upload("source", 4096))?;
    source.write(0, &[7; 4096])?;
    let mut list = device.create_command_list(CommandListType::Copy);
    list.copy(&result, 0, &source, 0, 4096)?;
    queue.execute(&[&list.close()?])?;
    queue.wait_idle()?;
    let mut seen = [0; 4096];
    result.read(0, &mut seen)?;
    assert_eq!(seen, [7; 4096]);
    let packets = own.expect("the machine has started").packets_per_node.lock().clone();
    println!("a copy ran on an adapter that takes {} submission alone", queue.submission());
    println!("packets that the driver received for each node: {packets:?}");
    Ok(())
}
