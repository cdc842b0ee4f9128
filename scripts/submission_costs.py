#!/usr/bin/env python3
"""Measures the table "What a submission costs" of docs/service.md.

Usage:
  cargo build --profile quick --package tidegate-cli --package tidegate-d3dkmt
  python3 scripts/submission_costs.py [--target target/quick] [--rounds 5] [--container] [--guest]

The workload is the one of that page; its time is the makespan over the number of packets. The program in C is
crates/d3dkmt/tests/c/stream.c; the last column is the time from its doorbell to its progress fence after 20 ms of rest, while it
spins. In each round every figure is measured once, so that load of other programs meets all of them. The last line compares streams
of that program, whose engines have processor 1, with the row `submissions_streamed` of `tidegate bench`, which is a client in Rust
on the same processors: the median of the rounds' ratios. The exit status is 1 when it is more than 1.2.

--container adds the row of a client in new namespaces, as crates/testbed/src/container.sh makes them. --guest adds the row of a
client in a virtual machine: QEMU without KVM, the kernel that TIDEGATE_GUEST_KERNEL names, else the last one of /boot. A line says
what is missing for a row, and the other rows are measured.
"""

import argparse
import glob
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
C_LIBRARY = ROOT / "crates" / "d3dkmt"
TESTBED = ROOT / "crates" / "testbed" / "src"
PACKETS = 2000
MODELS = ("packet", "hardware", "user")
# Columns of the program in C, with its arguments.
IN_C = {"user, in C": (str(PACKETS), "1024", "6"), "first after rest, in C": ("50", "16", "0")}
# A stream of the bench: submissions of a batch, slots of the ring, batches with the warm-up.
STREAM = ("30000", "32768", "6")
MOST = 1.2
LIBRARY = "libtidegate_d3dkmt.so.0"
NAMESPACES = ("--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "--net", "--ipc", "--uts")


def run_arguments(model, workload, at, results):
    return ["run", workload, "--submission", model, "--quiet", *(["--connect", at] if at else []), "--json", results]


def packet_ns(text):
    """The time of a packet in a run, from what it wrote as JSON."""
    return int(re.search(r'"makespan_ns": *(\d+)', text).group(1)) / PACKETS


def stream_ns(text):
    return float(re.search(r"([\d.]+) ns for each", text).group(1))


class Machine:
    """The programs under measurement, and a folder for their files."""

    def __init__(self, target, folder):
        self.tidegate = target / "tidegate"
        self.folder = folder
        self.results = folder / "results"
        self.results.mkdir()
        self.workload = folder / "packets.toml"
        page = (ROOT / "docs" / "service.md").read_text()
        self.workload.write_text(re.search(r'```toml\n(name = "packets"\n.*?)```', page, re.DOTALL).group(1))
        # The program finds the library by its soname.
        self.library = folder / LIBRARY
        self.library.symlink_to((target / "libtidegate_d3dkmt.so").resolve())
        self.stream = folder / "stream"
        sources = [f"-I{C_LIBRARY}/include", C_LIBRARY / "tests" / "c" / "stream.c", self.library]
        options = ["-std=gnu11", "-O2", "-pthread", f"-Wl,-rpath,{folder}", "-o", self.stream]
        subprocess.run(["cc", *options, *sources], check=True)

    def bench_ns(self):
        file = self.results / "bench.json"
        command = [self.tidegate, "bench", "submissions_streamed", "--passes", "1", "--json", file]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return json.loads(file.read_text())["rows"][0]["median_ns"]


class Process:
    """A client on this machine: in the machine's process without a socket, else of the service."""

    def __init__(self, machine, socket):
        self.machine, self.socket = machine, socket

    def workload_ns(self, model):
        file = self.machine.results / "run.json"
        command = [self.machine.tidegate, *run_arguments(model, self.machine.workload, self.socket, file)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return packet_ns(file.read_text())

    def stream_ns(self, arguments):
        environment = os.environ | {"TIDEGATE_SOCKET": str(self.socket or "")}
        command = [self.machine.stream, *arguments]
        return stream_ns(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)

    def round_ns(self):
        """The figures of a round by column."""
        times = {model: self.workload_ns(model) for model in MODELS}
        return times | {column: self.stream_ns(words) for column, words in IN_C.items()}


class Container:
    """A client in namespaces of its own, with the socket and its files in /client."""

    def __init__(self, machine, socket):
        self.machine, self.socket = machine, socket
        self.root = machine.folder / "root"
        self.root.mkdir()

    def missing(self):
        try:
            done = self.run("true")
        except OSError as error:
            return f"unshare: {error}"
        return done.stderr.strip() if done.returncode else None

    def run(self, *command):
        machine = self.machine
        files = (machine.tidegate, machine.stream, machine.workload, machine.library.resolve(), self.socket, machine.results)
        names = ("tidegate", "stream", "packets.toml", LIBRARY, "socket", "results")
        shown = [word for pair in zip(files, names) for word in pair]
        script = (TESTBED / "container.sh").read_text()
        command = ["unshare", *NAMESPACES, "sh", "-c", script, "container", self.root, "proc", *shown, "--", *command]
        environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "LD_LIBRARY_PATH": "/client",
            "TIDEGATE_SOCKET": "/client/socket",
        }
        return subprocess.run(command, capture_output=True, text=True, env=environment)

    def output(self, *command):
        done = self.run(*command)
        done.check_returncode()
        return done.stdout

    def round_ns(self):
        times = {}
        for model in MODELS:
            arguments = run_arguments(model, "/client/packets.toml", "/client/socket", "/client/results/run.json")
            self.output("/client/tidegate", *arguments)
            times[model] = packet_ns((self.machine.results / "run.json").read_text())
        return times | {column: stream_ns(self.output("/client/stream", *words)) for column, words in IN_C.items()}


class Guest:
    """A client in a virtual machine, which boots for each round."""

    def __init__(self, machine, socket):
        self.machine, self.socket = machine, socket
        kernels = sorted(glob.glob("/boot/vmlinuz-*"))
        self.kernel = os.environ.get("TIDEGATE_GUEST_KERNEL") or (kernels[-1] if kernels else None)

    def missing(self):
        for program in ("qemu-system-x86_64", "busybox", "ldd", "strip"):
            if not shutil.which(program):
                return f"no {program}"
        return None if self.kernel else "no kernel: /boot has none, and TIDEGATE_GUEST_KERNEL is not set"

    def files(self, root):
        """Fills the root folder of the guest. Programs come with the libraries that ldd names."""
        for folder in ("bin", "lib", "proc", "sys", "dev", "tmp"):
            (root / folder).mkdir()
        machine = self.machine
        for program, path in ((machine.tidegate, "bin/tidegate"), (machine.stream, "bin/stream"), (machine.library, f"lib/{LIBRARY}")):
            subprocess.run(["strip", "-o", root / path, program.resolve()], check=True)
            listed = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
            for library in re.findall(r"/\S+", listed):
                to = root / library[1:]
                if not to.exists() and LIBRARY not in library:
                    to.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(library, to)
        shutil.copy(shutil.which("busybox"), root / "bin" / "busybox")
        shutil.copy(machine.workload, root / "packets.toml")
        shutil.copy(TESTBED / "guest_init.sh", root / "init")
        (root / "init").chmod(0o755)
        script = ["export TIDEGATE_SOCKET=$device LD_LIBRARY_PATH=/lib"]
        for model in MODELS:
            arguments = run_arguments(model, "/packets.toml", "$device", "/tmp/run.json")
            script += [f"/bin/tidegate {' '.join(arguments)}", f"echo 'column: {model}'", "/bin/busybox grep makespan_ns /tmp/run.json"]
        for column, words in IN_C.items():
            script += [f"echo 'column: {column}'", f"/bin/stream {' '.join(words)}"]
        (root / "script").write_text("\n".join(script) + "\n")

    def round_ns(self):
        with tempfile.TemporaryDirectory(dir=self.machine.folder) as folder:
            root, archive = pathlib.Path(folder) / "root", pathlib.Path(folder) / "initramfs"
            root.mkdir()
            self.files(root)
            names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*"))) + "\n"
            with archive.open("wb") as to:
                pack = ["busybox", "cpio", "-o", "-H", "newc"]
                subprocess.run(pack, check=True, cwd=root, input=names.encode(), stdout=to, stderr=subprocess.DEVNULL)
            command = ["qemu-system-x86_64", "-accel", "tcg", "-m", "768", "-nographic", "-no-reboot", "-nic", "none"]
            command += ["-append", "console=ttyS0 quiet panic=-1 no_timer_check", "-kernel", self.kernel, "-initrd", archive]
            command += ["-chardev", f"socket,path={self.socket},id=gpu", "-device", "ivshmem-doorbell,chardev=gpu,vectors=2"]
            text = subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout
        parts = dict(part.split("\n", 1) for part in text.replace("\r", "").split("column: ")[1:])
        try:
            times = {model: packet_ns(parts[model]) for model in MODELS}
            return times | {column: stream_ns(parts[column]) for column in IN_C}
        except (AttributeError, KeyError):
            sys.exit(f"the guest measured nothing:\n{text}")


def shown(times_ns):
    microseconds = sorted(time / 1000 for time in times_ns)
    return f"{statistics.median(microseconds):.2f} ({microseconds[0]:.2f} to {microseconds[-1]:.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=pathlib.Path, default=ROOT / "target" / "quick", help="the folder of the build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--container", action="store_true", help="also a client in a container")
    parser.add_argument("--guest", action="store_true", help="also a client in a virtual machine")
    arguments = parser.parse_args()
    for name in ("tidegate", "libtidegate_d3dkmt.so"):
        if not (arguments.target / name).is_file():
            parser.error(f"{arguments.target} has no {name}: build it with the first line of the usage")
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(arguments.target.resolve(), pathlib.Path(folder))
        socket, device = machine.folder / "socket", machine.folder / "guest"
        command = [machine.tidegate, "serve", "--socket", socket]
        if arguments.guest:
            command += ["--ivshmem", device]
        service = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            service.stdout.readline()
            clients = {"in the machine's process": Process(machine, None), "of a service": Process(machine, socket)}
            more = {"in a container": Container(machine, socket)} if arguments.container else {}
            more |= {"in a guest": Guest(machine, device)} if arguments.guest else {}
            for name, client in more.items():
                if missing := client.missing():
                    print(f"not measured: of a service, {name}: {missing}")
                else:
                    clients[f"of a service, {name}"] = client
            ratios = measure(machine, clients, arguments.rounds)
        finally:
            service.kill()
            service.wait()
    ratio = statistics.median(ratios)
    print(f"\nA stream of the program in C takes {ratio:.2f} ({min(ratios):.2f} to {max(ratios):.2f}) times as long as one in Rust.")
    sys.exit(ratio > MOST)


def measure(machine, clients, rounds):
    """Prints the table and returns the ratios."""
    times, ratios = {}, []
    for _ in range(rounds):
        for name, client in clients.items():
            for column, time in client.round_ns().items():
                times.setdefault((name, column), []).append(time)
        ratios.append(clients["in the machine's process"].stream_ns(STREAM) / machine.bench_ns())
    columns = [*MODELS, *IN_C]
    print("| client | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for name in clients:
        print(f"| {name} | " + " | ".join(shown(times[name, column]) for column in columns) + " |")
    return ratios


if __name__ == "__main__":
    main()
