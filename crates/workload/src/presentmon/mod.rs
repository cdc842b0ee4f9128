//! Reads CSV files of PresentMon: the frames of Windows programs.
//!
//! Purpose: `columns` finds the columns of a version by name, `rows` makes a frame of each row,
//! `clock` finds the unit of its times, `display` finds refresh period and frame latency. Each
//! swap chain becomes a stream and a thread: a frame is a submission, GPU work and a present.
//! Invariant: the GPU work of a frame ends when the file says and lasts as long as the GPU was
//! busy with it (`decisions/0164`). Entry points: [`is_presentmon`], [`read`].

mod clock;
mod columns;
mod display;
mod frame;
mod rows;

use foldhash::HashMap;

use crate::recording::{
    Call, CallRecord, Launcher, PresentRecord, ProcessId, Recording, Remark, Source, StreamId,
    StreamKey, TrackId, WorkKind, WorkRecord,
};
use frame::Frame;
use rows::{Chain, Rows};

pub use columns::is_presentmon;

/// The submitting call of a frame is not in the file. It ends when the work starts, and takes this
/// long at most.
const SUBMISSION_NS: i64 = 20_000;

/// Reads a file.
///
/// # Errors
/// A header without the columns that a replay needs, and text that is not CSV.
pub fn read(bytes: &[u8]) -> Result<Recording, String> {
    let mut recording = Recording::of(Source::PresentMon);
    let mut rows = rows::read(bytes, &mut recording)?;
    rows.frames.sort_by_key(|frame| (frame.chain, frame.present, frame.line));
    let generated = rows.generated;
    recording.remark(generated, |frames| Remark::GeneratedFrames { frames });
    let mut of_processes: HashMap<i64, u32> = HashMap::default();
    rows.chains.iter().for_each(|chain| *of_processes.entry(chain.process).or_default() += 1);
    let objects: Vec<Objects> = (rows.chains.iter().enumerate())
        .map(|(number, chain)| {
            let is_only = of_processes.get(&chain.process) == Some(&1);
            objects(&mut recording, number, chain, is_only)
        })
        .collect();
    for of_chain in rows.frames.chunk_by(|a, b| a.chain == b.chain) {
        let mut before: Option<&Frame> = None;
        for frame in of_chain {
            add(&mut recording, frame, before, &objects[frame.chain]);
            before = Some(frame);
        }
    }
    show(&mut recording, &rows, &objects);
    Ok(recording)
}

/// What a swap chain becomes.
struct Objects {
    stream: StreamId,
    track: TrackId,
    work: String,
}

/// The objects of a swap chain, which may be the only one of its process.
fn objects(recording: &mut Recording, number: usize, chain: &Chain, is_only: bool) -> Objects {
    let Chain { process, address, application } = chain;
    let id: ProcessId = recording.process(*process);
    let place = i64::try_from(number).unwrap_or(i64::MAX);
    let stream = recording.stream(StreamKey { process: id, context: 0, stream: place }, 0);
    let track = recording.track(id, place);
    let name = match is_only {
        true => application.clone(),
        false => format!("{application} {address}"),
    };
    recording.tracks[track.index()].name = format!("{name} ({process})");
    recording.streams[stream.index()].name = Some(name);
    Objects { stream, track, work: format!("frame of {application}") }
}

fn add(recording: &mut Recording, frame: &Frame, before: Option<&Frame>, objects: &Objects) {
    let Objects { stream, track, ref work } = *objects;
    recording.at(frame.position());
    let call = |call, start, end| CallRecord { call, track, start, end, correlation: None };
    if let Some(gpu) = frame.gpu {
        let start = gpu.end.saturating_sub(gpu.busy);
        let begin = frame.cpu_start.max(before.map_or(i64::MIN, |before| before.returned));
        let submitted = start.min(frame.present).max(begin.min(frame.present));
        let begin = submitted.saturating_sub(SUBMISSION_NS).max(begin).min(submitted);
        let launcher = Launcher::Call(recording.call(call(Call::Other, begin, submitted)));
        let name = recording.name(work);
        let (kind, end) = (WorkKind::Kernel, gpu.end);
        recording.work(WorkRecord { kind, name, stream, start, end, launcher });
    }
    let id = recording.call(call(Call::Present, frame.present, frame.returned));
    let (interval, shown) = (frame.interval, frame.shown);
    recording.present(PresentRecord { call: id, stream, interval, shown });
}

/// Gives the display to the swap chain with the most frames on the screen.
fn show(recording: &mut Recording, rows: &Rows, objects: &[Objects]) {
    let of_chains = || rows.frames.chunk_by(|a, b| a.chain == b.chain);
    let shown = |frames: &[Frame]| frames.iter().filter(|frame| frame.shown.is_some()).count();
    let Some(chosen) =
        of_chains().rev().max_by_key(|frames| shown(frames)).filter(|frames| shown(frames) > 0)
    else {
        recording.remarks.push(Remark::NothingShown);
        return;
    };
    let mut others = of_chains().filter(|frames| frames[0].chain != chosen[0].chain);
    let refresh = display::refresh(chosen).or_else(|| others.find_map(display::refresh));
    if refresh.is_none() {
        recording.remarks.push(Remark::RefreshUnknown);
    }
    let stream = objects[chosen[0].chain].stream;
    recording.display = Some(display::facts(chosen, refresh, stream));
    let chains = of_chains().count() as u64 - 1;
    recording.remark(chains, |chains| Remark::ChainsWithoutDisplay { chains });
}

#[cfg(test)]
mod tests;
