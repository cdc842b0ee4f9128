//! `tidegate bench`: measures the stack, each row beside the physical floor of what it does, in the
//! same run.
//!
//! Absolute times move by a factor of two with the machine's other guests, so what counts is the
//! ratio of a row to its floor. The order: pass by pass, and in each pass row by row; a row's floor
//! is measured directly before the row. Of all passes the one with the median ratio counts.
//! `docs/performance.md` says what the rows mean and why some are off their goals.
//!
//! Rooms: `rows` (what is measured) · `floors` (beside what) · `peer` (other implementations) ·
//! `row` and `clause` (what they are) · `measure` (samples, counts, threads) · `operations` (for
//! counts of instructions) · `others` (other programs' share of the machine) · `goals` and
//! `clauses` · `curves` and `chart` · `report`. A goal that is missed is no failure of a run; a
//! count that must not happen is.

mod chart;
mod clause;
mod clauses;
mod curves;
mod floors;
mod goals;
mod measure;
mod operations;
mod others;
mod peer;
mod report;
mod row;
mod rows;
mod sizes;

use crate::output::Outputs;
use crate::streams::{errln, outln};
use crate::{BadInput, End, arguments};
use curves::CURVES;
use indicatif::{ProgressBar, ProgressStyle};
use measure::{CLIENT_CPU, SERVICE_CPU, Trouble, on_own_thread, pin};
use others::Others;
use peer::{Missing, PeerMeasured, Peers};
use report::{Finished, Pass, Results};
use row::{Counterpart, Row};
use rows::all_rows;
use sizes::Scale;
use std::path::Path;

/// Most passes. More take the better part of an hour.
const MOST_PASSES: u32 = 99;

/// `tidegate bench`.
pub(crate) fn command(arguments: &arguments::Bench, outputs: &Outputs) -> Result<End, BadInput> {
    if let Some(operation) = &arguments.operation {
        return operations::run(operation, arguments.times).map(|()| End::Right).map_err(BadInput);
    }
    if let Some(socket) = &arguments.killable {
        return rows::service::killable(socket)
            .map(|()| End::Right)
            .map_err(|e| BadInput(e.to_string()));
    }
    if let Some(socket) = &arguments.listening {
        return floors::processes::listen(socket)
            .map(|()| End::Right)
            .map_err(|e| BadInput(e.to_string()));
    }
    if let Some(folder) = &arguments.curves {
        return draw_curves(folder, arguments, outputs);
    }
    let wanted = chosen(arguments.filter.as_deref().unwrap_or(""))?;
    if !(1..=MOST_PASSES).contains(&arguments.passes) {
        return Err(BadInput(format!("--passes {}: say 1 to {MOST_PASSES}", arguments.passes)));
    }
    needs_two_processors()?;
    if cfg!(debug_assertions) {
        errln!("tidegate: this is a debug build; its figures say nothing: build with --release");
    }
    let mut peers = if arguments.peers { peers_or_line() } else { None };
    let scale = Scale(arguments.divide.max(1));
    let mut passes: Vec<Vec<Pass>> = wanted.iter().map(|_| Vec::new()).collect();
    let measured = measure_all(&wanted, arguments.passes, scale, peers.as_mut(), &mut passes);
    if let Err(trouble) = measured {
        errln!("tidegate: {trouble}");
        return Ok(End::Wrong);
    }
    let finished: Vec<Finished> = wanted
        .into_iter()
        .zip(passes)
        .filter_map(|(row, passes)| Finished::new(row, passes))
        .collect();
    if let Some(path) = &arguments.json {
        outputs.write_json(
            path,
            &Results::of(&finished, goals::goals(&finished), arguments.passes, peers.as_ref()),
        )?;
    }
    if !outputs.take_stdout() {
        outln!("{}\n\n{}", report::table(&finished), report::remarks(&finished));
        if peers.is_some() {
            outln!("{}\n", report::peer_table(&finished));
        }
        let goals = goals::goals(&finished);
        if goals.iter().any(|goal| goal.ratio.is_some()) {
            outln!("{}", report::goal_table(&goals));
        }
    }
    let mut end = End::Right;
    for row in &finished {
        for count in row.wrong_counts() {
            let right = count.must_be.unwrap_or_default();
            errln!("tidegate: {}: {} {}, must be {right}", row.name(), count.value, count.name);
            end = End::Wrong;
        }
    }
    Ok(end)
}

