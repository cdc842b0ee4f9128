//! The messages: calls as data, and what their answers say about memory.
//!
//! Each call is one message, and so is its answer: the result of the call, whose type the caller
//! knows. A file is named by its place among the files of the message. The encoding is postcard's.

use crate::arguments::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tidegate_calls::snapshot::PageRequest;
use tidegate_calls::*;
use tidegate_platform::{CacheType, ClientAccess, Part};

/// The first bytes of the first message.
pub(crate) const MAGIC: [u8; 8] = *b"tidegate";
/// The version of the messages. Both ends must have the same.
pub const VERSION: u32 = 15;

/// The first message of a client.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) magic: [u8; 8],
    pub(crate) version: u32,
    pub(crate) purpose: Purpose,
}

/// What a client connects for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Purpose {
    /// To be a process of this adapter, counted from 0.
    Process { adapter: u32, name: String, kind: ClientKind },
    /// For the counters, as text. The connection ends with the answer.
    Counts,
    /// To view the machine. After the answer, which has no content, each [`WatchCall`] is answered.
    Watch,
    /// To record the machine. After the answer, which has no content, each [`RecordCall`] is
    /// answered.
    Record,
}

/// A request of a recording client, for what is new. `end`: nothing later is wanted.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RecordCall {
    pub(crate) end: bool,
}

/// The answer to a [`RecordCall`]. `left`: more is there now.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Recorded {
    pub(crate) part: Part,
    pub(crate) left: bool,
}

/// A request of a viewer: rows of one adapter.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WatchCall {
    pub(crate) adapter: u32,
    pub(crate) table: Table,
}

/// A table of a view. A page of any of them fits a message.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Table {
    Machine,
    Processes(PageRequest),
    Queues(PageRequest),
    Fences(PageRequest),
    Waiters(PageRequest),
    Doorbells(PageRequest),
}

/// Reads the first message of a client. A client of another version may send anything behind the
/// version.
///
/// # Errors
/// [`Refusal::NotAClient`], [`Refusal::Version`].
pub(crate) fn read_hello(body: &[u8]) -> Result<Purpose, Refusal> {
    let begins = postcard::take_from_bytes::<([u8; 8], u32)>(body).ok();
    match begins {
        Some(((MAGIC, VERSION), _)) => {
            decode::<Hello>(body).map(|hello| hello.purpose).ok_or(Refusal::NotAClient)
        }
        Some(((MAGIC, client), _)) => Err(Refusal::Version { service: VERSION, client }),
        _ => Err(Refusal::NotAClient),
    }
}

/// The answer to [`Hello`]. Its files are the page of notices and the descriptor that says that
/// there are some.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Welcome {
    pub(crate) info: AdapterInfo,
    /// Number of adapters.
    pub(crate) adapters: u32,
    /// The monotonic clock when the server's clock was 0, in nanoseconds.
    pub(crate) clock_origin_ns: u64,
    /// One word for each CPU wait at a time.
    pub(crate) notices: PageView,
}

/// Why a server turned a client away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// The versions of the messages differ.
    #[error("the service speaks version {service} of the protocol, and this client {client}")]
    Version {
        /// The service's.
        service: u32,
        /// The client's.
        client: u32,
    },
    /// The service has as many clients as it takes.
    #[error("the service has {0} clients, its limit: try again when one has ended")]
    TooManyClients(u32),
    /// There is no such adapter.
    #[error("the service has {0} adapters, counted from 0")]
    NoAdapter(u32),
    /// The kernel does not open another process.
    #[error("the adapter does not open a process: {0}")]
    Open(Status),
    /// The client runs as another user.
    #[error("the service takes clients of its own user alone")]
    OtherUser,
    /// The first message was none of this protocol.
    #[error("the first message is not that of a tidegate client")]
    NotAClient,
    /// A recording is under way.
    #[error("the service is being recorded: try again when that recording has ended")]
    Recorded,
    /// The service has no descriptor for another connection.
    #[error("the service has no descriptor left: try again when a client has ended")]
    NoDescriptor,
}

/// A message of a process.
#[derive(Debug, Serialize, Deserialize)]
pub enum Message {
    /// A call of the table.
    Call(Call),
    /// Anything else.
    Own(OwnMessage),
}

