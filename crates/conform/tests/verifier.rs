//! A verifier judges a driver while any workload runs, in virtual time and on threads.

use std::path::Path;
use std::sync::Arc;
use tidegate::d3d12::{BufferDesc, CommandListType, DeviceOptions, QueueDesc};
use tidegate::platform::StepCosts;
use tidegate::workload::expect::Clock;
use tidegate::workload::model::{Submission, Workload};
use tidegate::workload::{self, LoadOptions};
use tidegate::{Machine, MachineConfig, MakeLayer, Platform, RunRequest, run_workload};
use tidegate_conform::{Breach, RunEnd, Verifier, clause};

const BYTES: u64 = 1 << 20;

fn workload(name: &str) -> Arc<Workload> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads").join(name);
    Arc::new(workload::load(&path, &LoadOptions::default()).unwrap().0)
}

/// Runs a workload on the reference driver, with the mistake of a clause if there is one.
fn broken(name: &str, submission: Submission, clock: Clock, mistake: Option<&str>) -> Vec<Breach> {
    run(Verifier::new(), name, submission, clock, mistake)
}

fn run(
    verifier: Verifier,
    name: &str,
    submission: Submission,
    clock: Clock,
    mistake: Option<&str>,
) -> Vec<Breach> {
    let verifier = Arc::new(verifier);
    let (watch, mistake) = (verifier.layer(), mistake.map(|id| clause(id).unwrap()));
    let layer: MakeLayer = Arc::new(move |platform, driver| {
        let driver = match mistake {
            Some(clause) => clause.plant(platform, driver),
            None => driver,
        };
        watch(platform, driver)
    });
    let request = RunRequest {
        submission: Some(submission),
        layer: Some(layer),
        ..RunRequest::new(workload(name), clock)
    };
    let result = run_workload(&request).unwrap();
    verifier.finish(&RunEnd::of_run(&result))
}

#[test]
fn a_driver_that_keeps_the_clauses_breaks_none() {
    for clock in [Clock::Virtual, Clock::Wall] {
        for (name, submission) in [
            ("ring-buffer.toml", Submission::Packet),
            ("ring-buffer.toml", Submission::User),
            ("priorities.toml", Submission::Packet),
            ("larger-than-memory.toml", Submission::Hardware),
            ("presenting.toml", Submission::Packet),
        ] {
            let broken = broken(name, submission, clock, None);
            assert!(broken.is_empty(), "{name} {submission} {clock:?}: {}", broken[0]);
        }
    }
}

#[test]
fn a_mistake_is_found_while_a_workload_runs() {
    for clock in [Clock::Virtual, Clock::Wall] {
        for id in ["packets-notify-dpc", "packets-claimed"] {
            let broken = broken("ring-buffer.toml", Submission::Packet, clock, Some(id));
            let ids: Vec<_> = broken.iter().map(|breach| breach.clause.id).collect();
            assert_eq!(ids, [id], "{clock:?}");
        }
    }
}

#[test]
fn a_breach_reads_as_a_failed_test_and_is_the_same_in_each_run() {
    let run = || {
        let id = Some("life-save-areas");
        let broken = broken("ring-buffer.toml", Submission::Packet, Clock::Virtual, id);
        broken.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let texts = run();
    let [text] = &texts[..] else { panic!("{texts:?}") };
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert_eq!(
        lines[0],
        "life-save-areas: each save area is freed before DxgkDdiStopDevice returns"
    );
    assert_eq!(lines[1], "  source: PRE-013, PRE-014");
    assert!(lines[2].contains("save areas are left"), "{text}");
    assert_eq!(texts, run());
}

/// A service runs for hours: what breaks is reported at once, and once.
#[test]
fn a_break_is_reported_as_soon_as_it_is_seen() {
    for clock in [Clock::Virtual, Clock::Wall] {
        let seen = Arc::new(Platform::host().mutex("reported", Vec::new()));
        let into = Arc::clone(&seen);
        let verifier = Verifier::reporting(move |breach| into.lock().push(breach.clause.id));
        let id = "packets-claimed";
        let broken = run(verifier, "ring-buffer.toml", Submission::Packet, clock, Some(id));
        assert_eq!(broken.len(), 1);
        assert_eq!(*seen.lock(), [id], "{clock:?}");
    }
}

/// A run whose program ends before its last packet does.
#[test]
fn a_packet_has_its_end_when_the_machine_is_idle() {
    for platform in [Platform::virtual_time(StepCosts::free()), Platform::closed_host()] {
        let (verifier, config) = (Verifier::new(), MachineConfig::standard(&platform));
        let machine = Machine::builder(&platform)
            .reference_behind(config, |driver| verifier.before(&platform, driver))
            .start()
            .unwrap();
        let device = machine.device(DeviceOptions::default()).unwrap();
        let result = device.create_buffer(BufferDesc::readback("result", BYTES)).unwrap();
        let source = device.create_buffer(BufferDesc::upload("source", BYTES)).unwrap();
        let packets = QueueDesc::copy("ends early").submission(Submission::Packet);
        let queue = device.create_queue(packets).unwrap();
        let ran = machine.run(|| {
            let mut list = device.create_command_list(CommandListType::Copy);
            list.copy(&result, 0, &source, 0, BYTES).unwrap();
            queue.execute(&[&list.close().unwrap()]).unwrap();
            let was_due = machine.adapter().has_due_work();
            assert!(was_due || !platform.is_cooperative());
            assert!(machine.wait_idle());
            assert!(!machine.adapter().has_due_work());
        });
        ran.unwrap();
        let broken = verifier.finish(&RunEnd::of(machine.adapter()));
        assert!(broken.is_empty(), "{}", broken[0]);
    }
}
