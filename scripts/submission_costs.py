#!/usr/bin/env python3
"""Measures the table "What a submission costs" of docs/service.md, without its rows of a container and a guest.

Usage:
  cargo build --profile quick --package tidegate-cli --package tidegate-d3dkmt
  python3 scripts/submission_costs.py [--target target/quick] [--rounds 5]

The workload is the one of that page; its time is the makespan over the number of packets. The program in C is
crates/d3dkmt/tests/c/stream.c; the last column is the time from its doorbell to its progress fence after 20 ms of rest, while it
spins. In each round every figure is measured once, so that load of other programs meets all of them. The last line compares streams
of that program, whose engines have processor 1, with the row `submissions_streamed` of `tidegate bench`, which is a client in Rust
on the same processors: the median of the rounds' ratios. The exit status is 1 when it is more than 1.2.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
C_LIBRARY = ROOT / "crates" / "d3dkmt"
PACKETS = 2000
MODELS = ("packet", "hardware", "user")
# Columns of the program in C, with its arguments.
IN_C = {"user, in C": (str(PACKETS), "1024", "6"), "first after rest, in C": ("50", "16", "0")}
# A stream of the bench: submissions of a batch, slots of the ring, batches with the warm-up.
STREAM = ("30000", "32768", "6")
MOST = 1.2


class Machine:
    """The programs under measurement, and a folder for their files."""

    def __init__(self, target, folder):
        self.tidegate = target / "tidegate"
        self.folder = folder
        self.workload = folder / "packets.toml"
        page = (ROOT / "docs" / "service.md").read_text()
        self.workload.write_text(re.search(r'```toml\n(name = "packets"\n.*?)```', page, re.DOTALL).group(1))
        # The program finds the library by its soname.
        library = folder / "libtidegate_d3dkmt.so.0"
        library.symlink_to((target / "libtidegate_d3dkmt.so").resolve())
        self.stream = folder / "stream"
        sources = [f"-I{C_LIBRARY}/include", C_LIBRARY / "tests" / "c" / "stream.c", library]
        options = ["-std=gnu11", "-O2", "-pthread", f"-Wl,-rpath,{folder}", "-o", self.stream]
        subprocess.run(["cc", *options, *sources], check=True)

    def results(self, *arguments):
        """What a command of tidegate writes as JSON."""
        file = self.folder / "results.json"
        command = [self.tidegate, *arguments, "--json", file]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return json.loads(file.read_text())

    def workload_ns(self, model, socket):
        at = ["--connect", socket] if socket else []
        results = self.results("run", self.workload, "--submission", model, "--quiet", *at)
        return results["makespan_ns"] / PACKETS

    def bench_ns(self):
        rows = self.results("bench", "submissions_streamed", "--passes", "1")["rows"]
        return rows[0]["median_ns"]

    def stream_ns(self, socket, *arguments):
        environment = os.environ | {"TIDEGATE_SOCKET": str(socket or "")}
        done = subprocess.run([self.stream, *arguments], check=True, capture_output=True, text=True, env=environment)
        return float(re.search(r"([\d.]+) ns for each", done.stdout).group(1))


def shown(times_ns):
    microseconds = sorted(time / 1000 for time in times_ns)
    return f"{statistics.median(microseconds):.2f} ({microseconds[0]:.2f} to {microseconds[-1]:.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=pathlib.Path, default=ROOT / "target" / "quick", help="the folder of the build")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    for name in ("tidegate", "libtidegate_d3dkmt.so"):
        if not (arguments.target / name).is_file():
            parser.error(f"{arguments.target} has no {name}: build it with the first line of the usage")
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(arguments.target.resolve(), pathlib.Path(folder))
        socket = machine.folder / "socket"
        command = [machine.tidegate, "serve", "--socket", socket]
        service = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            service.stdout.readline()
            ratios = measure(machine, socket, arguments.rounds)
        finally:
            service.kill()
            service.wait()
    ratio = statistics.median(ratios)
    print(f"\nA stream of the program in C takes {ratio:.2f} ({min(ratios):.2f} to {max(ratios):.2f}) times as long as one in Rust.")
    sys.exit(ratio > MOST)


def measure(machine, socket, rounds):
    """Prints the table and returns the ratios."""
    times, ratios = {}, []
    for _ in range(rounds):
        for client, at in (("in the machine's process", None), ("of a service", socket)):
            for model in MODELS:
                times.setdefault((client, model), []).append(machine.workload_ns(model, at))
            for column, words in IN_C.items():
                times.setdefault((client, column), []).append(machine.stream_ns(at, *words))
        ratios.append(machine.stream_ns(None, *STREAM) / machine.bench_ns())
    columns = [*MODELS, *IN_C]
    print("| client | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for client in dict.fromkeys(client for client, _ in times):
        print(f"| {client} | " + " | ".join(shown(times[client, column]) for column in columns) + " |")
    return ratios


if __name__ == "__main__":
    main()
