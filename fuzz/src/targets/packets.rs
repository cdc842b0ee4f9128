//! Target `packets`: decoders of the formats between software and hardware. Decoded values encode
//! to the same bytes; all others are refused without harm.

use crate::input::Input;
use tidegate::d3dukmdt::log::{LOG_ENTRY_BYTES, LogEntry, LogIndex};
use tidegate::gpu_abi::command::MAX_COMMAND_WORDS;
use tidegate::gpu_abi::{CommandReader, CommandWriter, RingPacket, SLOT_BYTES};

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    while !input.is_over() {
        match input.byte() % 4 {
            0 => slot(input.take(SLOT_BYTES as usize)),
            1 => commands(&mut input),
            2 => entry(input.take(LOG_ENTRY_BYTES)),
            _ => index(&mut input),
        }
    }
}

fn padded<const N: usize>(taken: &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    bytes[..taken.len()].copy_from_slice(taken);
    bytes
}

fn slot(taken: &[u8]) {
    if let Ok(packet) = RingPacket::decode(&padded(taken)) {
        assert_eq!(RingPacket::decode(&packet.encode()), Ok(packet));
    }
}

/// Decodes a stream as an engine does.
fn commands(input: &mut Input<'_>) {
    let words: Vec<u64> = (0..input.below(200)).map(|_| input.raw()).collect();
    let mut at = 0;
    while at < words.len() {
        let Ok(count) = CommandReader::words(words[at], (words.len() - at) as u64) else { return };
        assert!((1..=MAX_COMMAND_WORDS).contains(&count) && at + count <= words.len());
        let Ok(command) = CommandReader::decode(&words[at..at + count]) else { return };
        let mut writer = CommandWriter::new();
        writer.push(&command);
        let again: Vec<u64> = writer
            .to_bytes()
            .chunks_exact(8)
            .map(|chunk| u64::from_le_bytes(padded(chunk)))
            .collect();
        assert_eq!(CommandReader::decode(&again), Ok(command));
        at += count;
    }
}

fn entry(taken: &[u8]) {
    let bytes = padded(taken);
    assert_eq!(LogEntry::decode(&bytes).encode(), bytes);
}

/// No log index makes a reader leave the log or count without end.
fn index(input: &mut Input<'_>) {
    let (word, earlier) = (LogIndex(input.raw()), LogIndex(input.raw()));
    let entries = (input.number() as u32).clamp(1, 1 << 20);
    let next = word.after(input.number() as u32 % entries, entries);
    assert!(next.first_free_entry() < entries);
    assert!(word.written_since(earlier, entries) <= (1 << 32) * u64::from(entries));
}
