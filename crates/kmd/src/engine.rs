//! The hardware's engine numbers. Only registers and commands use them. The rest of the driver
//! names an engine by [`EngineId`].

use crate::{KmdError, ReferenceDriver};
use tidegate_ddi::EngineId;
use tidegate_gpu_abi::Register;

impl ReferenceDriver {
    /// Returns all engines in numeric order.
    // spec: NF-324
    pub(crate) fn engines(&self) -> impl Iterator<Item = EngineId> + Clone + use<> {
        EngineId::all(self.device.node_count(), self.device.physical_gpu_count())
    }

    /// Returns the number of an engine.
    pub(crate) fn engine_number(&self, engine: EngineId) -> Result<u32, KmdError> {
        let number = engine.number(self.device.node_count(), self.device.physical_gpu_count());
        number.ok_or(KmdError::Argument("there is no such engine"))
    }

    /// Reads a register that has a bit for each engine. Returns the engines whose bits are set,
    /// each with its number.
    pub(crate) fn read_engines(&self, register: Register) -> impl Iterator<Item = (u32, EngineId)> {
        let bits = self.device.read_register(register);
        (0..).zip(self.engines()).filter(move |(number, _)| bits >> number & 1 != 0)
    }
}
