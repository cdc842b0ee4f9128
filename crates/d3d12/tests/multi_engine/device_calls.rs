//! Calls of a device and its queues beside submission: time limits and their loss reports, clocks,
//! residency.

use tidegate::d3d12::{QueueFlags, ReportedCommand, ResidencyPriority};
use tidegate_testbed::prelude::*;

const S: u64 = 1_000_000_000;

/// An engine that does not give up a command buffer before its end.
fn coarse(config: &mut MachineConfig) {
    config.gpu.nodes[1].preemption.compute = ComputePreemption::DmaBuffer;
}

/// Runs a list of 20 seconds on a queue with `flags`, while another device wants the engine.
fn long_list(submission: Submission, flags: QueueFlags) -> (App, Result<(), Error>) {
    let app = App::new(DeviceOptions::new("long").may_raise_priority(true), coarse);
    let other = app.machine.device(DeviceOptions::new("other")).unwrap();
    let ended = app.machine.run(|| {
        let desc = QueueDesc::compute("march").submission(submission).flags(flags);
        let queue = app.create_queue(desc.clone()).unwrap();
        assert_eq!(queue.desc().flags, flags);
        let mut list = app.create_command_list(CommandListType::Compute);
        list.label("20 seconds").unwrap();
        list.timed(20 * S).unwrap();
        queue.execute(&[&list.close().unwrap()]).unwrap();
        let done = app.fence(0);
        queue.signal(&done, 1).unwrap();
        // The engine is asked to give up the list when another queue has work for it.
        let competitor = other.create_queue(desc.flags(QueueFlags::NONE)).unwrap();
        competitor
            .execute(&[&other.list(CommandListType::Compute, |list| list.timed(10))])
            .unwrap();
        done.wait(1)
    });
    let ended = ended.unwrap();
    (app, ended)
}

#[test]
fn the_time_limit_is_off_for_the_queues_that_say_so_and_no_others() {
    for submission in Submission::ALL {
        let (app, ended) = long_list(submission, QueueFlags::DISABLE_GPU_TIMEOUT);
        assert_eq!(ended, Ok(()), "{submission}");
        assert!(app.now() >= 20 * S);
        assert_eq!(app.machine.adapter().recoveries(), [], "{submission}");
        drop(app);

        let (_app, ended) = long_list(submission, QueueFlags::NONE);
        let error = ended.unwrap_err();
        assert_eq!(error.code(), ErrorCode::DeviceHung, "{submission}");
        assert_eq!(error.code().hresult(), 0x887A_0006);
        let Error::DeviceRemoved(RemovedReason::Hung(hang)) = &error else { panic!("{error}") };
        assert_eq!(hang.queue.as_deref(), Some("march"), "{submission}");
        assert!(hang.report.fence_id >= 1 && !hang.report.command.is_empty(), "{hang}");
        assert_eq!(hang.list.as_deref(), Some("20 seconds"), "{submission}: {hang}");
        let command = ReportedCommand { number: 0, kind: "timed work" };
        assert_eq!(hang.command, Some(command), "{submission}: {hang}");
        assert!(error.to_string().contains("queue 'march'"), "{error}");
    }
}

/// The reason of a device's loss by the third list of a call, whose second command is `bad`.
fn loss_by(
    submission: Submission,
    bad: impl Fn(&mut CommandList) -> Result<(), Error> + Send,
) -> RemovedReason {
    let app = App::new(DeviceOptions::default(), |_| ());
    let reason = app.machine.run(|| {
        let queue = app.queue(CommandListType::Compute, submission);
        let words = app.readback(64);
        let list = |name: &str, bad: &dyn Fn(&mut CommandList) -> Result<(), Error>| {
            app.list(CommandListType::Compute, |list| {
                list.label(name)?;
                list.fill(&words, 0, 64, 1)?;
                list.label("within")?;
                bad(list)?;
                list.fill(&words, 0, 64, 2)
            })
        };
        let good = |list: &mut CommandList| list.fill(&words, 0, 4, 3);
        let lists = [list("first", &good), list("second", &good), list("third", &bad)];
        let done = app.fence(0);
        queue.execute(&[&lists[0]]).unwrap();
        queue.execute(&lists.each_ref()).unwrap();
        queue.signal(&done, 1).unwrap();
        let _lost = done.wait(1);
        app.removed_reason()
    });
    reason.unwrap().expect("the device is lost")
}

#[test]
fn a_loss_names_the_queue_the_list_and_the_command() {
    for submission in Submission::ALL {
        let reason = loss_by(submission, |list| list.copy_unchecked(0x10, 0x20, 64));
        let RemovedReason::Faulted(fault) = &reason else { panic!("{reason}") };
        assert_eq!(fault.queue.as_deref(), Some("compute"), "{submission}: {reason}");
        assert_eq!(fault.list.as_deref(), Some("third"), "{submission}: {reason}");
        let command = ReportedCommand { number: 1, kind: "copy" };
        assert_eq!(fault.command, Some(command), "{submission}: {reason}");
        assert_eq!(fault.report.gpu_va, 0x20, "{submission}: {reason}");
        let text = reason.to_string();
        assert!(text.contains("('third'), command 1 (copy), load from 0x20"), "{text}");

        let reason = loss_by(submission, TestCommands::hang);
        let RemovedReason::Hung(hang) = &reason else { panic!("{reason}") };
        assert_eq!(hang.queue.as_deref(), Some("compute"), "{submission}: {reason}");
        assert_eq!(hang.list.as_deref(), Some("third"), "{submission}: {reason}");
        let command = ReportedCommand { number: 1, kind: "hang" };
        assert_eq!(hang.command, Some(command), "{submission}: {reason}");
        let text = reason.to_string();
        assert!(text.contains("queue 'compute', list 'third', command 1 (hang)"), "{text}");
    }
}

