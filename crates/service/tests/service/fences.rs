//! Fences between clients: sharing by file and by name, waits, and what outlives a client.

use std::collections::VecDeque;
use std::sync::Arc;
use tidegate::calls::{
    CpuWaitRegistration, CreateMonitoredFence, CreateNativeFence, FenceInstance, FenceValue,
    Handle, Kernel, NativeFenceType, NtHandle, OpenSyncObject, SignalFlags, Status,
    SyncObjectAccess, SyncObjectFlags, WaitCallback, WaitMode, WaitNotice,
};
use tidegate::platform::{Event, Step, Word};
use tidegate::service::client::{RemoteKernel, nt_handle, nt_handle_file};
use tidegate::service::server::ServerConfig;
use tidegate::{Machine, MachineConfig, Platform};
use tidegate_testbed::Service;

const SHARED: SyncObjectFlags = SyncObjectFlags::SHARED.union(SyncObjectFlags::NT_SECURITY_SHARING);

struct Client {
    kernel: Arc<RemoteKernel>,
    device: Handle,
}

impl Client {
    fn new(service: &Service, name: &str) -> Client {
        let kernel = service.client(name);
        let device = kernel.create_device().unwrap();
        Client { kernel, device }
    }

    fn fence(&self, flags: SyncObjectFlags) -> FenceInstance {
        let args = CreateMonitoredFence {
            device: self.device,
            initial_value: 0,
            flags,
            engine_affinity: 0,
            name: "fence",
        };
        self.kernel.create_monitored_fence(args).unwrap()
    }

    fn open(&self, nt_handle: &NtHandle, flags: SyncObjectFlags) -> Result<FenceInstance, Status> {
        let args = OpenSyncObject { device: self.device, nt_handle, flags, engine_affinity: 0 };
        self.kernel.open_sync_object_from_nt_handle(args)
    }

    fn signal(&self, fence: Handle, value: u64) -> Result<(), Status> {
        self.kernel.signal_from_cpu(&[FenceValue { fence, value }], SignalFlags::empty())
    }

    fn wait(&self, fence: Handle, value: u64) -> Result<(), Status> {
        self.kernel.wait_from_cpu(&[FenceValue { fence, value }], WaitMode::All, None)
    }
}

/// A copy of the handle's file, as another process receives it.
fn sent(handle: &NtHandle) -> NtHandle {
    nt_handle(nt_handle_file(handle).unwrap().try_clone_to_owned().unwrap())
}

// spec: NF-010, MF-009
#[test]
fn a_value_is_read_without_a_call_and_cannot_be_written() {
    let service = Service::start(ServerConfig::default());
    let client = Client::new(&service, "reader");
    let fence = client.fence(SyncObjectFlags::empty());
    client.signal(fence.handle, 9).unwrap();
    assert_eq!(fence.value.load(), 9);
    let (page, index) = fence.value.read_only().unwrap().place();
    assert_eq!(protection_at(page.word(index).cpu_address()), "r--s");
}

/// The protection of this process's mapping at an address, as /proc tells it.
fn protection_at(address: u64) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let bounds = |line: &str| {
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
    };
    let line = maps.lines().find(|line| bounds(line).is_some_and(|range| range.contains(&address)));
    line.unwrap().split(' ').nth(1).unwrap().to_owned()
}

#[test]
fn a_blocking_wait_ends_with_a_signal_of_another_client() {
    let service = Service::start(ServerConfig::default());
    let (a, b) = (Client::new(&service, "a"), Client::new(&service, "b"));
    let fence = a.fence(SHARED);
    let handle = a.kernel.share_objects(&[fence.handle], SyncObjectAccess::all(), None).unwrap();
    let opened = b.open(&sent(&handle), SyncObjectFlags::empty()).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| b.wait(opened.handle, 5));
        a.signal(fence.handle, 5).unwrap();
        waiter.join().unwrap().unwrap();
    });
    assert_eq!(opened.value.load(), 5);
}

