//! Engines that overlap the commands of a list: what a missing barrier does to results, in some of
//! the orders, and that a barrier and the order of calls hold in all of them.

use tidegate::programs::{FillPattern, Saxpy};
use tidegate_testbed::prelude::*;

const SEEDS: u64 = 24;
/// Several groups, so that a dispatch takes several parts.
const N: u32 = 8_192;

fn app(seed: u64) -> App {
    let options = DeviceOptions::default().validation(Validation::STATES);
    App::new(options, |config| {
        config.gpu.out_of_order = Some(seed);
        config.gpu.groups_per_turn = 1;
    })
}

/// What separates the two dispatches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Between {
    Nothing,
    UavBarrier,
    Transition,
    Calls,
}

/// Writes a buffer with one dispatch and adds it up with another, then copies the sums back.
/// Returns the sums.
fn sums(app: &App, submission: Submission, between: Between) -> Vec<u8> {
    let bytes = 4 * u64::from(N);
    let buffer = |name: &str| app.create_buffer(BufferDesc::new(name, bytes)).unwrap();
    let (x, y) = (buffer("x"), buffer("y"));
    let readback = app.create_buffer(BufferDesc::readback("sums", bytes)).unwrap();
    let queue = app.queue(CommandListType::Compute, submission);
    let (uav, read) = (ResourceStates::UNORDERED_ACCESS, ResourceStates::NON_PIXEL_SHADER_RESOURCE);
    let mut list = app.create_command_list(CommandListType::Compute);
    let ones = 1.0_f32.to_bits();
    let fill = FillPattern { dst: &x, n: N, first: ones, step: 0 };
    list.dispatch(&fill, fill.groups()).unwrap();
    match between {
        Between::Nothing => {}
        Between::UavBarrier => list.barrier(&[Barrier::unordered_access(&x)]).unwrap(),
        Between::Transition => list.barrier(&[Barrier::transition(&x, uav, read)]).unwrap(),
        Between::Calls => {
            queue.execute(&[&list.close().unwrap()]).unwrap();
            list = app.create_command_list(CommandListType::Compute);
        }
    }
    let saxpy = Saxpy { x: &x, y: &y, n: N, a: 1.0 };
    list.dispatch(&saxpy, saxpy.groups()).unwrap();
    list.barrier(&[Barrier::transition(&y, uav, ResourceStates::COPY_SOURCE)]).unwrap();
    list.copy(&readback, 0, &y, 0, bytes).unwrap();
    queue.execute(&[&list.close().unwrap()]).unwrap();
    queue.wait_idle().unwrap();
    contents(&readback)
}

fn contents(buffer: &Buffer) -> Vec<u8> {
    let mut bytes = vec![0; buffer.bytes() as usize];
    buffer.read(0, &mut bytes).unwrap();
    bytes
}

// spec: ME-081
#[test]
fn a_missing_barrier_changes_results_in_some_order_and_a_barrier_holds_in_all() {
    for submission in Submission::ALL {
        let results = |between| {
            let mut results = BTreeSet::new();
            for seed in 0..SEEDS {
                let app = app(seed);
                let result = app.machine.run(|| sums(&app, submission, between)).unwrap();
                results.insert(result);
            }
            results
        };
        let right: Vec<u8> =
            std::iter::repeat_n(1.0_f32.to_le_bytes(), N as usize).flatten().collect();
        for between in [Between::UavBarrier, Between::Transition, Between::Calls] {
            assert!(results(between).iter().eq([&right]), "{submission} {between:?}");
        }
        let unordered = results(Between::Nothing);
        assert!(unordered.len() > 2, "{submission}: {} results", unordered.len());
        assert!(unordered.contains(&right), "{submission}: the order of the list is one of them");
    }
}

#[test]
fn one_seed_gives_one_order() {
    for seed in [3, 4] {
        let run = || {
            let app = app(seed);
            app.machine.run(|| sums(&app, Submission::Hardware, Between::Nothing)).unwrap()
        };
        assert_eq!(run(), run());
    }
}

#[test]
fn copies_keep_their_order_and_dispatches_run_beside_them() {
    let mut copied = BTreeSet::new();
    for seed in 0..SEEDS {
        let app = app(seed);
        let run = || {
            let buffer = |desc: BufferDesc| app.create_buffer(desc).unwrap();
            let upload = buffer(BufferDesc::upload("upload", 8));
            upload.write(0, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
            let (a, x) =
                (buffer(BufferDesc::new("a", 4)), buffer(BufferDesc::new("x", 4 * u64::from(N))));
            let readback = buffer(BufferDesc::readback("readback", 8));
            let queue = app.queue(CommandListType::Compute, Submission::User);
            app.execute(&queue, |list| {
                let fill = FillPattern { dst: &x, n: N, first: 9, step: 0 };
                list.dispatch(&fill, fill.groups())?;
                // The second copy into the same bytes is the one that stays.
                list.copy(&a, 0, &upload, 0, 4)?;
                list.copy(&a, 0, &upload, 4, 4)?;
                // Nothing separates the dispatch from the read of its result.
                list.copy(&readback, 4, &x, x.bytes() - 4, 4)?;
                let source = ResourceStates::COPY_SOURCE;
                list.barrier(&[Barrier::transition(&a, ResourceStates::COPY_DEST, source)])?;
                list.copy(&readback, 0, &a, 0, 4)
            });
            queue.wait_idle().unwrap();
            contents(&readback)
        };
        copied.insert(app.machine.run(run).unwrap());
    }
    let (early, late) = (vec![5, 6, 7, 8, 0, 0, 0, 0], vec![5, 6, 7, 8, 9, 0, 0, 0]);
    assert_eq!(copied, BTreeSet::from([early, late]));
}
