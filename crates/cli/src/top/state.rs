//! The state of the view: what is shown, and what keys change. Pure: time is an argument.

use super::grid::{Grid, Tab, Users, grid};
use super::snapshot::{Rates, Request, Snapshot};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// A service that has not answered for so long is named.
pub(crate) const SILENCE_NS: u64 = 2_000_000_000;

/// What a key asks of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Nothing but to draw again.
    Draw,
    Quit,
}

/// The connection as the view knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    Answers,
    /// It has ended or is not reached, since this time, for this reason.
    Lost {
        since_ns: u64,
        why: String,
    },
}

/// The order of the rows of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Order {
    /// The column; `None` for the service's order.
    pub(crate) column: Option<usize>,
    pub(crate) reversed: bool,
}

/// The state of the view.
pub(crate) struct State {
    pub(crate) socket: String,
    pub(crate) users: Users,
    pub(crate) snapshot: Snapshot,
    pub(crate) rates: Rates,
    pub(crate) service: Service,
    pub(crate) tab: usize,
    pub(crate) orders: [Order; Tab::ALL.len()],
    /// The selected row of each table.
    pub(crate) selected: [Option<(u64, u64)>; Tab::ALL.len()],
    /// The process whose rows are shown, with its name.
    pub(crate) filter: Option<(u32, String)>,
    pub(crate) paused: bool,
    interval_ns: u64,
    rows: usize,
    /// When the next reading is due.
    due_ns: u64,
    /// When the reading that is under way was requested.
    requested_ns: Option<u64>,
}

impl State {
    /// The view of a first reading, which was made now.
    pub(crate) fn new(
        (socket, users): (String, Users),
        snapshot: Snapshot,
        (interval_ns, rows): (u64, usize),
        now_ns: u64,
    ) -> State {
        State {
            socket,
            users,
            snapshot,
            rates: Rates::default(),
            service: Service::Answers,
            tab: 0,
            orders: [Order::default(); Tab::ALL.len()],
            selected: [None; Tab::ALL.len()],
            filter: None,
            paused: false,
            interval_ns,
            rows,
            due_ns: now_ns + interval_ns,
            requested_ns: None,
        }
    }

    pub(crate) fn tab(&self) -> Tab {
        Tab::ALL[self.tab]
    }

    /// Returns what to read now, if a reading is due and none is under way.
    pub(crate) fn due(&mut self, now_ns: u64) -> Option<Request> {
        let is_due = !self.paused && self.requested_ns.is_none() && now_ns >= self.due_ns;
        is_due.then(|| {
            self.requested_ns = Some(now_ns);
            self.due_ns = now_ns + self.interval_ns;
            Request { rows: self.rows, process: self.filter.as_ref().map(|(process, _)| *process) }
        })
    }

    /// Enters the result of the reading that was under way.
    pub(crate) fn enter(&mut self, read: Result<Snapshot, String>, now_ns: u64) {
        self.requested_ns = None;
        match read {
            Ok(snapshot) => {
                let came_back = self.service != Service::Answers;
                // Rates over the end of a service mean nothing.
                let started_again = snapshot.machine.at_ns < self.snapshot.machine.at_ns;
                self.rates = match came_back || started_again {
                    true => Rates::default(),
                    false => Rates::between(&self.snapshot, &snapshot),
                };
                if came_back || started_again {
                    self.clear_filter(now_ns);
                }
                self.snapshot = snapshot;
                self.service = Service::Answers;
            }
            Err(why) => {
                let since_ns = match &self.service {
                    Service::Lost { since_ns, .. } => *since_ns,
                    Service::Answers => now_ns,
                };
                self.service = Service::Lost { since_ns, why };
            }
        }
    }

    /// Returns for how long the reading that is under way has not been answered, if that is long.
    pub(crate) fn silence_ns(&self, now_ns: u64) -> Option<u64> {
        let silence_ns = now_ns.saturating_sub(self.requested_ns?);
        (silence_ns >= SILENCE_NS).then_some(silence_ns)
    }

    /// Returns the rows of the present table: sorted, and only of one process if that is wanted.
    pub(crate) fn grid(&self) -> Grid {
        let mut grid = grid(self.tab(), &self.snapshot, &self.rates, &self.users);
        if let (Some((process, _)), false) =
            (&self.filter, matches!(self.tab(), Tab::Engines | Tab::Recoveries))
        {
            grid.rows.retain(|row| row.process == Some(*process));
        }
        let Order { column, reversed } = self.orders[self.tab];
        match column {
            Some(column) => grid.sort(column, reversed),
            None if reversed => grid.rows.reverse(),
            None => {}
        }
        grid
    }

    /// Returns the place of the selected row, or the first one.
    pub(crate) fn place(&self, grid: &Grid) -> usize {
        let key = self.selected[self.tab];
        grid.rows.iter().position(|row| Some(row.key) == key).unwrap_or(0)
    }

    /// Carries out a key. `page` is the number of rows on the screen.
    pub(crate) fn key(&mut self, key: KeyEvent, page: usize, now_ns: u64) -> Action {
        if key.kind == KeyEventKind::Release {
            return Action::Draw;
        }
        let tabs = Tab::ALL.len();
        let columns = self.tab().columns().len();
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return Action::Quit;
            }
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Tab | KeyCode::Right => self.tab = (self.tab + 1) % tabs,
            KeyCode::BackTab | KeyCode::Left => self.tab = (self.tab + tabs - 1) % tabs,
            KeyCode::Char(digit @ '1'..='7') => self.tab = digit as usize - '1' as usize,
            KeyCode::Up => self.move_selection(-1),
            KeyCode::Down => self.move_selection(1),
            KeyCode::PageUp => self.move_selection(-(page.max(1) as isize)),
            KeyCode::PageDown => self.move_selection(page.max(1) as isize),
            KeyCode::Home => self.move_selection(isize::MIN),
            KeyCode::End => self.move_selection(isize::MAX),
            KeyCode::Char('s') => {
                let order = &mut self.orders[self.tab];
                order.column = match order.column {
                    None => Some(0),
                    Some(column) => Some(column + 1).filter(|next| *next < columns),
                };
            }
            KeyCode::Char('r') => self.orders[self.tab].reversed ^= true,
            KeyCode::Char('f') | KeyCode::Enter => self.set_filter(now_ns),
            KeyCode::Esc | KeyCode::Backspace => self.clear_filter(now_ns),
            KeyCode::Char(' ') => {
                self.paused ^= true;
                self.due_ns = now_ns;
            }
            _ => {}
        }
        Action::Draw
    }

    fn move_selection(&mut self, by: isize) {
        let grid = self.grid();
        let last = grid.rows.len().saturating_sub(1);
        let place = self.place(&grid).saturating_add_signed(by).min(last);
        self.selected[self.tab] = grid.rows.get(place).map(|row| row.key);
    }

    /// Shows only the process of the selected row, or all processes again.
    fn set_filter(&mut self, now_ns: u64) {
        let grid = self.grid();
        let process = grid.rows.get(self.place(&grid)).and_then(|row| row.process);
        match process {
            Some(process) if self.filter.is_none() => {
                let name = self.snapshot.process_name(Some(process)).to_owned();
                self.filter = Some((process, name));
                self.due_ns = now_ns;
            }
            _ => self.clear_filter(now_ns),
        }
    }

    fn clear_filter(&mut self, now_ns: u64) {
        if self.filter.take().is_some() {
            self.due_ns = now_ns;
        }
    }
}
