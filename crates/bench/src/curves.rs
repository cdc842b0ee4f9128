//! `tidegate-bench --curves DIR`: how figures grow with a number, each as an SVG file, with the
//! floors and the peers that are measured.
//!
//! A curve has its points in order of their numbers. At a point the row, its floor and the peers
//! are measured one after the other.

use crate::chart::{Line, svg};
use crate::floors;
use crate::peer::Peers;
use crate::rows::{api, chain, explore, idle, signal, waiters};
use crate::sizes::Calls;
use tidegate::d3d12::{CommandListType, DeviceOptions, QueueDesc};
use tidegate::runner::cost::CostModel;
use tidegate::{Machine, MachineConfig, Platform, Submission};
use tidegate_measure::rows::virtual_time;
use tidegate_measure::{
    CpuMeter, Found, Measured, Meter, Samples, Scale, Setup, Shape, own, signal_and_see,
};

type Measure = fn(u64, Scale) -> Found<Measured>;
type Floor = fn(u64) -> Found<Samples>;

/// A line of a curve.
struct Series {
    name: &'static str,
    /// The largest number that is measured.
    most: u64,
    what: What,
}

enum What {
    Own(Measure),
    Floor(Floor),
    Peer { peer: &'static str, key: &'static str, size: fn(u64) -> Calls },
}

/// A curve: what grows, over which numbers.
pub(crate) struct Curve {
    pub(crate) name: &'static str,
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

const fn floor(name: &'static str, measure: Floor) -> Series {
    Series { name, most: u64::MAX, what: What::Floor(measure) }
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
const CURVES: &[Curve] = &[
    Curve {
        name: "waiters",
        title: "A signal that releases one of many tasks",
        across: "tasks that wait",
        up: "until the task is over",
        numbers: &[1, 10, 100, 1_000, 10_000, 100_000],
        series: &[
            line("tidegate", waiters::release_tasks),
            floor("ordered map (floor)", floors::tasks::ordered_tasks),
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
            line("tidegate", |n, scale| {
                let Calls { batch, batches } = chains_of(n);
                chain::measure(Calls { batch, batches: scale.of(batches, 1) })
            }),
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
        series: &[line("tidegate", |n, _| api::queues(many(n)))],
    },
    Curve {
        name: "idle_queues",
        title: "A doorbell beside idle queues with connected doorbells",
        across: "idle queues",
        up: "doorbell to fence seen",
        numbers: &[1, 16, 256, 4_096],
        series: &[line("tidegate", idle::doorbell_beside)],
    },
    Curve {
        name: "fences",
        title: "Creation and destruction of a fence",
        across: "fences that exist at the same time",
        up: "one fence",
        numbers: DECADES,
        series: &[
            line("tidegate", |n, _| api::fences(many(n))),
            beside("lavapipe", "api_fences", "lavapipe", 1_000_000, many),
        ],
    },
    Curve {
        name: "adapters",
        title: "A machine built and ended",
        across: "adapters of the machine",
        up: "one adapter's part",
        numbers: &[1, 2, 4, 8, 16, 32, 64],
        series: &[line("tidegate, virtual time", |n, _| adapters(n))],
    },
    Curve {
        name: "processes",
        title: "A doorbell beside idle processes with a queue each",
        across: "idle processes",
        up: "doorbell to fence seen",
        numbers: &[1, 4, 16, 64, 256],
        series: &[line("tidegate", processes)],
    },
    Curve {
        name: "log",
        title: "A logged signal packet without a waiter",
        across: "entries of the fence log",
        up: "one signal",
        numbers: &[64, 256, 1_024, 4_096, 16_384],
        series: &[
            line("tidegate", signal::with_log_of),
            floor("logged signal (floor)", |_| floors::logged_signal()),
        ],
    },
    Curve {
        name: "pending",
        title: "An agent's turn in virtual time",
        across: "engines with a queue and a thread each",
        up: "one turn",
        numbers: &[2, 10, 100, 1_000, 10_000],
        series: &[
            line("tidegate", |n, scale| {
                virtual_time::events(n as u32, (5_000 / n).clamp(3, 60), scale)
            }),
            floor("binary heap (floor)", floors::heap_of),
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
        series: &[line("tidegate", |n, _| explore::exhaust(&format!("litmus-1x{n}")))],
    },
];

/// The curves whose name contains the filter.
pub(crate) fn choose(filter: &str) -> Result<Vec<&'static Curve>, String> {
    let wanted: Vec<_> = CURVES.iter().filter(|curve| curve.name.contains(filter)).collect();
    if wanted.is_empty() {
        let names: Vec<&str> = CURVES.iter().map(|curve| curve.name).collect();
        return Err(format!("no curve's name contains '{filter}'; curves: {}", names.join(", ")));
    }
    Ok(wanted)
}

/// This many objects, in at most 64 batches.
fn many(count: u64) -> Calls {
    let batches = count.clamp(1, 64);
    Calls::new(count.div_ceil(batches), batches)
}

/// The part of one adapter in building and ending a machine.
fn adapters(count: u64) -> Found<Measured> {
    const MACHINES: u64 = 5;
    let (host, mut samples, cpu) = (Platform::host(), Samples::default(), CpuMeter::start());
    for _ in 0..MACHINES {
        let platform = Platform::virtual_time(CostModel::nominal().steps);
        let start = host.now();
        let builder = (0..count).fold(Machine::builder(&platform), |machine, adapter| {
            let mut config = MachineConfig::standard(&platform);
            config.gpu.lane_group = format!("GPU {adapter}");
            machine.reference(config)
        });
        drop(builder.start()?);
        samples.push_batch(host.now().since(start), count);
    }
    Ok(Measured::of(samples, cpu.per(MACHINES * count)))
}

/// A doorbell until its fence is seen, beside processes that each have a queue of the same engine.
fn processes(count: u64, scale: Scale) -> Found<Measured> {
    let setup = Setup::new(Shape { ring_slots: 64, ..Shape::default() })?;
    let mut idle = Vec::new();
    for number in 0..count {
        let options = DeviceOptions {
            process_name: format!("process {number}"),
            ring_slots: 64,
            ..DeviceOptions::default()
        };
        let device = setup.machine.device(options)?;
        let desc = QueueDesc::new(CommandListType::Compute).submission(Submission::User);
        let (queue, fence) = (device.create_queue(desc)?, device.create_fence("connected", 0)?);
        signal_and_see(&queue, &fence, 1)?;
        idle.push((device, queue, fence));
    }
    let (queue, fence) = setup.queue_and_fence()?;
    let mut meter = Meter::start(&setup);
    meter.times(0, scale.of(10_000, 10), 1, |value| signal_and_see(&queue, &fence, value))?;
    Ok(meter.end(|_| Vec::new()))
}

impl Curve {
    /// Measures the curve and draws it as SVG. Numbers above the largest over `scale` are left out.
    pub(crate) fn draw(&self, scale: Scale, mut peers: Option<&mut Peers>) -> Found<String> {
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
                    What::Own(measure) => Some(own(move || measure(number, scale))?.samples),
                    What::Floor(measure) => Some(own(move || measure(number))?),
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
