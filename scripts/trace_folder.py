#!/usr/bin/env python3
"""Replays every trace of a folder on a Ray cluster and sums the kernels of all of them by name.

Usage:
  pip install ray
  python scripts/trace_folder.py TRACES OUT [--tidegate PATH] [--address ADDRESS] [--submission MODEL]

Each trace is a task of its own: `tidegate run TRACE --kernels OUT/NAME.csv --json OUT/NAME.report.json`. The sums are written to
OUT/summary.csv. Without --address a cluster is started on this machine; on a cluster of several machines TRACES, OUT and the
program must be on a file system that all of them share. The exit status is 1 when a trace could not be read or replayed right.
"""

import csv
import pathlib
import subprocess
import sys

import ray_tasks

SUFFIXES = (".json", ".json.gz", ".sqlite", ".pftrace", ".perfetto-trace")
HEAD = ["name", "count", "busy_ns", "recorded_busy_ns", "queue_delay_ns", "launch_latency_ns", "traces"]


def replay(tidegate, trace, table, submission):
    """Runs one trace; returns (trace, sums by name, what went wrong or None)."""
    report = table.with_suffix(".report.json")
    command = [tidegate, "run", str(trace), "--clock", "virtual", "--quiet"]
    command += ["--submission", submission, "--kernels", str(table), "--json", str(report)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return str(trace), {}, done.stderr.strip() or f"status {done.returncode}"
    sums = {}
    with open(table, newline="", encoding="utf-8") as rows:
        for row in csv.DictReader(rows):
            total = sums.setdefault(row["name"], [0, 0, 0, 0, 0])
            total[0] += 1
            for place, column in enumerate(HEAD[2:6], start=1):
                total[place] += int(row[column] or 0)
    return str(trace), sums, None


def main():
    parser = ray_tasks.parser_of(__doc__)
    parser.add_argument("traces", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--submission", default="user", choices=["packet", "hardware", "user"])
    arguments = parser.parse_args()

    folder = arguments.traces.resolve()
    traces = sorted(path for path in folder.rglob("*") if path.is_file() and path.name.endswith(SUFFIXES))
    if not traces:
        sys.exit(f"no traces in {folder}; names end in {', '.join(SUFFIXES)}")
    out = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    table = lambda trace: out / (str(trace.relative_to(folder)).replace("/", "__") + ".csv")
    calls = [(arguments.tidegate, trace, table(trace), arguments.submission) for trace in traces]

    sums, failed = {}, 0
    for trace, by_name, problem in ray_tasks.results(arguments.address, replay, calls):
        if problem:
            failed += 1
            print(f"{trace}: {problem}", file=sys.stderr)
            continue
        print(f"{trace}: {sum(total[0] for total in by_name.values())} kernels and copies", flush=True)
        for name, total in by_name.items():
            old = sums.setdefault(name, [0] * (len(total) + 1))
            sums[name] = [a + b for a, b in zip(old, total + [1])]

    rows = sorted(sums.items(), key=lambda item: (-item[1][1], item[0]))
    with open(out / "summary.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(HEAD)
        writer.writerows([name, *total] for name, total in rows)
    print(f"{len(traces) - failed} of {len(traces)} traces, {len(rows)} names in {out / 'summary.csv'}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
