//! Where each edge of the process was first seen, and the text of a circle.

use super::class::{CLASSES, ClassId, name_of};
use super::rows::{Row, path};
use std::backtrace::Backtrace;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use tidegate_machines::thread;

/// How an agent comes to an edge.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It takes a lock.
    Lock,
    /// It may wait for an agent.
    Wait,
    /// The class is declared to be ended by the other.
    End,
}

/// The first sight of an edge in this process.
struct Sighting {
    agent: String,
    kind: Kind,
    /// `None` for an edge that is declared.
    stack: Option<Backtrace>,
}

static SIGHTINGS: Mutex<Option<HashMap<(u16, u16), Sighting>>> = Mutex::new(None);
/// The edges of all machines.
static UNION: [Row; CLASSES] = [const { Row::empty() }; CLASSES];
/// The classes that stand in a circle of `UNION`.
static IN_CIRCLES: Row = Row::empty();

fn row(class: ClassId) -> &'static Row {
    &UNION[usize::from(class.0)]
}

/// Notes an edge. Returns whether both classes stand in a circle of the union.
pub(super) fn note((from, to): (ClassId, ClassId), kind: Kind) -> bool {
    if !row(from).has(to) {
        let mut sightings = SIGHTINGS.lock().unwrap_or_else(PoisonError::into_inner);
        sightings.get_or_insert_default().entry((from.0, to.0)).or_insert_with(|| Sighting {
            agent: thread::name(),
            kind,
            stack: (kind != Kind::End).then(Backtrace::force_capture),
        });
        mark_circles(from, to);
        row(from).insert(to);
    }
    IN_CIRCLES.has(from) && IN_CIRCLES.has(to)
}

/// Marks the classes of all circles that the edge closes.
fn mark_circles(from: ClassId, to: ClassId) {
    if path(row, to, from).is_none() {
        return;
    }
    for class in (1..CLASSES as u16).map(ClassId) {
        let leads = |from, to| from == to || path(row, from, to).is_some();
        if leads(to, class) && leads(class, from) {
            IN_CIRCLES.insert(class);
        }
    }
}

/// Returns the text of a circle that runs from the first class to the last one, and from there to
/// the first.
pub(super) fn text_of_circle(circle: &[ClassId]) -> String {
    let names: Vec<_> = circle.iter().map(|class| name_of(*class)).collect();
    let mut text = String::from("waits in a circle: ");
    for name in &names {
        let _ = write!(text, "'{name}', then ");
    }
    let _ = write!(text, "'{}'", names[0]);
    let sightings = SIGHTINGS.lock().unwrap_or_else(PoisonError::into_inner);
    for (index, from) in circle.iter().enumerate() {
        let to = circle[(index + 1) % circle.len()];
        let Some(seen) = sightings.as_ref().and_then(|all| all.get(&(from.0, to.0))) else {
            continue;
        };
        let (from, to) = (name_of(*from), name_of(to));
        let agent = if seen.agent.is_empty() { "a thread" } else { &seen.agent };
        let _ = match seen.kind {
            Kind::Lock => write!(text, "\n  '{from}', then the lock '{to}', in agent '{agent}':"),
            Kind::Wait => {
                write!(text, "\n  '{from}', then the wait for '{to}', in agent '{agent}':")
            }
            Kind::End => write!(text, "\n  '{from}' is ended by '{to}'"),
        };
        if let Some(stack) = &seen.stack {
            write_stack(&mut text, stack);
        }
    }
    text
}

/// Writes the frames of this project's code, innermost first.
fn write_stack(text: &mut String, stack: &Backtrace) {
    const FRAMES: usize = 32;
    let stack = stack.to_string();
    let mut lines = stack.lines().map(str::trim).peekable();
    let frames = std::iter::from_fn(|| {
        let line = lines.next()?;
        let function = line.split_once(": ").map_or(line, |(_, function)| function);
        Some((function, lines.next_if(|next| next.starts_with("at "))))
    });
    for (function, place) in
        frames.filter(|(function, place)| is_own(function, *place)).take(FRAMES)
    {
        let _ = write!(text, "\n      {function}");
        if let Some(place) = place {
            let _ = write!(text, " {place}");
        }
    }
}

/// Returns whether a frame is neither of a library nor of this room.
fn is_own(function: &str, place: Option<&str>) -> bool {
    match place {
        Some(place) => !["/rustc/", "/.cargo/", "/src/wait_order/", "/src/waits.rs"]
            .iter()
            .any(|part| place.contains(part)),
        None => {
            function.contains("tidegate")
                && !function.contains("::wait_order::")
                && !function.contains("::waits::")
        }
    }
}