#[test]
fn a_queue_without_time_limit_needs_the_privilege() {
    App::new(DeviceOptions::default(), |_| ()).run(|app| {
        for submission in Submission::ALL {
            let desc = QueueDesc::compute("march").submission(submission);
            let refused = app.create_queue(desc.flags(QueueFlags::DISABLE_GPU_TIMEOUT));
            let error = refused.unwrap_err();
            assert_eq!(error.code(), ErrorCode::AccessDenied);
            assert_eq!(
                error.to_string(),
                "queue 'march' needs the privilege to raise priorities for DISABLE_GPU_TIMEOUT; \
                 create the device with may_raise_priority, or the queue without that flag"
            );
        }
    });
}

#[test]
fn clocks_of_gpu_and_cpu_are_read_together() {
    let app = App::new(DeviceOptions::default(), |config| config.gpu.physical_gpus = 2);
    app.run(|app| {
        for (submission, node_mask) in Submission::ALL.into_iter().flat_map(|s| [(s, 0), (s, 2)]) {
            let desc = QueueDesc::compute("q").submission(submission).node_mask(node_mask);
            let queue = app.create_queue(desc).unwrap();
            let before = queue.clock_calibration().unwrap();
            app.pass(1_000);
            let after = queue.clock_calibration().unwrap();
            let frequency = queue.timestamp_frequency().unwrap();
            assert_eq!((frequency, before.gpu_frequency), (S, S));
            assert_eq!(after.cpu.since(before.cpu), 1_000);
            assert_eq!(after.gpu_clock - before.gpu_clock, 1_000);
        }
    });
}

const BYTES: u64 = 64 << 10;

/// An application with room for `buffers` in local memory.
fn small(platform: &Platform, buffers: u64) -> App {
    App::on(platform, DeviceOptions::default(), |config| {
        config.gpu.local_memory_bytes = buffers * BYTES;
    })
}

/// A buffer that stays in local memory faults in a copy when it was evicted.
#[test]
fn buffers_of_the_lowest_priority_leave_local_memory_first() {
    let platform = Platform::virtual_time(StepCosts::free());
    small(&platform, 3).run(|app| {
        let [a, b, c] = ["a", "b", "c"]
            .map(|name| app.create_buffer(BufferDesc::gpu_upload(name, BYTES)).unwrap());
        app.set_residency_priority(&[&a], ResidencyPriority::HIGH).unwrap();
        app.set_residency_priority(&[&c], ResidencyPriority::MINIMUM).unwrap();
        // All of them may leave; `a` was used first, so without priorities it would be the victim.
        app.evict(&[&a, &b, &c]).unwrap();
        let d = app.create_buffer(BufferDesc::gpu_upload("d", BYTES)).unwrap();
        let paged_out = || app.machine.adapter().stats().allocations_paged_out;
        assert_eq!(paged_out(), 1);
        let paged_in = || app.machine.adapter().stats().allocations_paged_in;
        let before = paged_in();
        // `a` and `b` are still there: they return without a move.
        app.make_resident(&[&a, &b]).unwrap();
        assert_eq!(paged_in(), before);
        app.evict(&[&a, &b, &d]).unwrap();
        app.make_resident(&[&c]).unwrap();
        app.make_resident(&[&a]).unwrap();
        assert_eq!((paged_out(), paged_in()), (2, before + 1));
    });
}

#[test]
fn an_enqueued_residency_operation_signals_when_it_is_done_and_blocks_no_thread() {
    for platform in [Platform::virtual_time(StepCosts::free()), Platform::closed_host()] {
        small(&platform, 2).run(|app| {
            let make = |name| app.create_buffer(BufferDesc::gpu_upload(name, BYTES)).unwrap();
            let (busy, idle) = (make("busy"), make("idle"));
            let (queue, gate) = (app.queue(CommandListType::Copy, Submission::User), app.fence(0));
            let ready = app.fence(0);
            // Work of the GPU still uses `busy`, so its room is not free before the gate opens.
            queue.wait(&gate, 1).unwrap();
            app.execute(&queue, |list| list.copy(&busy, 0, &idle, 0, 64));
            app.evict(&[&busy, &idle]).unwrap();
            let system = app.create_buffer(BufferDesc::upload("system", BYTES)).unwrap();
            app.enqueue_make_resident(&[&system], &ready, 1).unwrap();
            assert_eq!(ready.completed_value(), 1, "it is where it stays");
            app.enqueue_make_resident(&[&busy, &idle], &ready, 2).unwrap();
            ready.wait(2).unwrap();
            app.evict(&[&busy, &idle]).unwrap();
            app.set_residency_priority(&[&idle], ResidencyPriority::MINIMUM).unwrap();
            gate.signal(1).unwrap();
            queue.wait_idle().unwrap();
            // The third one takes the room of `idle`, which then returns by paging.
            let third = make("third");
            app.evict(&[&third]).unwrap();
            let paged_in = app.machine.adapter().stats().allocations_paged_in;
            app.enqueue_make_resident(&[&idle], &ready, 3).unwrap();
            ready.wait(3).unwrap();
            assert_eq!(app.machine.adapter().stats().allocations_paged_in, paged_in + 1);
            let over = app.enqueue_make_resident(&[&busy, &idle, &third], &ready, 4);
            assert_eq!(over.unwrap_err().code(), ErrorCode::OutOfMemory);
            assert_eq!(ready.completed_value(), 3, "what is refused signals nothing");
        });
    }
}
