//! Clients in processes of their own that keep their parent informed: a line for what was reached.

use super::process::ClientProcess;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate::Platform;
use tidegate::calls::{
    AllocationKind, CreateAllocation, CreateContextVirtual, CreateMonitoredFence,
    CreatePagingQueue, FenceInstance, FenceValue, Handle, Kernel, MakeResident, NtHandle,
    OpenSyncObject, PagingPriority, Placement, Priority, Residency, SignalFlags, SignalFromGpu2,
    Status, SyncObjectAccess, SyncObjectFlags, WaitCallback, WaitMode, WaitNotice,
};
use tidegate::platform::{Step, Word};
use tidegate::service::Refusal;
use tidegate::service::client::{self, ConnectError, RemoteKernel};

const SOCKET: &str = "TIDEGATE_TEST_SOCKET";
const ROLE: &str = "TIDEGATE_TEST_ROLE";

/// What a peer does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Role {
    /// Connects [`CROWD`] times, and keeps the connections.
    Crowd,
    /// Waits for [`NOTICES`] values of the fence "gate", then signals its own fence "held".
    Holder,
    /// Calls without end.
    Caller,
    /// Shares the fence "frame" and queues a signal of it behind a wait that nothing ends.
    Owner,
    /// As an owner, and destroys the device, which waits for that work.
    Destroyer,
}

/// Plays a role with the service at a socket.
type Play = fn(&Path);

/// Connections of one crowd.
pub(crate) const CROWD: u64 = 125;
/// Waits of a holder that are over while it is stopped.
pub(crate) const NOTICES: u64 = 500;
/// The value that an owner has queued.
pub(crate) const NEVER_SIGNALLED: u64 = 5;

const ROLES: [(Role, Play); 5] = [
    (Role::Crowd, crowd),
    (Role::Holder, holder),
    (Role::Caller, caller),
    (Role::Owner, |socket| drop(owner(socket))),
    (Role::Destroyer, destroyer),
];

/// A client in another process that plays its role.
pub(crate) struct Peer(ClientProcess);

impl Peer {
    pub(crate) fn start(socket: &Path, role: Role) -> Peer {
        let (test, part) = ("peers::a_peer_plays_its_role", (ROLE, format!("{role:?}")));
        Peer(ClientProcess::start(test, (SOCKET, socket), part))
    }

    /// Returns the numbers of the next line that begins with `word`.
    pub(crate) fn reached(&mut self, word: &str) -> Vec<u64> {
        self.0.until(word, |line| {
            let rest = line.strip_prefix(word)?;
            Some(rest.split_whitespace().map(|number| number.parse().unwrap()).collect())
        })
    }

    /// Lets the peer go on to its next line.
    pub(crate) fn go(&mut self) {
        self.0.go();
    }

    /// Stops the process, and waits until it is.
    pub(crate) fn stop(&self) {
        rustix::process::kill_process(self.0.pid(), rustix::process::Signal::STOP).unwrap();
        let stopped = rustix::process::WaitOptions::UNTRACED;
        let status = rustix::process::waitpid(Some(self.0.pid()), stopped).unwrap();
        assert!(status.is_some_and(|(_, status)| status.stopped()), "the peer is stopped");
    }

    pub(crate) fn go_on(&self) {
        rustix::process::kill_process(self.0.pid(), rustix::process::Signal::CONT).unwrap();
    }

    pub(crate) fn kill(self) {
        self.0.kill();
    }
}

/// What a child of the other tests does. Without a parent, there is no role.
#[test]
fn a_peer_plays_its_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let socket = PathBuf::from(std::env::var(SOCKET).unwrap());
    let (_, play) = ROLES.into_iter().find(|(known, _)| format!("{known:?}") == role).unwrap();
    play(&socket);
    // Until it is killed, or its parent has ended.
    until_told();
}

fn until_told() {
    let _ = std::io::stdin().lines().next();
}

/// A process with a device.
pub(crate) struct App {
    pub(crate) kernel: Arc<RemoteKernel>,
    pub(crate) device: Handle,
}

impl App {
    pub(crate) fn new(socket: &Path, name: &str) -> App {
        let kernel = client::connect(&Platform::host(), socket, 0, name).unwrap();
        let device = kernel.create_device().unwrap();
        App { kernel, device }
    }

    fn fence(&self, name: &str, flags: SyncObjectFlags) -> FenceInstance {
        let args = CreateMonitoredFence {
            device: self.device,
            initial_value: 0,
            flags,
            engine_affinity: 0,
            name,
        };
        self.kernel.create_monitored_fence(args).unwrap()
    }

    /// Makes a fence that others find by `name` while the handle is kept.
    pub(crate) fn share(&self, name: &str) -> (FenceInstance, NtHandle) {
        let flags = SyncObjectFlags::SHARED | SyncObjectFlags::NT_SECURITY_SHARING;
        let fence = self.fence(name, flags);
        let all = SyncObjectAccess::all();
        let handle = self.kernel.share_objects(&[fence.handle], all, Some(name)).unwrap();
        (fence, handle)
    }

