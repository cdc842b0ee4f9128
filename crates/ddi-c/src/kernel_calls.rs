//! The kernel's callbacks of WDDM 2.6 and later: features, and what a driver reports of hardware
//! queues and doorbells. Handles of the kernel are what the driver got.

use crate::host::{Host, Kernel};
use tidegate_ddi::feature::{KernelFeatureTable, NativeFenceTable1, QueryFeatureInterface};
use tidegate_ddi::{
    DisconnectReason, DoorbellStatus, FeatureId, FeatureState, HwContextLoss, OsHandle, Passive,
    Status,
};
use tidegate_wddm_abi::d3dkmddi::{DisconnectDoorbellCallback, InvalidateHwContextCallback};

/// The token of a callback. Its level was checked.
fn passive() -> Passive {
    Passive::enter()
}

impl Host {
    /// Returns the state of a feature. None is known before the start.
    pub(crate) fn feature(&self, feature: FeatureId) -> FeatureState {
        let kernel = self.kernel();
        let state = |kernel: Kernel| kernel.features.is_feature_enabled(&passive(), feature);
        kernel.map(state).unwrap_or_default()
    }

    /// Returns the kernel's table of an enabled feature.
    pub(crate) fn feature_table(
        &self,
        feature: FeatureId,
        version: u16,
        interface_size: u16,
    ) -> Result<KernelFeatureTable, Status> {
        let Kernel { features, .. } = self.kernel().ok_or(Status::NOT_SUPPORTED)?;
        let query = QueryFeatureInterface { feature, version, interface_size };
        features.query_feature_interface(&passive(), query)
    }

    /// GetOSCaps, as a number.
    pub(crate) fn os_caps(&self) -> u32 {
        let feature = FeatureId::NATIVE_FENCE;
        let version = self.feature(feature).version;
        match self.feature_table(feature, version, NativeFenceTable1::BYTES) {
            Ok(KernelFeatureTable::NativeFence1(table)) => table.get_os_caps(&passive()).bits(),
            _ => 0,
        }
    }

    /// DxgkCbInvalidateHwContext.
    pub(crate) fn invalidate_hw_context(
        &self,
        args: &InvalidateHwContextCallback,
    ) -> Result<(), Status> {
        let loss = match args.flags & 1 {
            0 => HwContextLoss::Culprit,
            _ => HwContextLoss::Bystander,
        };
        let Kernel { callbacks, .. } = self.kernel().ok_or(Status::INVALID_PARAMETER)?;
        callbacks.invalidate_hw_context(&passive(), OsHandle(args.hw_context), loss)
    }

    /// DxgkCbDisconnectDoorbell.
    pub(crate) fn disconnect_doorbell(
        &self,
        args: &DisconnectDoorbellCallback,
    ) -> Result<(), Status> {
        const RETRY: u32 = DoorbellStatus::DisconnectedRetry as u32;
        const ABORT: u32 = DoorbellStatus::DisconnectedAbort as u32;
        let reason = match args.disconnect_reason {
            RETRY => DisconnectReason::Retry,
            ABORT => DisconnectReason::Abort,
            _ => return Err(Status::INVALID_PARAMETER),
        };
        let Kernel { callbacks, .. } = self.kernel().ok_or(Status::INVALID_PARAMETER)?;
        let (queue, doorbell) = (OsHandle(args.hw_queue), OsHandle(args.doorbell));
        callbacks.disconnect_doorbell(&passive(), queue, doorbell, reason)
    }
}
