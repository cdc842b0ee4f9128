//! The PCI function that a driver finds: its ranges on the bus, its interrupts, and its
//! configuration space.

/// A base address register: a range of the bus that the device answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bar {
    /// The address on the bus.
    pub(crate) bus: u64,
    pub(crate) bytes: u64,
    /// The address at which a driver sees it. It is a non-canonical address, so a plain access ends
    /// the process.
    at: u64,
}

/// The registers of the software GPU: 8 bytes for each that a device can have.
const REGISTERS: Bar = Bar { bus: 0xE000_0000_0000, bytes: 1 << 28, at: 0x7D6E_0000_0000_0000 };
/// The doorbells of the software GPU: 4 KiB for each number of a queue.
pub(crate) const DOORBELLS: Bar =
    Bar { bus: 0xD000_0000_0000, bytes: 1 << 44, at: 0x7D70_0000_0000_0000 };

/// Bytes of configuration space of a PCI Express function.
const BYTES: usize = 4096;
/// Memory accesses and bus mastering are on.
const COMMAND: u16 = 6;
/// Status: the function has a list of capabilities.
const HAS_CAPABILITIES: u16 = 1 << 4;
/// The place of the capability of message-signalled interrupts, and its id.
const MSI_AT: u8 = 0x50;
const MSI: u8 = 5;
/// Message control: messages are on, and have an address of 64 bits.
const MSI_ENABLED: u16 = 1;
const MSI_IS_64_BIT: u16 = 1 << 7;
/// The address of messages: the local interrupt controllers of the CPUs.
const MSI_ADDRESS: u64 = 0xFEE0_0000;
/// A base address register of 64 bits.
const IS_64_BIT: u64 = 4;
/// The most base address registers of 64 bits that a device of a library has.
pub(crate) const MOST_BARS: usize = 2;

impl Bar {
    /// Returns the offset of an address at which a driver sees the range.
    pub(crate) fn offset_of(&self, address: u64) -> Option<u64> {
        address.checked_sub(self.at).filter(|offset| *offset < self.bytes)
    }
}

/// What configuration space says of the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) vendor: u16,
    pub(crate) device: u16,
    pub(crate) revision: u8,
    /// Base class, subclass and programming interface, from bit 16 down.
    pub(crate) class: u32,
}

/// The ids of a software adapter, as user mode gets them; no bus gives any. It is a 3D controller.
const SOFTWARE_GPU: Identity =
    Identity { vendor: 0x1414, device: 0x008C, revision: 0, class: 0x03_02_00 };

/// A PCI function.
pub(crate) struct PciFunction {
    pub(crate) identity: Identity,
    pub(crate) bars: Vec<Bar>,
    /// Messages of its interrupts; 0 for a level-triggered line.
    pub(crate) messages: u32,
}

impl PciFunction {
    pub(crate) fn of_software_gpu() -> PciFunction {
        PciFunction { identity: SOFTWARE_GPU, bars: vec![REGISTERS, DOORBELLS], messages: 0 }
    }

    /// A function of ranges of these sizes, at the places of the software GPU's.
    pub(crate) fn of_sizes(identity: Identity, bar_bytes: &[u64], messages: u32) -> PciFunction {
        let places = [REGISTERS, DOORBELLS].into_iter().zip(bar_bytes);
        let bars = places.map(|(place, bytes)| Bar { bytes: *bytes, ..place }).collect();
        PciFunction { identity, bars, messages }
    }

    /// Returns the address at which a driver sees a range of the bus that the device answers.
    pub(crate) fn window(&self, bus: u64, bytes: u64) -> Option<u64> {
        self.bars.iter().find_map(|bar| {
            let offset = bus.checked_sub(bar.bus)?;
            let end = offset.checked_add(bytes)?;
            (end <= bar.bytes).then(|| bar.at + offset)
        })
    }

    /// Returns the number of the range at which a driver sees an address, and the offset in it.
    pub(crate) fn place_of(&self, address: u64) -> Option<(usize, u64)> {
        let mut bars = self.bars.iter().enumerate();
        bars.find_map(|(number, bar)| bar.offset_of(address).map(|offset| (number, offset)))
    }

    /// Returns the address at which a driver sees the first range.
    pub(crate) fn first_address(&self) -> u64 {
        self.bars.first().map_or(0, |bar| bar.at)
    }

    /// Returns the addresses of the ranges, for messages.
    pub(crate) fn ranges(&self) -> String {
        let of = |bar: &Bar| format!("{:#x}", bar.bus);
        self.bars.iter().map(of).collect::<Vec<_>>().join(" and ")
    }

    /// Returns the configuration space: the header, a capability if the function has messages, and
    /// zeros.
    pub(crate) fn configuration(&self) -> Vec<u8> {
        let mut space = vec![0; BYTES];
        let mut put = |at: usize, bytes: &[u8]| space[at..at + bytes.len()].copy_from_slice(bytes);
        let Identity { vendor, device, revision, class } = self.identity;
        put(0x00, &vendor.to_le_bytes());
        put(0x02, &device.to_le_bytes());
        put(0x04, &COMMAND.to_le_bytes());
        put(0x08, &(class << 8 | u32::from(revision)).to_le_bytes());
        for (bar, at) in self.bars.iter().zip([0x10, 0x18]) {
            put(at, &(bar.bus | IS_64_BIT).to_le_bytes());
        }
        // Interrupt pin A.
        put(0x3D, &[u8::from(self.messages == 0)]);
        if self.messages > 0 {
            put(0x06, &HAS_CAPABILITIES.to_le_bytes());
            put(0x34, &[MSI_AT]);
            let at = usize::from(MSI_AT);
            put(at, &[MSI, 0]);
            // The exponents of the messages that the function has, and of those that are on.
            let exponent = self.messages.trailing_zeros() as u16;
            let control = MSI_ENABLED | MSI_IS_64_BIT | exponent << 1 | exponent << 4;
            put(at + 2, &control.to_le_bytes());
            put(at + 4, &MSI_ADDRESS.to_le_bytes());
        }
        space
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space_of(messages: u32) -> Vec<u8> {
        PciFunction::of_sizes(SOFTWARE_GPU, &[0x1000], messages).configuration()
    }

    #[test]
    fn a_function_with_messages_has_their_capability() {
        let line = space_of(0);
        assert_eq!((line[0x06], line[0x34], line[0x3D]), (0, 0, 1));
        for (messages, control) in [(1, 0x81), (2, 0x93), (32, 0xDB)] {
            let space = space_of(messages);
            assert_eq!((space[0x06], space[0x34], space[0x3D]), (0x10, 0x50, 0));
            assert_eq!(space[0x50..0x58], [5, 0, control, 0, 0, 0, 0xE0, 0xFE]);
        }
    }
}
