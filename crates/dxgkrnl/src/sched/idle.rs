//! Owns the contexts that engines are turned to when they have nothing to do, where the hardware
//! switches contexts lazily.
//!
//! Such an engine keeps the state of the context that it worked for last until it gets a packet of
//! another one. That context may be destroyed before, or its save area moved. So whenever an engine
//! has run out of packets VidSch gives it a zero-length buffer of a context of the kernel's own,
//! flagged as a context switch, and the state of the last one is in its save area from then on.
//! That is a packet for each time that an engine falls idle, and none while it has work.

use crate::adapter::Adapter;
use crate::context::{Context, ContextDesc};
use crate::device::Device;
use crate::fence::storage::FencePool;
use crate::memory::AddressSpace;
use crate::process::HandleLookup;
use std::sync::Arc;
use tidegate_calls::{Priority, Status};

/// One context for each engine, in a device of the kernel's own.
pub(crate) struct IdleContexts {
    _contexts: Vec<Arc<Context>>,
}

impl IdleContexts {
    /// Makes them, and tells VidSch.
    pub(crate) fn new(adapter: &Arc<Adapter>) -> Result<IdleContexts, Status> {
        let space = Arc::new(AddressSpace::new(adapter)?);
        let pool = FencePool::new(adapter, &space);
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
            adapter.sched.lock().turn_idle_engine_to(number, context.os_handle);
            Ok(context)
        });
        Ok(IdleContexts { _contexts: contexts.collect::<Result<_, Status>>()? })
    }
}
