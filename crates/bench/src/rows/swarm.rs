//! Measures the swarm: programs of 50 operations in virtual time, and schedules of small programs
//! on explored machines, one processor each.
//!
//! The seeds are fixed, so two runs measure the same programs. The goals are 2,000 programs and 500
//! explored programs in a minute.

use crate::aim::{Aimed, row};
use std::sync::Arc;
use tidegate::platform::Step;
use tidegate::runner::cost::CostModel;
use tidegate::{Machine, MachineConfig, Platform};
use tidegate_measure::{CLIENT_CPU, Count, CpuMeter, Found, Measured, Samples, Scale, floor, pin};
use tidegate_swarm::coverage::Coverage;
use tidegate_swarm::{Program, Shape, generate, run};

/// Programs of a batch.
const PROGRAMS: u64 = 20;
const BATCHES: u64 = 5;

/// Rows of random programs.
pub(super) const ROWS: &[Aimed] = &[
    row(
        "swarm_programs",
        "a random program of 50 operations in virtual time with every oracle, its machine included",
        floor("empty_machine", empty_machines),
        |scale| {
            programs(Shape::WHOLE, scale, |program, _| {
                run::in_virtual_time(program).failure.is_some()
            })
        },
    )
    .per_second(2_000.0 / 60.0),
    row(
        "swarm_explored",
        "one schedule of a random program of 14 operations on an explored machine with store buffers",
        floor("empty_machine", empty_machines),
        |scale| {
            programs(Shape::SMALL, scale, |program, seed| {
                run::sample(program, seed, 1, &mut Coverage::default()).is_some()
            })
        },
    )
    .per_second(500.0 / 60.0),
];

/// Runs programs of fixed seeds. A program that fails is counted, and stops nothing.
fn programs(
    shape: Shape,
    scale: Scale,
    fails: impl Fn(&Arc<Program>, u64) -> bool,
) -> Found<Measured> {
    pin(CLIENT_CPU)?;
    let count = scale.of(PROGRAMS, 2);
    let (host, cpu, mut samples) = (Platform::host(), CpuMeter::start(), Samples::default());
    let (mut steps, mut failed) = (0, 0);
    for batch in 0..BATCHES {
        let seeds = batch * count..(batch + 1) * count;
        let programs: Vec<_> =
            seeds.map(|seed| (seed, Arc::new(generate::program(seed, shape)))).collect();
        let start = host.now();
        for (seed, program) in &programs {
            steps += program.steps.len() as u64;
            failed += u64::from(fails(program, *seed));
        }
        samples.push_batch(host.now().since(start), count);
    }
    let counts =
        vec![Count::of("operations", steps), Count::exactly("programs that fail", failed, 0)];
    Ok(Measured { counts, ..Measured::of(samples, cpu.per(count * BATCHES)) })
}

/// Floor: a machine in virtual time that is made, runs one agent, and ends.
fn empty_machines() -> Found<Samples> {
    pin(CLIENT_CPU)?;
    let (host, mut samples) = (Platform::host(), Samples::default());
    for _ in 0..BATCHES {
        let start = host.now();
        for _ in 0..PROGRAMS {
            let platform = Platform::virtual_time(CostModel::nominal().steps);
            let config = MachineConfig::standard(&platform);
            let machine = Machine::builder(&platform).reference(config).start()?;
            let own = platform.clone();
            machine.run_to_report(move || own.spend(Step::KernelCall));
        }
        samples.push_batch(host.now().since(start), PROGRAMS);
    }
    Ok(samples)
}
