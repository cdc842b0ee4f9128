//! The classes of the kernel's own waits. With the locks ([`crate::lock_order`]) they are in the
//! platform's order of waits, which names circles (decision 139).
//!
//! Invariants: a wait that an agent of the kernel ends is owed by that agent ([`Platform::owe`])
//! for as long as the wait may last. A wait that a DPC ends says so here. Waits that an application
//! ends have no class.
//!
//! [`Platform::owe`]: tidegate_platform::Platform::owe

use tidegate_platform::WaitClass;
use tidegate_platform::wait_order::DPC;

/// Owed by the agent of the exclusive call.
pub(crate) static END_OF_EXCLUSIVE_CALL: WaitClass =
    WaitClass::named("the end of an exclusive call of the driver");
/// Owed by each agent inside of the driver.
pub(crate) static CALLS_LEAVE: WaitClass = WaitClass::named("calls to leave the driver");

/// Owed by the agent that submits packets.
pub(crate) static SUBMISSION_RIGHT: WaitClass = WaitClass::named("the right to submit packets");
pub(crate) static DEPENDENT_PACKETS: WaitClass =
    WaitClass::named("the packets of dependent engines").ended_by(&[&DPC]);
pub(crate) static SUSPENSION: WaitClass =
    WaitClass::named("the acknowledgement of a context suspension").ended_by(&[&DPC]);
pub(crate) static WORK_OF_PROCESS: WaitClass =
    WaitClass::named("the work of an ending process").ended_by(&[&DPC]);
pub(crate) static VERTICAL_SYNC: WaitClass = WaitClass::named("a vertical sync").ended_by(&[&DPC]);

/// Owed by the agent that changes the power.
pub(crate) static ADAPTER_POWER: WaitClass = WaitClass::named("the power of an adapter");
/// Owed by the agent that changes the power.
pub(crate) static ENGINE_POWER: WaitClass = WaitClass::named("the power of an engine");
pub(crate) static DPCS_OF_ADAPTER: WaitClass =
    WaitClass::named("the DPCs of an adapter").ended_by(&[&DPC]);

/// Owed by the pager while it runs.
pub(crate) static PAGER: WaitClass = WaitClass::named("the pager");
pub(crate) static ROOM: WaitClass = WaitClass::named("room in local memory").ended_by(&[&PAGER]);
pub(crate) static FIRST_CONTENT: WaitClass =
    WaitClass::named("the first content of a context allocation").ended_by(&[&PAGER]);
pub(crate) static EVICTION: WaitClass =
    WaitClass::named("allocations in use that must be evicted").ended_by(&[&DPC]);
/// Its packet is submitted by the holder of the right.
pub(crate) static PAGING_OPERATION: WaitClass =
    WaitClass::named("a paging operation").ended_by(&[&DPC, &SUBMISSION_RIGHT]);
