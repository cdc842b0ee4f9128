//! `tidegate bench`: measures the stack, each row beside the physical floor of what it does, in the
//! same run.
//!
//! Absolute times move by a factor of two with the machine's other guests, so what counts is the
//! ratio of a row to its floor. The order: pass by pass, and in each pass row by row; a row's floor
//! is measured directly before the row. Of all passes the one with the median ratio counts.
//! `docs/performance.md` says what the rows mean and why some are off their goals.
//!
//! Rooms: `rows` (what is measured) · `floors` (beside what) · `peer` (the same calls of another
//! implementation) · `measure` (samples, counts, threads) · `report`. A goal that is missed is no failure of a run; a count that must not happen is.

mod floors;
mod measure;
mod peer;
mod report;
mod rows;
mod sizes;

use crate::output::{self, Outputs};
use crate::streams::{errln, outln};
use crate::{BadInput, End, arguments};
use indicatif::{ProgressBar, ProgressStyle};
use measure::{CLIENT_CPU, SERVICE_CPU, Trouble, on_own_thread, pin};
use peer::Peer;
use report::{Finished, Pass, Results};
use rows::{Counterpart, ROWS, Row};
use sizes::Scale;

/// Most passes. More take the better part of an hour.
const MOST_PASSES: u32 = 99;

/// `tidegate bench`.
pub(crate) fn command(arguments: &arguments::Bench) -> Result<End, BadInput> {
    let wanted = chosen(arguments.filter.as_deref().unwrap_or(""))?;
    if !(1..=MOST_PASSES).contains(&arguments.passes) {
        return Err(BadInput(format!("--passes {}: say 1 to {MOST_PASSES}", arguments.passes)));
    }
    let outputs = Outputs::check(&[("--json", arguments.json.as_deref())])?;
    needs_two_processors()?;
    if cfg!(debug_assertions) {
        errln!("tidegate: this is a debug build; its figures say nothing: build with --release");
    }
    let mut peer = if arguments.peers { peer_or_line() } else { None };
    let scale = Scale(arguments.divide.max(1));
    let mut passes: Vec<Vec<Pass>> = wanted.iter().map(|_| Vec::new()).collect();
    let measured = measure_all(&wanted, arguments.passes, scale, peer.as_mut(), &mut passes);
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
        let name = peer.as_ref().map(Peer::name);
        output::write_json(path, &Results::of(&finished, arguments.passes, name))?;
    }
    if !outputs.take_stdout() {
        outln!("{}\n\n{}", report::table(&finished), report::remarks(&finished));
        if let Some(peer) = &peer {
            outln!("{}\n{}", peer.name(), report::peer_table(&finished));
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

fn chosen(filter: &str) -> Result<Vec<&'static Row>, BadInput> {
    // A whole name is that row, though it may begin another one's.
    if let Some(row) = ROWS.iter().find(|row| row.name == filter) {
        return Ok(vec![row]);
    }
    let wanted: Vec<&Row> = ROWS.iter().filter(|row| row.name.contains(filter)).collect();
    if wanted.is_empty() {
        let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        return Err(BadInput(format!(
            "no row's name contains '{filter}'; rows: {}",
            names.join(", ")
        )));
    }
    Ok(wanted)
}

/// Starts the peer, or says in a line what is missing.
fn peer_or_line() -> Option<Peer> {
    let started = Peer::start();
    started.inspect_err(|missing| errln!("tidegate: no peer: {missing}")).ok()
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
    mut peer: Option<&mut Peer>,
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
            let floor = (row.floor.measure)().map_err(said)?;
            let measured = (row.measure)(scale).map_err(said)?;
            let peer = match (row.peer, &mut peer) {
                (Some(Counterpart::Call { calls, .. }), Some(peer)) => {
                    Some(peer.measure(row.name, calls.scaled(scale)).map_err(said)?)
                }
                _ => None,
            };
            passes.push(Pass { floor, row: measured, peer });
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_chosen_by_a_part_of_their_name() {
        assert_eq!(chosen("").map_or(0, |rows| rows.len()), ROWS.len());
        assert_eq!(chosen("litmus").map_or(0, |rows| rows.len()), 2);
        assert_eq!(chosen("release_1_of_10").map_or(0, |rows| rows.len()), 1);
        assert!(chosen("nothing of this name").is_err());
    }
}
