//! Guests: processes of virtual machines, whose memory is a BAR.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use tidegate::calls::{
    CreateContextVirtual, CreateMonitoredFence, FenceValue, Handle, Kernel, Priority, SignalFlags,
    SignalFromGpu2, Status, SyncObjectAccess, SyncObjectFlags, WaitMode,
};
use tidegate::d3d12::{
    Buffer, BufferDesc, CommandListType, Device, DeviceOptions, EventDesc, Fence, Queue, QueueDesc,
    Submission,
};
use tidegate::explorer::random_numbers::Numbers;
use tidegate::service::client::{self, ConnectError, RemoteKernel};
use tidegate::service::server::ServerConfig;
use tidegate::{Platform, variants};
use tidegate_testbed::{Client, Service, VirtualMachine};

fn service() -> Service {
    Service::with_guests(ServerConfig::default(), 2)
}

/// A program of a guest that copies on a queue.
struct Copies {
    device: Device,
    queue: Queue,
    upload: Buffer,
    back: Buffer,
    done: Fence,
    round: u64,
}

impl Copies {
    fn new(kernel: Arc<RemoteKernel>, platform: &Platform, submission: Submission) -> Copies {
        let device = Device::new(platform, kernel, DeviceOptions::new("copies")).unwrap();
        let queue = QueueDesc::new(CommandListType::Copy).submission(submission);
        let queue = device.create_queue(queue).unwrap();
        let upload = device.create_buffer(BufferDesc::upload("upload", 4096)).unwrap();
        let back = device.create_buffer(BufferDesc::readback("back", 4096)).unwrap();
        let done = device.create_fence("done", 0).unwrap();
        Copies { device, queue, upload, back, done, round: 0 }
    }

    /// Submits a copy and a signal.
    fn submit(&mut self) {
        self.round += 1;
        self.upload.write(0, &[self.round as u8; 4096]).unwrap();
        let mut list = self.device.create_command_list(CommandListType::Copy);
        list.copy(&self.back, 0, &self.upload, 0, 4096).unwrap();
        self.queue.execute(&[&list.close().unwrap()]).unwrap();
        self.queue.signal(&self.done, self.round).unwrap();
    }

    /// Checks what the last copy has left.
    fn check(&self) {
        let mut seen = vec![0; 4096];
        self.back.read(0, &mut seen).unwrap();
        assert_eq!(seen, vec![self.round as u8; 4096]);
    }
}

/// A device and a fence of it.
fn raw_fence(kernel: &RemoteKernel, initial_value: u64) -> (Handle, Handle) {
    let (device, flags) = (kernel.create_device().unwrap(), SyncObjectFlags::empty());
    let args = CreateMonitoredFence { device, initial_value, flags, engine_affinity: 0, name: "" };
    (device, kernel.create_monitored_fence(args).unwrap().handle)
}

// spec: UMS-191, UMS-193
#[test]
fn a_guest_submits_without_a_message_to_the_host() {
    let service = service();
    let machine = VirtualMachine::start(&service.guest_socket(0));
    let platform = Platform::host();
    let kernel = machine.process(&platform, "guest");
    let mut copies = Copies::new(kernel, &platform, Submission::User);
    let round = |copies: &mut Copies| {
        copies.submit();
        // Read in the BAR.
        while copies.done.completed_value() < copies.round {}
        copies.check();
    };
    round(&mut copies);
    let calls = service.count("tidegate_calls_total");
    (0..200).for_each(|_| round(&mut copies));
    assert_eq!(service.count("tidegate_calls_total"), calls, "no message for 200 submissions");
    assert!(service.count("tidegate_guest_wakes_total") >= 1, "the engine slept before the first");
}