    pub(crate) fn open(&self, name: &str) -> FenceInstance {
        let all = SyncObjectAccess::all();
        let nt_handle = &self.kernel.open_sync_object_nt_handle_from_name(name, all).unwrap();
        let (device, flags) = (self.device, SyncObjectFlags::empty());
        let args = OpenSyncObject { device, nt_handle, flags, engine_affinity: 0 };
        self.kernel.open_sync_object_from_nt_handle(args).unwrap()
    }

    /// Moves an allocation to local memory and out of it.
    pub(crate) fn page(&self) {
        let (device, kernel) = (self.device, &self.kernel);
        let (kind, placement) = (AllocationKind::Bulk, Placement::LocalOnDemand);
        let args = CreateAllocation { device, bytes: 4096, kind, placement };
        let moved = [kernel.create_allocation(args).unwrap().handle];
        let args = CreatePagingQueue { device, priority: PagingPriority::Normal };
        let queue = kernel.create_paging_queue(args).unwrap();
        let args = MakeResident { paging_queue: queue.handle, allocations: &moved };
        if let Residency::Pending { paging_fence_value } = kernel.make_resident(args).unwrap() {
            self.wait(&queue.fence, paging_fence_value).unwrap();
        }
        kernel.evict(device, &moved).unwrap();
    }

    pub(crate) fn signal(&self, fence: &FenceInstance, value: u64) {
        let fences = [FenceValue { fence: fence.handle, value }];
        self.kernel.signal_from_cpu(&fences, SignalFlags::empty()).unwrap();
    }

    pub(crate) fn wait(&self, fence: &FenceInstance, value: u64) -> Result<(), Status> {
        let fences = [FenceValue { fence: fence.handle, value }];
        self.kernel.wait_from_cpu(&fences, WaitMode::All, None)
    }
}

fn crowd(socket: &Path) {
    let platform = Platform::host();
    let (mut kept, mut refused) = (Vec::new(), 0);
    for n in 0..CROWD {
        match client::connect(&platform, socket, 0, &format!("one of many, {n}")) {
            Ok(client) => kept.push(client),
            Err(ConnectError::Refused(Refusal::TooManyClients(_))) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    println!("connected {} {refused}", kept.len());
    until_told();
    // Each still works.
    let devices = kept.iter().filter(|client| client.create_device().is_ok()).count();
    println!("working {devices}");
    until_told();
}

/// Counts the waits that are over.
struct Noticed(Word);

impl WaitCallback for Noticed {
    fn wait_is_over(&self) {
        self.0.fetch_add(1);
        self.0.wake(u32::MAX, Step::ThreadWake);
    }
}

fn holder(socket: &Path) {
    let app = App::new(socket, "holder");
    let (held, _handle) = app.share("held");
    let gate = app.open("gate");
    let noticed = Platform::host().page(1).word(0);
    let register = |value| {
        let fences = [FenceValue { fence: gate.handle, value }];
        let notice = WaitNotice::Callback(Arc::new(Noticed(noticed.clone())));
        app.kernel.register_cpu_wait(&fences, WaitMode::All, notice).unwrap()
    };
    let _registered: Vec<_> = (1..=NOTICES).map(register).collect();
    println!("waiting");
    loop {
        match noticed.load() {
            NOTICES => break,
            seen => noticed.wait_while(seen as u32, None, "the notices"),
        };
    }
    app.signal(&held, 1);
    println!("noticed {}", noticed.load());
    until_told();
}

fn caller(socket: &Path) {
    let kernel = client::connect(&Platform::host(), socket, 0, "caller").unwrap();
    let calls = Platform::host().page(1).word(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let lost = loop {
                let made = kernel.create_device().and_then(|device| kernel.destroy_device(device));
                match made {
                    Ok(()) => calls.fetch_add(1),
                    Err(status) => break status,
                };
            };
            assert_eq!(lost, Status::DEVICE_REMOVED);
            println!("lost");
        });
        for _ in std::io::stdin().lines() {
            println!("calls {}", calls.load());
        }
    });
}

fn destroyer(socket: &Path) {
    let app = owner(socket);
    println!("destroys");
    let _killed_by_then = app.kernel.destroy_device(app.device);
}

fn owner(socket: &Path) -> App {
    let app = App::new(socket, "owner");
    let (frame, _handle) = app.share("frame");
    app.signal(&frame, 1);
    let (device, kernel) = (app.device, &app.kernel);
    let args = CreateContextVirtual {
        device,
        node_ordinal: 2,
        engine_affinity: 0,
        priority: Priority::Normal,
    };
    let context = kernel.create_context_virtual(args).unwrap();
    let never = app.fence("never", SyncObjectFlags::empty());
    kernel.wait_from_gpu(context, &[FenceValue { fence: never.handle, value: 1 }]).unwrap();
    let signal = [FenceValue { fence: frame.handle, value: NEVER_SIGNALLED }];
    let args = SignalFromGpu2 {
        contexts: &[context],
        fences: &signal,
        flags: SignalFlags::empty(),
        cpu_event: None,
    };
    kernel.signal_from_gpu2(args).unwrap();
    println!("queued");
    until_told();
    app
}
