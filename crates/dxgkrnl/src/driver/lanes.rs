//! The timeline lanes of one adapter, and records on them.

use crate::config::AdapterConfig;
use std::sync::OnceLock;
use tidegate_platform::{Platform, once};
use tidegate_trace::{Kind, LaneId, LaneKind, Record};

/// A lane that is created on first use.
#[derive(Default)]
pub(crate) struct OwnLane(OnceLock<LaneId>);

/// The lanes of one adapter.
pub(crate) struct Lanes {
    platform: Platform,
    /// The group of all lanes of the adapter.
    group: String,
    /// Interrupt and DPC routines.
    pub(crate) interrupts: LaneId,
    /// Suspensions and power states.
    power: OwnLane,
    /// Ended processes.
    processes: OwnLane,
    /// Recoveries.
    recovery: OwnLane,
}

impl Lanes {
    pub(super) fn new(platform: &Platform, config: AdapterConfig) -> Lanes {
        let group =
            config.ordinal.map_or_else(|| "GPU".to_owned(), |ordinal| format!("GPU {ordinal}"));
        Lanes {
            interrupts: platform.lane(LaneKind::Interrupt, &group, "interrupts"),
            platform: platform.clone(),
            group,
            power: OwnLane::default(),
            processes: OwnLane::default(),
            recovery: OwnLane::default(),
        }
    }

    /// Creates another lane of the adapter.
    pub(crate) fn lane(&self, kind: LaneKind, name: &str) -> LaneId {
        self.platform.lane(kind, &self.group, name)
    }

    /// Records a power event that ends now.
    pub(crate) fn record_power(&self, what: &str, start_ns: u64, arg: u64) {
        if let Some(lane) = self.traced(&self.power, "power") {
            self.record(lane, Kind::Mark, what, start_ns, arg);
        }
    }

    /// Records a process end that completes now.
    pub(crate) fn record_process(&self, what: &str, start_ns: u64) {
        if let Some(lane) = self.traced(&self.processes, "processes") {
            self.record(lane, Kind::Mark, what, start_ns, 0);
        }
    }

    /// Records a recovery (`Kind::Recovery`) or a step of one, which ends now.
    pub(crate) fn record_recovery(&self, kind: Kind, what: &str, start_ns: u64, code: u64) {
        if let Some(lane) = self.traced(&self.recovery, "recovery") {
            self.record(lane, kind, what, start_ns, code);
        }
    }

    /// Returns the lane if the machine is traced.
    fn traced(&self, lane: &OwnLane, name: &str) -> Option<LaneId> {
        let make = || self.lane(LaneKind::Interrupt, name);
        self.platform.tracing().then(|| *once::make_alone(&lane.0, make))
    }

    fn record(&self, lane: LaneId, kind: Kind, what: &str, start_ns: u64, arg: u64) {
        let (platform, name) = (&self.platform, self.platform.trace_name(what));
        platform
            .record(Record::span(lane, kind, name, start_ns, platform.stamp_ns()).with_arg(arg));
    }
}
