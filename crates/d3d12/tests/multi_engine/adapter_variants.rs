//! Every named adapter: it is what its caps say, a multi-engine workload comes out right under each
//! submission model that it offers, and every CPU waiter for a GPU's signal is released.

use std::path::Path;
use tidegate::run_workload;
use tidegate::runner::HangAt;
use tidegate::runner::recovery::Fate;
use tidegate::variants::{ALL, Caps};
use tidegate::workload::load;
use tidegate_testbed::prelude::*;

fn workload(name: &str) -> Arc<Workload> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads").join(name);
    Arc::new(load(&path, &LoadOptions::default()).unwrap().0)
}

// spec: NF-303
#[test]
fn a_workload_is_right_on_every_adapter_under_every_model_that_it_offers() {
    let workload = workload("ring-buffer.toml");
    for variant in ALL {
        for submission in variant.submissions() {
            let request = RunRequest {
                submission: Some(submission),
                adapter: Some(variant),
                ..RunRequest::new(workload.clone(), Clock::Virtual)
            };
            let result = run_workload(&request)
                .unwrap_or_else(|e| panic!("{} {submission}: {e}", variant.name));
            let report = &result.outcome.report;
            let problems = report.problem_lines();
            assert!(report.is_right(), "{} {submission}: {problems:?}", variant.name);
        }
    }
}

#[test]
fn a_hang_costs_its_own_process_alone_on_every_adapter_under_every_model() {
    let (hangs, neighbour) = (workload("priorities.toml"), workload("ring-buffer.toml"));
    for variant in ALL {
        for submission in variant.submissions() {
            let request = RunRequest {
                submission: Some(submission),
                adapter: Some(variant),
                tdr_delay_ns: Some(20_000_000),
                hangs: vec![HangAt { queue: "frames".into(), submission: 3 }],
                beside: Some(neighbour.clone()),
                ..RunRequest::new(hangs.clone(), Clock::Virtual)
            };
            let report = run_workload(&request)
                .unwrap_or_else(|e| panic!("{} {submission}: {e}", variant.name))
                .outcome
                .report;
            let which = format!("{} {submission}: {:?}", variant.name, report.recovery_lines());
            let fates: Vec<Fate> = report.queues.iter().map(|queue| queue.fate).collect();
            assert_eq!(fates, [Fate::Lost, Fate::Hung, Fate::Lost], "{which}");
            assert_eq!(report.recoveries.len(), 1, "{which}");
            assert_eq!(report.recoveries[0].outcome, "the engine was reset", "{which}");
            let beside = report.beside.unwrap();
            let went_on = beside.queues.iter().all(|q| q.fate == Fate::WentOn);
            assert!(beside.completed && went_on, "{which}");
        }
    }
}

#[test]
fn an_adapter_is_what_its_caps_say() {
    for variant in ALL {
        let platform = Platform::virtual_time(StepCosts::free());
        let config = variant.config(&platform);
        let caps = Caps::of(&config);
        let machine = Machine::new(&platform, config).unwrap();
        let info = machine.open("query").unwrap().query_adapter_info();
        let name = variant.name;
        assert_eq!(info.native_gpu_fence_supported, caps.native_fences, "{name}");
        assert_eq!(info.no_64bit_atomics, !caps.atomics_64bit, "{name}");
        assert_eq!(info.io_mmu, caps.io_mmu, "{name}");
        assert_eq!(info.physical_adapters, caps.physical_gpus, "{name}");
        let writing = info.nodes.iter().filter(|n| n.writes_fences).count();
        assert_eq!(writing, caps.fence_writing_nodes, "{name}");
        let user_mode = info.nodes.iter().all(|n| n.user_mode_submission);
        assert_eq!(user_mode, caps.submissions.contains(&Submission::User), "{name}");
    }
}

// spec: NF-303
#[test]
fn no_waiter_of_a_gpu_signal_is_lost_on_any_adapter() {
    for variant in ALL {
        for submission in variant.submissions() {
            let app = App::new(DeviceOptions::default(), |config| variant.apply(config));
            let app = app.case(format!("{} {submission}", variant.name));
            app.run(move |app| ping_pong(app, submission));
        }
    }
}

/// The CPU and two engines in turn, on the first and on the last physical GPU.
fn ping_pong(device: &Device, submission: Submission) {
    let queue = |list_type: CommandListType, node, gpu: u32| {
        let desc = QueueDesc::new(list_type).submission(submission);
        let (node, node_mask) = (Some(node), 1 << gpu);
        device.create_queue(QueueDesc { node, node_mask, ..desc }).unwrap()
    };
    let last = device.physical_gpus() - 1;
    let (compute, copy) =
        (queue(CommandListType::Compute, 1, 0), queue(CommandListType::Copy, 2, last));
    let [go, between, done] = [(); 3].map(|()| device.fence(0));
    for value in 1..=50 {
        compute.wait(&go, value).unwrap();
        compute.signal(&between, value).unwrap();
        copy.wait(&between, value).unwrap();
        copy.signal(&done, value).unwrap();
        go.signal(value).unwrap();
        done.wait(value).unwrap();
    }
    assert_eq!(done.completed_value(), 50);
}

#[test]
fn idle_engines_of_managed_power_lose_it_and_no_submission() {
    let variant = tidegate::variants::find("managed-power").unwrap();
    for submission in variant.submissions() {
        let app = App::new(DeviceOptions::default(), |config| variant.apply(config));
        let app = app.case(submission).run(move |app| {
            ping_pong(app, submission);
            app.pass(1_000_000);
            ping_pong(app, submission);
        });
        let stats = app.machine.adapter().stats();
        assert!(stats.engines_in_f1 > 0, "{submission}: {stats:?}");
    }
}

#[test]
fn a_run_whose_system_sleeps_loses_no_work() {
    let workload = workload("ring-buffer.toml");
    for submission in Submission::ALL {
        let request = RunRequest {
            submission: Some(submission),
            sleeps_at_ns: vec![700_000, 300_000],
            tracing: true,
            ..RunRequest::new(workload.clone(), Clock::Virtual)
        };
        let result = run_workload(&request).unwrap();
        let (report, trace) = (&result.outcome.report, result.trace.unwrap());
        assert!(report.completed && report.verified, "{submission}: {:?}", report.problem_lines());
        let changes = ["D0 to D3", "D3 to D0", "D0, not D3"]
            .map(|change| trace.records.iter().filter(|r| trace.name_of(r) == change).count());
        // The kernel calls the driver for the next packet, and the transition is given up.
        let given_up = submission == Submission::Packet;
        assert_eq!(changes, if given_up { [0, 0, 2] } else { [2, 2, 0] }, "{submission}");
    }
}
