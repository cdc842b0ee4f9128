//! The view without a terminal: states, keys, and what is drawn.

use super::draw::{draw, rows_of};
use super::grid::{Tab, Users, grid};
use super::reader::Reader;
use super::snapshot::{Listed, Rates, Request, Snapshot};
use super::state::{Action, SILENCE_NS, Service, State};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Rect;
use tidegate::Platform;
use tidegate::calls::snapshot::{
    DoorbellState, EngineRow, FenceKind, FenceRow, MachineRow, QueueKind, QueueRow, RecoveryRow,
    WaiterKind, WaiterRow,
};
use tidegate::service::ProcessRow;
use tidegate::service::client::Watch;
use tidegate::service::server::{Counts, ServerConfig};

const SECOND: u64 = 1_000_000_000;

fn process(session: u64, process: u32, name: &str, calls: u64) -> ProcessRow {
    ProcessRow {
        session,
        process: Some(process),
        name: name.to_owned(),
        pid: 4_000 + process,
        uid: 1_000,
        calls,
        handles: 12,
        memory_bytes: 3 << 20,
        queues: 2,
        nt_handles: 1,
    }
}

fn queue(queue: u64, process: u32, completed: u64) -> QueueRow {
    QueueRow {
        queue,
        process: Some(process),
        kind: QueueKind::User,
        engine: 1,
        submitted: completed + 3,
        completed,
        doorbell: Some(DoorbellState::Connected),
        lost: process == 9,
    }
}

fn engine(name: &str, busy_ns: u64) -> EngineRow {
    EngineRow { name: name.to_owned(), power: "F0".to_owned(), busy_ns, ..EngineRow::default() }
}

/// A machine after so many seconds, in which the second engine was busy for a quarter of each.
fn machine(seconds: u64) -> Snapshot {
    let fence = FenceRow {
        fence: 70,
        name: "frame".to_owned(),
        process: Some(7),
        instances: 2,
        kind: FenceKind::Native,
        shared: true,
        value: Some(40 + seconds),
        monitored: Some(u64::MAX),
        waiters: 0,
    };
    let waiter = WaiterRow {
        fence: 70,
        name: "frame".to_owned(),
        kind: WaiterKind::Cpu,
        queue: None,
        process: Some(9),
        awaited: 99,
        value: Some(40),
    };
    let rows = vec![process(1, 7, "game", 100 * seconds), process(2, 9, "compositor", 50)];
    Snapshot {
        service: Counts { processes: 2, calls: 150 * seconds, ..Counts::default() },
        machine: MachineRow {
            at_ns: seconds * SECOND,
            adapter: "software GPU".to_owned(),
            power: "D0".to_owned(),
            queues: 2,
            fences: 4_000,
            engines: vec![engine("3D", 0), engine("compute", seconds * SECOND / 4)],
            recoveries: vec![RecoveryRow {
                at_ns: 0,
                code: 0x141,
                engine: Some("3D".to_owned()),
                reason: "3D did not answer a preemption request within TdrDelay".to_owned(),
                outcome: "the engine was reset".to_owned(),
                lost_queues: 1,
            }],
            ..MachineRow::default()
        },
        processes: Listed { rows, more: false },
        queues: Listed { rows: vec![queue(20, 7, 10 * seconds), queue(21, 9, 5)], more: false },
        fences: Listed { rows: vec![fence], more: true },
        waiters: Listed { rows: vec![waiter], more: false },
        doorbells: Listed::default(),
    }
}

fn state() -> State {
    let users = Users::from([(1_000, "ada".to_owned())]);
    let mut state = State::new(("/tmp/tg.sock".to_owned(), users), machine(10), (SECOND, 1_000), 0);
    state.enter(Ok(machine(11)), SECOND);
    state
}

fn press(state: &mut State, codes: &[KeyCode]) {
    for code in codes {
        assert_eq!(state.key(KeyEvent::new(*code, KeyModifiers::NONE), 10, 0), Action::Draw);
    }
}

/// The screen as lines.
fn screen(state: &State, (width, height): (u16, u16), now_ns: u64) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let drawn = terminal.draw(|f| draw(state, f.area(), now_ns, f.buffer_mut())).unwrap();
    let line = |y: u16| {
        (0..width).map(|x| drawn.buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned()
    };
    (0..height).map(line).collect()
}

