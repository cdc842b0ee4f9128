//! Target `guests`: the memory that a virtual machine has as a BAR. The guest stores anything
//! anywhere, posts requests of any kind and length beside calls that the service takes, rings, and
//! leaves.

use super::messages::{SET_UP_STEPS, handles_of, hello, set_up_call};
use crate::any::any;
use crate::input::Input;
use crate::series::Series;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tidegate::Platform;
use tidegate::calls::Handle;
use tidegate::platform::{Bulk, Page};
use tidegate::service::hostile::{Message, encode};
use tidegate_testbed::VirtualMachine;

pub(crate) fn run(series: &mut Series, data: &[u8]) {
    series.served(|socket| {
        let mut input = Input::new(data);
        let mut guest = Guest::new(socket, PATIENCE);
        for _ in 0..MOST_STEPS {
            if input.is_over() {
                break;
            }
            guest.step(&mut input);
        }
    });
}

const MOST_STEPS: usize = 200;
/// Most handles that it keeps.
const MOST_KEPT: usize = 16;
const LONGEST_MESSAGE: usize = 160 << 10;
/// How long an answer is awaited. The service answers no request that it does not take.
const PATIENCE: Duration = Duration::from_millis(20);

/// Offsets in the BAR, as `docs/service.md` has them.
const WORDS_AT: u64 = 4096;
const REQUEST_AT: u64 = 8192;
const ANSWER_AT: u64 = 172_032;
const OBJECTS_AT: u64 = 335_872;
/// Words of the mailbox.
const KIND: usize = 1;
const BYTES: usize = 2;
const ANSWERED: usize = 8;
const ANSWER_BYTES: usize = 9;
/// Kinds of requests.
const BEGIN: u64 = 1;
const MESSAGE: u64 = 2;

struct Guest {
    socket: PathBuf,
    patience: Duration,
    running: Option<Running>,
}

/// A virtual machine with its guest.
struct Running {
    machine: VirtualMachine,
    all: Page,
    words: Page,
    request: Bulk,
    answer: Bulk,
    patience: Duration,
    known: Vec<Handle>,
}

impl Running {
    fn start(socket: &Path, patience: Duration) -> Running {
        let machine = VirtualMachine::start(socket);
        let (memory, platform) = (machine.memory(), Platform::host());
        let words = |at, words| memory.page(&platform, at, words).expect("the BAR has them");
        let bytes = |at| memory.bulk(&platform, at, LONGEST_MESSAGE).expect("the BAR has them");
        let (all, mailbox) = (words(0, memory.bytes() as usize / 8), words(WORDS_AT, 512));
        let (request, answer) = (bytes(REQUEST_AT), bytes(ANSWER_AT));
        Running { machine, all, words: mailbox, request, answer, patience, known: Vec::new() }
    }

    fn post(&self, kind: u64, bytes: u64) -> u64 {
        self.words.store(KIND, kind);
        self.words.store(BYTES, bytes);
        let number = self.words.fetch_add(0, 1).wrapping_add(1);
        self.machine.ring(0);
        number
    }

    /// Posts a message and keeps the handles of its answer.
    fn send(&mut self, kind: u64, body: &[u8]) {
        self.request.write(0, body).expect("a message that fits");
        let number = self.post(kind, body.len() as u64);
        while self.words.load(ANSWERED) != number {
            if !self.machine.wait_for_interrupt(0, self.patience) {
                return;
            }
        }
        let bytes = usize::try_from(self.words.load(ANSWER_BYTES)).unwrap_or(usize::MAX);
        let mut answer = vec![0; bytes.min(LONGEST_MESSAGE)];
        self.answer.read(0, &mut answer).expect("an answer that fits");
        self.known.extend(handles_of(&answer));
        let excess = self.known.len().saturating_sub(MOST_KEPT);
        self.known.drain(..excess);
    }
}

impl Guest {
    fn new(socket: &Path, patience: Duration) -> Guest {
        Guest { socket: socket.with_file_name("guests"), patience, running: None }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let (socket, patience) = (&self.socket, self.patience);
        let guest = self.running.get_or_insert_with(|| Running::start(socket, patience));
        match input.byte() % 8 {
            0 => {
                guest.known.clear();
                guest.send(BEGIN, &hello(input.byte()));
                for number in 0..usize::from(input.byte()).min(SET_UP_STEPS) {
                    let call = set_up_call(&guest.known, number);
                    guest.send(MESSAGE, &encode(&Message::Call(call)));
                }
            }
            1 => {
                let kind = input.number();
                guest.post(kind, input.number());
            }
            2 => guest.machine.ring(usize::from(input.flag())),
            3 => self.running = None,
            4 => {
                // The mailbox, the objects, or anywhere.
                let objects = OBJECTS_AT as usize / 8;
                let areas = [(512, 64), (objects, 64 * 512), (0, guest.all.len())];
                let (first, many) = input.one_of(&areas);
                for _ in 0..input.byte() {
                    let word = first + input.number() as usize % many;
                    guest.all.store(word, input.number());
                }
            }
            _ => guest.send(MESSAGE, &encode(&any::<Message>(input, &guest.known))),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Part of the test of `messages`: the open files of the process are counted, so only one test
    /// of this program may have a service.
    pub(crate) fn the_set_up_of_a_guest_succeeds_but_for_the_descriptor(series: &mut Series) {
        series.served(|socket| {
            // Each request is answered.
            let mut guest = Guest::new(socket, Duration::from_secs(60));
            guest.step(&mut Input::new(&[0, 9, 9]));
            assert_eq!(guest.running.map(|running| running.known.len()), Some(8));
        });
    }
}
