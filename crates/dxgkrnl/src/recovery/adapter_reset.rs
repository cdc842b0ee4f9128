//! The reset of an adapter, in the published order. A device without work on an engine and without
//! content in local memory survives. Every other device is lost.
//!
//! Entry point: [`carry_out`].

use super::blame::Blame;
use super::device_loss::{hang_of, lose_device, mark_guilty, queues_of};
use super::report::RecoveryReport;
use super::state::Recovery;
use crate::error::BugCheck;
use crate::object::device::Device;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_calls::{DeviceState, Status};
use tidegate_ddi::Passive;
use tidegate_platform::QueueNumber;

/// Resets the adapter. `blame` has what the reset of an engine has cut off. Returns the lost
/// queues, each with whether its device is guilty.
///
/// # Errors
/// A bug check if the driver does not recover.
// spec: PRE-052
pub(super) fn carry_out(
    recovery: &Recovery,
    level: &Passive,
    mut blame: Blame,
    report: &mut RecoveryReport,
) -> Result<Vec<(QueueNumber, bool)>, BugCheck> {
    let config = &recovery.port.config.tdr;
    let reason = report.reason.to_string();
    recovery.port.condition.note_reset();
    // 1. All nodes stop: submissions end, and engine interrupts are ignored.
    let busy = recovery.objects.sched.stop_all_engines(level);
    // 2. The driver resets the hardware. No other call is inside the driver. Power does not change
    //    meanwhile: the agent that changes it would wait for the exclusive call, and the call for
    //    the power.
    let _awake = recovery.port.awake(level);
    recovery.objects.memory.cut_off_waits();
    let exclusive = |call: &mut dyn FnMut() -> Result<(), Status>| {
        recovery.port.threads.exclusive(config.ddi_delay_ns, call).ok_or(BugCheck::StuckInDriver)
    };
    let failed = |ddi: &'static str| move |status| BugCheck::RecoveryFailed { ddi, status };
    let call = &mut || recovery.port.driver(level).reset_from_timeout(level);
    let reset = recovery.losses.collect(&mut blame, || exclusive(call));
    reset?.map_err(failed("DxgkDdiResetFromTimeout"))?;
    // No context is left on an engine, so every suspension and every paging packet is complete.
    recovery.complete_suspensions(|_| true);
    recovery.objects.sched.end_kernel_packets(level.into());
    recovery.detector.note_adapter_reset(recovery.port.declared.caps.engines());
    // 3. Local memory is emptied and its content lost. The screen is blank meanwhile.
    if let Some(display) = &recovery.display {
        display.screen_off(level);
    }
    let (owners, _moved) = recovery.objects.memory.lose_content(level);
    let owners: Vec<Arc<Device>> =
        owners.into_iter().filter_map(|owner| recovery.objects.devices.lock().get(owner)).collect();
    let _pages = recovery.objects.memory.trim_fence_storage(level, 0);
    // Devices with work, or with content in local memory, are lost.
    let mut devices = BTreeMap::new();
    let Blame { culprits, bystanders } = blame;
    mark_guilty(report, &culprits);
    let at_work = recovery.devices_at_work(&busy);
    let guilty = culprits.iter().map(|culprit| &culprit.device);
    for device in guilty.chain(&bystanders).chain(&at_work).chain(&owners) {
        devices.insert(device.os_handle, device.clone());
    }
    let mut lost = Vec::new();
    for (handle, device) in devices.iter().filter(|(_, d)| !d.is_of_kernel()) {
        let culprit = culprits.iter().find(|culprit| culprit.device.os_handle == *handle);
        let hang = culprit.map(|culprit| hang_of(recovery, culprit, &report.work, reason.clone()));
        let named = hang.as_ref().map(|hang| hang.queue);
        let named = named.filter(|queue| *queue != QueueNumber::default());
        let queue = named.or_else(|| queues_of(recovery, device).first().copied());
        let state = match hang {
            Some(hang) => DeviceState::Hung(hang),
            None => DeviceState::Reset(format!("the adapter was reset: {reason}")),
        };
        if lose_device(recovery, level, device, state) {
            lost.extend(queue.map(|queue| (queue, culprit.is_some())));
        }
    }
    recovery.objects.sched.end_all_packets(level);
    // 4. The driver restarts the hardware. No other call is inside the driver.
    let restarted = exclusive(&mut || recovery.port.driver(level).restart_from_timeout(level))?;
    restarted.map_err(failed("DxgkDdiRestartFromTimeout"))?;
    // 5. All nodes resume.
    recovery.port.condition.note_reset();
    recovery.objects.memory.end_reset();
    if let Some(display) = &recovery.display {
        display.after_reset(level);
    }
    recovery.objects.sched.resume_all_engines(level);
    Ok(lost)
}
