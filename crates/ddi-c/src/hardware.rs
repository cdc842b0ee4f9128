//! The device of a driver: the software GPU, or a model in a library of the user.

use crate::model::DeviceModel;
use crate::pci::PciFunction;
use std::sync::Arc;
use tidegate_gpu_abi::{Device, Register};
use tidegate_platform::PhysicalMemory;

/// Bytes of a register of the software GPU.
const REGISTER_BYTES: u64 = 8;

/// A device and its place on the bus.
pub(crate) struct Hardware {
    /// What the graphics kernel and user mode know of it.
    pub(crate) device: Arc<dyn Device>,
    pub(crate) function: PciFunction,
    /// `None` for the software GPU.
    pub(crate) model: Option<Arc<DeviceModel>>,
    /// What the device reaches: contiguous memory is there.
    pub(crate) system_memory: PhysicalMemory,
}

impl Hardware {
    pub(crate) fn of_gpu(device: Arc<dyn Device>, system_memory: &PhysicalMemory) -> Hardware {
        let (function, system_memory) = (PciFunction::of_software_gpu(), system_memory.clone());
        Hardware { device, function, model: None, system_memory }
    }

    pub(crate) fn of_model(model: Arc<DeviceModel>, system_memory: &PhysicalMemory) -> Hardware {
        let (function, system_memory) = (model.function(), system_memory.clone());
        let device = Arc::clone(&model) as Arc<dyn Device>;
        Hardware { device, function, model: Some(model), system_memory }
    }

    /// Reads at an address at which the driver sees a register.
    ///
    /// # Errors
    /// The access hits no register; in words.
    pub(crate) fn read(&self, at: u64, bytes: u32) -> Result<u64, String> {
        match &self.model {
            None => Ok(self.device.read_register(self.register(at, bytes)?)),
            Some(model) => {
                let (bar, offset) = self.place(at, bytes)?;
                Ok(model.read(bar, offset, bytes))
            }
        }
    }

    /// Writes, as [`Hardware::read`] reads.
    ///
    /// # Errors
    /// As [`Hardware::read`].
    pub(crate) fn write(&self, at: u64, bytes: u32, value: u64) -> Result<(), String> {
        match &self.model {
            None => self.device.write_register(self.register(at, bytes)?, value),
            Some(model) => {
                let (bar, offset) = self.place(at, bytes)?;
                model.write(bar, offset, bytes, value);
            }
        }
        Ok(())
    }

    /// Returns a register of the software GPU.
    fn register(&self, at: u64, bytes: u32) -> Result<Register, String> {
        let place = self.function.place_of(at);
        match place {
            Some((0, offset))
                if offset.is_multiple_of(REGISTER_BYTES) && u64::from(bytes) == REGISTER_BYTES =>
            {
                Ok(Register((offset / REGISTER_BYTES) as u32))
            }
            _ => Err(format!(
                "an access of {bytes} bytes at {at:#x}: registers have 8 bytes each, from {:#x}",
                self.function.first_address()
            )),
        }
    }

    /// Returns the range and the offset of an access to a model, which lies in one range.
    fn place(&self, at: u64, bytes: u32) -> Result<(u32, u64), String> {
        let place = self.function.place_of(at);
        match place {
            Some((bar, offset)) if offset.is_multiple_of(u64::from(bytes)) => {
                Ok((bar as u32, offset))
            }
            _ => Err(format!(
                "an access of {bytes} bytes at {at:#x}: it is not aligned, or not in a range of \
                 the device"
            )),
        }
    }
}
