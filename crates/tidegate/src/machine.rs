//! Assembles one machine: system memory, a software GPU, the reference driver, the graphics kernel. Each part is handed only
//! what its contract names.
//!
//! Order of a start: 1. GPU; 2. driver; 3. kernel, which starts the driver; 4. the engines. A stop goes the other way.

use std::sync::Arc;
use tidegate_calls::{Kernel, Status};
use tidegate_d3d12::{Device, DeviceOptions};
use tidegate_ddi::Driver;
use tidegate_dxgkrnl::{Adapter, AdapterConfig, StartError};
use tidegate_kmd::ReferenceDriver;
use tidegate_platform::{PhysicalAddress, PhysicalMemory, Platform, RunReport};
use tidegate_softgpu::SoftGpu;

/// What a machine is made of.
#[derive(Clone, Debug)]
pub struct MachineConfig {
    /// The hardware.
    pub gpu: tidegate_softgpu::Config,
    /// The driver; its nodes are the hardware's, in the same order.
    pub driver: tidegate_kmd::Config,
    /// The kernel.
    pub kernel: AdapterConfig,
}

impl MachineConfig {
    /// A 3D, a compute and a copy engine, everything switched on.
    pub fn standard(platform: &Platform) -> MachineConfig {
        MachineConfig {
            gpu: tidegate_softgpu::Config::default(),
            driver: tidegate_kmd::Config::standard(),
            kernel: AdapterConfig::standard(platform),
        }
    }

    /// The same with this many engines of each class, at least one of each.
    pub fn with_nodes(mut self, three_d: u32, compute: u32, copy: u32) -> MachineConfig {
        use tidegate_ddi::EngineType;
        use tidegate_softgpu::EngineClass;
        let classes = [
            (three_d, "3D", EngineClass::ThreeD, EngineType::ThreeD),
            (compute, "compute", EngineClass::Compute, EngineType::Other),
            (copy, "copy", EngineClass::Copy, EngineType::Copy),
        ];
        (self.gpu.nodes, self.driver.nodes) = (Vec::new(), Vec::new());
        for (count, name, class, engine_type) in classes {
            for number in 0..count.max(1) {
                let name = if count > 1 { format!("{name} {number}") } else { name.to_owned() };
                self.gpu.nodes.push(tidegate_softgpu::NodeConfig::new(name.clone(), class));
                self.driver.nodes.push(tidegate_kmd::NodeConfig {
                    engine_type,
                    friendly_name: name,
                    user_mode_submission: true,
                });
            }
        }
        self
    }
}

/// Why a machine did not come up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// The adapter did not start.
    #[error("the adapter did not start: {0}")]
    Start(#[from] StartError),
    /// A process could not open it.
    #[error("a process could not open the adapter: {0}")]
    Open(Status),
    /// A device could not be made.
    #[error(transparent)]
    Device(#[from] tidegate_d3d12::Error),
}

/// First address of system memory on the bus; local memory lies far above.
const SYSTEM_MEMORY_BASE: PhysicalAddress = PhysicalAddress(0x1_0000);

/// One adapter with all that stands behind it.
pub struct Machine {
    platform: Platform,
    gpu: Arc<SoftGpu>,
    driver: Arc<ReferenceDriver>,
    adapter: Arc<Adapter>,
}

impl Machine {
    /// Builds and starts a machine with the reference driver.
    pub fn new(platform: &Platform, config: MachineConfig) -> Result<Machine, MachineError> {
        Machine::with_driver(platform, config, |driver| driver)
    }

    /// The same with `wrap` around the driver: how a recording or a faulty driver takes its place.
    pub fn with_driver(
        platform: &Platform,
        config: MachineConfig,
        wrap: impl FnOnce(Arc<dyn Driver>) -> Arc<dyn Driver>,
    ) -> Result<Machine, MachineError> {
        let system_memory = PhysicalMemory::new(platform, SYSTEM_MEMORY_BASE);
        let gpu = SoftGpu::new(platform, &system_memory, config.gpu);
        let driver = ReferenceDriver::new(platform, gpu.clone(), config.driver);
        let adapter = Adapter::start(platform, wrap(driver.clone()), &system_memory, config.kernel)?;
        gpu.start();
        Ok(Machine { platform: platform.clone(), gpu, driver, adapter })
    }

    /// The platform that it runs on.
    pub fn platform(&self) -> &Platform {
        &self.platform
    }

    /// The hardware, for its counts.
    pub fn gpu(&self) -> &Arc<SoftGpu> {
        &self.gpu
    }

    /// The reference driver, for its record of broken contracts.
    pub fn driver(&self) -> &Arc<ReferenceDriver> {
        &self.driver
    }

    /// The kernel, for its counts.
    pub fn adapter(&self) -> &Arc<Adapter> {
        &self.adapter
    }

    /// The call surface of a new process.
    pub fn open(&self, process_name: &str) -> Result<Arc<dyn Kernel>, MachineError> {
        let process = self.adapter.open(process_name).map_err(MachineError::Open)?;
        Ok(process)
    }

    /// A device in a process of its own.
    pub fn device(&self, options: DeviceOptions) -> Result<Device, MachineError> {
        let kernel = self.open(&options.process_name)?;
        Ok(Device::new(&self.platform, kernel, options)?)
    }

    /// Runs `main` as an application on this machine, to its end. What its user-mode queues logged is on the timeline by then,
    /// if there is one.
    pub fn run(&self, main: impl FnOnce() + Send + 'static) -> RunReport {
        let report = self.platform.run(main);
        self.adapter.read_fence_logs();
        report
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.gpu.stop();
        self.adapter.stop();
    }
}
