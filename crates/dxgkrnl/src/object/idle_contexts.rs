//! The contexts that idle engines switch to, where the hardware switches contexts lazily.
//!
//! Such an engine keeps the state of the last context until it gets a packet of another one. The
//! last context may be destroyed before that, or its save area moved. When an engine runs out of
//! packets, VidSch therefore submits a zero-length packet of a context of the kernel's own, flagged
//! as a context switch. That is one packet each time an engine becomes idle, and none while it works.

use crate::adapter::Adapter;
use crate::fence::storage::FencePool;
use crate::memory::AddressSpace;
use crate::object::context::{Context, ContextDesc};
use crate::object::device::Device;
use crate::object::process::HandleLookup;
use std::sync::Arc;
use tidegate_calls::{Priority, Status};

/// One context for each engine, in a device of the kernel's own.
pub(crate) struct IdleContexts {
    _contexts: Vec<Arc<Context>>,
}

impl IdleContexts {
    /// Makes the contexts and names them to VidSch.
    pub(crate) fn new(adapter: &Arc<Adapter>) -> Result<IdleContexts, Status> {
        let space = Arc::new(AddressSpace::new(&adapter.port)?);
        let pool = FencePool::new(&adapter.memory, &space);
        let device = Device::new(adapter, &space, &pool, HandleLookup::none(), false)?;
        let contexts = (0..adapter.caps.engine_count()).map(|number| {
            let engine = adapter.caps.engine(number);
            let desc = ContextDesc {
                node_ordinal: engine.node_ordinal,
                engine_affinity: 1 << engine.engine_ordinal,
                hardware_scheduled: false,
                priority: Priority::Realtime,
                tag: 0,
                lane: 0,
                paging: false,
            };
            let context = Context::new(&device, &desc)?;
            adapter.sched.set_idle_context(engine, context.os_handle);
            Ok(context)
        });
        Ok(IdleContexts { _contexts: contexts.collect::<Result<_, Status>>()? })
    }
}
