//! Start and stop of the adapter.
//!
//! Order of a start: 1. the configuration is checked against the device; 2. the kernel's features
//! and the device's traits are queried; 3. each engine gets its ring and its hardware queue; 4. the
//! interrupt view gets them and the callbacks; 5. the adapter is marked as started. A failure
//! undoes the steps before it. A stop undoes them in reverse order.

use crate::caps::{Hardware, Negotiated, declare};
use crate::interrupt_view::{InterruptView, Owner, QueueView};
use crate::kernel_ring::NodeRing;
use crate::objects::{EnginePackets, Objects, Started};
use crate::{KmdError, ReferenceDriver};
use std::sync::Arc;
use tidegate_ddi::feature::{DriverFeatureTable, QueryFeatureInterface};
use tidegate_ddi::{AdapterCaps, EngineMap, InterruptService, Passive, StartInfo};
use tidegate_ddi::{ComputePreemption, GraphicsPreemption, PreemptionCaps};
use tidegate_gpu_abi::regs::NodePreemption;
use tidegate_gpu_abi::regs::{DeviceTraits, NodeTraits};
use tidegate_gpu_abi::{AdminCommand, EngineKind, InterruptSink, Register};
use tidegate_platform::PhysicalMemory;

/// Connects the device's interrupt line to the kernel's dispatch.
struct Line {
    service: Arc<dyn InterruptService>,
}

impl InterruptSink for Line {
    fn raise(&self) {
        self.service.raise();
    }

    fn turn_ended(&self) {
        self.service.turn_ended();
    }
}

impl ReferenceDriver {
    pub(crate) fn start(&self, level: &Passive, info: StartInfo) -> Result<(), KmdError> {
        let hardware = self.hardware();
        let device_nodes = self.device.node_count();
        self.config.check(device_nodes, hardware.physical_gpus, hardware.traits)?;
        if hardware.nodes.len() as u64 != u64::from(device_nodes) {
            return Err(KmdError::NotSupported("a node of the device has an unknown class"));
        }
        if self.objects.lock().started.is_some() {
            return Err(KmdError::Argument("the adapter is already started; stop it first"));
        }
        self.mailbox.forget();
        let negotiated = Negotiated::negotiate(level, &self.config, info.features.as_ref())?;
        let packets = self.create_node_rings(level, &info.system_memory)?;
        self.watch_idle_engines()?;
        let mut view = self.view.lock_device();
        view.callbacks = Some(Arc::clone(&info.callbacks));
        view.native_fences = negotiated.native_fence;
        view.fence_kinds_alike = hardware.traits.has(DeviceTraits::FENCE_KINDS_ALIKE);
        view.reported = EngineMap::new(device_nodes, hardware.physical_gpus, |_| 0);
        for (engine, EnginePackets { ring, .. }) in packets.iter() {
            view.queues.insert(ring.queue, QueueView::of_engine(engine));
        }
        drop(view);
        self.objects.lock().started = Some(Started {
            callbacks: info.callbacks,
            system_memory: info.system_memory,
            caps: declare(&self.config, Some(negotiated), &hardware),
            negotiated,
            monitored_shadow: hardware.traits.has(DeviceTraits::MONITORED_SHADOW),
            packets,
        });
        Ok(())
    }

    fn create_node_rings(
        &self,
        level: &Passive,
        memory: &PhysicalMemory,
    ) -> Result<EngineMap<EnginePackets>, KmdError> {
        let (nodes, physical_gpus) = (self.device.node_count(), self.device.physical_gpu_count());
        let mut made = Vec::new();
        let packets = EngineMap::try_new(nodes, physical_gpus, |engine| {
            let ring = Arc::new(self.create_node_ring(memory, engine)?);
            made.push(Arc::clone(&ring));
            Ok(EnginePackets { ring, submitted: 0 })
        });
        if packets.is_err() {
            made.iter().try_for_each(|ring| self.destroy_node_ring(level, ring, memory))?;
        }
        packets
    }

    fn destroy_node_ring(
        &self,
        level: &Passive,
        ring: &NodeRing,
        memory: &PhysicalMemory,
    ) -> Result<(), KmdError> {
        self.mailbox.complete(level, AdminCommand::DestroyQueue { queue: ring.queue })?;
        ring.ring.release(memory);
        Ok(())
    }

    pub(crate) fn stop(&self, level: &Passive) -> Result<(), KmdError> {
        let objects = std::mem::replace(&mut *self.objects.lock(), Objects::new(&self.config));
        // From now on the interrupt routine reports nothing, and a running routine has ended.
        let view = std::mem::replace(&mut *self.view.lock_device(), InterruptView::new());
        let started = objects.started.as_ref().ok_or(KmdError::NotStarted)?;
        let mut left: Vec<_> = view
            .queues
            .iter()
            .filter(|(_, q)| !matches!(q.owner, Owner::Node))
            .map(|(id, _)| *id)
            .collect();
        left.sort();
        for queue in left {
            self.mailbox.complete(level, AdminCommand::DestroyQueue { queue })?;
        }
        for fence in objects.fences.handles().filter(|_| started.monitored_shadow) {
            self.mailbox.run(AdminCommand::DropShadow { fence: fence.0 })?;
        }
        for ring in objects.hw_queues.values().filter_map(|q| q.ring.as_ref()) {
            ring.release(&started.system_memory);
        }
        let mut packets = started.packets.values();
        packets
            .try_for_each(|of| self.destroy_node_ring(level, &of.ring, &started.system_memory))?;
        objects
            .leftovers()
            .next()
            .map_or(Ok(()), |(parent, children)| Err(KmdError::StillInUse { parent, children }))
    }

    pub(crate) fn caps(&self) -> AdapterCaps {
        let started = self.objects.lock().started.as_ref().map(|s| s.caps.clone());
        started.unwrap_or_else(|| declare(&self.config, None, &self.hardware()))
    }

    /// Reads the device's properties. Nodes of an unknown class are left out.
    fn hardware(&self) -> Hardware {
        let node = |n| {
            let read = |first: Register| self.device.read_register(first.offset(n));
            let class = EngineKind::from_number(read(Register::NODE_CLASS))?;
            Some((class, NodeTraits(read(Register::NODE_TRAITS))))
        };
        Hardware {
            traits: DeviceTraits(self.device.read_register(Register::DEVICE_TRAITS)),
            nodes: (0..self.device.node_count()).filter_map(node).collect(),
            preemption: self.preemption(),
            display: self.display(),
            physical_gpus: self.device.physical_gpu_count(),
        }
    }

    /// Returns the preemption granularity of the adapter: the coarsest of its engines.
    // spec: PRE-011
    fn preemption(&self) -> PreemptionCaps {
        let nodes = (0..self.device.node_count()).map(|n| {
            NodePreemption::decode(self.device.read_register(Register::NODE_PREEMPTION.offset(n)))
        });
        let (graphics, compute): (Vec<_>, Vec<_>) = nodes.map(|n| (n.graphics, n.compute)).unzip();
        PreemptionCaps {
            graphics: graphics.into_iter().min().unwrap_or(GraphicsPreemption::None),
            compute: compute.into_iter().min().unwrap_or(ComputePreemption::None),
        }
    }

    pub(crate) fn feature_table(
        &self,
        query: QueryFeatureInterface,
    ) -> Result<DriverFeatureTable, KmdError> {
        let negotiated = self.objects.lock().started()?.negotiated;
        negotiated.table(query)
    }

    pub(crate) fn connect_line(&self, service: Arc<dyn InterruptService>) {
        self.device.connect_interrupt(Arc::new(Line { service }));
    }
}
