//! A client that outlives the services that it uses. Each service is a process, which is killed.

use super::service;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Names the socket for a process that is a service.
const SOCKET: &str = "TIDEGATE_TEST_SERVICE";

/// A process that is spoken to, a line at a time.
struct Other {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Other {
    fn start(command: &mut Command) -> Other {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Other { process, to, from: BufReader::new(from) }
    }

    /// Reads lines up to the one that says this.
    fn read_until(&mut self, wanted: &str) {
        let mut line = String::new();
        while line.trim_end() != wanted {
            line.clear();
            assert_ne!(self.from.read_line(&mut line).unwrap(), 0, "'{wanted}' is not said");
        }
    }

    fn say(&mut self, what: &str) {
        writeln!(self.to, "{what}").unwrap();
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// The line that a service prints when clients can connect.
const SERVES: &str = "serving on its socket";

/// Returns the command that serves in another process.
pub(super) fn service_command(socket: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let name = "restart::a_process_is_a_service";
    command.args([name, "--exact", "--nocapture", "--quiet"]).env(SOCKET, socket);
    command
}

fn start_service(socket: &Path) -> Other {
    let mut service = Other::start(&mut service_command(socket));
    service.read_until(SERVES);
    service
}

/// A service that is killed; nothing without the variable.
#[test]
fn a_process_is_a_service() {
    if let Some(socket) = std::env::var_os(SOCKET) {
        service::serve(Path::new(&socket), || println!("\n{SERVES}"));
    }
}

/// Runs a client while its service is killed twice and started again.
pub(super) fn check(client: &Path, folder: &Path) {
    let socket = folder.join("socket");
    let mut command = Command::new(client);
    command.env("TIDEGATE_SOCKET", &socket).stderr(Stdio::piped());
    let mut client = Other::start(&mut command);
    client.read_until("absent");
    let mut service = start_service(&socket);
    client.say("there");
    for _ in 0..2 {
        client.read_until("ready");
        service.kill();
        client.say("killed");
        client.read_until("gone");
        service = start_service(&socket);
        client.say("there");
    }
    client.read_until("restart: all checks hold");
    let output = client.process.wait_with_output().unwrap();
    service.kill();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    // An outage is reported once, though the client has tried several times.
    assert_eq!(errors.matches("no service listens").count(), 3, "{errors}");
}