/// The BARs are files of a folder, and a thread has the part of the register. The process has no
/// interrupts.
#[test]
fn a_process_maps_the_device_by_its_folder_in_sysfs() {
    let service = service();
    let machine = VirtualMachine::start(&service.guest_socket(0));
    let platform = Platform::host();
    let folder = service.guest_socket(0).with_file_name("device");
    std::fs::create_dir(&folder).unwrap();
    let refused = client::connect(&platform, &folder, 0, "guest").unwrap_err();
    assert!(matches!(&refused, ConnectError::NoDevice { .. }), "{refused}");
    std::fs::write(folder.join("resource0"), [0xff; 256]).unwrap();
    std::os::unix::fs::symlink(machine.memory_path(), folder.join("resource2")).unwrap();
    let open = std::fs::OpenOptions::new().read(true).write(true).open(folder.join("resource0"));
    let registers = platform.map_device(&OwnedFd::from(open.unwrap())).unwrap();
    // The doorbell is the upper half.
    let registers = registers.page(&platform, 8, 1).unwrap();
    let left = platform.page(1).word(0);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while left.load() == 0 {
                let value = registers.exchange(0, u64::MAX);
                if value != u64::MAX {
                    assert!((value >> 32) < 2, "a vector of peer 0");
                    // Of two stores one may have replaced the other.
                    [0, 1].into_iter().for_each(|vector| machine.ring(vector));
                }
                std::thread::yield_now();
            }
        });
        let kernel = client::connect(&platform, &folder, 0, "guest").unwrap();
        let mut copies = Copies::new(kernel, &platform, Submission::User);
        for _ in 0..10 {
            copies.submit();
            copies.done.wait(copies.round).unwrap();
            copies.check();
        }
        drop(copies);
        left.store(1);
    });
    assert_eq!(std::fs::read(folder.join("enable")).unwrap(), b"1", "it is switched on");
}

#[test]
fn a_waiter_of_a_guest_is_interrupted() {
    let service = service();
    let machine = VirtualMachine::start(&service.guest_socket(0));
    let platform = Platform::host();
    let kernel = machine.process(&platform, "guest");
    for submission in [Submission::User, Submission::Hardware, Submission::Packet] {
        let mut copies = Copies::new(kernel.clone(), &platform, submission);
        for _ in 0..20 {
            copies.submit();
            copies.done.wait(copies.round).unwrap();
            copies.check();
        }
        let event = copies.device.create_event(EventDesc::auto_reset());
        let registered = copies.done.register_event(copies.round + 1, &event).unwrap();
        copies.submit();
        event.wait().unwrap();
        drop(registered);
        copies.check();
    }
}

#[test]
fn a_guest_that_is_gone_has_ended_its_objects_and_the_next_one_has_fresh_memory() {
    let service = service();
    let path = service.guest_socket(0);
    for _ in 0..3 {
        let machine = VirtualMachine::start(&path);
        let memory = machine.memory();
        let words = memory.bytes() as usize / 8;
        let all = memory.page(&Platform::host(), 0, words).unwrap();
        let used = (8..words).filter(|word| all.load(*word) != 0).count();
        assert_eq!(used, 0, "after the header");
        let platform = Platform::host();
        let kernel = machine.process(&platform, "guest");
        let mut copies = Copies::new(kernel.clone(), &platform, Submission::User);
        copies.submit();
        copies.done.wait(copies.round).unwrap();
        assert_eq!(service.count("tidegate_processes"), 1);
        assert_eq!(service.count("tidegate_guests"), 1);
        let (_, fence) = raw_fence(&kernel, 0);
        let event = platform.event(true);
        let never = [FenceValue { fence, value: 1 }];
        kernel.wait_from_cpu(&never, WaitMode::All, Some(event.clone())).unwrap();
        drop(machine);
        // The end of the service for this guest ends its waits.
        event.wait();
        assert!(!kernel.check_connection());
        while service.count("tidegate_processes") != 0 {}
    }
}

#[test]
fn a_process_of_a_guest_that_ends_is_ended_before_the_next_one_comes() {
    let service = service();
    let machine = VirtualMachine::start(&service.guest_socket(0));
    let platform = Platform::host();
    for name in ["first", "second"] {
        let process = machine.process(&platform, name);
        let _device = process.create_device().unwrap();
        assert_eq!(service.count("tidegate_processes"), 1);
        drop(process);
        while service.count("tidegate_processes") != 0 {}
        assert_eq!(service.count("tidegate_guests"), 1, "the guest itself goes on");
    }
}

#[test]
fn each_socket_has_one_guest_with_a_memory_of_its_own() {
    let service = service();
    let one = VirtualMachine::start(&service.guest_socket(0));
    assert!(VirtualMachine::try_start(&service.guest_socket(0)).is_none(), "it is taken");
    let other = VirtualMachine::start(&service.guest_socket(1));
    let platform = Platform::host();
    let mut programs = [&one, &other].map(|machine| {
        Copies::new(machine.process(&platform, "guest"), &platform, Submission::User)
    });
    for _ in 0..20 {
        programs.iter_mut().for_each(Copies::submit);
        programs.iter().for_each(|program| program.done.wait(program.round).unwrap());
        programs.iter().for_each(Copies::check);
    }
}