impl Message {
    /// Returns whether it ends the connection in order.
    pub(crate) fn is_goodbye(&self) -> bool {
        matches!(self, Message::Own(OwnMessage::Goodbye))
    }
}

impl From<Call> for Message {
    fn from(call: Call) -> Message {
        Message::Call(call)
    }
}

impl From<OwnMessage> for Message {
    fn from(own: OwnMessage) -> Message {
        Message::Own(own)
    }
}

/// The type in which a message carries an argument.
macro_rules! carried {
    ($ty:ty) => {
        $ty
    };
    ($ty:ty, $message:ty) => {
        $message
    };
}

macro_rules! messages {
    ([]
        local { $($local:tt)* }
        sent { $($(#[$meta:meta])* $Name:ident $how:ident
            fn $f:ident($($arg:ident: $ty:ty $(=> $message:ty)?),* $(,)?) -> $out:ty;)* }
    ) => {
        /// A call of a process, with the arguments of the method of its name.
        #[derive(Debug, Serialize, Deserialize)]
        #[allow(missing_docs)]
        pub enum Call {
            $($Name { $($arg: carried!($ty $(, $message)?)),* }),*
        }

        impl Message {
            /// Returns the name of the message on a timeline.
            pub(crate) fn name(&self) -> &'static str {
                match self {
                    $(Message::Call(Call::$Name { .. }) => stringify!($f),)*
                    Message::Own(own) => own.name(),
                }
            }
        }
    };
}

tidegate_calls::for_each_call!(messages! {});

/// What a client says beside the calls: about its waits, its doorbells, and memory that the kernel
/// moves.
#[derive(Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum OwnMessage {
    /// Arms a CPU wait. Its end stores `over` to the word of its slot.
    RegisterWait { fences: Vec<FenceValue>, mode: WaitMode, key: SlotKey, announced: bool },
    /// Cancels this wait. A later wait in the same slot goes on.
    CancelWait { key: SlotKey },
    /// Makes a call while other messages are answered. Its end is told like the end of a wait.
    Enter { call: WaitingCall, key: SlotKey, announced: bool },
    /// The outcome of an entered call that is over. It is told once.
    TakeOutcome { key: SlotKey },
    /// Whether the instances of a wait that is over still belong to a device that works.
    CheckWait { fences: Vec<FenceValue> },
    /// Reads bytes of an allocation that is not mapped.
    ReadAllocation { device: Handle, allocation: Handle, offset: u64, bytes: u32 },
    /// Writes bytes of an allocation that is not mapped.
    WriteAllocation { device: Handle, allocation: Handle, offset: u64, data: Vec<u8> },
    /// A ring that found the engine asleep.
    WakeEngine { doorbell: Handle },
    /// The client has mapped the page of the connection with this number.
    PageIsMapped { doorbell: Handle, number: u64 },
    /// A piece of the commands of the next render call, which ends them.
    SendCommands { piece: Vec<u8> },
    /// The last message: the process ends after its queued work. It has no answer. A connection
    /// that closes without it ends the process abnormally.
    Goodbye,
}

impl OwnMessage {
    fn name(&self) -> &'static str {
        match self {
            OwnMessage::RegisterWait { .. } => "register_wait",
            OwnMessage::CancelWait { .. } => "cancel_wait",
            OwnMessage::Enter { call: WaitingCall::DestroyDevice { .. }, .. } => "destroy_device",
            OwnMessage::Enter { call: WaitingCall::WaitForVerticalBlankEvent, .. } => {
                "wait_for_vertical_blank_event"
            }
            OwnMessage::TakeOutcome { .. } => "take_outcome",
            OwnMessage::CheckWait { .. } => "check_wait",
            OwnMessage::ReadAllocation { .. } => "read_allocation",
            OwnMessage::WriteAllocation { .. } => "write_allocation",
            OwnMessage::WakeEngine { .. } => "wake_engine",
            OwnMessage::PageIsMapped { .. } => "page_is_mapped",
            OwnMessage::SendCommands { .. } => "send_commands",
            OwnMessage::Goodbye => "goodbye",
        }
    }
}

/// A call that waits for work or for the display.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum WaitingCall {
    DestroyDevice { device: Handle },
    WaitForVerticalBlankEvent,
}

