//! Tests of rooms above a driver that takes packets and nothing else.

mod cpu_waits;
pub(crate) mod fences;
mod packet_driver;
pub(crate) mod power;
pub(crate) mod scheduling;

use crate::config::AdapterConfig;
use crate::driver::{self, Awake, DevicePower, DriverPort, EngineUse};
use crate::interrupt::KernelCallbacks;
use packet_driver::PacketDriver;
use std::sync::Arc;
use tidegate_ddi::{AdapterCaps, Driver, EngineId, Irql, MonitoredNotification, Passive};
use tidegate_platform::{PhysicalAddress, PhysicalMemory, Platform};

/// A device that always has power.
struct AlwaysOn;

impl DevicePower for AlwaysOn {
    fn awake(&self, _: Irql<'_>) -> Awake<'_> {
        Awake::uncounted()
    }

    fn awake_but_suspended(&self, _: &Passive) -> Awake<'_> {
        Awake::uncounted()
    }

    fn release(&self) {}

    fn use_engine(&self, _: Irql<'_>, _: &DriverPort, _: EngineId) -> EngineUse {
        EngineUse::Uncounted
    }

    fn begin_dpc(&self) -> bool {
        true
    }

    fn end_dpc(&self) {}

    fn release_engine(&self, _: EngineId) {}

    fn doorbell_connected(&self, _: &DriverPort, _: EngineId) {}
}

/// A driver that has started, and its port, on threads.
pub(crate) fn start_driver() -> (Arc<DriverPort>, Arc<PacketDriver>) {
    let platform = Platform::closed_host();
    start_driver_on(&platform, AdapterConfig::standard(&platform), |_| Arc::new(AlwaysOn))
}

/// The same on any platform, with nodes that notify so of monitored fences.
fn on_driver(
    platform: &Platform,
    nodes: &[MonitoredNotification],
) -> (Arc<DriverPort>, Arc<PacketDriver>) {
    let driver = PacketDriver::with_nodes(platform, nodes);
    start(platform, driver, AdapterConfig::standard(platform), |_| Arc::new(AlwaysOn))
}

/// A driver of one node on any platform, with the power that `power` makes for its capabilities.
fn start_driver_on(
    platform: &Platform,
    config: AdapterConfig,
    power: impl FnOnce(&AdapterCaps) -> Arc<dyn DevicePower>,
) -> (Arc<DriverPort>, Arc<PacketDriver>) {
    start(platform, PacketDriver::new(platform), config, power)
}

fn start(
    platform: &Platform,
    driver: Arc<PacketDriver>,
    config: AdapterConfig,
    power: impl FnOnce(&AdapterCaps) -> Arc<dyn DevicePower>,
) -> (Arc<DriverPort>, Arc<PacketDriver>) {
    let memory = PhysicalMemory::new(platform, PhysicalAddress(0));
    let callbacks = Arc::new(KernelCallbacks::new());
    let as_driver: Arc<dyn Driver> = driver.clone();
    let level = &Passive::enter();
    let started = driver::start(level, platform, &as_driver, &memory, config, callbacks).unwrap();
    let power = power(&started.declared.caps);
    (DriverPort::new(started, power), driver)
}
