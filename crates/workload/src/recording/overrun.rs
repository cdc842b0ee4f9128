//! Work whose recorded end the work after it on its stream contradicts.
//!
//! A stream runs its work in order. Where several successors ran one after the other inside a piece
//! of work, its end is wrong, and the work is cut at the start of its successor. Work of a graph
//! can overlap on one stream, and a hardware queue can run several pieces at once; both stay as
//! recorded. Entry point: [`cut`].

use super::records::{WorkId, WorkRecord};

/// Successors that contradict an end.
const CONTRADICTING: usize = 8;

/// A piece of work that was cut.
#[derive(Debug, PartialEq, Eq)]
pub struct Overrun {
    pub work: WorkId,
    /// Recorded length, in nanoseconds.
    pub length_ns: i64,
    /// Successors that began before the recorded end.
    pub over: usize,
}

/// Cuts overruns among `work`, which is in the order of its starts. `may_overlap` says which work
/// can overlap the work after it on its stream.
pub fn cut(
    work: &mut [WorkRecord],
    streams: usize,
    may_overlap: impl Fn(WorkId) -> bool,
) -> Vec<Overrun> {
    let mut of_streams: Vec<Vec<WorkId>> = vec![Vec::new(); streams];
    for (number, piece) in work.iter().enumerate() {
        of_streams[piece.stream.index()].push(WorkId::new(number));
    }
    let mut overruns = Vec::new();
    for stream in &of_streams {
        // From the last to the first, so that the successors of each piece have their right ends.
        for (place, id) in stream.iter().enumerate().rev() {
            let after = &stream[place + 1..];
            let piece = work[id.index()];
            if may_overlap(*id) || !contradicted(&piece, after, work) {
                continue;
            }
            let over = after.partition_point(|next| work[next.index()].start < piece.end);
            let length_ns = piece.end - piece.start;
            overruns.push(Overrun { work: *id, length_ns, over });
            if let Some(next) = after.first() {
                work[id.index()].end = work[next.index()].start;
            }
        }
    }
    overruns.sort_by_key(|overrun| overrun.work);
    overruns
}

/// Whether enough successors ran inside `piece`, one after the other.
fn contradicted(piece: &WorkRecord, after: &[WorkId], work: &[WorkRecord]) -> bool {
    let mut inside = 0;
    let mut free_from = piece.start;
    for next in after.iter().map(|id| &work[id.index()]) {
        if next.start < free_from || next.end > piece.end {
            return false;
        }
        free_from = next.end;
        inside += usize::from(next.end > next.start);
        if inside == CONTRADICTING {
            return true;
        }
    }
    false
}
