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

    /// Returns the configuration space: the header, then zeros.
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
        space
    }
}
