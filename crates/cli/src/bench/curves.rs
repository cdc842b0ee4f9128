//! `tidegate bench --curves DIR`: how figures grow with a number, each as an SVG file, with the
//! floors and the peers that are measured.
//!
//! A curve has its points in order of their numbers. At a point the row, its floor and the peers
//! are measured one after the other.

use super::chart::{Line, svg};
use super::floors;
use super::measure::{Measured, Samples, Trouble};
use super::peer::Peers;
use super::row::own;
use super::rows::growth;
use super::sizes::{Calls, Scale};

type Measure = fn(u64, Scale) -> Result<Samples, Trouble>;

/// A line of a curve.
struct Series {
    name: &'static str,
    /// The largest number that is measured.
    most: u64,
    what: What,
}

enum What {
    Own(Measure),
    Peer { peer: &'static str, key: &'static str, size: fn(u64) -> Calls },
}

/// A curve: what grows, over which numbers.
pub(super) struct Curve {
    pub(super) name: &'static str,
    title: &'static str,
    across: &'static str,
    up: &'static str,
    numbers: &'static [u64],
    series: &'static [Series],
}

const fn line(name: &'static str, measure: Measure) -> Series {
    Series { name, most: u64::MAX, what: What::Own(measure) }
}

const fn beside(
    peer: &'static str,
    key: &'static str,
    name: &'static str,
    most: u64,
    size: fn(u64) -> Calls,
) -> Series {
    Series { name, most, what: What::Peer { peer, key, size } }
}

fn row(
    measure: impl FnOnce() -> Result<Measured, Box<dyn std::error::Error>> + Send + 'static,
) -> Result<Samples, Trouble> {
    own(measure).map(|measured| measured.samples)
}

/// Fewer repetitions of what takes longer.
fn chains_of(depth: u64) -> Calls {
    Calls::new(depth, (20_000 / depth).clamp(1, 100))
}

fn herd_of(count: u64) -> Calls {
    Calls::new(count, 5)
}

fn pending_of(count: u64) -> Calls {
    Calls::new(count, 3)
}

const DECADES: &[u64] = &[1, 10, 100, 1_000, 10_000, 100_000, 1_000_000];