#[test]
fn the_next_process_of_a_guest_ends_the_last_one() {
    let service = service();
    let machine = VirtualMachine::start(&service.guest_socket(0));
    let platform = Platform::host();
    let first = machine.process(&platform, "first");
    let device = first.create_device().unwrap();
    let second = machine.process(&platform, "second");
    let _device = second.create_device().unwrap();
    assert_eq!(first.destroy_device(device), Err(Status::DEVICE_REMOVED));
    assert_eq!(service.count("tidegate_processes"), 1);
    // Its late end leaves the second one.
    drop(first);
    assert!(second.check_connection());
    drop(second);
    let third = machine.process(&platform, "third");
    assert!(third.check_connection());
}

/// Returns when a process of the guest is in a call that destroys a device whose work nothing ends.
fn begin_to_destroy(service: &Service, kernel: &Arc<RemoteKernel>) {
    let (device, fence) = raw_fence(kernel, 0);
    let (priority, node_ordinal, engine_affinity) = (Priority::Normal, 0, 0);
    let args = CreateContextVirtual { device, node_ordinal, engine_affinity, priority };
    let context = kernel.create_context_virtual(args).unwrap();
    let [never, after] = [1, 2].map(|value| [FenceValue { fence, value }]);
    kernel.wait_from_gpu(context, &never).unwrap();
    let args = SignalFromGpu2 {
        contexts: &[context],
        fences: &after,
        flags: SignalFlags::empty(),
        cpu_event: None,
    };
    kernel.signal_from_gpu2(args).unwrap();
    let calls = service.count("tidegate_calls_total");
    let kernel = kernel.clone();
    std::thread::spawn(move || _ = kernel.destroy_device(device));
    while service.count("tidegate_calls_total") == calls {
        std::thread::yield_now();
    }
}

/// The TDR delay is an hour, for which the call that destroys the device may wait.
#[test]
fn the_end_of_a_guest_is_noticed_while_its_device_waits_for_work() {
    let service = Service::with_guests_of_machine(ServerConfig::default(), 1, |config| {
        config.kernel.tdr.delay_ns = 3_600_000_000_000;
    });
    let platform = Platform::host();
    let machine = VirtualMachine::start(&service.guest_socket(0));
    begin_to_destroy(&service, &machine.process(&platform, "killed"));
    // Its process is gone, and the guest starts another one.
    let next = machine.process(&platform, "next");
    assert_eq!(service.count("tidegate_processes"), 1);
    begin_to_destroy(&service, &next);
    drop(machine);
    while service.count("tidegate_processes") != 0 {
        std::thread::yield_now();
    }
    let machine = VirtualMachine::start(&service.guest_socket(0));
    assert!(machine.process(&platform, "of the next guest").check_connection());
}

#[test]
fn what_a_guest_cannot_be_handed_is_refused() {
    let service = service();
    let machine = VirtualMachine::start(&service.guest_socket(0));
    let kernel = machine.process(&Platform::host(), "guest");
    let device = kernel.create_device().unwrap();
    let flags = SyncObjectFlags::SHARED | SyncObjectFlags::NT_SECURITY_SHARING;
    let args =
        CreateMonitoredFence { device, initial_value: 0, flags, engine_affinity: 0, name: "f" };
    let fence = kernel.create_monitored_fence(args).unwrap();
    let all = SyncObjectAccess::all();
    let refused = kernel.share_objects(&[fence.handle], all, None).map(drop);
    assert_eq!(refused, Err(Status::NOT_SUPPORTED), "a descriptor");
    assert!(kernel.check_connection());
}

#[test]
fn a_location_of_all_processes_lies_in_no_guest() {
    no_doorbell_lies_in_a_guest("global-doorbell-of-all");
}

// spec: UMS-193
#[test]
fn doorbells_in_system_memory_lie_in_no_guest() {
    no_doorbell_lies_in_a_guest("doorbells-in-system-memory");
}

fn no_doorbell_lies_in_a_guest(adapter: &str) {
    let service = Service::with_guests_of_machine(ServerConfig::default(), 1, |config| {
        variants::find(adapter).unwrap().apply(config);
    });
    let platform = Platform::host();
    let machine = VirtualMachine::start(&service.guest_socket(0));
    let kernel = machine.process(&platform, "guest");
    let device = kernel.create_device().unwrap();
    let guest = Client::of(&platform, kernel, device);
    assert_eq!(guest.user_queue(0).connect().err(), Some(Status::NO_MEMORY));
    // Processes of the host have user-mode queues, and the guest has kernel queues.
    let clients: Vec<_> = ["one", "other"].into_iter().map(|name| service.client(name)).collect();
    let mut copies: Vec<_> = clients
        .into_iter()
        .map(|kernel| Copies::new(kernel, &platform, Submission::User))
        .collect();
    let kernel = machine.process(&platform, "next");
    copies.push(Copies::new(kernel, &platform, Submission::Hardware));
    for _ in 0..20 {
        copies.iter_mut().for_each(Copies::submit);
        for copies in &copies {
            copies.done.wait(copies.round).unwrap();
            copies.check();
        }
    }
}