/// Measures the curves whose name contains the filter, and writes a file of each.
fn draw_curves(
    folder: &Path,
    arguments: &arguments::Bench,
    outputs: &Outputs,
) -> Result<End, BadInput> {
    let filter = arguments.filter.as_deref().unwrap_or("");
    let wanted: Vec<_> = CURVES.iter().filter(|curve| curve.name.contains(filter)).collect();
    if wanted.is_empty() {
        let names: Vec<&str> = CURVES.iter().map(|curve| curve.name).collect();
        return Err(BadInput(format!(
            "no curve's name contains '{filter}'; curves: {}",
            names.join(", ")
        )));
    }
    std::fs::create_dir_all(folder)
        .map_err(|e| BadInput(format!("{}: cannot create: {e}", folder.display())))?;
    needs_two_processors()?;
    let mut peers = if arguments.peers { peers_or_line() } else { None };
    let scale = Scale(arguments.divide.max(1));
    for curve in wanted {
        let drawn = match curve.draw(scale, peers.as_mut()) {
            Ok(drawn) => drawn,
            Err(trouble) => {
                errln!("tidegate: {}: {trouble}", curve.name);
                return Ok(End::Wrong);
            }
        };
        let path = folder.join(format!("{}.svg", curve.name));
        outputs.write(&path, |out| out.write_all(drawn.as_bytes()))?;
    }
    Ok(End::Right)
}

fn chosen(filter: &str) -> Result<Vec<&'static Row>, BadInput> {
    // A whole name is that row, though it may begin another one's.
    if let Some(row) = all_rows().find(|row| row.name == filter) {
        return Ok(vec![row]);
    }
    let wanted: Vec<&Row> = all_rows().filter(|row| row.name.contains(filter)).collect();
    if wanted.is_empty() {
        let names: Vec<&str> = all_rows().map(|row| row.name).collect();
        return Err(BadInput(format!(
            "no row's name contains '{filter}'; rows: {}",
            names.join(", ")
        )));
    }
    Ok(wanted)
}

/// Starts the peers, and says in a line what is missing.
fn peers_or_line() -> Option<Peers> {
    let started = Peers::start();
    match &started {
        Ok(peers) => peers.missing().iter().map(Missing::line).for_each(|missing| {
            errln!("tidegate: no {missing}");
        }),
        Err(missing) => errln!("tidegate: no peer: {missing}"),
    }
    started.ok()
}

/// Rows put the client on one processor and the engines on another: on one processor, polling only
/// waits for the scheduler.
fn needs_two_processors() -> Result<(), BadInput> {
    let bind = || pin(SERVICE_CPU).and_then(|()| pin(CLIENT_CPU));
    on_own_thread(bind).map_err(|trouble| {
        BadInput(format!("{trouble}; the bench needs processors {CLIENT_CPU} and {SERVICE_CPU}"))
    })
}

fn measure_all(
    wanted: &[&'static Row],
    count: u32,
    scale: Scale,
    mut peers: Option<&mut Peers>,
    passes: &mut [Vec<Pass>],
) -> Result<(), Trouble> {
    let bar = ProgressBar::new(u64::from(count) * wanted.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    for _ in 0..count {
        for (row, passes) in wanted.iter().zip(&mut *passes) {
            bar.set_message(row.name);
            let said = |trouble: Trouble| format!("{}: {trouble}", row.name);
            let others = Others::start(peers.as_ref().map(|peers| peers.process()));
            let floor = (row.floor.measure)().map_err(said)?;
            let measured = (row.measure)(scale).map_err(said)?;
            let beside = match &mut peers {
                Some(peers) => measure_peers(row, scale, peers).map_err(said)?,
                None => Vec::new(),
            };
            let foreign_share = others.share();
            passes.push(Pass { floor, row: measured, peers: beside, foreign_share });
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(())
}

/// Measures the counterparts of a row; `None` for a peer that is missing.
fn measure_peers(
    row: &Row,
    scale: Scale,
    peers: &mut Peers,
) -> Result<Vec<Option<PeerMeasured>>, Trouble> {
    let measure = |counterpart: &Counterpart| match *counterpart {
        Counterpart::Calls { peer, key, size, .. } => peers.measure(peer, key, size.scaled(scale)),
        Counterpart::None(_) => Ok(None),
    };
    row.peers.iter().map(measure).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_chosen_by_a_part_of_their_name() {
        assert_eq!(chosen("").map_or(0, |rows| rows.len()), all_rows().count());
        assert_eq!(chosen("preempt_").map_or(0, |rows| rows.len()), 4);
        assert_eq!(chosen("release_1_of_10").map_or(0, |rows| rows.len()), 1);
        assert!(chosen("nothing of this name").is_err());
    }
}