#[test]
fn a_registered_wait_sets_its_event_and_a_cancelled_one_does_not() {
    let service = Service::start(ServerConfig::default());
    let client = Client::new(&service, "registers");
    let fence = client.fence(SyncObjectFlags::empty());
    let platform = Platform::host();
    let (due, cancelled) = (platform.event(false), platform.event(false));
    let register = |value, event: &tidegate::platform::Event| {
        let fences = [FenceValue { fence: fence.handle, value }];
        let notice = WaitNotice::Event(event.clone());
        client.kernel.register_cpu_wait(&fences, WaitMode::All, notice).unwrap()
    };
    let (kept, dropped) = (register(1, &due), register(1, &cancelled));
    drop(dropped);
    client.signal(fence.handle, 1).unwrap();
    due.wait();
    assert!(kept.is_over() && !cancelled.is_set());
}

/// Counts its calls, and sets its event.
struct Counted {
    given: Word,
    event: Event,
}

impl Counted {
    fn new(platform: &Platform) -> Arc<Counted> {
        Arc::new(Counted { given: platform.page(1).word(0), event: platform.event(false) })
    }

    fn register(
        self: &Arc<Counted>,
        client: &Client,
        fence: &FenceInstance,
        value: u64,
    ) -> CpuWaitRegistration {
        let fences = [FenceValue { fence: fence.handle, value }];
        let notice = WaitNotice::Callback(self.clone());
        client.kernel.register_cpu_wait(&fences, WaitMode::All, notice).unwrap()
    }
}

impl WaitCallback for Counted {
    fn wait_is_over(&self) {
        self.given.fetch_add(1);
        self.event.set(Step::ThreadWake);
    }
}

#[test]
fn the_end_of_a_device_leaves_the_waits_of_another_device() {
    let service = Service::start(ServerConfig::default());
    let platform = Platform::host();
    let ending = Client::new(&service, "two devices");
    let kernel = ending.kernel.clone();
    let staying = Client { device: kernel.create_device().unwrap(), kernel };
    let [first, second] = [&ending, &staying].map(|client| client.fence(SyncObjectFlags::empty()));
    let (ended, later) = (Counted::new(&platform), Counted::new(&platform));
    let over = ended.register(&ending, &first, 1);
    ending.signal(first.handle, 1).unwrap();
    ended.event.wait();
    let pending = later.register(&staying, &second, 1);
    assert!(over.is_over() && !pending.is_over());
    drop(over);
    ending.kernel.destroy_device(ending.device).unwrap();
    assert!(!pending.is_over());
    staying.signal(second.handle, 1).unwrap();
    later.event.wait();
    assert!(pending.is_over());
    assert_eq!((ended.given.load(), later.given.load()), (1, 1));
}

/// Also without a further call, which would look for closed handles.
#[test]
fn a_fence_ends_with_the_last_file_of_its_handle() {
    let platform = Platform::sharing_host();
    let machine = Arc::new(Machine::new(&platform, MachineConfig::standard(&platform)).unwrap());
    let service = Service::of(machine.clone(), ServerConfig::default());
    let client = Client::new(&service, "app");
    let fences = || machine.adapter().census().fences;
    let before = fences();
    let fence = client.fence(SHARED).handle;
    let handle = client.kernel.share_objects(&[fence], SyncObjectAccess::all(), None).unwrap();
    client.kernel.destroy_synchronization_object(fence).unwrap();
    assert_eq!(fences(), before + 1, "the handle keeps it");
    drop(handle);
    while fences() > before {
        std::thread::yield_now();
    }
}

#[test]
fn a_wait_for_a_fence_that_has_ended_with_its_device_is_refused() {
    let service = Service::start(ServerConfig::default());
    let client = Client::new(&service, "two devices");
    let fence = client.fence(SyncObjectFlags::empty());
    client.signal(fence.handle, 1).unwrap();
    client.wait(fence.handle, 1).unwrap();
    client.kernel.destroy_device(client.device).unwrap();
    assert_eq!(client.wait(fence.handle, 1), Err(Status::INVALID_PARAMETER));
}

