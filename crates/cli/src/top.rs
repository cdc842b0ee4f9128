//! `tidegate top`: a view of a running service, on a terminal, as text or as JSON.
//!
//! Rooms, each using those before it: `snapshot` (what is read) · `grid` (tables as cells) ·
//! `state` (what is shown, and keys) · `draw` · `reader` (the thread that reads) · `terminal`.

mod draw;
mod grid;
mod reader;
mod snapshot;
mod state;
mod terminal;
#[cfg(test)]
mod tests;

use crate::arguments;
use crate::output::Outputs;
use crate::streams::outln;
use crate::tables;
use crate::{BadInput, End};
use comfy_table::CellAlignment;
use grid::{Tab, Users, grid};
use ratatui::crossterm::event::{self, Event};
use reader::Reader;
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use snapshot::{Rates, Request, Snapshot};
use state::{Action, State};
use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::Duration;
use terminal::Screen;
use tidegate::Platform;
use tidegate::platform::CpuTime;
use tidegate::service::client::Watch;

/// The longest time without a look at signals and readings.
const POLL: Duration = Duration::from_millis(100);

/// The adapter that is viewed.
const ADAPTER: u32 = 0;

/// What `--json` writes.
#[derive(Serialize)]
struct Written<'a> {
    /// Busy share of each engine over the interval, from 0 to 1.
    busy: &'a [f64],
    #[serde(flatten)]
    snapshot: &'a Snapshot,
}

/// `tidegate top`.
pub(crate) fn command(arguments: &arguments::Top, outputs: &Outputs) -> Result<End, BadInput> {
    let bad = |error: &dyn std::fmt::Display| BadInput(error.to_string());
    let socket = arguments.socket.path()?;
    let mut watch = Watch::connect(&socket, ADAPTER).map_err(|error| bad(&error))?;
    let request = Request { rows: arguments.rows, process: None };
    let mut read = || Snapshot::read(&mut watch, request).map_err(|error| bad(&error));
    let first = read()?;
    let interval_ns = arguments.interval.ns;
    if arguments.once || arguments.json.is_some() || !io::stdout().is_terminal() {
        let platform = Platform::host();
        platform.sleep_until(CpuTime(platform.now().0 + interval_ns));
        let second = read()?;
        let rates = Rates::between(&first, &second);
        match &arguments.json {
            Some(path) => {
                outputs.write_json(path, &Written { busy: &rates.busy, snapshot: &second })?;
            }
            None => print(&second, &rates, &users()),
        }
        return Ok(End::Right);
    }
    view(&socket, watch, first, (interval_ns, arguments.rows)).map_err(|error| bad(&error))?;
    Ok(End::Right)
}

/// The names of the users that the system lists in its file.
fn users() -> Users {
    let text = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let entry = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?.to_owned();
        Some((fields.nth(1)?.parse().ok()?, name))
    };
    text.lines().filter_map(entry).collect()
}

/// Prints all tables that have rows.
fn print(snapshot: &Snapshot, rates: &Rates, users: &Users) {
    let machine = &snapshot.machine;
    outln!(
        "{}, {}: {} processes, {} queues, {} fences, {} doorbells, {} calls; {} engine timeouts, \
         {} adapter resets, {} devices lost",
        machine.adapter,
        machine.power,
        snapshot.service.processes,
        machine.queues,
        machine.fences,
        machine.doorbells,
        snapshot.service.calls,
        machine.engine_timeouts,
        machine.adapter_resets,
        machine.devices_lost,
    );
    for tab in Tab::ALL {
        let grid = grid(tab, snapshot, rates, users);
        if grid.rows.is_empty() {
            continue;
        }
        outln!();
        let cut = if grid.more { " (cut: --rows)" } else { "" };
        outln!("{}: {}{cut}", tab.title(), grid.rows.len());
        let mut table = tables::table(tab.columns().iter().map(|(title, _)| *title));
        for row in grid.rows {
            table.add_row(row.cells.into_iter().map(|cell| {
                let right = cell.number.is_some();
                let shown = comfy_table::Cell::new(cell.text);
                if right { shown.set_alignment(CellAlignment::Right) } else { shown }
            }));
        }
        outln!("{table}");
    }
}

/// The view on the terminal, until a key or a signal ends it.
fn view(
    socket: &Path,
    watch: Watch,
    first: Snapshot,
    timing: (u64, usize),
) -> Result<(), io::Error> {
    let platform = Platform::host();
    let now_ns = || platform.now().0;
    let reader = Reader::start(&platform, socket.to_owned(), ADAPTER, watch)?;
    let shown = (socket.display().to_string(), users());
    let mut state = State::new(shown, first, timing, now_ns());
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let mut screen = Screen::take()?;
    loop {
        if let Some(read) = reader.take() {
            state.enter(read, now_ns());
        }
        if let Some(request) = state.due(now_ns()) {
            reader.request(request);
        }
        let drawn = screen.draw(|frame| {
            let area = frame.area();
            draw::draw(&state, area, now_ns(), frame.buffer_mut());
        })?;
        let page = draw::rows_of(drawn.area, &state);
        if event::poll(POLL)?
            && let Event::Key(key) = event::read()?
            && state.key(key, page, now_ns()) == Action::Quit
        {
            return Ok(());
        }
        if let Some(signal) = signals.pending().next() {
            drop(screen);
            // Ends the process as the signal does by default.
            signal_hook::low_level::emulate_default_handler(signal)?;
            return Ok(());
        }
    }
}
