//! One physical doorbell, and 64 queues that submit at once: each command buffer runs exactly once,
//! the last one of each queue too, which no later ring follows. On threads and in virtual time.

use tidegate_testbed::prelude::*;

const QUEUES: usize = 64;
const ROUNDS: u64 = 20;

fn all_at_once(platform: &Platform, model: DoorbellModel) {
    let options = DeviceOptions { ring_slots: 64, ..DeviceOptions::default() };
    let app = App::on(platform, options, |config| config.driver.doorbells = model);
    let types = [CommandListType::Direct, CommandListType::Compute, CommandListType::Copy];
    let queues: Vec<Queue> =
        (0..QUEUES).map(|n| app.queue(types[n % 3], Submission::User)).collect();
    let kept = queues.clone();
    let app = app.run(move |app| {
        let threads: Vec<_> = queues
            .into_iter()
            .map(|queue| {
                let device = app.device.clone();
                app.platform().spawn("submitter", move || {
                    let fence = device.fence(0);
                    let list = device.list(queue.list_type(), |list| list.timed(100));
                    for round in 1..=ROUNDS {
                        queue.execute(&[&list]).unwrap();
                        queue.signal(&fence, round).unwrap();
                    }
                    fence.wait(ROUNDS).unwrap();
                })
            })
            .collect();
        threads.iter().for_each(|thread| _ = thread.join());
    });
    let (gpu, kernel) = (app.machine.gpu().stats(), app.machine.adapter().stats());
    for queue in &kept {
        assert_eq!(gpu.of(&queue.numbers()).packets, ROUNDS, "{}", queue.name());
    }
    assert_eq!(gpu.signals, 2 * QUEUES as u64 * ROUNDS, "each progress value and each signal once");
    match model {
        DoorbellModel::Global => assert_eq!(kernel.doorbell_victims, 0),
        DoorbellModel::Dedicated { physical } => {
            assert!(kernel.doorbell_victims + u64::from(physical) >= QUEUES as u64, "{kernel:?}");
        }
    }
}

const MODELS: [DoorbellModel; 3] = [
    DoorbellModel::Dedicated { physical: 1 },
    DoorbellModel::Dedicated { physical: 5 },
    DoorbellModel::Global,
];

// spec: UMS-006, UMS-152
#[test]
fn in_virtual_time() {
    for costs in [StepCosts::free(), CostModel::nominal().steps] {
        for model in MODELS {
            all_at_once(&Platform::virtual_time(costs.clone()), model);
        }
    }
}

// spec: UMS-152
#[test]
fn on_threads() {
    for model in MODELS {
        all_at_once(&Platform::closed_host(), model);
    }
}
