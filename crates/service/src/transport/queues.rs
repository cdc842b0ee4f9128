//! A link over a pair of queues between agents of one cooperative platform.
//!
//! It behaves as the socket does. Messages arrive in order, and none is lost. After the end of the
//! connection what was sent before is received. An end that is closed with unread messages resets
//! the connection: the other end receives nothing any more. What an explorer varies is the order of
//! the two ends, and the step at which one of them dies ([`Life::end`]).
//!
//! Invariants: queues and the open flag change under the lock. The word of an end changes with each
//! message for it and with the end of the connection, and is loaded under the lock before the
//! sleep.

use super::attachment::Attachment;
use super::message::{Heard, MAX_ATTACHMENTS, Received};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use tidegate_platform::{Mutex, Page, Platform, Step, WaitEnd, Word};

/// Messages that one end has not read, at most. A client sends one, and waits for its answer.
const ROOM: usize = 4;

/// A bit of the bell: it was rung.
pub(super) const RUNG: u64 = 1;
/// A bit of the bell: the connection has ended.
const ENDED: u64 = 2;

/// The words of a connection: one for each end, and the bell.
const BELL: usize = 2;

struct Pair {
    state: Mutex<State>,
    words: Page,
}

struct State {
    open: bool,
    /// What each end has not read.
    unread: [VecDeque<Message>; 2],
}

struct Message {
    body: Vec<u8>,
    attached: Vec<Attachment>,
}

/// One end of a connection.
pub(crate) struct End {
    pair: Arc<Pair>,
    side: usize,
}

impl fmt::Debug for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "End({})", self.side)
    }
}

/// The life of a client's process, as far as its connection shows it.
pub struct Life(Arc<Pair>);

impl Life {
    /// Ends the process as SIGKILL does: its end of the connection is closed. What it has sent is
    /// received, unless an answer was unread.
    pub fn end(&self) {
        self.0.close(CLIENT);
    }
}

const CLIENT: usize = 0;

/// Returns the two ends of a new connection, the client's first.
pub(super) fn pair(platform: &Platform) -> (End, End) {
    let state = State { open: true, unread: [VecDeque::new(), VecDeque::new()] };
    let state = platform.mutex("a connection", state);
    let words = platform.page(3).named("a connection");
    let pair = Arc::new(Pair { state, words });
    (End { pair: pair.clone(), side: CLIENT }, End { pair, side: 1 - CLIENT })
}

impl Pair {
    /// Ends the connection and wakes all that wait for it.
    fn end(&self, state: &mut State) {
        state.open = false;
        for side in 0..2 {
            self.words.word(side).fetch_add(1);
        }
        self.words.fetch_or(BELL, ENDED);
        (0..3).for_each(|word| self.words.word(word).wake(u32::MAX, Step::ThreadWake));
    }

    fn close(&self, side: usize) {
        let mut state = self.state.lock_device();
        let reset = !state.unread[side].is_empty();
        let mut dropped = std::mem::take(&mut state.unread[side]);
        if reset {
            dropped.append(&mut state.unread[1 - side]);
        }
        if state.open {
            self.end(&mut state);
        }
        drop(state);
        drop(dropped);
    }
}

impl End {
    pub(super) fn bell(&self) -> Word {
        self.pair.words.word(BELL)
    }

    pub(super) fn life(&self) -> Life {
        Life(self.pair.clone())
    }

    pub(super) fn send<'a>(
        &self,
        body: &[u8],
        attached: impl Iterator<Item = &'a Attachment>,
    ) -> io::Result<()> {
        let attached: Vec<Attachment> =
            attached.map(Attachment::copy).collect::<io::Result<_>>()?;
        if attached.len() > MAX_ATTACHMENTS {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many attachments"));
        }
        let (message, to) = (Message { body: body.to_vec(), attached }, 1 - self.side);
        let mut state = self.pair.state.lock_device();
        if !state.open {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if state.unread[to].len() >= ROOM {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        state.unread[to].push_back(message);
        let word = self.pair.words.word(to);
        word.fetch_add(1);
        drop(state);
        word.wake(1, Step::ThreadWake);
        Ok(())
    }

    /// As [`super::Link::send_last`]. An end that does not read has no room for the message.
    pub(super) fn send_last(&self, body: &[u8]) {
        let mut state = self.pair.state.lock_device();
        if !state.open {
            return;
        }
        let unread = &mut state.unread[1 - self.side];
        if unread.len() < ROOM {
            unread.push_back(Message { body: body.to_vec(), attached: Vec::new() });
        }
        self.pair.end(&mut state);
        let dropped = std::mem::take(&mut state.unread[self.side]);
        drop(state);
        drop(dropped);
    }

    /// As [`super::Link::receive`]; `None` also when the platform stops.
    pub(super) fn receive<'a>(&self, buffer: &'a mut Vec<u8>) -> Option<Received<'a>> {
        let word = self.pair.words.word(self.side);
        loop {
            let mut state = self.pair.state.lock_device();
            if let Some(Message { body, attached }) = state.unread[self.side].pop_front() {
                *buffer = body;
                return Some(Received { body: buffer, attached });
            }
            if !state.open {
                return None;
            }
            let seen = word.load();
            drop(state);
            if word.wait_while(seen as u32, None, "a message") == WaitEnd::Stopped {
                return None;
            }
        }
    }

    pub(super) fn shut_down(&self) {
        let mut state = self.pair.state.lock_device();
        if state.open {
            self.pair.end(&mut state);
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.pair.close(self.side);
    }
}

