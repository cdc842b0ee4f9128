//! Clauses of the addresses that flips latch and vertical syncs report.

use super::recent::Recent;
use crate::clause::{Clause, Family};
use crate::journal::{Event, RunEnd};
use crate::tally::Tally;
use crate::twin::{Twin, Wrong};
use std::collections::VecDeque;
use tidegate::ddi::display::VID_PN_TARGET;
use tidegate::ddi::{DdiCall, DevicePowerState, Entry, InterruptData, InterruptType, Status};
use tidegate::platform::PhysicalAddress;

const LATCHED: &str = "display-latched";
const PROMPT: &str = "display-prompt";
const FORWARD: &str = "display-forward";
const OFF: &str = "display-off";
const TARGET: &str = "display-target";
const SHOWN: &str = "display-shown";

const fn clause(id: &'static str, rule: &'static str, source: &'static str, twin: Twin) -> Clause {
    let (family, situations) = (Family::Display, &["flips"]);
    Clause::new(family, id, rule, source, situations, twin)
}

/// Addresses that are kept while none is reported.
const MOST_UNLATCHED: usize = 64;

pub(super) static CLAUSES: [Clause; 6] = [
    clause(
        PROMPT,
        "an address is reported by the second vertical sync after DxgkDdiSetVidPnSourceAddress",
        "page DXGKDDI_SETVIDPNSOURCEADDRESS",
        Twin::Callbacks(Wrong::VsyncLate),
    ),
    clause(
        FORWARD,
        "CRTC_VSYNC does not carry an address that a later one has replaced",
        "page DXGKARGCB_NOTIFY_INTERRUPT_DATA",
        Twin::Callbacks(Wrong::VsyncGoesBack),
    ),
    clause(
        OFF,
        "no CRTC_VSYNC is reported while DxgkDdiControlInterrupt has turned it off",
        "page DXGKDDI_CONTROLINTERRUPT",
        Twin::Layer(|overrides| {
            overrides.control_interrupt(|inner, level, interrupt_type, enable| match enable {
                true => inner.control_interrupt(level, interrupt_type, enable),
                false => Ok(()),
            })
        }),
    ),
    clause(
        TARGET,
        "CRTC_VSYNC names the target of the display",
        "page DXGKARGCB_NOTIFY_INTERRUPT_DATA",
        Twin::Reports(|reports, _| {
            if let [InterruptData::CrtcVsync { vid_pn_target_id, .. }] = &mut reports[..] {
                *vid_pn_target_id += 7;
            }
        }),
    ),
    clause(
        LATCHED,
        "the last address of DxgkDdiSetVidPnSourceAddress is reported by a CRTC_VSYNC",
        "page DXGKDDI_SETVIDPNSOURCEADDRESS",
        Twin::Reports(|reports, _| {
            reports.retain(|report| !matches!(report, InterruptData::CrtcVsync { .. }));
        }),
    ),
    Clause {
        also: &[LATCHED],
        ..clause(
            SHOWN,
            "CRTC_VSYNC carries an address that the source was set to",
            "page DXGKARGCB_NOTIFY_INTERRUPT_DATA",
            Twin::Reports(|reports, _| {
                if let [InterruptData::CrtcVsync { physical_address, .. }] = &mut reports[..] {
                    physical_address.0 += 0x1000_0000;
                }
            }),
        )
    },
];

/// The flips of the source.
#[derive(Default)]
pub(super) struct Walk {
    known: Recent<PhysicalAddress>,
    /// The address that was reported last.
    shown: Option<PhysicalAddress>,
    /// Addresses that were set since, oldest first.
    unlatched: VecDeque<PhysicalAddress>,
    /// The last address that was set, if it was not reported.
    unreported: Option<PhysicalAddress>,
    /// Vertical syncs since the last address was set.
    syncs: u32,
    is_off: bool,
    turns_on: Option<bool>,
}

impl crate::walk::Walk for Walk {
    fn event(&mut self, tally: &mut Tally, event: &Event) {
        match event {
            Event::Called(DdiCall::SetVidPnSourceAddress { args }) => {
                self.known.insert_ended(args.primary_address);
                self.unreported = Some(args.primary_address);
                self.unlatched.push_back(args.primary_address);
                if self.unlatched.len() > MOST_UNLATCHED {
                    self.unlatched.pop_front();
                }
                self.syncs = 0;
            }
            Event::Called(DdiCall::SetVidPnSourceVisibility { .. }) => {
                self.unlatched.clear();
                // The kernel waits for no latch of a dark source. Our programs wait for each.
                self.unreported = self.unreported.filter(|_| tally.facts.has_results());
            }
            // The source is as before the first flip.
            Event::Called(DdiCall::ResetFromTimeout {})
            | Event::Power(DevicePowerState::D3, _, Status::SUCCESS) => {
                let unreported = self.unreported.filter(|_| tally.facts.has_results());
                *self = Walk { is_off: self.is_off, unreported, ..Walk::default() };
            }
            Event::Called(DdiCall::ControlInterrupt { interrupt_type, enable })
                if *interrupt_type == InterruptType::CrtcVsync =>
            {
                self.turns_on = Some(*enable);
                self.is_off &= !enable;
            }
            Event::Returned(Entry::ControlInterrupt, Some(status)) => {
                let turned_off = self.turns_on.take() == Some(false);
                self.is_off |= turned_off && status.is_success();
                self.syncs = 0;
            }
            Event::Report(InterruptData::CrtcVsync { vid_pn_target_id, physical_address }, _) => {
                tally.check(TARGET, *vid_pn_target_id == VID_PN_TARGET, || {
                    format!("it names target {vid_pn_target_id}")
                });
                tally.check(OFF, !self.is_off, || "it is reported while it is off".to_owned());
                self.synced(tally, *physical_address);
            }
            _ => {}
        }
    }

    fn end(&mut self, tally: &mut Tally, _end: &RunEnd) {
        if !self.known.is_empty() || self.unreported.is_some() {
            let left = self.unreported;
            tally.check_at_end(LATCHED, left.is_none(), || {
                format!("{:#x} was never reported", left.map_or(0, |at| at.0))
            });
        }
    }
}

impl Walk {
    fn synced(&mut self, tally: &mut Tally, address: PhysicalAddress) {
        // Before the first flip the display shows what the firmware left.
        if self.known.is_empty() {
            return;
        }
        let is_known = self.known.contains(address);
        // A vertical sync may have come before the first flip, and be reported after it.
        if !is_known && self.shown.is_none() {
            self.shown = Some(address);
            return;
        }
        tally.check(SHOWN, is_known, || format!("the source was never set to {:#x}", address.0));
        let latched = self.unlatched.iter().rposition(|of| *of == address);
        let is_old = is_known && latched.is_none() && self.shown.is_some_and(|of| of != address);
        tally.check(FORWARD, !is_old, || {
            let shown = self.shown.map_or(0, |at| at.0);
            format!("{:#x} is reported, which {shown:#x} has replaced", address.0)
        });
        self.unreported = self.unreported.filter(|of| *of != address);
        self.syncs += 1;
        if let Some(latched) = latched {
            self.unlatched.drain(..=latched);
        }
        // A vertical sync may have come before the address was set, and be reported after it.
        let is_late = is_known && self.syncs >= 2 && !self.unlatched.is_empty();
        tally.check(PROMPT, !is_late, || {
            let late = self.unlatched.back().map_or(0, |at| at.0);
            format!("{:#x} is not reported by the second vertical sync after it was set", late)
        });
        if latched.is_some() || self.shown.is_none() {
            self.shown = Some(address);
        }
    }
}
