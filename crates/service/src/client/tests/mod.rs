//! The client against a session that the test scripts: it answers each message by a function.

mod doorbells;
mod kernel;
mod memory;
mod notices;

use super::RemoteKernel;
use super::channel::Channel;
use super::notices::Notices;
use crate::transport::{Attachment, Bell, Link};
use crate::wire::{self, Call, FenceView, Message, OwnMessage, PageView, WordView};
use serde::Serialize;
use std::sync::Arc;
use tidegate_calls::{AdapterInfo, Handle, Status};
use tidegate_platform::{CacheType, ClientAccess, Mutex, Page, Platform};

/// What a session answers.
struct Answer {
    body: Vec<u8>,
    attached: Vec<Attachment>,
}

impl Answer {
    fn ok(value: impl Serialize) -> Answer {
        Answer::with(value, &[])
    }

    /// An answer that hands over these pages.
    fn with(value: impl Serialize, pages: &[&Page]) -> Answer {
        let attached = pages.iter().map(|page| Attachment::of_page(page).unwrap().0).collect();
        Answer { body: wire::encode(&Ok::<_, Status>(value)), attached }
    }

    fn refusal(status: Status) -> Answer {
        Answer { body: wire::encode(&Err::<(), _>(status)), attached: Vec::new() }
    }
}

/// The client of a scripted session.
struct Scripted {
    platform: Platform,
    channel: Arc<Channel>,
    notices: Arc<Notices>,
    /// The session's side of the notices.
    page: Page,
    bell: Bell,
    said: Arc<Mutex<Vec<Message>>>,
}

impl Scripted {
    /// Starts a session with this number of slots for waits. It ends with its first answer of
    /// `None`. Each entered call is over at once.
    fn start(
        slots: usize,
        mut answer: impl FnMut(&Message, &Page) -> Option<Answer> + Send + 'static,
    ) -> Scripted {
        let platform = Platform::sharing_host();
        let (client, session) = Link::socket_pair();
        let (page, bell) = (platform.page(slots), session.bell().unwrap());
        let said = Arc::new(platform.mutex("what a client said", Vec::new()));
        let (heard, words) = (said.clone(), page.clone());
        let serve = move || {
            let mut buffer = Vec::new();
            while let Ok(Some(received)) = session.receive(&mut buffer) {
                let message: Message = wire::decode(received.body).unwrap();
                let answer = answer(&message, &words);
                if let Message::Own(OwnMessage::Enter { key, .. }) = &message {
                    words.store(key.slot as usize, wire::over(*key));
                }
                heard.lock().push(message);
                let Some(Answer { body, attached }) = answer else { return };
                session.send(&body, &attached).unwrap();
            }
        };
        platform.spawn_outside("session", serve).unwrap();
        let channel = Arc::new(Channel::new(&platform, client));
        let notices = Notices::start(&platform, &channel, page.clone(), bell.clone()).unwrap();
        Scripted { platform, channel, notices, page, bell, said }
    }

    /// As [`Scripted::start`], with the calls of a process. The service's clock is
    /// `clock_ahead_ns` behind the client's.
    fn kernel(
        clock_ahead_ns: i128,
        answer: impl FnMut(&Message, &Page) -> Option<Answer> + Send + 'static,
    ) -> (Scripted, RemoteKernel) {
        let scripted = Scripted::start(8, answer);
        let info = AdapterInfo {
            description: "scripted".to_owned(),
            native_gpu_fence_supported: true,
            hardware_scheduling: true,
            no_64bit_atomics: false,
            io_mmu: false,
            physical_adapters: 1,
            graphics_preemption: 0,
            compute_preemption: 0,
            nodes: Vec::new(),
        };
        let Scripted { platform, channel, notices, .. } = &scripted;
        let (channel, notices) = (channel.clone(), notices.clone());
        let kernel = RemoteKernel::new(platform, channel, notices, (info, 1), clock_ahead_ns);
        (scripted, kernel)
    }

    /// Takes the messages that have been answered.
    fn take(&self) -> Vec<Message> {
        std::mem::take(&mut *self.said.lock())
    }

    /// Takes the names of the messages that have been answered.
    fn names(&self) -> Vec<&'static str> {
        self.take().iter().map(Message::name).collect()
    }
}

/// The answer of a session that has nothing to return.
fn done(_message: &Message, _page: &Page) -> Option<Answer> {
    Some(Answer::ok(()))
}

/// A page that a session hands over.
fn shared_page(platform: &Platform, words: usize) -> Page {
    platform.client_page(words, ClientAccess::ReadWrite)
}

/// The view of a page that is handed over as attachment `file`.
fn view(file: u8, page: &Page) -> PageView {
    PageView { file, words: page.len() as u32, access: ClientAccess::ReadWrite }
}

/// A word of the page that is handed over first.
fn word(page: &Page, index: u32) -> WordView {
    WordView { page: view(0, page), index }
}

/// A monitored fence whose value is a word of the page that is handed over first.
fn fence(handle: u32, page: &Page, index: u32) -> FenceView {
    FenceView {
        handle: Handle(handle),
        value: Some(word(page, index)),
        epoch: None,
        value_cpu_va: 0,
        cache_type: CacheType::WriteBack,
        current_value_gpu_va: 0,
        monitored_value_gpu_va: 0,
        native: false,
        private_data: vec![0; 64],
        number: u64::from(handle),
    }
}
