//! DPCs while power is taken away: what needs PASSIVE level is left to a work item.

use tidegate_testbed::prelude::*;

const ENGINE: EngineId = EngineId { node_ordinal: 0, engine_ordinal: 0 };

fn managed_inline(config: &mut MachineConfig) {
    inline(config);
    config.kernel.power = PowerManagement::Managed;
}

/// A native fence, and what raises it to 1 as an engine does: a store, an interrupt and its DPC.
fn raised_by_gpu(w: &World) -> (FenceInstance, impl Fn() + Send + Sync + 'static) {
    let fence = w.native(0);
    let (os_handle, cell, hooked) = (w.last_os_handle(), w.current_word(&fence), w.hooked.clone());
    let raise = move || {
        cell.store(1);
        hooked.interrupt(native_signalled(Some(vec![os_handle]), false));
    };
    (fence, raise)
}

#[test]
fn a_dpc_leaves_a_submission_to_a_work_item_while_its_engine_loses_power() {
    world_with(managed_inline).run(|w| {
        let (gate, raise) = raised_by_gpu(w);
        let (context, done, once) = (w.context(0), w.native(0), OnceLock::new());
        w.on(context).wait(&gate, 1).run(&[Command::Timed { ns: 10 }]).signal(&done, 1);
        w.hooked.on(Entry::SetPowerComponentFState, move || {
            if once.set(()).is_ok() {
                raise();
            }
        });
        w.driver.take();
        w.adapter().power_down_idle_engines();
        w.wait(done.handle, 1).unwrap();
        let of_engine = |call: DdiCall| match call {
            DdiCall::SetPowerComponentFState { engine, state } if engine == ENGINE => {
                Some(format!("{state:?}"))
            }
            DdiCall::SubmitCommandVirtual { .. } => Some("packet".to_owned()),
            _ => None,
        };
        let calls: Vec<String> = w.driver.take().into_iter().filter_map(of_engine).collect();
        assert_eq!(calls, ["F1", "F0", "packet"]);
    });
}

#[test]
fn a_dpc_of_a_device_without_power_runs_in_a_work_item_that_may_wake_the_device() {
    world_with(managed_inline).run(|w| {
        let (fence, raise) = raised_by_gpu(w);
        let released = w.wait_event(&fence, 1);
        assert_eq!(w.adapter().set_power_state(DevicePowerState::D3), Ok(DevicePowerState::D3));
        let dpcs = w.stats().dpcs;
        raise();
        assert_eq!((w.stats().dpcs, released.is_set()), (dpcs, false));
        w.pass(100_000);
        assert_eq!((w.stats().dpcs, released.is_set()), (dpcs + 1, true));
        assert_eq!(w.adapter().power_state(), DevicePowerState::D0, "MonitoredValue was published");
    });
}

/// The same for a hardware queue of the kernel: its command was queued behind a wait after the
/// engine began to lose power, and the DPC of the signal may not wait for the engine.
#[test]
fn a_dpc_leaves_a_command_of_a_hardware_queue_to_a_work_item_while_its_engine_loses_power() {
    world_with(managed_inline).run(|w| {
        let (gate, raise) = raised_by_gpu(w);
        let (queue, n) = (Arc::new(w.hw_queue()), (**w).clone());
        let of_hook = queue.clone();
        w.hooked.once(Entry::SetPowerComponentFState, move || {
            n.on_queue(&of_hook).wait(&gate, 1).run(1, &[Command::Timed { ns: 10 }]);
            n.on_queue(&of_hook).run(2, &[Command::Timed { ns: 10 }]);
            raise();
        });
        w.driver.take();
        w.adapter().power_down_idle_engines();
        w.wait(queue.progress_fence, 2).unwrap();
        let of_engine = |call: DdiCall| match call {
            DdiCall::SetPowerComponentFState { engine, state } if engine == ENGINE => {
                Some(format!("{state:?}"))
            }
            DdiCall::SubmitCommandToHwQueue { args } => {
                Some(format!("command {}", args.progress_fence_id))
            }
            _ => None,
        };
        let calls: Vec<String> = w.driver.take().into_iter().filter_map(of_engine).collect();
        assert_eq!(calls, ["F1", "F0", "command 1", "command 2"]);
    });
}

/// A device in D3 has interrupted, and its DPC has not run when the adapter is removed. The removal
/// takes what was reported, without the power that only a wait could bring back.
#[test]
fn a_removal_takes_the_reports_of_a_device_without_power() {
    world_with(managed_inline).run(|w| {
        let (fence, os_handle) = (w.native(0), w.last_os_handle());
        let released = w.wait_event(&fence, 1);
        assert_eq!(w.adapter().set_power_state(DevicePowerState::D3), Ok(DevicePowerState::D3));
        let dpcs = w.stats().dpcs;
        w.hooked.raise(&[native_signalled(Some(vec![os_handle]), false)]);
        assert_eq!(w.stats().dpcs, dpcs, "the turn of the agent has not ended");
        w.machine.remove_adapter(0);
        assert_eq!((w.stats().dpcs, released.is_set()), (dpcs + 1, true));
        assert_eq!(w.state(), Ok(DeviceState::Removed));
    });
}
