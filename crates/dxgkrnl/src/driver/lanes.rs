//! The timeline lanes of one adapter, and records on them.

use crate::config::AdapterConfig;
use std::sync::OnceLock;
use tidegate_platform::{Platform, once};
use tidegate_trace::{Kind, LaneId, LaneKind, Record};

/// The lanes of one adapter. Lanes that most machines do not use are created on first use.
pub(crate) struct Lanes {
    platform: Platform,
    /// The group of all lanes of the adapter.
    group: String,
    /// Interrupt and DPC routines.
    pub(crate) interrupts: LaneId,
    /// Suspensions and power states.
    power: OnceLock<LaneId>,
    /// Ended processes.
    processes: OnceLock<LaneId>,
    /// Recoveries.
    recovery: OnceLock<LaneId>,
}

impl Lanes {
    pub(super) fn new(platform: &Platform, config: AdapterConfig) -> Lanes {
        let group =
            config.ordinal.map_or_else(|| "GPU".to_owned(), |ordinal| format!("GPU {ordinal}"));
        Lanes {
            interrupts: platform.lane(LaneKind::Interrupt, &group, "interrupts"),
            platform: platform.clone(),
            group,
            power: OnceLock::new(),
            processes: OnceLock::new(),
            recovery: OnceLock::new(),
        }
    }

    /// Creates another lane of the adapter.
    pub(crate) fn lane(&self, kind: LaneKind, name: &str) -> LaneId {
        self.platform.lane(kind, &self.group, name)
    }

    /// Records a power event that ends now.
    pub(crate) fn record_power(&self, what: &str, start_ns: u64, arg: u64) {
        self.record(&self.power, "power", Kind::Mark, what, start_ns, arg);
    }

    /// Records a process end that completes now.
    pub(crate) fn record_process(&self, what: &str, start_ns: u64) {
        self.record(&self.processes, "processes", Kind::Mark, what, start_ns, 0);
    }

    /// Records a recovery (`Kind::Recovery`) or a step of one, which ends now.
    pub(crate) fn record_recovery(&self, kind: Kind, what: &str, start_ns: u64, code: u64) {
        self.record(&self.recovery, "recovery", kind, what, start_ns, code);
    }

    fn record(
        &self,
        lane: &OnceLock<LaneId>,
        lane_name: &str,
        kind: Kind,
        what: &str,
        start_ns: u64,
        arg: u64,
    ) {
        let platform = &self.platform;
        if !platform.tracing() {
            return;
        }
        let make = || self.lane(LaneKind::Interrupt, lane_name);
        let (lane, name) = (*once::make_alone(lane, make), platform.trace_name(what));
        platform
            .record(Record::span(lane, kind, name, start_ns, platform.stamp_ns()).with_arg(arg));
    }
}
