//! The service of these tests in a process: this program again, with its socket and its setting in
//! the environment. It ends when its parent closes its input.

use rustix::process::{Pid, Resource, Rlimit, setrlimit};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use tidegate::service::server::{self, ServerConfig};
use tidegate::{Machine, MachineConfig, Platform, variants};
use tidegate_testbed::ServiceProcess;

const SOCKET: &str = "TIDEGATE_TEST_SERVICE";
const SETTING: &str = "TIDEGATE_TEST_SETTING";

/// How a service differs from the standard one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    Standard,
    /// The driver patches packets, so that the machine carries out every call.
    Patching,
    /// It takes [`FEW_CLIENTS`] clients.
    FewClients,
    /// It has [`FEW_DESCRIPTORS`] descriptors.
    FewDescriptors,
    /// It has a TDR delay of an hour.
    Patient,
}

const SETTINGS: [Setting; 5] = [
    Setting::Standard,
    Setting::Patching,
    Setting::FewClients,
    Setting::FewDescriptors,
    Setting::Patient,
];

pub(crate) const FEW_CLIENTS: u32 = 300;
pub(crate) const FEW_DESCRIPTORS: u64 = 120;

/// Starts a service.
pub(crate) fn start(setting: Setting) -> ServiceProcess {
    ServiceProcess::start(|folder| command(&folder.join("socket"), setting))
}

/// Starts a standard service at the socket of one that was killed.
pub(crate) fn start_again(service: &mut ServiceProcess) {
    std::fs::remove_file(service.socket()).unwrap();
    service.start_again(|folder| command(&folder.join("socket"), Setting::Standard));
}

fn command(socket: &Path, setting: Setting) -> Command {
    let mut command = again("process::a_service_ends_with_the_input_of_its_process");
    command.env(SOCKET, socket).env(SETTING, format!("{setting:?}"));
    command
}

/// Returns the command that runs this program again, for one test.
fn again(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--quiet"]);
    command
}

/// A client in a process: this program again, with which its parent speaks in lines.
pub(crate) struct ClientProcess {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl ClientProcess {
    /// Starts a client, whose part is a test with these variables.
    pub(crate) fn start(test: &str, socket: (&str, &Path), part: (&str, String)) -> ClientProcess {
        let mut process = again(test)
            .env(socket.0, socket.1)
            .env(part.0, part.1)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (to, from) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        ClientProcess { process, to, from: BufReader::new(from) }
    }

    /// Lets the client go on.
    pub(crate) fn go(&mut self) {
        writeln!(self.to, "go").unwrap();
    }

    /// Reads up to a line that `wanted` takes.
    ///
    /// # Panics
    /// If the client has left before.
    pub(crate) fn until<T>(&mut self, what: &str, wanted: impl Fn(&str) -> Option<T>) -> T {
        let mut line = String::new();
        loop {
            line.clear();
            let bytes = self.from.read_line(&mut line).unwrap();
            assert_ne!(bytes, 0, "the client has left before '{what}'");
            if let Some(found) = wanted(&line) {
                return found;
            }
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// The service of the other tests. Without a parent it is a test of itself.
#[test]
fn a_service_ends_with_the_input_of_its_process() {
    if let Ok(socket) = std::env::var(SOCKET) {
        let name = std::env::var(SETTING).unwrap();
        let setting = SETTINGS.into_iter().find(|known| format!("{known:?}") == name).unwrap();
        return serve(&PathBuf::from(socket), setting);
    }
    let mut service = start(Setting::Standard);
    let client = service.client("left");
    end(&mut service);
    assert!(!client.check_connection());
}

/// Ends a service that has clients, and waits until its process has ended without an error.
pub(crate) fn end(service: &mut ServiceProcess) {
    drop(service.process().stdin.take());
    assert!(service.process().wait().unwrap().success());
}

fn serve(socket: &Path, setting: Setting) {
    match setting {
        Setting::FewDescriptors => {
            let most = Some(FEW_DESCRIPTORS);
            setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most }).unwrap();
        }
        _ => server::raise_descriptor_limit(),
    }
    let platform = Platform::sharing_host();
    let mut machine = MachineConfig::standard(&platform);
    if setting == Setting::Patching {
        variants::find("patching").unwrap().apply(&mut machine);
    }
    if setting == Setting::Patient {
        machine.kernel.tdr.delay_ns = 3_600_000_000_000;
    }
    let machine = Arc::new(Machine::new(&platform, machine).unwrap());
    let mut config = ServerConfig::default();
    if setting == Setting::FewClients {
        config.clients = FEW_CLIENTS;
    }
    let server = machine.service(server::listen(socket).unwrap(), config).unwrap();
    let stopper = server.stopper();
    std::thread::spawn(move || {
        // The parent writes nothing: the input ends when it is closed.
        let _ = std::io::stdin().lines().next();
        stopper.stop();
    });
    println!("serving on {}", socket.display());
    server.serve().unwrap();
}
