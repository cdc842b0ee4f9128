//! PCI configuration space of the device.

use crate::host::{DOORBELLS_BUS, REGISTERS_BUS};

/// Bytes of configuration space of a PCI Express function.
const BYTES: usize = 4096;
/// The ids of a software adapter, as user mode gets them. No bus gives any.
const VENDOR: u16 = 0x1414;
const DEVICE: u16 = 0x008C;
/// A 3D controller.
const CLASS: [u8; 2] = [0x02, 0x03];
/// Memory accesses and bus mastering are on.
const COMMAND: u16 = 6;
/// A base address register of 64 bits.
const IS_64_BIT: u64 = 4;

/// Returns the configuration space: the header, then zeros.
pub(crate) fn configuration() -> Vec<u8> {
    let mut space = vec![0; BYTES];
    let mut put = |at: usize, bytes: &[u8]| space[at..at + bytes.len()].copy_from_slice(bytes);
    put(0x00, &VENDOR.to_le_bytes());
    put(0x02, &DEVICE.to_le_bytes());
    put(0x04, &COMMAND.to_le_bytes());
    put(0x0A, &CLASS);
    put(0x10, &(REGISTERS_BUS | IS_64_BIT).to_le_bytes());
    put(0x18, &(DOORBELLS_BUS | IS_64_BIT).to_le_bytes());
    // Interrupt pin A.
    put(0x3D, &[1]);
    space
}
