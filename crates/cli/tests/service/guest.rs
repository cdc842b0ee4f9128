//! A guest: a Linux kernel in QEMU, whose only program runs a workload on the device of
//! `tidegate serve --ivshmem`. Where QEMU, a kernel or busybox is missing, one line says so.
//!
//! TIDEGATE_GUEST_KERNEL names the kernel, else it is the first /boot/vmlinuz-* that can be read.

use super::workload;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tidegate::service::client;
use tidegate_testbed::ServiceProcess;

/// What a guest is made of.
struct Parts {
    qemu: PathBuf,
    kernel: PathBuf,
    busybox: PathBuf,
    /// What the program needs to start: its loader and its libraries.
    libraries: Vec<PathBuf>,
}

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

/// Returns the files that `ldd` names for a program.
fn libraries(program: &Path) -> Option<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let words = text.split_whitespace().filter(|word| word.starts_with('/'));
    let files: Vec<PathBuf> = words.map(PathBuf::from).collect();
    (!files.is_empty()).then_some(files)
}

impl Parts {
    fn find(program: &Path) -> Result<Parts, &'static str> {
        Ok(Parts {
            qemu: in_path("qemu-system-x86_64").ok_or("qemu-system-x86_64")?,
            kernel: kernel().ok_or("a kernel (/boot/vmlinuz-* or TIDEGATE_GUEST_KERNEL)")?,
            busybox: in_path("busybox").ok_or("busybox")?,
            libraries: libraries(program).ok_or("ldd")?,
        })
    }
}

/// An archive of the format newc, from which a kernel fills its first file system.
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    folders: Vec<PathBuf>,
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
        if path.as_os_str().is_empty() || self.folders.iter().any(|known| known == path) {
            return;
        }
        path.parent().into_iter().for_each(|parent| self.add_folder(parent));
        self.folders.push(path.to_owned());
        self.add(path.to_str().unwrap(), 0o040_755, &[]);
    }

    /// Adds a file at a path from the root, with its folders.
    fn add_file(&mut self, path: &Path, content: &[u8]) {
        let path = path.strip_prefix("/").unwrap();
        path.parent().into_iter().for_each(|parent| self.add_folder(parent));
        self.add(path.to_str().unwrap(), 0o100_755, content);
    }

    fn finish(mut self) -> Vec<u8> {
        self.add("TRAILER!!!", 0, &[]);
        self.bytes
    }
}

/// The first program of the guest. It finds the device by its number.
const INIT: &str = "#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t devtmpfs dev /dev
for device in /sys/bus/pci/devices/*; do
  if [ \"$(/bin/busybox cat $device/device)\" = 0x1110 ]; then
    for model in MODELS; do
      /bin/tidegate run /workload.toml --connect $device --submission $model
      echo \"guest: $model ended with $?\"
    done
  fi
done
/bin/busybox poweroff -f
";

/// Returns the program without what only debuggers read, where `strip` is there: it is loaded by a
/// processor that is interpreted.
fn stripped(program: &Path, folder: &Path) -> Vec<u8> {
    let to = folder.join("stripped");
    let done = Command::new("strip").arg("-o").arg(&to).arg(program).stderr(Stdio::null()).status();
    let from = if done.is_ok_and(|status| status.success()) { &to } else { program };
    std::fs::read(from).unwrap()
}

/// Boots a guest that runs `workload` in these models. Returns what it has printed.
fn boot(parts: &Parts, service: &ServiceProcess, models: &str, workload: &str) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_tidegate"));
    let mut archive = Archive::default();
    ["proc", "sys", "dev", "tmp"].iter().for_each(|folder| archive.add_folder(folder.as_ref()));
    archive.add_file("/init".as_ref(), INIT.replace("MODELS", models).as_bytes());
    archive.add_file("/workload.toml".as_ref(), workload.as_bytes());
    archive.add_file("/bin/busybox".as_ref(), &std::fs::read(&parts.busybox).unwrap());
    archive.add_file("/bin/tidegate".as_ref(), &stripped(program, service.folder()));
    for library in &parts.libraries {
        archive.add_file(library, &std::fs::read(library).unwrap());
    }
    let files = service.folder().join("initramfs");
    std::fs::write(&files, archive.finish()).unwrap();
    let socket = service.folder().join("guests");
    let output = Command::new(&parts.qemu)
        .args(["-accel", "tcg", "-m", "768", "-nographic", "-no-reboot", "-nic", "none"])
        .args(["-append", "console=ttyS0 quiet panic=-1"])
        .arg("-kernel")
        .arg(&parts.kernel)
        .arg("-initrd")
        .arg(files)
        .arg("-chardev")
        .arg(format!("socket,path={},id=gpu", socket.display()))
        .args(["-device", "ivshmem-doorbell,chardev=gpu,vectors=2"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns a counter of the service.
fn count(service: &ServiceProcess, name: &str) -> u64 {
    let text = client::counts(&service.socket()).unwrap();
    let of_name = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
    text.lines().find_map(of_name).unwrap()
}

// spec: UMS-191, UMS-192
#[test]
fn a_booted_guest_submits_without_messages_and_has_kernel_queues_too() {
    let program = Path::new(env!("CARGO_BIN_EXE_tidegate"));
    let parts = match Parts::find(program) {
        Ok(parts) => parts,
        Err(missing) => return println!("skipped: a guest needs {missing}"),
    };
    let service = ServiceProcess::start(|folder| {
        let mut command = Command::new(program);
        command.args(["serve", "--socket"]).arg(folder.join("socket"));
        command.arg("--ivshmem").arg(folder.join("guests")).args(["--ivshmem-mib", "16"]);
        command
    });
    let text = std::fs::read_to_string(workload("ring-buffer.toml")).unwrap();
    let long = text.replace("frames = 24\n", "frames = 600\n");
    assert_ne!(long, text);
    // 1,200 packets and as many signals and waits.
    let output = boot(&parts, &service, "user", &long);
    assert!(output.contains("guest: user ended with 0"), "{output}");
    let calls = count(&service, "tidegate_calls_total");
    assert!(calls < 300, "{calls} calls of a run of 600 frames");
    assert!(count(&service, "tidegate_guest_wakes_total") > 0);
    while count(&service, "tidegate_guests") != 0 {}
    // The next guest, with a client that knows kernel queues only.
    let output = boot(&parts, &service, "packet hardware", &text);
    for model in ["packet", "hardware"] {
        assert!(output.contains(&format!("guest: {model} ended with 0")), "{output}");
    }
    assert_eq!(count(&service, "tidegate_sessions_failed_total"), 0);
}