struct Panics;

impl WaitCallback for Panics {
    fn wait_is_over(&self) {
        panic!("a callback");
    }
}

#[test]
fn a_callback_that_panics_leaves_the_other_waits_of_its_client() {
    let service = Service::start(ServerConfig::default());
    let platform = Platform::host();
    let client = Client::new(&service, "panics");
    let fence = client.fence(SyncObjectFlags::empty());
    for value in 1..=2 {
        let fences = [FenceValue { fence: fence.handle, value }];
        let notice = WaitNotice::Callback(Arc::new(Panics));
        let _panics = client.kernel.register_cpu_wait(&fences, WaitMode::All, notice).unwrap();
        let counted = Counted::new(&platform);
        let _counted = counted.register(&client, &fence, value);
        client.signal(fence.handle, value).unwrap();
        counted.event.wait();
        assert_eq!(counted.given.load(), 1);
    }
}

/// Registrations that a thread keeps after their waits are over.
const KEPT: usize = 5;
const ROUNDS: u64 = 400;

#[test]
fn each_event_of_several_threads_and_devices_is_set_once() {
    let service = Service::start(ServerConfig::default());
    let platform = Platform::host();
    let process = Client::new(&service, "threads");
    // Each thread has two devices. It signals one value of each, cancels a wait of the other device
    // and drops registrations late.
    let work = || {
        let kernel = process.kernel.clone();
        let devices = [0, 1]
            .map(|_| Client { device: kernel.create_device().unwrap(), kernel: kernel.clone() });
        let fences = devices.each_ref().map(|device| device.fence(SyncObjectFlags::empty()));
        let (mut kept, mut all) = (VecDeque::new(), Vec::new());
        for value in 1..=ROUNDS {
            let (at, other) = ((value % 2) as usize, (1 - value % 2) as usize);
            let (waits, cancelled) = (Counted::new(&platform), Counted::new(&platform));
            drop(cancelled.register(&devices[other], &fences[other], u64::MAX));
            kept.push_back(waits.register(&devices[at], &fences[at], value));
            devices[at].signal(fences[at].handle, value).unwrap();
            // Without an end if the event is lost.
            waits.event.wait();
            all.push((waits, cancelled));
            if kept.len() > KEPT {
                kept.pop_front();
            }
        }
        kernel.destroy_device(devices[0].device).unwrap();
        drop(kept);
        all
    };
    let all: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let given = all.iter().map(|(waits, cancelled)| (waits.given.load(), cancelled.given.load()));
    assert_eq!(given.filter(|given| *given != (1, 0)).count(), 0);
}

#[test]
fn a_shared_name_has_at_most_260_characters() {
    let service = Service::start(ServerConfig::default());
    let client = Client::new(&service, "namer");
    let fence = client.fence(SHARED).handle;
    let share =
        |name: &str| client.kernel.share_objects(&[fence], SyncObjectAccess::all(), Some(name));
    let _kept = share(&"n".repeat(4 * 260)).unwrap();
    assert_eq!(share(&"n".repeat(4 * 260 + 1)).unwrap_err(), Status::OBJECT_NAME_INVALID);
    let find = |name: &str| {
        client.kernel.open_sync_object_nt_handle_from_name(name, SyncObjectAccess::all())
    };
    find(&"n".repeat(4 * 260)).unwrap();
    assert_eq!(find(&"n".repeat(4 * 260 + 1)).unwrap_err(), Status::OBJECT_NAME_INVALID);
}

