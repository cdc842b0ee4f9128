//! Guests for programs of tests: a Linux kernel in QEMU with the device of a service, and files
//! that the test names.
//!
//! TIDEGATE_GUEST_KERNEL names the kernel. Without it the kernel is the last of the files
//! /boot/vmlinuz-* that can be read.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn kernel() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("TIDEGATE_GUEST_KERNEL") {
        return Some(named.into());
    }
    let files = std::fs::read_dir("/boot").ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let is_kernel = |file: &PathBuf| {
        let name = file.file_name().map(OsStr::as_bytes);
        name.is_some_and(|name| name.starts_with(b"vmlinuz-")) && std::fs::File::open(file).is_ok()
    };
    let mut found: Vec<PathBuf> = files.filter(is_kernel).collect();
    found.sort();
    found.pop()
}

/// An archive of the format newc, from which a kernel fills its first file system.
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    paths: BTreeSet<PathBuf>,
    entries: u32,
}

impl Archive {
    fn add(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let (number, length) = (self.entries, content.len() as u32);
        let name_length = name.len() as u32 + 1;
        let fields = [number, mode, 0, 0, 1, 0, length, 0, 0, 0, 0, name_length, 0];
        self.bytes.extend(b"070701");
        fields.iter().for_each(|field| self.bytes.extend(format!("{field:08x}").bytes()));
        self.bytes.extend(name.bytes().chain([0]));
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn add_folder(&mut self, path: &Path) {
        if path.as_os_str().is_empty() || self.paths.contains(path) {
            return;
        }
        path.parent().into_iter().for_each(|parent| self.add_folder(parent));
        self.paths.insert(path.to_owned());
        self.add(path.to_str().unwrap(), 0o040_755, &[]);
    }

    /// Adds a file at a path from the root, with its folders, unless there is one.
    fn add_file(&mut self, path: &Path, content: &[u8]) {
        let path = path.strip_prefix("/").unwrap();
        if self.paths.contains(path) {
            return;
        }
        path.parent().into_iter().for_each(|parent| self.add_folder(parent));
        self.paths.insert(path.to_owned());
        self.add(path.to_str().unwrap(), 0o100_755, content);
    }

    fn finish(mut self) -> Vec<u8> {
        self.add("TRAILER!!!", 0, &[]);
        self.bytes
    }
}

/// The first program of the guest.
const INIT: &str = include_str!("guest_init.sh");

/// A guest that has not started.
pub struct Guest {
    qemu: PathBuf,
    kernel: PathBuf,
    archive: Archive,
    folder: TempDir,
}

impl Guest {
    /// Returns a guest without programs; `None` where QEMU, a kernel or busybox is missing, which
    /// is printed.
    pub fn new() -> Option<Guest> {
        let found = |name, path: Option<PathBuf>| {
            if path.is_none() {
                println!("skipped: a guest needs {name}");
            }
            path
        };
        let qemu = found("qemu-system-x86_64", in_path("qemu-system-x86_64"))?;
        let kernel = found("a kernel (/boot/vmlinuz-* or TIDEGATE_GUEST_KERNEL)", kernel())?;
        let busybox = found("busybox", in_path("busybox"))?;
        found("ldd", in_path("ldd"))?;
        let mut archive = Archive::default();
        ["proc", "sys", "dev", "tmp"].iter().for_each(|folder| archive.add_folder(folder.as_ref()));
        archive.add_file("/init".as_ref(), INIT.as_bytes());
        archive.add_file("/bin/busybox".as_ref(), &std::fs::read(busybox).unwrap());
        Some(Guest { qemu, kernel, archive, folder: TempDir::new().unwrap() })
    }

    /// Has a file with this content.
    #[must_use]
    pub fn with(mut self, path: &str, content: &[u8]) -> Guest {
        self.archive.add_file(path.as_ref(), content);
        self
    }

    /// Has a program or a library, with the libraries that `ldd` names for it.
    ///
    /// # Panics
    /// It cannot be read.
    #[must_use]
    pub fn with_program(mut self, path: &str, program: &Path) -> Guest {
        // Symbols for debuggers would be loaded by a processor that is interpreted.
        let to = self.folder.path().join("stripped");
        let mut strip = Command::new("strip");
        let done = strip.arg("-o").arg(&to).arg(program).stderr(Stdio::null()).status();
        let from = if done.is_ok_and(|status| status.success()) { &to } else { program };
        self.archive.add_file(path.as_ref(), &std::fs::read(from).unwrap());
        let listed = Command::new("ldd").arg(program).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        for library in listed.split_whitespace().filter(|word| word.starts_with('/')) {
            let content = std::fs::read(library).unwrap();
            self.archive.add_file(library.as_ref(), &content);
        }
        self
    }

    /// Boots the guest with the device of the service whose socket for guests is `socket`. The
    /// guest runs `script` with the shell of busybox, in which `$device` is the folder of the
    /// device in sysfs, and powers off.
    ///
    /// # Panics
    /// QEMU does not start.
    pub fn boot(mut self, socket: &Path, script: &str) -> BootedGuest {
        self.archive.add_file("/script".as_ref(), script.as_bytes());
        let files = self.folder.path().join("initramfs");
        std::fs::write(&files, self.archive.finish()).unwrap();
        let process = Command::new(&self.qemu)
            .args(["-accel", "tcg", "-m", "768", "-nographic", "-no-reboot", "-nic", "none"])
            .args(["-append", "console=ttyS0 quiet panic=-1 no_timer_check"])
            .arg("-kernel")
            .arg(&self.kernel)
            .arg("-initrd")
            .arg(files)
            .arg("-chardev")
            .arg(format!("socket,path={},id=gpu", socket.display()))
            .args(["-device", "ivshmem-doorbell,chardev=gpu,vectors=2"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        BootedGuest { process: Some(process), _folder: self.folder }
    }
}

/// A guest that has started.
pub struct BootedGuest {
    /// `None` once it is waited for.
    process: Option<Child>,
    _folder: TempDir,
}

impl BootedGuest {
    /// Returns what the guest has printed, once it has powered off.
    ///
    /// # Panics
    /// QEMU has failed.
    pub fn output(mut self) -> String {
        let process = self.process.take().expect("a guest is waited for once");
        let output = process.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for BootedGuest {
    /// The virtual machine of a test that has failed ends with it.
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ended_already = process.kill();
            let _status = process.wait();
        }
    }
}
