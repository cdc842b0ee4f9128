//! The power of a device against a DPC, explored.

use super::start_driver_on;
use crate::config::{AdapterConfig, PowerManagement};
use crate::driver::DriverPort;
use crate::fence::Fences;
use crate::fence::log::LogReader;
use crate::fence::names::ObjectNames;
use crate::memory::Memory;
use crate::object::{Layers, Objects};
use crate::power::{Power, PowerTransitions};
use crate::scheduling::Scheduling;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};
use tidegate_ddi::{DevicePowerState, Passive};
use tidegate_explorer::search;
use tidegate_explorer::strategy::exhaustive::Exhaustive;
use tidegate_platform::level::{Level, raise};
use tidegate_platform::{MemoryModel, Platform, once};

/// A device whose power is managed.
pub(crate) fn managed_device(platform: &Platform) -> (Arc<DriverPort>, Arc<PowerTransitions>) {
    let mut config = AdapterConfig::standard(platform);
    config.power = PowerManagement::Managed;
    let made = OnceLock::new();
    let (port, _driver) = start_driver_on(platform, config, |caps| {
        once::make_alone(&made, || Arc::new(Power::new(platform, &config, caps))).clone()
    });
    let memory = Memory::new(&port);
    let fences = Fences::new(&memory);
    let sched = Scheduling::new(&port, &memory, &fences);
    let log_reader = LogReader::new(&memory);
    let layers = Layers { log_reader, port: port.clone(), memory, fences, sched };
    let objects = Objects::new(layers, &ObjectNames::new(&port.platform));
    let power = made.get().expect("the port has it");
    (port, PowerTransitions::new(&objects, power, None))
}

#[test]
fn a_device_keeps_its_power_until_the_dpc_under_way_has_ended() {
    let mut unpowered = 0;
    let searched = search(Exhaustive::new(), MemoryModel::TotalStoreOrder, |platform| {
        let (port, power) = managed_device(platform);
        let found = platform.page(1).word(0);
        let (world, noted) = (platform.clone(), found.clone());
        platform.run(move || {
            let of_dpc = power.clone();
            let dpc = world.spawn("DPC", move || {
                if port.begin_dpc() {
                    let _level = raise(Level::Dispatch);
                    if of_dpc.device_state() != DevicePowerState::D0 {
                        noted.store(1);
                    }
                    port.end_dpc();
                }
            });
            let _state = power.set_device_state(&Passive::enter(), DevicePowerState::D3);
            dpc.join();
        });
        unpowered += found.load();
        ControlFlow::Continue(())
    });
    println!("{} states", searched.states);
    assert_eq!(unpowered, 0);
}
