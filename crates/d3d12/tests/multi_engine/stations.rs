//! One signal through all seven stations, on every platform and in every submission model.

use tidegate::explorer::machine;
use tidegate::explorer::strategy::replay::Replay;
use tidegate_testbed::prelude::*;

fn platforms() -> [fn() -> Platform; 3] {
    [
        Platform::closed_host,
        || Platform::virtual_time(StepCosts::free()),
        || machine(Replay::default(), MemoryModel::TotalStoreOrder),
    ]
}

#[test]
fn a_gpu_signal_reaches_a_cpu_waiter_in_every_model_on_every_platform() {
    for make in platforms() {
        for submission in [Submission::Packet, Submission::Hardware, Submission::User] {
            let fences = match submission {
                Submission::Packet => FenceChoice::Monitored,
                _ => FenceChoice::Native,
            };
            let platform = make();
            let options = DeviceOptions { fences, ..DeviceOptions::default() };
            let case = format!("{:?} {submission}", platform.kind());
            App::on(&platform, options, |_| ()).case(case).run(move |app| {
                let copy = app.queue(CommandListType::Copy, submission);
                let compute = app.queue(CommandListType::Compute, submission);
                let (copied, done) = (app.fence(0), app.fence(0));
                compute.wait(&copied, 7).unwrap();
                compute.signal(&done, 42).unwrap();
                copy.signal(&copied, 7).unwrap();
                done.wait(42).unwrap();
                assert_eq!((copied.completed_value(), done.completed_value()), (7, 42));
            });
        }
    }
}
