//! The colours of every page: of kinds of records, of parts of the critical path, of names of work.
//!
//! Invariants: a part has the colour of the records that make it, where one kind makes it. White
//! text on a part is readable. The script and the style sheet take all of these colours from
//! [`meta`] and [`style`].
//!
//! Entry points: [`of_kind`], [`of_part`], [`meta`], [`style`].

use crate::critical_path::PathPart;
use crate::json;
use crate::model::Kind;
use std::fmt::Write as _;

/// The colours of names of work, the longest first. Neighbours differ most.
const NAMES: [&str; 18] = [
    "#4673b4", "#e08a2b", "#4f9b4b", "#7f62b3", "#2f9c95", "#a9802a", "#7aa8d8", "#8c6d5e",
    "#9bbf4d", "#5a5f8f", "#d0a63c", "#5f8f7b", "#a992cf", "#3b8ec2", "#b87f50", "#78934f",
    "#6f7d8c", "#57a6a1",
];

/// Time that no part has, because the run has no account.
const UNACCOUNTED: &str = "#4a5260";

/// The colour of a kind of record.
pub(crate) fn of_kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Execute | Kind::ExecuteQueued => of_part(PathPart::Gpu),
        Kind::Copy => of_part(PathPart::Copy),
        Kind::Fill => "#6d9a3f",
        Kind::Dispatch => "#e0881c",
        Kind::Draw => "#6f5bd0",
        Kind::Timed => "#6b7a90",
        Kind::Wait => "#f9b4d0",
        Kind::Signal => of_part(PathPart::Sync),
        Kind::CpuWait => "#f6c3ea",
        Kind::CpuSignal => "#9c1a86",
        Kind::Submit => of_part(PathPart::Launch),
        Kind::KernelCall => "#8b6f62",
        Kind::Interrupt | Kind::NeverRan | Kind::Recovery => "#d62f2f",
        Kind::Dpc => "#b86a52",
        Kind::Doorbell => "#c7a500",
        Kind::MapWrite => of_part(PathPart::Host),
        Kind::Mark => "#94a1b2",
        Kind::Lost => "#222222",
        Kind::WaitQueued => "#e58ab4",
        Kind::SignalQueued => "#d9689a",
        Kind::Flip => "#4f9d5d",
        Kind::VSync => "#2e6b46",
        Kind::Gap => of_part(PathPart::Idle),
        Kind::Preempted => "#c9ced6",
        Kind::Step => "#7c8da5",
        Kind::Store => "#c7762a",
        Kind::Flush => "#2a7f62",
    }
}

/// The colour of a part of the critical path.
pub(crate) fn of_part(part: PathPart) -> &'static str {
    match part {
        PathPart::Gpu => "#3d6fb8",
        PathPart::Copy => "#23807a",
        PathPart::Launch => "#9a6412",
        PathPart::Sync => "#c2185b",
        PathPart::Host => "#5f6b1f",
        PathPart::Idle => "#6d7580",
        PathPart::StartUp => "#7b4a8f",
    }
}

/// The class of a part in the style sheet; `None` is time that no part has.
pub(crate) fn class(part: Option<PathPart>) -> String {
    match part {
        Some(part) => format!("part-{}", part as u8),
        None => "part-none".to_owned(),
    }
}

/// The rules of the style sheet for parts and names.
pub(crate) fn style() -> String {
    let mut out = String::new();
    for part in PathPart::ALL {
        let _ = writeln!(out, ".{} {{ background: {}; }}", class(Some(part)), of_part(part));
    }
    let _ = writeln!(out, ".{} {{ background: {UNACCOUNTED}; }}", class(None));
    let _ = writeln!(
        out,
        "#legend .many {{ background: linear-gradient(90deg, {} 33%, {} 33% 66%, {} 66%); }}",
        NAMES[0], NAMES[1], NAMES[2]
    );
    out
}

/// The members of the page's metadata: colours by kind, colours of names, and for each part its
/// label, colour and definition.
pub(crate) fn meta() -> String {
    let list = |items: Vec<String>| format!("[{}]", items.join(","));
    let part = |part: PathPart| {
        let texts = [part.label(), of_part(part), part.meaning()];
        list(texts.map(json::string).to_vec())
    };
    format!(
        "\"kind_colours\":{},\"name_colours\":{},\"parts\":{}",
        list(Kind::ALL.iter().map(|kind| json::string(of_kind(*kind))).collect()),
        list(NAMES.iter().map(|colour| json::string(colour)).collect()),
        list(PathPart::ALL.into_iter().map(part).collect()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The contrast of white text on a colour, as the guidelines of accessibility define it.
    fn contrast_of_white(colour: &str) -> f64 {
        let channel = |at: usize| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        let luminance = 0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5);
        1.05 / (luminance + 0.05)
    }

    #[test]
    fn white_text_is_readable_on_every_part_and_no_two_parts_are_alike() {
        let colours: Vec<&str> =
            PathPart::ALL.into_iter().map(of_part).chain([UNACCOUNTED]).collect();
        for colour in &colours {
            assert!(contrast_of_white(colour) >= 4.5, "{colour}: {}", contrast_of_white(colour));
        }
        let distinct: std::collections::BTreeSet<&str> = colours.iter().copied().collect();
        assert_eq!(distinct.len(), colours.len());
    }

    #[test]
    fn the_pages_have_no_colours_beside_the_palette() {
        for (file, text) in [
            ("compare_page.rs", include_str!("compare_page.rs")),
            ("colours.js", include_str!("html/colours.js")),
            ("path.js", include_str!("html/path.js")),
            ("details.js", include_str!("html/details.js")),
            ("timeline.css", include_str!("html/timeline.css")),
        ] {
            for part in PathPart::ALL {
                assert!(!text.contains(of_part(part)), "{file} has {}", of_part(part));
            }
            for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Lost) {
                assert!(!text.contains(of_kind(kind)), "{file} has {}", of_kind(kind));
            }
            assert!(NAMES.iter().all(|colour| !text.contains(colour)), "{file}");
        }
    }
}
