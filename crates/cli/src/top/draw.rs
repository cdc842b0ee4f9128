//! Draws the view: a pure function of the state, the area and the time.
//!
//! From the top: the service · what is wrong or unusual · engines · tables · rows · keys.

use super::grid::{Grid, Tab};
use super::snapshot::Snapshot;
use super::state::{Service, State};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

/// Engines that have a line of their own above the tables; `engines` lists all.
const ENGINE_LINES: usize = 4;
/// Columns of an engine's bar.
const BAR: usize = 30;

/// Columns from which on less is left out.
const WIDE: u16 = 100;

const KEYS: &str =
    "q quit  ←→ table  ↑↓ row  s sort  r reverse  f one process  esc all  space pause";

fn areas(area: Rect, snapshot: &Snapshot) -> [Rect; 6] {
    let engines = snapshot.machine.engines.len().min(ENGINE_LINES) as u16;
    let lines = [1, 1, engines, 1].map(Constraint::Length);
    let [title, status, engines, tabs] = lines;
    Layout::vertical([title, status, engines, tabs, Constraint::Fill(1), Constraint::Length(1)])
        .areas(area)
}

/// Returns how many rows of the present table fit.
pub(crate) fn rows_of(area: Rect, state: &State) -> usize {
    areas(area, &state.snapshot)[4].height.saturating_sub(1).into()
}

/// Draws the view.
pub(crate) fn draw(state: &State, area: Rect, now_ns: u64, buffer: &mut Buffer) {
    let [title, status, engines, tabs, table, keys] = areas(area, &state.snapshot);
    draw_title(state, title, buffer);
    let grid = state.grid();
    status_line(state, &grid, now_ns).render(status, buffer);
    draw_engines(state, engines, buffer);
    draw_tabs(state, &grid, tabs, buffer);
    draw_table(state, &grid, table, buffer);
    Line::from(KEYS).dim().render(keys, buffer);
    // What is shown is of the past.
    if state.service != Service::Answers {
        buffer.set_style(engines, Style::new().add_modifier(Modifier::DIM));
        buffer.set_style(table, Style::new().add_modifier(Modifier::DIM));
    }
}

fn draw_title(state: &State, area: Rect, buffer: &mut Buffer) {
    let (service, machine) = (&state.snapshot.service, &state.snapshot.machine);
    // A narrow terminal has no room for the adapter.
    let adapter = if area.width >= WIDE { format!("  {}", machine.adapter) } else { String::new() };
    let left = Line::from(vec![
        Span::from("tidegate top").bold(),
        Span::from(format!("  {}{adapter}", state.socket)),
    ]);
    let right = format!(
        "  processes {}  calls {} ({:.0}/s)  up {}",
        service.processes,
        service.calls,
        state.rates.all_calls,
        uptime(machine.at_ns)
    );
    let width = area.width.min(right.chars().count() as u16);
    let [left_area, right_area] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Length(width)]).areas(area);
    left.render(left_area, buffer);
    Line::from(right).right_aligned().render(right_area, buffer);
}

fn uptime(ns: u64) -> String {
    let s = ns / 1_000_000_000;
    match (s / 3600, s / 60 % 60, s % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m}:{s:02}"),
        (h, m, s) => format!("{h}:{m:02}:{s:02}"),
    }
}

/// What is wrong, else what is unusual.
fn status_line(state: &State, grid: &Grid, now_ns: u64) -> Line<'static> {
    let seconds = |ns: u64| ns / 1_000_000_000;
    if let Service::Lost { since_ns, why } = &state.service {
        let since = seconds(now_ns.saturating_sub(*since_ns));
        let next = if state.paused { "space tries again" } else { "trying again" };
        return Line::from(format!("NO SERVICE for {since} s, {next}: {why}"))
            .fg(Color::Red)
            .bold();
    }
    if let Some(silence_ns) = state.silence_ns(now_ns) {
        let text = format!("the service has not answered for {} s", seconds(silence_ns));
        return Line::from(text).fg(Color::Red).bold();
    }
    let mut parts = Vec::new();
    if state.paused {
        parts.push("PAUSED (space goes on)".to_owned());
    }
    if let Some((process, name)) = &state.filter {
        parts.push(format!("process {process} '{name}' alone (esc shows all)"));
    }
    if grid.more {
        let most = grid.rows.len();
        parts.push(format!("{} are cut after {most} (--rows)", state.tab().title()));
    }
    let machine = &state.snapshot.machine;
    let trouble = [
        (machine.engine_timeouts, "engine timeouts"),
        (machine.adapter_resets, "adapter resets"),
        (machine.devices_lost, "devices lost"),
    ];
    let trouble = trouble.into_iter().filter(|(count, _)| *count > 0);
    parts.extend(trouble.map(|(count, what)| format!("{count} {what}")));
    Line::from(parts.join(" · ")).fg(Color::Yellow)
}

fn draw_engines(state: &State, area: Rect, buffer: &mut Buffer) {
    let engines = &state.snapshot.machine.engines;
    let name_width = engines.iter().map(|engine| engine.name.chars().count()).max().unwrap_or(0);
    for (number, (engine, line)) in engines.iter().zip(area.rows()).enumerate() {
        let busy = state.rates.busy.get(number).copied();
        let filled = (busy.unwrap_or(0.0) * BAR as f64).round() as usize;
        let share = busy.map_or_else(|| "  - ".to_owned(), |busy| format!("{:3.0}%", busy * 100.0));
        let more = engines.len().saturating_sub(ENGINE_LINES);
        let rest = match number + 1 == ENGINE_LINES && more > 0 {
            true => format!("  and {more} more engines"),
            false => String::new(),
        };
        Line::from(vec![
            Span::from(format!("{:<name_width$} ", engine.name)),
            Span::from("█".repeat(filled)).fg(Color::Green),
            Span::from("░".repeat(BAR - filled)).dim(),
            Span::from(format!(
                " {share}  {}/{}  switches {}  preemptions {}{rest}",
                engine.power,
                state.snapshot.machine.power,
                engine.context_switches,
                engine.preemptions
            )),
        ])
        .render(line, buffer);
    }
}