/// A guest that stores anything anywhere in its BAR, and rings, while a process of its own and a
/// client of the host work.
#[test]
fn a_guest_that_stores_anything_anywhere_harms_no_other_client() {
    let service = service();
    let platform = Platform::host();
    let host = service.client("host");
    let mut beside = Copies::new(host, &platform, Submission::User);
    let mut numbers = Numbers::new(1);
    for _ in 0..12 {
        let machine = VirtualMachine::start(&service.guest_socket(0));
        let kernel = machine.process(&platform, "guest");
        let mut own = Copies::new(kernel.clone(), &platform, Submission::User);
        own.submit();
        let memory = machine.memory();
        let words = memory.bytes() / 8;
        let all = memory.page(&platform, 0, words as usize).unwrap();
        for _ in 0..400 {
            // The mailbox, the objects, or anywhere.
            let (first, many) =
                [(512, 64), (0x52000 / 8, 64 * 512), (0, words)][numbers.below(3) as usize];
            let word = (first + numbers.below(many)) as usize;
            let value = match numbers.below(4) {
                0 => numbers.below(8),
                1 => numbers.below(1 << 20),
                2 => u64::MAX - numbers.below(4),
                _ => all.load(word).wrapping_add(1),
            };
            all.store(word, value);
            if numbers.below(4) == 0 {
                machine.ring(numbers.below(2) as usize);
            }
        }
        beside.submit();
        beside.done.wait(beside.round).unwrap();
        beside.check();
        // What is left of its process cannot be asked for anything.
        std::mem::forget((own, kernel));
    }
    drop(VirtualMachine::start(&service.guest_socket(0)));
    while service.count("tidegate_processes") != 1 {}
    assert_eq!(service.count("tidegate_sessions_failed_total"), 0);
}

/// Requests that no client sends, as words of the mailbox.
#[test]
fn a_request_that_is_none_ends_its_process_only() {
    let service = service();
    let machine = VirtualMachine::start(&service.guest_socket(0));
    let platform = Platform::host();
    let words = machine.memory().page(&platform, 4096, 512).unwrap();
    let lengths = [0, 1, 5, 160 << 10, (160 << 10) + 1, 1 << 32, u64::MAX];
    let kinds = [0, 1, 2, 3, u64::MAX];
    for (kind, bytes) in kinds.into_iter().flat_map(|kind| lengths.map(|bytes| (kind, bytes))) {
        let kernel = machine.process(&platform, "victim");
        assert!(kernel.create_device().is_ok());
        words.store(1, kind);
        words.store(2, bytes);
        words.fetch_add(0, 1);
        machine.ring(0);
        assert!(!kernel.check_connection(), "{kind} {bytes}");
    }
    assert!(machine.process(&platform, "last").check_connection());
    assert_eq!(service.count("tidegate_sessions_failed_total"), 0);
}

/// What the kernel knows of a fence's value is outside of the BAR.
#[test]
fn a_value_that_a_guest_stores_to_its_copy_releases_no_waiter() {
    let service = service();
    let machine = VirtualMachine::start(&service.guest_socket(0));
    let platform = Platform::host();
    let kernel = machine.process(&platform, "guest");
    let (_, fence) = raw_fence(&kernel, 0x5eed);
    let at = |value| [FenceValue { fence, value }];
    // The waiter of value 0x7000 is registered with the kernel, which reads no copy.
    let [early, late] = [(); 2].map(|()| platform.event(true));
    kernel.wait_from_cpu(&at(0x7000), WaitMode::All, Some(late.clone())).unwrap();
    let memory = machine.memory();
    let all = memory.page(&platform, 0, memory.bytes() as usize / 8).unwrap();
    let copies: Vec<usize> = (0..all.len()).filter(|word| all.load(*word) == 0x5eed).collect();
    assert!(!copies.is_empty());
    copies.iter().for_each(|word| all.store(*word, 0x9000));
    kernel.wait_from_cpu(&at(0x6000), WaitMode::All, Some(early.clone())).unwrap();
    kernel.signal_from_cpu(&at(0x6000), SignalFlags::empty()).unwrap();
    early.wait();
    assert!(!late.is_set());
    assert!(copies.iter().any(|word| all.load(*word) == 0x6000), "the change is copied");
    kernel.signal_from_cpu(&at(0x7000), SignalFlags::empty()).unwrap();
    late.wait();
}
