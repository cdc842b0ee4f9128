//! Page tables as the GPU reads them, and the commands of paging operations.

use tidegate_ddi::memory::PagingBuffer;
use tidegate_gpu_abi::{CommandReader, Pte};
use tidegate_testbed::prelude::driver::*;

const SPACE: AddressSpaceId = AddressSpaceId(5);

fn root(machine: &Machine, root: Option<u64>) -> Vec<AdminCommand> {
    let args = SetRootPageTable {
        address_space: SPACE.0,
        physical_adapter: 0,
        root: root.map(PhysicalAddress),
    };
    machine.driver.set_root_page_table(&machine.passive(), args).unwrap();
    machine.commands()
}

#[test]
fn a_root_is_named_to_the_hardware_and_taken_away() {
    let machine = Machine::standard();
    let set = |root| AdminCommand::SetAddressSpace {
        address_space: SPACE,
        root: PhysicalAddress(root),
        physical_gpu: 0,
    };
    let forget = AdminCommand::InvalidateTlb { address_space: SPACE, physical_gpu: 0 };
    assert_eq!(root(&machine, Some(0x9000)), [set(0x9000)]);
    assert_eq!(root(&machine, Some(0xA000)), [set(0xA000), forget]);
    assert_eq!(root(&machine, None), [set(0)]);
    assert_eq!(root(&machine, Some(0xB000)), [set(0xB000)]);
}

#[test]
fn entries_are_written_where_asked_and_cached_translations_forgotten() {
    let machine = Machine::standard();
    let shape = machine.driver.page_table_shape(&machine.passive());
    let table = machine.platform.bulk(shape.table_bytes as usize);
    let write = |level, start_index, entries: &[PageTableEntry]| {
        let args = UpdatePageTable {
            address_space: SPACE.0,
            physical_adapter: 0,
            table: &table,
            level,
            start_index,
            entries,
        };
        machine.driver.update_page_table(&machine.passive(), args)
    };
    let page = |at, writable| PageTableEntry::Page {
        at: PhysicalAddress(at),
        writable,
        fence_values: false,
        cache_coherent: false,
    };
    write(3, 510, &[page(0x7000, true), page(0x8000, false)]).unwrap();
    assert_eq!(machine.commands(), [], "nothing is cached of an address space without a root");
    let entry = |index: u64| Pte(table.read_u64(index * 8).unwrap());
    assert!(entry(510).is_valid() && entry(510).is_writable() && !entry(511).is_writable());
    assert_eq!(
        (entry(510).address(), entry(511).address()),
        (PhysicalAddress(0x7000), PhysicalAddress(0x8000))
    );
    root(&machine, Some(0x9000));
    write(3, 511, &[PageTableEntry::Invalid]).unwrap();
    assert_eq!(
        machine.commands(),
        [AdminCommand::InvalidateTlb { address_space: SPACE, physical_gpu: 0 }]
    );
    assert_eq!((entry(510).is_valid(), entry(511)), (true, Pte(0)));
    let refused = [
        write(3, 511, &[page(0, true), page(0, true)]),
        write(3, u64::MAX, &[page(0, true)]),
        write(4, 0, &[page(0, true)]),
        write(0, 0, &[page(0x1000, true)]),
        write(3, 0, &[page(0x1001, true)]),
    ];
    assert_eq!(refused, [Err(Status::INVALID_PARAMETER); 5]);
    assert_eq!((machine.commands(), entry(0)), (vec![], Pte(0)));
}

#[test]
fn a_table_that_is_too_small_is_refused() {
    let machine = Machine::standard();
    let table = machine.platform.bulk(64);
    let entries = [PageTableEntry::Invalid; 9];
    let args = UpdatePageTable {
        address_space: 5,
        physical_adapter: 0,
        table: &table,
        level: 3,
        start_index: 0,
        entries: &entries,
    };
    assert_eq!(
        machine.driver.update_page_table(&machine.passive(), args),
        Err(Status::INVALID_PARAMETER)
    );
}

#[test]
fn local_memory_is_one_segment_that_the_cpu_reaches() {
    let machine = Machine::standard();
    let segments = machine.driver.query_segments(&machine.passive());
    let (at, _) = segments[0].memory.protocol(1);
    assert!(segments.len() == 1 && segments[0].cpu_visible);
    assert!(
        tidegate_gpu_abi::Device::local_memory(&*machine.device, 0).unwrap().resolve(at).is_some()
    );
}

/// Returns the commands of a paging operation in a buffer of `room` bytes, or the refusal.
fn paging_commands(
    room: usize,
    operation: impl Fn(&PagingBuffer) -> PagingOperation<'_>,
) -> Result<Vec<Command>, Status> {
    let machine = Machine::standard();
    let memory = machine.platform.bulk(room);
    let buffer = PagingBuffer::new(memory.clone());
    machine.driver.build_paging_buffer(&machine.passive(), operation(&buffer))?;
    let mut bytes = vec![0; buffer.used() as usize];
    memory.read(0, &mut bytes).unwrap();
    let words: Vec<u64> =
        bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let (mut commands, mut left) = (Vec::new(), &words[..]);
    while let [head, ..] = left {
        let length = CommandReader::words(*head, left.len() as u64).unwrap();
        commands.push(CommandReader::decode(&left[..length]).unwrap());
        left = &left[length..];
    }
    Ok(commands)
}

#[test]
fn paging_operations_copy_and_fill_whole_words() {
    fn copy_of(bytes: u64) -> impl for<'a> Fn(&'a PagingBuffer) -> PagingOperation<'a> {
        move |buffer| PagingOperation::VirtualTransfer {
            source_gpu_va: 0x1000,
            destination_gpu_va: 0x9000,
            bytes,
            buffer,
        }
    }
    let (source, destination) = (GpuVa(0x1000), GpuVa(0x9000));
    let copied = Command::Copy { source, destination, bytes: 4096 };
    assert_eq!(paging_commands(64, copy_of(4096)), Ok(vec![copied]));
    assert_eq!(paging_commands(0, copy_of(0)), Ok(vec![]), "the content is lost");
    assert_eq!(paging_commands(8, copy_of(4096)), Err(Status::GRAPHICS_INSUFFICIENT_DMA_BUFFER));
    for (bytes, filled) in [(4096, 4096), (4097, 4100), (4100, 4100)] {
        let fill = |value| Command::Fill { destination, bytes: filled, value };
        let made = paging_commands(64, move |buffer| PagingOperation::VirtualFill {
            destination_gpu_va: 0x9000,
            bytes,
            value: 7,
            buffer,
        });
        assert_eq!(made, Ok(vec![fill(7)]));
        let made = paging_commands(64, move |buffer| PagingOperation::InitContextResource {
            allocation: OsHandle(1),
            destination_gpu_va: 0x9000,
            bytes,
            buffer,
        });
        assert_eq!(made, Ok(vec![fill(0)]));
    }
}

#[test]
fn a_driver_of_virtual_addresses_refuses_operations_with_physical_ones() {
    let at = PhysicalAddress(0x1000);
    let made = paging_commands(64, move |buffer| PagingOperation::Fill {
        destination: at,
        bytes: 4096,
        value: 0,
        buffer,
    });
    assert_eq!(made, Err(Status::NOT_SUPPORTED));
}