const USUAL: (u16, u16) = (80, 24);

#[test]
fn a_usual_terminal_shows_service_engines_rows_and_keys() {
    let lines = screen(&state(), USUAL, SECOND);
    assert!(lines[0].starts_with("tidegate top  /tmp/tg.sock"), "{lines:#?}");
    assert!(lines[0].ends_with("processes 2  calls 1650 (150/s)  up 11 s"), "{lines:#?}");
    assert!(
        lines[2].starts_with("3D      ░░░░")
            && lines[2].contains("   0%  F0/D0  switches 0  preemptions 0"),
        "{lines:#?}"
    );
    assert!(lines[3].starts_with("compute ████████░░") && lines[3].contains("  25%"), "{lines:#?}");
    assert!(lines[4].starts_with(" processes 2  queues  fences "), "{lines:#?}");
    assert_eq!(
        lines[6].split_whitespace().collect::<Vec<_>>(),
        ["game", "4007", "ada", "1100", "100", "12", "3.0M", "2", "1"]
    );
    assert!(lines[23].starts_with("q quit") && lines[23].ends_with("space pause"), "{lines:#?}");
}

#[test]
fn each_table_fits_each_size() {
    let mut state = state();
    for size in [(20, 3), (40, 10), USUAL, (80, 1), (200, 60)] {
        for _ in Tab::ALL {
            press(&mut state, &[KeyCode::Tab]);
            let area = Rect::new(0, 0, size.0, size.1);
            assert!(rows_of(area, &state) < usize::from(size.1));
            screen(&state, size, 0);
        }
    }
}

#[test]
fn keys_choose_tables_rows_and_order() {
    let mut state = state();
    press(&mut state, &[KeyCode::Right, KeyCode::Right, KeyCode::Left, KeyCode::Down]);
    assert_eq!((state.tab(), state.place(&state.grid())), (Tab::Queues, 1));
    // The selection stays with its row when the order changes.
    press(&mut state, &[KeyCode::Char('r')]);
    assert_eq!((state.place(&state.grid()), state.grid().rows[0].key), (0, (21, 0)));
    press(&mut state, &[KeyCode::Char('r'), KeyCode::Char('s'), KeyCode::Char('s')]);
    let first = state.grid().rows[0].clone();
    assert_eq!(first.cells[1].text, "compositor", "by process name");
    let lines = screen(&state, USUAL, 0);
    assert!(lines[5].contains("process▲"), "{lines:#?}");
    press(&mut state, &[KeyCode::End, KeyCode::PageUp, KeyCode::Home, KeyCode::Char('7')]);
    assert_eq!(state.tab(), Tab::Recoveries);
    press(&mut state, &[KeyCode::Right]);
    assert_eq!(state.tab(), Tab::Processes, "tables go round");
    let quit = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(state.key(quit, 10, 0), Action::Quit);
}

#[test]
fn a_process_can_be_shown_alone() {
    let mut state = state();
    let request = |process| Some(Request { rows: 1_000, process });
    assert_eq!((state.due(SECOND), state.due(SECOND)), (request(None), None), "one at a time");
    state.enter(Ok(machine(12)), SECOND);
    press(&mut state, &[KeyCode::Down, KeyCode::Char('f'), KeyCode::Char('2')]);
    assert_eq!(state.due(SECOND), request(Some(9)), "at once");
    assert_eq!(state.grid().rows.len(), 1);
    let lines = screen(&state, USUAL, 0);
    assert!(lines[1].contains("process 9 'compositor' alone"), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("lost")), "{lines:#?}");
    press(&mut state, &[KeyCode::Char('3')]);
    assert!(screen(&state, USUAL, 0)[6].starts_with("no fences of this process"));
    press(&mut state, &[KeyCode::Char('6')]);
    assert_eq!(state.grid().rows.len(), 2, "engines belong to no process");
    press(&mut state, &[KeyCode::Esc, KeyCode::Char('2')]);
    assert_eq!(state.grid().rows.len(), 2);
}