impl From<WaitingCall> for Call {
    fn from(call: WaitingCall) -> Call {
        match call {
            WaitingCall::DestroyDevice { device } => Call::DestroyDevice { device },
            WaitingCall::WaitForVerticalBlankEvent => Call::WaitForVerticalBlankEvent {},
        }
    }
}

/// A resource, what its creator has passed, and of each allocation its handle, GPU address and
/// bytes. A process maps the memory of each by a call to lock it.
pub(crate) type OpenedResourceView = (Handle, ResourceData, Vec<(Handle, u64, u64)>);

/// What the word of a slot holds while this wait is armed. It is even.
pub(crate) fn armed(key: SlotKey) -> u64 {
    key.generation << 1
}

/// What the word of a slot holds when this wait is over. It is odd.
pub(crate) fn over(key: SlotKey) -> u64 {
    armed(key) | 1
}

/// What a client stores to the words of its notices when the service is gone. It is odd.
pub(crate) const LOST: u64 = u64::MAX;

/// A protocol page in a file.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct PageView {
    pub(crate) file: u8,
    pub(crate) words: u32,
    pub(crate) access: ClientAccess,
}

/// A word of a page in a file.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct WordView {
    pub(crate) page: PageView,
    pub(crate) index: u32,
}

/// The memory of an allocation.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum MemoryView {
    Bulk {
        file: u8,
        bytes: u64,
    },
    Protocol(PageView),
    /// Reached by calls.
    Moving,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AllocationView {
    pub(crate) handle: Handle,
    pub(crate) gpu_va: u64,
    pub(crate) bytes: u64,
    pub(crate) memory: MemoryView,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FenceView {
    pub(crate) handle: Handle,
    /// `None` for a fence that no CPU reaches.
    pub(crate) value: Option<WordView>,
    pub(crate) epoch: Option<WordView>,
    pub(crate) value_cpu_va: u64,
    pub(crate) cache_type: CacheType,
    pub(crate) current_value_gpu_va: u64,
    pub(crate) monitored_value_gpu_va: u64,
    pub(crate) native: bool,
    pub(crate) private_data: Vec<u8>,
    pub(crate) number: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HwQueueView {
    pub(crate) handle: Handle,
    pub(crate) progress_fence: Handle,
    pub(crate) progress_value: WordView,
    pub(crate) progress_gpu_va: u64,
    pub(crate) native_progress_fence: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DoorbellView {
    pub(crate) handle: Handle,
    pub(crate) has_secondary: bool,
    pub(crate) status: WordView,
    pub(crate) last_queued: WordView,
    pub(crate) private_data: Vec<u8>,
}

/// The page of a connected doorbell, and how its engine finds a ring.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ConnectionView {
    /// The number of the connection among its doorbell's.
    pub(crate) number: u64,
    pub(crate) value_base: u64,
    /// `None` if the doorbell was disconnected meanwhile.
    pub(crate) page: Option<PageView>,
    pub(crate) secondary: Option<PageView>,
    pub(crate) bits: Option<BitsView>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct BitsView {
    pub(crate) bits: [(WordView, u64); 2],
    pub(crate) sleeper: WordView,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct LogView {
    pub(crate) wait_entries: u32,
    pub(crate) signal_entries: u32,
    pub(crate) wait_log_gpu_va: u64,
    pub(crate) signal_log_gpu_va: u64,
    pub(crate) numbers: u32,
    pub(crate) verbose: Option<WordView>,
}

/// Encodes a message.
pub fn encode(message: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(message).expect("a message has no type that cannot be encoded")
}

/// Decodes a whole message; `None` for anything else.
pub(crate) fn decode<T: DeserializeOwned>(body: &[u8]) -> Option<T> {
    let (message, rest) = postcard::take_from_bytes(body).ok()?;
    rest.is_empty().then_some(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::MAX_MESSAGE_BYTES;
    use tidegate_calls::snapshot::{
        FenceKind, FenceRow, NAME_BYTES, PAGE_ROWS, Page, WAITERS_OF_A_FENCE, WaiterKind, WaiterRow,
    };

    fn hello(version: u32) -> Vec<u8> {
        let kind = ClientKind { only_stores: true, kernel_queues_only: false };
        let purpose = Purpose::Process { adapter: 3, name: "app".to_owned(), kind };
        encode(&Hello { magic: MAGIC, version, purpose })
    }

    #[test]
    fn the_first_message_is_read_whole() {
        let bytes = hello(VERSION);
        assert_eq!(bytes, [&b"tidegate"[..], &[VERSION as u8, 0, 3, 3], b"app", &[1, 0]].concat());
        match read_hello(&bytes) {
            Ok(Purpose::Process { adapter: 3, name, kind }) => {
                assert_eq!((&name[..], kind.only_stores), ("app", true));
                assert!(!kind.kernel_queues_only);
            }
            other => panic!("{other:?}"),
        }
        for length in 0..bytes.len() {
            let refused = read_hello(&bytes[..length]).err();
            assert_eq!(refused, Some(Refusal::NotAClient), "{length} bytes");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(read_hello(&longer).err(), Some(Refusal::NotAClient));
        let mut other = bytes;
        other[0] = b'T';
        assert_eq!(read_hello(&other).err(), Some(Refusal::NotAClient));
    }

    #[test]
    fn another_version_is_named_whatever_follows_it() {
        for client in [0, VERSION - 1, VERSION + 1, u32::MAX] {
            let refusal = Refusal::Version { service: VERSION, client };
            assert_eq!(read_hello(&hello(client)).err(), Some(refusal.clone()));
            let begins = encode(&(MAGIC, client));
            assert_eq!(read_hello(&begins).err(), Some(refusal.clone()));
            let garbage = [&begins[..], &[0xff; 100]].concat();
            assert_eq!(read_hello(&garbage).err(), Some(refusal));
        }
        // No number of 32 bits.
        let overlong = [&b"tidegate"[..], &[0xff; 5], &[0x7f]].concat();
        assert_eq!(read_hello(&overlong).err(), Some(Refusal::NotAClient));
    }

    #[test]
    fn words_of_a_slot_tell_each_use_and_its_end_apart() {
        let key = |generation| SlotKey { slot: 1, generation };
        assert_eq!((armed(key(0)), over(key(0)), armed(key(1)), over(key(1))), (0, 1, 2, 3));
        let last = key((1 << 63) - 2);
        assert_eq!((armed(last), over(last)), (u64::MAX - 3, u64::MAX - 2));
        assert_eq!(LOST & 1, 1, "a lost wait is over");
        assert!(over(last) < LOST);
    }

    #[test]
    fn messages_come_back_as_they_were_and_no_part_of_one_does() {
        let (device, allocation, doorbell) = (Handle(1), Handle(300), Handle(u32::MAX));
        let key = SlotKey { slot: 7, generation: u64::MAX >> 1 };
        let fences = vec![FenceValue { fence: device, value: u64::MAX }; 2];
        let (mode, data) = (WaitMode::Any, vec![0, 255]);
        let messages: [(Message, &str); 11] = [
            (
                OwnMessage::RegisterWait { fences: fences.clone(), mode, key, announced: true }
                    .into(),
                "register_wait",
            ),
            (OwnMessage::CancelWait { key }.into(), "cancel_wait"),
            (OwnMessage::CheckWait { fences: fences.clone() }.into(), "check_wait"),
            (
                OwnMessage::ReadAllocation { device, allocation, offset: 1 << 40, bytes: 9 }.into(),
                "read_allocation",
            ),
            (
                OwnMessage::WriteAllocation { device, allocation, offset: 3, data }.into(),
                "write_allocation",
            ),
            (OwnMessage::WakeEngine { doorbell }.into(), "wake_engine"),
            (OwnMessage::PageIsMapped { doorbell, number: 5 }.into(), "page_is_mapped"),
            (OwnMessage::SendCommands { piece: vec![8; 3] }.into(), "send_commands"),
            (OwnMessage::Goodbye.into(), "goodbye"),
            (Call::DestroyDevice { device }.into(), "destroy_device"),
            (Call::WaitFromGpu { context: allocation, fences }.into(), "wait_from_gpu"),
        ];
        for (message, name) in messages {
            let body = encode(&message);
            let back: Message = decode(&body).unwrap();
            assert_eq!((format!("{back:?}"), back.name()), (format!("{message:?}"), name));
            for length in 0..body.len() {
                assert!(decode::<Message>(&body[..length]).is_none(), "{name}, {length} bytes");
            }
            assert!(decode::<Message>(&[&body[..], &[0]].concat()).is_none(), "{name} and more");
        }
        assert!(decode::<Message>(&[2, 0]).is_none(), "there are two kinds of messages");
    }

    #[test]
    fn every_refusal_reaches_the_client_as_it_is() {
        let refusals = [
            Refusal::Version { service: 1, client: u32::MAX },
            Refusal::TooManyClients(300),
            Refusal::NoAdapter(2),
            Refusal::Open(Status::NO_MEMORY),
            Refusal::OtherUser,
            Refusal::NotAClient,
            Refusal::Recorded,
            Refusal::NoDescriptor,
        ];
        for (place, refusal) in (0u8..).zip(refusals) {
            let body = encode(&Err::<Welcome, _>(refusal.clone()));
            // Clients of other versions read the first one, too.
            assert_eq!(body[..2], [1, place]);
            assert_eq!(decode::<Result<Welcome, Refusal>>(&body).unwrap().unwrap_err(), refusal);
        }
    }

    #[test]
    fn the_longest_published_lists_fit_a_message() {
        // A wait names 4,096 fences at most, of 15 bytes each at most.
        let fence = FenceValue { fence: Handle(u32::MAX), value: u64::MAX };
        let key = SlotKey { slot: u32::MAX, generation: u64::MAX };
        let (fences, mode) = (vec![fence; 4096], WaitMode::Any);
        let wait = OwnMessage::RegisterWait { fences, mode, key, announced: true };
        // An update has 4,096 operations, and a render call long commands for 4,096 allocations.
        let tile = TileOperation {
            first: u64::MAX,
            count: u64::MAX,
            memory: Some((fence.fence, u64::MAX)),
        };
        let (reserved, value) = (fence.fence, u64::MAX);
        let operations = vec![tile; 4096];
        let (fence, contexts) = (fence.fence, vec![fence.fence; 64]);
        let args = UpdateGpuVirtualAddressMessage { reserved, fence, value, operations };
        let update = Call::UpdateGpuVirtualAddress { args };
        let commands = Commands::Here(vec![0; crate::long::MAX_INLINE_BYTES]);
        let args = RenderMessage { contexts, commands, allocations: vec![(fence, true); 4096] };
        let least = [4096 * 15, 4096 * 36, (64 << 10) + 4096 * 6];
        let messages: [Message; 3] = [wait.into(), update.into(), Call::Render { args }.into()];
        for (message, least) in messages.iter().zip(least) {
            let bytes = encode(message).len();
            assert!((least..=MAX_MESSAGE_BYTES).contains(&bytes), "{bytes}");
        }
    }

    #[test]
    fn the_longest_pages_fit_a_message() {
        let name = "n".repeat(NAME_BYTES);
        let fence = FenceRow {
            fence: u64::MAX,
            name: name.clone(),
            process: Some(u32::MAX),
            instances: u32::MAX,
            kind: FenceKind::IntraGpu,
            shared: true,
            value: Some(u64::MAX),
            monitored: Some(u64::MAX),
            waiters: u32::MAX,
        };
        let waiter = WaiterRow {
            fence: u64::MAX,
            name: name.clone(),
            kind: WaiterKind::Kernel,
            queue: Some(u64::MAX),
            process: Some(u32::MAX),
            awaited: u64::MAX,
            value: Some(u64::MAX),
        };
        let process = crate::ProcessRow {
            session: u64::MAX,
            process: Some(u32::MAX),
            name,
            pid: u32::MAX,
            uid: u32::MAX,
            calls: u64::MAX,
            handles: u64::MAX,
            memory_bytes: u64::MAX,
            queues: u64::MAX,
            nt_handles: u64::MAX,
        };
        let next = Some(u64::MAX);
        let most = PAGE_ROWS - 1 + WAITERS_OF_A_FENCE;
        let pages = [
            encode(&Ok::<_, Status>(Page { rows: vec![fence; PAGE_ROWS], next })),
            encode(&Ok::<_, Status>(Page { rows: vec![waiter; most], next })),
            encode(&Ok::<_, Status>(Page { rows: vec![process; PAGE_ROWS], next })),
        ];
        for page in pages {
            assert!(page.len() <= MAX_MESSAGE_BYTES, "{} bytes", page.len());
        }
    }
}
