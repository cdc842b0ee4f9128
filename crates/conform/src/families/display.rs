//! Clauses of the addresses that flips latch and vertical syncs report.

use super::recent::Recent;
use crate::clause::{Clause, Family};
use crate::journal::{Event, RunEnd};
use crate::tally::Tally;
use crate::twin::Twin;
use tidegate::ddi::{DdiCall, InterruptData};
use tidegate::platform::PhysicalAddress;

const LATCHED: &str = "display-latched";
const SHOWN: &str = "display-shown";

const fn clause(id: &'static str, rule: &'static str, source: &'static str, twin: Twin) -> Clause {
    let (family, situations) = (Family::Display, &["flips"]);
    Clause::new(family, id, rule, source, situations, twin)
}

pub(super) static CLAUSES: [Clause; 2] = [
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

/// The addresses of the source.
#[derive(Default)]
pub(super) struct Walk {
    known: Recent<PhysicalAddress>,
    unlatched: Option<PhysicalAddress>,
}

impl super::Walk for Walk {
    fn event(&mut self, tally: &mut Tally, event: &Event) {
        match event {
            Event::Called(DdiCall::SetVidPnSourceAddress { args }) => {
                self.known.insert_ended(args.primary_address);
                self.unlatched = Some(args.primary_address);
            }
            Event::Report(InterruptData::CrtcVsync { physical_address, .. }) => {
                if self.unlatched == Some(*physical_address) {
                    self.unlatched = None;
                }
                // Before the first flip the display shows what the firmware left.
                let holds = self.known.is_empty() || self.known.contains(*physical_address);
                tally.check(SHOWN, holds, || {
                    format!("the source was never set to {:#x}", physical_address.0)
                });
            }
            _ => {}
        }
    }

    fn end(&mut self, tally: &mut Tally, _end: &RunEnd) {
        if !self.known.is_empty() {
            tally.check_at_end(LATCHED, self.unlatched.is_none(), || {
                format!("{:#x} was never reported", self.unlatched.map_or(0, |at| at.0))
            });
        }
    }
}
