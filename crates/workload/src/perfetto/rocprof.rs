//! Reads Perfetto packets of rocprofv3.
//!
//! Invariant: the track of a kernel or copy is its stream, or its hardware queue when the recorder
//! grouped by queue. Entry points: [`is_rocprof`], [`read`].

use std::collections::HashMap;

use super::packets::{Note, Packets, Slice};
use crate::recording::{Recording, Remark, Source};
use crate::rocprof::run::{Args, Direction, Place, Run, Span};

const KERNEL: &str = "kernel_dispatch";
const COPY: &str = "memory_copy";
const CALL: &str = "hip_api";

/// Whether rocprofv3 wrote the packets.
pub fn is_rocprof(packets: &Packets) -> bool {
    packets.slices.iter().any(|slice| matches!(slice.category.as_ref(), KERNEL | COPY))
}

/// Reads the slices.
pub fn read(packets: Packets) -> Recording {
    let mut run = Run::new(Source::RocprofPerfetto);
    let number =
        |slice: &Slice, note| slice.number(note).and_then(|number| i64::try_from(number).ok());
    let mut queues: HashMap<u64, i64> = HashMap::new();
    for slice in &packets.slices {
        let correlation = number(slice, Note::Correlation);
        let span = Span { start: Some(slice.start), end: Some(slice.end), correlation };
        let next = queues.len() as i64;
        let queue = Some(*queues.entry(slice.track).or_insert(next));
        // Stream 0 is what --group-by-queue leaves of all streams: the track says more.
        let track = packets.tracks.get(&slice.track).map_or("", |track| track.name.trim());
        let stream = number(slice, Note::Stream).filter(|_| track.starts_with("STREAM"));
        let place = Place { device: 0, stream, queue };
        match slice.category.as_ref() {
            KERNEL => run.kernel(&slice.name, place, span),
            COPY => run.copy(Direction::of(&slice.name), place, span),
            CALL => {
                let thread = number(slice, Note::Thread).unwrap_or(slice.track as i64);
                run.call(&slice.name, thread, span, None, Args::default());
            }
            _ => {}
        }
    }
    run.remark(Remark::OverlapRemoved);
    if packets.lost > 0 {
        run.remark(Remark::PacketsLost { packets: packets.lost });
    }
    run.finish()
}
