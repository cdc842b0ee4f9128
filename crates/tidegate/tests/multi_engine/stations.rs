//! One signal through all seven stations, on every platform and in every submission model.

use tidegate::d3d12::{CommandListType, Device, DeviceOptions, FenceChoice, QueueDesc};
use tidegate::explorer::machine;
use tidegate::explorer::strategy::replay::Replay;
use tidegate::platform::{MemoryModel, StepCosts};
use tidegate::{Machine, MachineConfig, Platform, Submission, calls};

fn platforms() -> [fn() -> Platform; 3] {
    [
        Platform::closed_host,
        || Platform::virtual_time(StepCosts::free()),
        || machine(Replay::default(), MemoryModel::TotalStoreOrder),
    ]
}

fn queue(
    device: &Device,
    name: &str,
    list_type: CommandListType,
    submission: Submission,
) -> tidegate::d3d12::Queue {
    let priority = calls::Priority::Normal;
    device
        .create_queue(QueueDesc {
            name: name.into(),
            priority,
            ..QueueDesc::new(list_type, submission)
        })
        .unwrap()
}

#[test]
fn a_gpu_signal_reaches_a_cpu_waiter_in_every_model_on_every_platform() {
    for make in platforms() {
        for submission in [Submission::Packet, Submission::Hardware, Submission::User] {
            let platform = make();
            let machine = Machine::new(&platform, MachineConfig::standard(&platform)).unwrap();
            let fences = if submission == Submission::Packet {
                FenceChoice::Monitored
            } else {
                FenceChoice::Native
            };
            let device =
                machine.device(DeviceOptions { fences, ..DeviceOptions::default() }).unwrap();
            let report = machine.run(move || {
                let copy = queue(&device, "copy", CommandListType::Copy, submission);
                let compute = queue(&device, "compute", CommandListType::Compute, submission);
                let (copied, done) = (
                    device.create_fence("copied", 0).unwrap(),
                    device.create_fence("done", 0).unwrap(),
                );
                compute.wait(&copied, 7).unwrap();
                compute.signal(&done, 42).unwrap();
                copy.signal(&copied, 7).unwrap();
                done.wait(42).unwrap();
                assert_eq!((copied.completed_value(), done.completed_value()), (7, 42));
            });
            assert!(report.completed(), "{:?} {submission}: {report:?}", platform.kind());
            assert_eq!(machine.adapter().bug_checks(), []);
            assert_eq!(machine.driver().violations(), []);
        }
    }
}
