//! Hangs and resets. What is about ids of packets is judged in `work`.

use super::recent::Recent;
use crate::clause::{Clause, Family};
use crate::journal::{Event, RunEnd};
use crate::tally::Tally;
use crate::twin::{Twin, Wrong};
use std::collections::BTreeMap;
use tidegate::ddi::timeout::{DebugInfo, EngineStatus, HwContextLoss};
use tidegate::ddi::{DdiCall, DriverHandle, Entry, OsHandle};

pub(super) const LAST_ABORTED: &str = "recovery-last-aborted";
pub(super) const QUIET: &str = "recovery-quiet";
pub(super) const ABORTED_RUNNING: &str = "recovery-aborted-running";
pub(super) const ABORTED_WRAPPED: &str = "recovery-aborted-wrapped";
const GROUP_NODES: &str = "recovery-group-nodes";
const INVALIDATES_KNOWN: &str = "recovery-invalidates-known";
const GROUP: &str = "recovery-group";
const CULPRIT: &str = "recovery-culprit";
const RUNNING: &str = "recovery-running";
const DEBUG_TEXT: &str = "recovery-debug-text";
const RESPONSIVE: &str = "recovery-responsive";
const INVALIDATES: &str = "recovery-invalidates";

/// The most text of DxgkDdiCollectDbgInfo.
const MOST_TEXT: usize = 4096;

pub(super) static CLAUSES: [Clause; 12] = [
    Clause::new(
        Family::Recovery,
        ABORTED_RUNNING,
        "LastAbortedFenceId of DxgkDdiResetEngine is not the last complete packet while one hangs",
        "PRE-049",
        &["hang"],
        Twin::Callbacks(Wrong::AbortedIsCompleted),
    ),
    Clause::new(
        Family::Recovery,
        ABORTED_WRAPPED,
        "LastAbortedFenceId of DxgkDdiResetEngine is the packet that hangs, also when its id has wrapped",
        "PRE-021, PRE-049",
        &["hang-wrap"],
        Twin::Callbacks(Wrong::AbortedIsLargest),
    ),
    Clause::new(
        Family::Recovery,
        GROUP_NODES,
        "DxgkDdiQueryDependentEngineGroup names nodes of the adapter",
        "PRE-046",
        &["hang"],
        Twin::Layer(|overrides| {
            overrides.query_dependent_engine_group(|inner, level, engine| {
                Ok(inner.query_dependent_engine_group(level, engine)? | 1 << 63)
            })
        }),
    ),
    Clause::new(
        Family::Recovery,
        INVALIDATES_KNOWN,
        "DxgkCbInvalidateHwContext names a context that was created",
        "page DXGKCB_INVALIDATEHWCONTEXT",
        &["hw-hang"],
        Twin::Callbacks(Wrong::InvalidatesUnknown),
    ),
    Clause::new(
        Family::Recovery,
        DEBUG_TEXT,
        "DxgkDdiCollectDbgInfo returns 4096 bytes of text at most",
        "page DXGKARG_COLLECTDBGINFO",
        &["hang"],
        Twin::Layer(|overrides| {
            overrides.collect_debug_info(|inner, level, engine, reason| {
                let info = inner.collect_debug_info(level, engine, reason)?;
                Ok(DebugInfo { text: "x".repeat(MOST_TEXT + 1), ..info })
            })
        }),
    ),
    Clause::new(
        Family::Recovery,
        RESPONSIVE,
        "DxgkDdiQueryEngineStatus says that an engine whose work hangs is not responsive",
        "PRE-045",
        &["hw-hang"],
        Twin::Layer(|overrides| {
            overrides.query_engine_status(|inner, level, engine| {
                let status = inner.query_engine_status(level, engine)?;
                Ok(EngineStatus { responsive: true, ..status })
            })
        }),
    ),
    Clause::new(
        Family::Recovery,
        LAST_ABORTED,
        "LastAbortedFenceId of DxgkDdiResetEngine is a packet in flight, or the last complete one",
        "PRE-049",
        &["hang"],
        Twin::Layer(|overrides| {
            overrides.reset_engine(|inner, level, engine| {
                inner.reset_engine(level, engine).map(|id| id + 1000)
            })
        }),
    ),
    Clause::new(
        Family::Recovery,
        QUIET,
        "between DxgkDdiResetFromTimeout and DxgkDdiRestartFromTimeout no packet is reported that the reset \
         has not ended",
        "PRE-052, PRE-151",
        &["hang-adapter"],
        Twin::Callbacks(Wrong::ReportsWhileReset),
    ),
    Clause::new(
        Family::Recovery,
        GROUP,
        "DxgkDdiQueryDependentEngineGroup names the node itself",
        "PRE-046",
        &["hang"],
        Twin::Layer(|overrides| overrides.query_dependent_engine_group(|_, _, _| Ok(0))),
    ),
    Clause::new(
        Family::Recovery,
        CULPRIT,
        "the resets by DxgkDdiResetHwEngine after a hang name a context whose work hung",
        "PRE-104",
        &["hw-hang"],
        Twin::Callbacks(Wrong::NoInvalidation),
    ),
    Clause::new(
        Family::Recovery,
        INVALIDATES,
        "DxgkCbInvalidateHwContext is called inside of a reset of engines or of the adapter",
        "page DXGKCB_INVALIDATEHWCONTEXT",
        &["hw-hang"],
        Twin::Callbacks(Wrong::LateInvalidation),
    ),
    Clause::new(
        Family::Recovery,
        RUNNING,
        "DxgkDdiQueryEngineStatus names a context that was created, or none",
        "PRE-103",
        &["hw-hang"],
        Twin::Layer(|overrides| {
            overrides.query_engine_status(|inner, level, engine| {
                let status = inner.query_engine_status(level, engine)?;
                Ok(EngineStatus { hw_context: Some(OsHandle(0xDEAD)), ..status })
            })
        }),
    ),
];

