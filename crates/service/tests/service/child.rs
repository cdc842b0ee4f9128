//! The child: a client that takes one step for each line it is sent, and says so.

use super::calls::calls;
use super::process::{self, ClientProcess, Setting};
use std::path::Path;
use tidegate::Platform;
use tidegate::calls::{
    CreateMonitoredFence, FenceValue, Kernel, SignalFlags, SyncObjectAccess, SyncObjectFlags,
    WaitMode,
};
use tidegate::d3d12::{BufferDesc, CommandListType, Device, DeviceOptions, QueueDesc, Submission};
use tidegate::platform::Event;
use tidegate::service::client;

const SOCKET: &str = "TIDEGATE_TEST_SOCKET";
const PROGRAM: &str = "TIDEGATE_TEST_PROGRAM";

/// What a child does, step by step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// Work on queues of the three models, as an application has it.
    Work,
    /// Every call.
    Calls,
}

impl Program {
    const ALL: [Program; 2] = [Program::Work, Program::Calls];

    /// Returns how many steps a child takes. Takes them in this process.
    pub(crate) fn steps(self) -> usize {
        let service = process::start(Setting::Patching);
        let mut steps = 0;
        self.run(&service.socket(), || steps += 1);
        steps
    }

    /// Calls `next` before each step.
    fn run(self, socket: &Path, mut next: impl FnMut()) {
        match self {
            Program::Work => work(socket, next),
            Program::Calls => calls(socket, |_| next()),
        }
    }
}

/// A client in another process that takes its steps as it is told.
pub(crate) struct Stepper(ClientProcess);

impl Stepper {
    pub(crate) fn start(socket: &Path, program: Program) -> Stepper {
        let (test, part) = ("child::a_client_takes_its_steps", (PROGRAM, format!("{program:?}")));
        Stepper(ClientProcess::start(test, (SOCKET, socket), part))
    }

    /// Lets the child take its next step, to its end.
    pub(crate) fn step(&mut self) {
        self.begin_step();
        self.0.until("step", |line| line.contains("step").then_some(()));
    }

    /// Lets the child begin its next step, and does not wait for it.
    pub(crate) fn begin_step(&mut self) {
        self.0.go();
    }

    pub(crate) fn kill(self) {
        self.0.kill();
    }
}

/// What a child of the other tests does; a test of its own without them.
#[test]
fn a_client_takes_its_steps() {
    let Ok(socket) = std::env::var(SOCKET) else {
        return Program::ALL.into_iter().for_each(|program| assert!(program.steps() > 0));
    };
    let name = std::env::var(PROGRAM).unwrap();
    let program = Program::ALL.into_iter().find(|known| format!("{known:?}") == name).unwrap();
    let mut lines = std::io::stdin().lines();
    let mut number = 0;
    program.run(Path::new(&socket), || {
        if number > 0 {
            println!("step {number}");
        }
        number += 1;
        lines.next().expect("the parent says go").unwrap();
    });
    println!("step {number}");
    // Until it is killed, or its parent has ended.
    let _ = lines.next();
}

/// Calls `next` before each step: devices, fences of both kinds, waits that nothing ends, queues of
/// the three models with work that waits, and what is shared.
fn work(socket: &Path, mut next: impl FnMut()) {
    next();
    let platform = Platform::host();
    let kernel = client::connect(&platform, socket, 0, "child").unwrap();
    next();
    let raw = kernel.create_device().unwrap();
    next();
    let options = DeviceOptions::new("child");
    let device = Device::new(&platform, kernel.clone(), options).unwrap();
    next();
    let flags = SyncObjectFlags::SHARED | SyncObjectFlags::NT_SECURITY_SHARING;
    let args = CreateMonitoredFence {
        device: raw,
        initial_value: 0,
        flags,
        engine_affinity: 0,
        name: "shared",
    };
    let fence = kernel.create_monitored_fence(args).unwrap();
    next();
    let all = SyncObjectAccess::all();
    let _handle = kernel.share_objects(&[fence.handle], all, None).unwrap();
    next();
    let never: Event = platform.event(false);
    let one = [FenceValue { fence: fence.handle, value: 100 }];
    kernel.wait_from_cpu(&one, WaitMode::All, Some(never)).unwrap();
    next();
    let signalled = [FenceValue { fence: fence.handle, value: 1 }];
    kernel.signal_from_cpu(&signalled, SignalFlags::empty()).unwrap();
    next();
    let upload = device.create_buffer(BufferDesc::upload("upload", 1 << 16)).unwrap();
    next();
    let target = device.create_buffer(BufferDesc::new("target", 1 << 16)).unwrap();
    next();
    upload.write(0, &[3; 1 << 16]).unwrap();
    let gate = device.create_fence("gate", 0).unwrap();
    for model in [Submission::User, Submission::Hardware, Submission::Packet] {
        next();
        let desc = QueueDesc::new(CommandListType::Copy).submission(model);
        let queue = device.create_queue(desc).unwrap();
        next();
        let mut list = device.create_command_list(CommandListType::Copy);
        list.copy(&target, 0, &upload, 0, 1 << 16).unwrap();
        queue.execute(&[&list.close().unwrap()]).unwrap();
        next();
        queue.wait(&gate, 1).unwrap();
        queue.signal(&gate, 2).unwrap();
        // Queued work that nothing ends, until the child does.
        std::mem::forget(queue);
    }
    next();
    gate.signal(1).unwrap();
    // The process ends as a killed one does: nothing of it is destroyed by its own calls.
    std::mem::forget((device, upload, target, gate));
}
