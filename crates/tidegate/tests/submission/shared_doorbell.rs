//! One physical doorbell, and 64 queues that submit at once: each command buffer runs exactly once,
//! the last one of each queue too, which no later ring follows. On threads and in virtual time.

use std::sync::Arc;
use tidegate::d3d12::{CommandListType, DeviceOptions, Queue, QueueDesc};
use tidegate::kmd::DoorbellModel;
use tidegate::platform::StepCosts;
use tidegate::runner::cost::CostModel;
use tidegate::{Machine, MachineConfig, Platform, Submission};

const QUEUES: usize = 64;
const ROUNDS: u64 = 20;

fn all_at_once(platform: &Platform, model: DoorbellModel) {
    let mut config = MachineConfig::standard(platform);
    config.driver.doorbells = model;
    let machine = Arc::new(Machine::new(platform, config).unwrap());
    let device =
        machine.device(DeviceOptions { ring_slots: 64, ..DeviceOptions::default() }).unwrap();
    let types = [CommandListType::Direct, CommandListType::Compute, CommandListType::Copy];
    let queues: Vec<(Queue, CommandListType)> = (0..QUEUES)
        .map(|n| {
            let desc = QueueDesc {
                name: format!("queue {n}"),
                ..QueueDesc::new(types[n % 3], Submission::User)
            };
            (device.create_queue(desc).unwrap(), types[n % 3])
        })
        .collect();
    let kept = queues.clone();
    let spawner = platform.clone();
    let report = machine.run(move || {
        let threads: Vec<_> = queues
            .into_iter()
            .map(|(queue, list_type)| {
                let device = device.clone();
                spawner.spawn(queue.name().to_owned(), move || {
                    let fence = device.create_fence("done", 0).unwrap();
                    let mut list = device.create_command_list(list_type);
                    list.timed(100).unwrap();
                    let list = list.close().unwrap();
                    for round in 1..=ROUNDS {
                        queue.execute(&[&list]).unwrap();
                        queue.signal(&fence, round).unwrap();
                    }
                    fence.wait(ROUNDS).unwrap();
                })
            })
            .collect();
        threads.iter().for_each(|thread| {
            thread.join();
        });
    });
    assert!(report.completed(), "{report:?}");
    let (gpu, kernel) = (machine.gpu().stats(), machine.adapter().stats());
    for (queue, _) in &kept {
        assert_eq!(gpu.of(&queue.numbers()).packets, ROUNDS, "{}", queue.name());
    }
    assert_eq!(gpu.signals, 2 * QUEUES as u64 * ROUNDS, "each progress value and each signal once");
    assert_eq!((machine.driver().violations(), machine.adapter().bug_checks()), (vec![], vec![]));
    match model {
        DoorbellModel::Global => assert_eq!(kernel.doorbell_victims, 0),
        DoorbellModel::Dedicated { physical } => {
            assert!(kernel.doorbell_victims + u64::from(physical) >= QUEUES as u64, "{kernel:?}");
        }
    }
}

// spec: UMS-006, UMS-152
#[test]
fn in_virtual_time() {
    for costs in [StepCosts::free(), CostModel::nominal().steps] {
        for model in [
            DoorbellModel::Dedicated { physical: 1 },
            DoorbellModel::Dedicated { physical: 5 },
            DoorbellModel::Global,
        ] {
            all_at_once(&Platform::virtual_time(costs.clone()), model);
        }
    }
}

// spec: UMS-152
#[test]
fn on_threads() {
    for model in [
        DoorbellModel::Dedicated { physical: 1 },
        DoorbellModel::Dedicated { physical: 5 },
        DoorbellModel::Global,
    ] {
        all_at_once(&Platform::closed_host(), model);
    }
}