pub(super) fn wait_for(bell: &Word) -> Heard {
    loop {
        let seen = bell.load();
        if seen & ENDED != 0 {
            return Heard::End;
        }
        if seen & RUNG != 0 {
            bell.fetch_and(!RUNG);
            return Heard::Bell;
        }
        if bell.wait_while(seen as u32, None, "the end of a wait") == WaitEnd::Stopped {
            return Heard::End;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::attachment::{Remains, ended};
    use tidegate_platform::StepCosts;

    fn connection() -> (Platform, End, End) {
        let platform = Platform::virtual_time(StepCosts::free());
        let (client, session) = pair(&platform);
        (platform, client, session)
    }

    fn send(end: &End, body: &[u8]) -> Result<(), io::ErrorKind> {
        end.send(body, [].iter()).map_err(|error| error.kind())
    }

    fn received(end: &End) -> Option<Vec<u8>> {
        end.receive(&mut Vec::new()).map(|received| received.body.to_vec())
    }

    #[test]
    fn an_end_has_room_for_four_messages_as_a_socket_has_for_some() {
        let (_platform, client, session) = connection();
        for number in 0..4 {
            send(&client, &[number]).unwrap();
        }
        assert_eq!(send(&client, b"five"), Err(io::ErrorKind::WouldBlock));
        // The other direction has its own room.
        send(&session, b"answer").unwrap();
        assert_eq!(received(&session), Some(vec![0]));
        send(&client, &[4]).unwrap();
        let rest: Vec<_> = (1..=4).map(|number| Some(vec![number])).collect();
        assert_eq!([(); 4].map(|()| received(&session)).to_vec(), rest);
        assert_eq!(received(&client), Some(b"answer".to_vec()));
    }

    #[test]
    fn a_closed_connection_takes_no_message() {
        let (_platform, client, session) = connection();
        session.shut_down();
        assert_eq!(send(&client, b"late"), Err(io::ErrorKind::BrokenPipe));
        assert_eq!(send(&session, b"late"), Err(io::ErrorKind::BrokenPipe));
        assert_eq!((received(&client), received(&session)), (None, None));
        // A second end changes nothing.
        session.shut_down();
        client.life().end();
        assert_eq!(received(&session), None);
    }

    #[test]
    fn a_killed_client_has_sent_what_it_sent_unless_an_answer_was_unread() {
        for unread_answer in [false, true] {
            let (_platform, client, session) = connection();
            send(&client, b"a call").unwrap();
            if unread_answer {
                send(&session, b"an answer").unwrap();
            }
            client.life().end();
            let expected = (!unread_answer).then(|| b"a call".to_vec());
            assert_eq!((received(&session), received(&session)), (expected, None));
        }
    }

    #[test]
    fn attachments_end_with_a_message_that_is_dropped() {
        let (platform, client, session) = connection();
        let (number, token, remains) = Attachment::new_token(&platform, 5).unwrap();
        let is_left = || ended([(number, &remains)].into_iter()).is_empty();
        client.send(b"a call", [&token].into_iter()).unwrap();
        drop(token);
        assert!(is_left(), "the copy in the message");
        send(&session, b"an answer").unwrap();
        drop(client);
        assert!(!is_left(), "the connection was reset");
        let Remains::Copies(copies) = &remains else { panic!("a counted copy") };
        assert_eq!(copies.load(), 0);
    }

    #[test]
    fn a_message_brings_eight_attachments() {
        let (platform, client, session) = connection();
        let (_, token, _remains) = Attachment::new_token(&platform, 5).unwrap();
        let send = |count| {
            let sent = client.send(b"tokens", std::iter::repeat_n(&token, count));
            sent.map_err(|error| error.kind())
        };
        assert_eq!(send(9), Err(io::ErrorKind::InvalidInput));
        assert_eq!(send(8), Ok(()));
        let mut buffer = Vec::new();
        assert_eq!(session.receive(&mut buffer).unwrap().attached.len(), 8);
    }

    #[test]
    fn a_ring_is_taken_and_the_end_stays() {
        let (_platform, client, session) = connection();
        let bell = session.bell();
        bell.fetch_or(RUNG);
        assert_eq!((wait_for(&client.bell()), bell.load()), (Heard::Bell, 0));
        session.shut_down();
        bell.fetch_or(RUNG);
        for _ in 0..2 {
            assert_eq!(wait_for(&client.bell()), Heard::End);
        }
    }
}
