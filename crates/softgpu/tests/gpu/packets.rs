//! What several tests submit: programs, DMA packets, packets and queues with logs.

use tidegate_gpu_abi::log::LOG_ENTRY_BYTES;
use tidegate_programs::signature;
use tidegate_testbed::prelude::gpu::*;

/// A dispatch of the program, or a draw, over the groups that its arguments ask for.
pub fn program(program: ProgramId, args: Vec<u64>) -> Command {
    let groups = signature(program).expect("a program").groups_for(&args);
    match program {
        ProgramId::DRAW => Command::Draw { program: program.0, groups, args },
        _ => Command::Dispatch { program: program.0, groups, args },
    }
}

/// A DMA packet of a context of `process`, whose handle is 7.
pub fn dma(
    process: &Process,
    (commands, bytes): (GpuVa, u32),
    submission_fence_id: u32,
    save_area: GpuVa,
    flags: DmaFlags,
) -> RingPacket {
    RingPacket::ExecuteDma {
        commands,
        bytes,
        address_space: process.id,
        submission_fence_id,
        os_handle: 7,
        save_area,
        flags,
    }
}

/// The packet with an entry in its log.
pub fn logged(mut packet: RingPacket, entry: u32) -> RingPacket {
    if let RingPacket::Wait { log_entry, .. } | RingPacket::Signal { log_entry, .. } = &mut packet {
        *log_entry = entry;
    }
    packet
}

/// A queue's log as the driver sets it.
pub struct Log {
    pub header: Page,
    pub payload: Bulk,
}

impl Log {
    /// Sets a log that notifies after so many entries, or never.
    pub fn set(
        machine: &Machine,
        queue: QueueId,
        kind: LogType,
        entries: u32,
        notify_every: u32,
    ) -> Log {
        let (header_at, header) = machine.system.protocol(LOG_HEADER_WORDS);
        let (payload_at, payload) = machine.system.bulk(entries as usize * LOG_ENTRY_BYTES);
        let set = AdminCommand::SetLogBuffer {
            queue,
            kind,
            header: header_at,
            payload: payload_at,
            entries,
            notify_every,
        };
        machine.admin(set).expect("a log");
        Log { header, payload }
    }

    /// The next index, and how often the log was full or left something out.
    pub fn index(&self) -> (u64, u64) {
        let word = self.header.word(LOG_INDEX_WORD).load();
        (word & 0xFFFF_FFFF, word >> 32)
    }

    pub fn entry(&self, index: u64) -> LogEntry {
        let mut bytes = [0; LOG_ENTRY_BYTES];
        self.payload.read(index * LOG_ENTRY_BYTES as u64, &mut bytes).expect("inside");
        LogEntry::decode(&bytes)
    }
}