#[test]
fn a_fence_lives_on_when_its_creator_has_left() {
    let service = Service::start(ServerConfig::default());
    let b = Client::new(&service, "b");
    let opened = {
        let a = Client::new(&service, "a");
        let fence = a.fence(SHARED);
        let handle =
            a.kernel.share_objects(&[fence.handle], SyncObjectAccess::all(), Some("kept")).unwrap();
        let opened = b.open(&sent(&handle), SyncObjectFlags::empty()).unwrap();
        a.signal(fence.handle, 3).unwrap();
        opened
    };
    b.wait(opened.handle, 3).unwrap();
    b.signal(opened.handle, 4).unwrap();
    assert_eq!(opened.value.load(), 4);
}

#[test]
fn a_name_finds_a_fence_while_a_handle_is_open() {
    let service = Service::start(ServerConfig::default());
    let (a, b) = (Client::new(&service, "a"), Client::new(&service, "b"));
    let fence = a.fence(SHARED);
    let all = SyncObjectAccess::all();
    let handle = a.kernel.share_objects(&[fence.handle], all, Some("frame")).unwrap();
    let found = b.kernel.open_sync_object_nt_handle_from_name("frame", all).unwrap();
    b.open(&found, SyncObjectFlags::empty()).unwrap();
    let again = a.kernel.share_objects(&[fence.handle], all, Some("frame"));
    assert_eq!(again.unwrap_err(), Status::OBJECT_NAME_COLLISION);
    drop((handle, found));
    let gone = b.kernel.open_sync_object_nt_handle_from_name("frame", all);
    assert_eq!(gone.unwrap_err(), Status::OBJECT_NAME_NOT_FOUND);
}

#[test]
fn rights_of_an_instance_hold_between_clients() {
    let service = Service::start(ServerConfig::default());
    let (a, b) = (Client::new(&service, "a"), Client::new(&service, "b"));
    let fence = a.fence(SHARED);
    let handle = a.kernel.share_objects(&[fence.handle], SyncObjectAccess::all(), None).unwrap();
    let mute = b.open(&sent(&handle), SyncObjectFlags::NO_SIGNAL).unwrap();
    assert_eq!(b.signal(mute.handle, 1), Err(Status::ACCESS_DENIED));
    let blind = b.open(&sent(&handle), SyncObjectFlags::NO_WAIT).unwrap();
    a.signal(fence.handle, 1).unwrap();
    assert_eq!(
        b.wait(blind.handle, 1),
        Err(Status::ACCESS_DENIED),
        "also for a value that is reached"
    );
    b.wait(mute.handle, 1).unwrap();
}

#[test]
fn a_forged_handle_opens_nothing() {
    let service = Service::start(ServerConfig::default());
    let client = Client::new(&service, "forger");
    let forged = nt_handle(std::fs::File::open("/dev/null").unwrap().into());
    assert_eq!(client.open(&forged, SyncObjectFlags::empty()).unwrap_err(), Status::INVALID_HANDLE);
}

#[test]
fn native_fences_work_over_the_service() {
    let service = Service::start(ServerConfig::default());
    let client = Client::new(&service, "native");
    let args = CreateNativeFence {
        device: client.device,
        initial_value: 2,
        fence_type: NativeFenceType::Default,
        flags: SyncObjectFlags::empty(),
        engine_affinity: 0,
        private_data: [0; 64],
        name: "native",
    };
    let fence = client.kernel.create_native_fence(args).unwrap();
    assert!(fence.native && fence.value.load() == 2);
    client.wait(fence.handle, 2).unwrap();
}

#[test]
fn waits_end_when_the_service_is_gone() {
    let service = Service::start(ServerConfig::default());
    let client = Client::new(&service, "left");
    let fence = client.fence(SyncObjectFlags::empty());
    let event = Platform::host().event(false);
    let one = [FenceValue { fence: fence.handle, value: 1 }];
    client.kernel.wait_from_cpu(&one, WaitMode::All, Some(event.clone())).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| client.wait(fence.handle, 1));
        drop(service);
        assert_eq!(waiter.join().unwrap(), Err(Status::DEVICE_REMOVED));
    });
    event.wait();
}