#[test]
fn a_pause_reads_nothing() {
    let mut state = state();
    press(&mut state, &[KeyCode::Char(' ')]);
    assert_eq!(state.due(100 * SECOND), None);
    assert!(screen(&state, USUAL, 0)[1].starts_with("PAUSED"));
    press(&mut state, &[KeyCode::Char(' ')]);
    assert!(state.due(0).is_some(), "at once");
}

#[test]
fn a_service_that_ends_is_said_and_tried_again() {
    let mut state = state();
    press(&mut state, &[KeyCode::Char('f')]);
    for at in [2, 3, 4] {
        assert!(state.due(at * SECOND).is_some());
        state.enter(Err("the service has ended".to_owned()), at * SECOND);
    }
    let lines = screen(&state, USUAL, 5 * SECOND);
    let said = "NO SERVICE for 3 s, trying again: the service has ended";
    assert_eq!(lines[1], said, "{lines:#?}");
    assert!(lines[6].starts_with("game"), "the last reading stays: {lines:#?}");
    assert!(state.due(5 * SECOND).is_some());
    // Another service: the numbers of its processes are others, and rates begin anew.
    state.enter(Ok(machine(1)), 6 * SECOND);
    assert_eq!((&state.service, &state.filter), (&Service::Answers, &None));
    assert_eq!(state.rates, Rates::default());
}

#[test]
fn a_service_that_does_not_answer_is_said() {
    let mut state = state();
    assert!(state.due(SECOND).is_some());
    assert_eq!(state.silence_ns(SECOND + SILENCE_NS - 1), None);
    let lines = screen(&state, USUAL, 5 * SECOND);
    assert_eq!(lines[1], "the service has not answered for 4 s");
}

#[test]
fn a_table_that_is_cut_says_so() {
    let mut state = state();
    press(&mut state, &[KeyCode::Char('3')]);
    let lines = screen(&state, USUAL, 0);
    assert_eq!(lines[1], "fences are cut after 1 (--rows)");
    assert!(lines[4].contains(" fences 1 of 4000 "), "{lines:#?}");
    let row: Vec<&str> = lines[6].split_whitespace().collect();
    assert_eq!(row, ["70", "frame", "game", "native", "sh", "51", "max", "0", "2"]);
    let wide = screen(&state, (140, 24), 0);
    assert!(wide[4].contains(" waiters 1 ") && wide[4].contains(" processes 2 "), "{wide:#?}");
}

#[test]
fn rates_are_by_second_and_none_for_new_rows() {
    let (before, mut after) = (machine(10), machine(14));
    after.processes.rows.push(process(3, 11, "new", 9));
    let rates = Rates::between(&before, &after);
    assert_eq!((rates.busy.as_slice(), rates.all_calls), (&[0.0, 0.25][..], 150.0));
    assert_eq!((rates.calls.get(&1), rates.calls.get(&3)), (Some(&100.0), None));
    assert_eq!(rates.completed.get(&20), Some(&10.0));
    assert_eq!(Rates::between(&after, &before), Rates::default(), "time does not go back");
    let rows = grid(Tab::Processes, &after, &rates, &Users::new()).rows;
    assert_eq!((rows[2].cells[2].text.as_str(), rows[2].cells[4].text.as_str()), ("1000", ""));
}

/// The socket goes after the first connection, so a second one would fail. The service ends then,
/// and each later reading says why it failed.
#[test]
fn a_reader_keeps_its_connection_and_makes_another_when_that_is_lost() {
    let service = tidegate_testbed::Service::start(ServerConfig::default());
    let (platform, socket) = (Platform::host(), service.socket());
    let watch = Watch::connect(&socket, 0).unwrap();
    let reader = Reader::start(&platform, socket.clone(), 0, watch).unwrap();
    std::fs::remove_file(&socket).unwrap();
    let read = || {
        reader.request(Request { rows: 10, process: None });
        loop {
            if let Some(read) = reader.take() {
                return read;
            }
            std::hint::spin_loop();
        }
    };
    for reading in 0..3 {
        let snapshot = read().unwrap_or_else(|why| panic!("reading {reading}: {why}"));
        assert_eq!(snapshot.machine.engines.len(), 3);
    }
    service.stop();
    for _ in 0..2 {
        assert!(read().is_err(), "nothing listens any more");
    }
}