/// All curves.
pub(super) const CURVES: &[Curve] = &[
    Curve {
        name: "waiters",
        title: "A signal that releases one of many tasks",
        across: "tasks that wait",
        up: "until the task is over",
        numbers: &[1, 10, 100, 1_000, 10_000, 100_000],
        series: &[
            line("tidegate", |n, scale| row(move || growth::tasks(n, scale))),
            line("ordered map (floor)", |n, _| floors::tasks::ordered_tasks(n)),
            beside("tokio", "ordered_tasks", "tokio, ordered map", 100_000, herd_of),
            beside("tokio", "watch_tasks", "tokio watch", 100_000, herd_of),
            beside("tokio", "notify_tasks", "tokio notify_waiters", 100_000, herd_of),
            beside("event-listener", "listener_tasks", "event-listener", 100_000, herd_of),
        ],
    },
    Curve {
        name: "chain",
        title: "A link of a chain between two engines",
        across: "links of the chain",
        up: "one link",
        numbers: DECADES,
        series: &[
            line("tidegate", |n, scale| row(move || growth::chain(chains_of(n), scale))),
            beside("tokio", "notify_chain", "tokio, one Notify a link", 100_000, chains_of),
            beside("tokio", "watch_chain", "tokio watch", 10_000, chains_of),
            beside("lavapipe", "chain", "lavapipe", 10_000, chains_of),
            beside("pocl", "pocl_chain", "PoCL", 10_000, chains_of),
        ],
    },
    Curve {
        name: "queues",
        title: "Creation and destruction of a user-mode queue",
        across: "queues that exist at the same time",
        up: "one queue",
        numbers: &[1, 16, 256, 4_096, 65_536],
        series: &[line("tidegate", |n, _| row(move || growth::queues(many(n))))],
    },
    Curve {
        name: "idle_queues",
        title: "A doorbell beside idle queues with connected doorbells",
        across: "idle queues",
        up: "doorbell to fence seen",
        numbers: &[1, 16, 256, 4_096],
        series: &[line("tidegate", |n, scale| row(move || growth::idle_queues(n, scale)))],
    },
    Curve {
        name: "fences",
        title: "Creation and destruction of a fence",
        across: "fences that exist at the same time",
        up: "one fence",
        numbers: DECADES,
        series: &[
            line("tidegate", |n, _| row(move || growth::fences(many(n)))),
            beside("lavapipe", "api_fences", "lavapipe", 1_000_000, many),
        ],
    },
    Curve {
        name: "adapters",
        title: "A machine built and ended",
        across: "adapters of the machine",
        up: "one adapter's part",
        numbers: &[1, 2, 4, 8, 16, 32, 64],
        series: &[line("tidegate, virtual time", |n, _| row(move || growth::adapters(n)))],
    },
    Curve {
        name: "processes",
        title: "A doorbell beside idle processes with a queue each",
        across: "idle processes",
        up: "doorbell to fence seen",
        numbers: &[1, 4, 16, 64, 256],
        series: &[line("tidegate", |n, scale| row(move || growth::processes(n, scale)))],
    },
    Curve {
        name: "log",
        title: "A logged signal packet without a waiter",
        across: "entries of the fence log",
        up: "one signal",
        numbers: &[64, 256, 1_024, 4_096, 16_384],
        series: &[
            line("tidegate", |n, scale| row(move || growth::log(n, scale))),
            line("logged signal (floor)", |_, _| floors::logged_signal()),
        ],
    },
    Curve {
        name: "pending",
        title: "An agent's turn in virtual time",
        across: "engines with a queue and a thread each",
        up: "one turn",
        numbers: &[2, 10, 100, 1_000, 10_000],
        series: &[
            line("tidegate", |n, scale| growth::pending(n, scale).map(|measured| measured.samples)),
            line("binary heap (floor)", |n, _| floors::heap_of(n)),
            beside("simcore", "simcore_timers", "simcore", 10_000, pending_of),
            beside("nexosim", "nexosim_timers", "nexosim", 10_000, pending_of),
        ],
    },
    Curve {
        name: "explored",
        title: "Every state of the litmus protocol with one fence",
        across: "values of the fence",
        up: "until the verdict",
        numbers: &[1, 2, 3, 4, 5],
        series: &[line("tidegate", |n, _| growth::explored(n).map(|measured| measured.samples))],
    },
];

/// So many objects, in at most 64 batches.
fn many(count: u64) -> Calls {
    let batches = count.clamp(1, 64);
    Calls::new(count.div_ceil(batches), batches)
}

impl Curve {
    /// Measures the curve and draws it as SVG. Numbers above the largest over `scale` are left out.
    pub(super) fn draw(
        &self,
        scale: Scale,
        mut peers: Option<&mut Peers>,
    ) -> Result<String, Trouble> {
        let most = self.numbers.last().copied().unwrap_or(0) / scale.0;
        let few = self.numbers.iter().take(2);
        let more = self.numbers.iter().skip(2).filter(|number| **number <= most);
        let numbers: Vec<u64> = few.chain(more).copied().collect();
        let mut lines: Vec<Line> = Vec::new();
        for series in self.series {
            lines.push(Line { name: series.name.to_owned(), points: Vec::new() });
        }
        for number in numbers {
            for (series, line) in self.series.iter().zip(&mut lines) {
                if number > series.most {
                    continue;
                }
                let samples = match series.what {
                    What::Own(measure) => Some(measure(number, scale)?),
                    What::Peer { peer, key, size } => match &mut peers {
                        Some(peers) => {
                            let measured = peers.measure(peer, key, size(number))?;
                            measured.map(|measured| measured.samples)
                        }
                        None => None,
                    },
                };
                line.points.extend(samples.map(|samples| (number as f64, samples.median())));
            }
        }
        lines.retain(|line| !line.points.is_empty());
        Ok(svg(self.title, self.across, self.up, &lines))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_have_names_and_rising_numbers() {
        for (index, curve) in CURVES.iter().enumerate() {
            assert!(CURVES[..index].iter().all(|other| other.name != curve.name));
            assert!(curve.numbers.is_sorted() && curve.numbers.len() > 2, "{}", curve.name);
        }
        assert_eq!((many(1), many(1_000_000)), (Calls::new(1, 1), Calls::new(15_625, 64)));
    }
}
