//! Containers for programs of tests: new user, mount, PID, network, IPC and UTS namespaces, whose
//! root folder has the system's programs and libraries, and the files that the test names.
//!
//! Made by `unshare` of util-linux, which needs no privilege where the system allows user
//! namespaces.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use tempfile::TempDir;
use tidegate::platform::once;

const SCRIPT: &str = include_str!("container.sh");

/// A container for any number of programs, each of which has new namespaces.
pub struct Container {
    /// The mount point of the root folder, empty outside of the namespaces.
    root: TempDir,
    files: Vec<(PathBuf, String)>,
    has_proc: bool,
    /// The user outside of the namespaces; `None` for the user of the test.
    user: Option<u32>,
}

impl Container {
    /// Returns a container without files; `None` if this machine cannot make one, which is printed
    /// once.
    pub fn new() -> Option<Container> {
        static REFUSED: OnceLock<Option<String>> = OnceLock::new();
        let refused = once::make_alone(&REFUSED, || {
            let said = why_refused();
            said.iter().for_each(|why| println!("skipped: this machine makes no container: {why}"));
            said
        });
        refused.is_none().then(Container::empty)
    }

    fn empty() -> Container {
        Container { root: TempDir::new().unwrap(), files: Vec::new(), has_proc: true, user: None }
    }

    /// Shows a file, a socket or a folder as `/client/NAME`.
    #[must_use]
    pub fn with(mut self, file: &Path, name: &str) -> Container {
        self.files.push((file.canonicalize().unwrap(), name.to_owned()));
        self
    }

    /// Has no `/proc`.
    #[must_use]
    pub fn without_proc(mut self) -> Container {
        self.has_proc = false;
        self
    }

    /// Makes the namespaces as another user. `None` if the user of the test is not root.
    #[must_use]
    pub fn of_user(mut self, user: u32) -> Option<Container> {
        let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
        if !is_root {
            println!("skipped: only root runs a container as another user");
        }
        // The user mounts the root folder.
        std::fs::set_permissions(self.root.path(), Permissions::from_mode(0o755)).ok()?;
        self.user = Some(user);
        is_root.then_some(self)
    }

    /// Returns a command that runs a program in it, without variables of this process. The path of
    /// the program is as in the container.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = match self.user {
            None => Command::new("unshare"),
            Some(user) => {
                let mut command = Command::new("setpriv");
                command.arg(format!("--reuid={user}")).args(["--clear-groups", "unshare"]);
                command
            }
        };
        command.args(["--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child"]);
        command.args(["--net", "--ipc", "--uts", "sh", "-c", SCRIPT, "container"]);
        command.arg(self.root.path()).arg(if self.has_proc { "proc" } else { "no-proc" });
        for (file, name) in &self.files {
            command.arg(file).arg(name);
        }
        command.arg("--").arg(program);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command
    }
}

/// Returns why no container can be made here.
fn why_refused() -> Option<String> {
    let output = match Container::empty().command("true").output() {
        Ok(output) => output,
        Err(error) => return Some(format!("unshare: {error}")),
    };
    let why = || String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    (!output.status.success()).then(why)
}
