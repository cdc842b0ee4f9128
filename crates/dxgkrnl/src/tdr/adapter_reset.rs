//! Owns the reset of an adapter: the published order. What nobody had any work or content on goes
//! on afterwards; everything else is lost.

use super::naming;
use crate::adapter::Adapter;
use crate::device::Device;
use crate::error::BugCheck;
use crate::{display, recovery, sched, suspend};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_calls::DeviceState;
use tidegate_ddi::{OsHandle, Passive};

/// Resets the adapter. Returns the tags of what was lost, and whether as the guilty.
///
/// # Errors
/// A bug check, when the driver does not come back.
// monster: the published list of an adapter reset.
// spec: PRE-052
pub(super) fn reset(
    adapter: &Arc<Adapter>,
    guilty: &[Arc<Device>],
    why: &str,
) -> Result<Vec<(u32, bool)>, BugCheck> {
    let (tdr, config) = (&adapter.tdr, &adapter.config.tdr);
    tdr.resets.fetch_add(1);
    // 1. All nodes stop: nothing is submitted any more, and no interrupt of an engine means
    //    anything.
    let busy = sched::stop_all_engines(adapter);
    // 2. The driver resets the hardware, alone with it.
    let alone = |call: &mut dyn FnMut() -> Result<(), tidegate_calls::Status>| {
        adapter.threads.alone(config.ddi_delay_ns, call).ok_or(BugCheck::StuckInDriver)
    };
    let (reset, blame) =
        naming(adapter, || alone(&mut || adapter.driver().reset_from_timeout(&Passive::enter())));
    reset?.map_err(|status| BugCheck::RecoveryFailed { ddi: "DxgkDdiResetFromTimeout", status })?;
    // Nothing is left on any engine: whoever was to be suspended is, and who waits for a paging
    // packet need not.
    suspend::settle_all(adapter, |_| true);
    sched::end_kernel_s_packets(adapter);
    // 3. Everything leaves the device's memory, where its content is lost; no screen shows it
    //    meanwhile.
    adapter.screen_off();
    let (owners, _moved) = adapter.lose_local_memory();
    let _pages = adapter.trim_fence_storage(0);
    // Whoever had work, or content in the device's memory, is lost.
    let mut devices = BTreeMap::new();
    let hung: Vec<OsHandle> = guilty.iter().chain(&blame.culprits).map(|d| d.os_handle).collect();
    let at_work = adapter.devices_at_work(&busy);
    for device in
        guilty.iter().chain(&blame.culprits).chain(&blame.bystanders).chain(&at_work).chain(&owners)
    {
        devices.insert(device.os_handle, device.clone());
    }
    let mut lost = Vec::new();
    for (handle, device) in devices.iter().filter(|(_, d)| !d.is_of_kernel()) {
        let is_guilty = hung.contains(handle);
        let reason = match is_guilty {
            true => DeviceState::Hung(why.to_owned()),
            false => DeviceState::Reset(format!("the adapter was reset: {why}")),
        };
        let tag = super::tags_of(adapter, device).first().copied();
        if recovery::lose_device(adapter, device, reason) {
            lost.extend(tag.map(|tag| (tag, is_guilty)));
        }
    }
    sched::end_all_packets(adapter);
    // 4. The driver restarts the hardware, alone with it.
    let restarted = alone(&mut || adapter.driver().restart_from_timeout(&Passive::enter()))?;
    restarted
        .map_err(|status| BugCheck::RecoveryFailed { ddi: "DxgkDdiRestartFromTimeout", status })?;
    // 5. All nodes go on.
    tdr.resets.fetch_add(1);
    adapter.local_memory_goes_on();
    display::after_reset(adapter);
    sched::resume_all_engines(adapter);
    Ok(lost)
}