/// What was seen of resets.
#[derive(Default)]
pub(super) struct Walk {
    /// Calls that reset and have not returned.
    inside: u32,
    culprits: u64,
    resets: u64,
    failed: bool,
    asked: u64,
    unresponsive: u64,
    /// A bit for each node.
    nodes: Option<u64>,
    contexts: Recent<OsHandle>,
    os_handles: BTreeMap<DriverHandle, OsHandle>,
}

impl crate::walk::Walk for Walk {
    fn event(&mut self, tally: &mut Tally, event: &Event) {
        match event {
            Event::DependentEngines(engine, group) => {
                let itself = 1_u64.checked_shl(engine.node_ordinal).unwrap_or(0);
                tally.check(GROUP, group & itself != 0, || {
                    format!("the group of node {} is {group:#x}", engine.node_ordinal)
                });
                let others = group & !self.nodes.unwrap_or(u64::MAX);
                tally.check(GROUP_NODES, others == 0, || {
                    format!("it names nodes {others:#x}, which the adapter does not have")
                });
            }
            Event::Caps(caps) => {
                let count = caps.nodes.len() as u32;
                self.nodes = Some(1_u64.checked_shl(count).map_or(u64::MAX, |bit| bit - 1));
            }
            Event::Called(DdiCall::CreateContext { args }) => self.contexts.insert(args.os_handle),
            Event::Made { entry: Entry::CreateContext, handle, os_handle } => {
                self.os_handles.insert(*handle, *os_handle);
            }
            Event::Called(DdiCall::DestroyContext { context }) => {
                if let Some(os_handle) = self.os_handles.remove(context) {
                    self.contexts.end(os_handle);
                }
            }
            Event::DebugText(bytes) => {
                tally.check(DEBUG_TEXT, *bytes <= MOST_TEXT, || format!("it has {bytes}"));
            }
            Event::EngineStatus(status) => {
                self.asked += 1;
                self.unresponsive += u64::from(!status.responsive);
                let unknown = status.hw_context.filter(|context| !self.contexts.contains(*context));
                tally.check(RUNNING, unknown.is_none(), || {
                    format!("it named context {:#x}", unknown.map_or(0, |context| context.0))
                });
            }
            Event::Called(DdiCall::ResetHwEngine { .. }) => {
                self.inside += 1;
                self.resets += 1;
            }
            Event::Called(DdiCall::ResetEngine { .. } | DdiCall::ResetFromTimeout {}) => {
                self.inside += 1;
            }
            Event::Returned(Entry::ResetHwEngine, status) => {
                self.inside = self.inside.saturating_sub(1);
                self.failed |= status.is_some_and(|status| !status.is_success());
            }
            Event::Returned(Entry::ResetEngine | Entry::ResetFromTimeout, _) => {
                self.inside = self.inside.saturating_sub(1);
            }
            Event::Invalidated(context, loss) => {
                self.culprits += u64::from(*loss == HwContextLoss::Culprit);
                tally.check(INVALIDATES, self.inside > 0, || {
                    format!("context {:#x} is named outside of a reset", context.0)
                });
                tally.check(INVALIDATES_KNOWN, self.contexts.contains(*context), || {
                    format!("context {:#x} was never created", context.0)
                });
            }
            _ => {}
        }
    }

    fn end(&mut self, tally: &mut Tally, _end: &RunEnd) {
        let Walk { resets, asked, .. } = *self;
        // An engine that is reset only because it depends on another has no culprit.
        if tally.facts.hangs() && resets > 0 && !self.failed {
            tally.check_at_end(CULPRIT, self.culprits > 0, || {
                format!("{resets} resets named no context whose work hung")
            });
        }
        if tally.facts.hangs() && asked > 0 {
            tally.check_at_end(RESPONSIVE, self.unresponsive > 0, || {
                format!("all {asked} answers say that the engine is responsive")
            });
        }
    }
}
