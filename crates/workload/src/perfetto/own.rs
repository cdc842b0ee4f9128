//! Reads Perfetto packets that tidegate wrote.
//!
//! Entry points: [`is_own`], [`read`].

use super::packets::{Note, Packets};
use crate::own_timeline::{Lanes, Raw};
use crate::recording::Recording;

/// Whether tidegate wrote the packets: no other program has both annotations.
pub fn is_own(packets: &Packets) -> bool {
    ["queued_ns", "submission"]
        .iter()
        .all(|name| packets.annotations.iter().any(|known| known == name))
}

/// Reads the slices.
///
/// # Errors
/// A timeline without engines.
pub fn read(packets: Packets) -> Result<Recording, String> {
    let Packets { tracks, slices, .. } = packets;
    let mut lanes = Lanes::default();
    let mut sorted: Vec<_> = tracks.iter().collect();
    sorted.sort_by_key(|(uuid, _)| **uuid);
    for (uuid, track) in sorted {
        let group = tracks.get(&track.parent).map_or("", |parent| &parent.name);
        lanes.track(*uuid, group, &track.name);
    }
    for slice in &slices {
        let (fence, queue) = (slice.text(Note::Fence), slice.text(Note::Queue));
        lanes.record(&Raw {
            track: slice.track,
            kind: &slice.category,
            name: &slice.name,
            start: slice.start,
            end: slice.end,
            queued: slice.number(Note::Queued),
            fence: fence.as_deref().zip(slice.number(Note::Value)),
            submission: slice.number(Note::Submission),
            queue: queue.as_deref(),
        });
    }
    lanes.finish()
}
