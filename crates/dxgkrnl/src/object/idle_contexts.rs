//! The contexts that idle engines switch to, where the hardware switches contexts lazily.
//!
//! Such an engine keeps the state of the last context until it gets a packet of another one. The
//! last context may be destroyed before that, or its save area moved. When an engine runs out of
//! packets, VidSch therefore submits a zero-length packet of a kernel context, flagged as a context
//! switch. That is one packet each time an engine becomes idle, and none while it works.

use super::device::DeviceOwner;
use crate::fence::storage::FencePool;
use crate::memory::AddressSpace;
use crate::object::context::ContextDesc;
use crate::object::objects::Objects;
use std::sync::Arc;
use tidegate_calls::{Priority, Status};
use tidegate_ddi::Passive;

/// Creates a context per engine, in a kernel device, and registers the contexts with VidSch.
pub(crate) fn open(level: &Passive, objects: &Objects) -> Result<(), Status> {
    let space = Arc::new(AddressSpace::new(level, &objects.port)?);
    let pool = FencePool::new(&objects.memory, &space);
    let device = objects.create_device(level, DeviceOwner::kernel(&space, &pool))?;
    let contexts = objects.port.declared.caps.engines().map(|engine| {
        let desc = ContextDesc {
            node_ordinal: engine.node_ordinal,
            engine_affinity: 1 << engine.engine_ordinal,
            hardware_scheduled: false,
            priority: Priority::Realtime,
            paging: false,
        };
        let context = objects.create_context(level, &device, &desc)?;
        objects.sched.lock().set_idle_context(engine, context.os_handle);
        Ok(context)
    });
    *objects.idle_contexts.lock() = contexts.collect::<Result<_, Status>>()?;
    Ok(())
}