/// The number of rows of a table, with `+` if the service may have more.
fn count_of(tab: Tab, snapshot: &Snapshot) -> String {
    let (listed, more, of) = match tab {
        Tab::Processes => (snapshot.processes.rows.len(), snapshot.processes.more, None),
        Tab::Queues => {
            (snapshot.queues.rows.len(), snapshot.queues.more, Some(snapshot.machine.queues))
        }
        Tab::Fences => {
            (snapshot.fences.rows.len(), snapshot.fences.more, Some(snapshot.machine.fences))
        }
        Tab::Waiters => (snapshot.waiters.rows.len(), snapshot.waiters.more, None),
        Tab::Doorbells => {
            let more = snapshot.doorbells.more;
            (snapshot.doorbells.rows.len(), more, Some(snapshot.machine.doorbells))
        }
        Tab::Engines => (snapshot.machine.engines.len(), false, None),
        Tab::Recoveries => (snapshot.machine.recoveries.len(), false, None),
    };
    match (more, of) {
        (false, _) => listed.to_string(),
        (true, Some(of)) => format!("{listed} of {of}"),
        (true, None) => format!("{listed}+"),
    }
}

fn draw_tabs(state: &State, grid: &Grid, area: Rect, buffer: &mut Buffer) {
    let mut spans = Vec::new();
    // A narrow terminal shows only the counts of the present table.
    let wide = area.width >= WIDE;
    for (number, tab) in Tab::ALL.into_iter().enumerate() {
        let is_present = number == state.tab;
        let counted = match () {
            () if is_present && state.filter.is_some() => format!(" {}", grid.rows.len()),
            () if wide || is_present => format!(" {}", count_of(tab, &state.snapshot)),
            () => String::new(),
        };
        let text = format!(" {}{counted} ", tab.title());
        spans.push(match is_present {
            true => Span::from(text).reversed().bold(),
            false => Span::from(text),
        });
    }
    Line::from(spans).render(area, buffer);
}

/// The widths of the columns: each has its own, and one the rest.
fn widths(tab: Tab, area: Rect) -> Vec<u16> {
    let columns = tab.columns();
    let gaps = columns.len() as u16 - 1;
    let fixed: u16 = columns.iter().map(|(_, width)| width).sum();
    let rest = area.width.saturating_sub(fixed + gaps).max(6);
    columns.iter().map(|(_, width)| if *width == 0 { rest } else { *width }).collect()
}

/// A cell of exactly `width` columns; what does not fit ends with `…`.
fn fit(text: &str, width: u16, right: bool) -> String {
    let width = usize::from(width);
    let length = Span::from(text).width();
    if length <= width {
        let space = " ".repeat(width - length);
        return if right { space + text } else { text.to_owned() + &space };
    }
    let mut kept = String::new();
    for character in text.chars() {
        let with = format!("{kept}{character}");
        if Span::from(with.as_str()).width() + 1 > width {
            break;
        }
        kept = with;
    }
    let space = " ".repeat(width.saturating_sub(Span::from(kept.as_str()).width() + 1));
    format!("{kept}…{space}")
}

fn draw_table(state: &State, grid: &Grid, area: Rect, buffer: &mut Buffer) {
    let mut lines = area.rows();
    let Some(header) = lines.next() else { return };
    let (tab, order) = (state.tab(), state.orders[state.tab]);
    let widths = widths(tab, area);
    let is_number =
        |column: usize| grid.rows.first().is_some_and(|row| row.cells[column].number.is_some());
    let titles =
        tab.columns().iter().zip(&widths).enumerate().map(|(column, ((title, _), width))| {
            let arrow = match (order.column == Some(column), order.reversed) {
                (false, _) => "",
                (true, false) => "▲",
                (true, true) => "▼",
            };
            fit(&format!("{title}{arrow}"), *width, is_number(column))
        });
    let titles: Vec<String> = titles.collect();
    Line::from(titles.join(" ")).underlined().render(header, buffer);
    let page = usize::from(area.height) - 1;
    if grid.rows.is_empty() {
        if let Some(line) = lines.next() {
            let of = if state.filter.is_some() { " of this process" } else { "" };
            Line::from(format!("no {}{of}", tab.title())).dim().render(line, buffer);
        }
        return;
    }
    let place = state.place(grid);
    // The selected row is in the middle of the page where it can be.
    let first = place.saturating_sub(page / 2).min(grid.rows.len().saturating_sub(page));
    for ((number, row), line) in grid.rows.iter().enumerate().skip(first).zip(lines) {
        let cells = row.cells.iter().zip(&widths);
        let cells: Vec<String> =
            cells.map(|(cell, width)| fit(&cell.text, *width, cell.number.is_some())).collect();
        let text = Line::from(cells.join(" "));
        let is_lost = tab == Tab::Queues && row.cells.iter().any(|cell| cell.text == "lost");
        let text = if is_lost { text.fg(Color::Red) } else { text };
        text.render(line, buffer);
        if number == place {
            buffer.set_style(line, Style::new().add_modifier(Modifier::REVERSED));
        }
    }
}
