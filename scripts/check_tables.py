#!/usr/bin/env python3
"""Checks the queries of docs/tables.md with DuckDB, and scripts/trace_folder.py on a local Ray cluster.

Usage: python scripts/check_tables.py --tidegate PATH [--parquet]. Needs the packages duckdb and ray. The traces are made here,
so every sum is known without the program under test.
"""

import argparse
import collections
import csv
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def trace(kernels):
    """A PyTorch profiler trace with these (name, start µs, length µs), each launched 8 µs before its start."""
    events = []
    for number, (name, start, length) in enumerate(kernels, start=1):
        common = {"ph": "X", "pid": 1}
        launch = {"name": "cudaLaunchKernel", "cat": "cuda_runtime", "tid": 7, "ts": start - 8, "dur": 3}
        kernel = {"name": name, "cat": "kernel", "pid": 0, "tid": 7, "ts": start, "dur": length}
        events.append(common | launch | {"args": {"correlation": number}})
        events.append(common | kernel | {"args": {"device": 0, "stream": 7, "correlation": number}})
    return json.dumps({"schemaVersion": 1, "traceEvents": events})


def kernels(seed):
    names = ["gemm", "softmax, \"fused\"", "add"]
    return [(names[(n * seed) % 3], 100 + n * 50, 5 + (n * seed) % 17) for n in range(40)]


def check(fact, what):
    if not fact:
        sys.exit(f"check_tables: {what}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tidegate", required=True)
    parser.add_argument("--parquet", action="store_true", help="the program was built with the feature `columns`")
    arguments = parser.parse_args()
    tidegate = str(pathlib.Path(arguments.tidegate).resolve())

    import duckdb

    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        (place / "traces").mkdir()
        busy, count = collections.Counter(), collections.Counter()
        for seed in (1, 2, 4):
            work = kernels(seed)
            (place / "traces" / f"step-{seed}.json").write_text(trace(work))
            for name, _, length in work:
                busy[name] += length * 1000
                count[name] += 1

        def run(*words):
            done = subprocess.run([tidegate, *words], cwd=place, capture_output=True, text=True, check=False)
            check(done.returncode == 0, f"tidegate {' '.join(words)}: {done.stderr}")
            return done.stdout

        run("run", "traces/step-1.json", "--quiet", "--kernels", "kernels.csv")
        run("run", "traces/step-2.json", "--quiet", "--kernels", "after.csv")
        folder = [sys.executable, str(ROOT / "scripts/trace_folder.py"), "traces", "tables", "--tidegate", tidegate]
        done = subprocess.run(folder, cwd=place, capture_output=True, text=True, check=False)
        check(done.returncode == 0, f"trace_folder.py: {done.stdout}{done.stderr}")
        with open(place / "tables/summary.csv", newline="", encoding="utf-8") as rows:
            summary = {row["name"]: row for row in csv.DictReader(rows)}
        found = {name: (int(row["count"]), int(row["recorded_busy_ns"]), int(row["traces"])) for name, row in summary.items()}
        check(found == {name: (count[name], busy[name], 3) for name in busy}, f"summary.csv has {found}")
        print(f"trace_folder.py: 3 traces, {len(found)} names, sums as made")

        database = duckdb.connect()
        database.execute(f"SET file_search_path = '{place}'")
        queries = re.findall(r"```sql\n(.*?)```", (ROOT / "docs/tables.md").read_text(encoding="utf-8"), re.DOTALL)
        check(queries, "docs/tables.md has no queries")
        for query in queries:
            rows = database.execute(query).fetchall()
            check(rows, f"no rows from:\n{query}")
        text = "SELECT name, sum(recorded_busy_ns) FROM 'kernels.csv' GROUP BY name"
        made = collections.Counter()
        for name, _, length in kernels(1):
            made[name] += length * 1000
        check(dict(database.execute(text).fetchall()) == dict(made), "kernels.csv has other sums than the trace")
        print(f"docs/tables.md: {len(queries)} queries")
        if arguments.parquet:
            run("run", "traces/step-1.json", "--quiet", "--kernels", "kernels.parquet")
            same = "SELECT * FROM 'kernels.csv' EXCEPT SELECT * FROM 'kernels.parquet'"
            check(not database.execute(same).fetchall(), "Parquet and CSV differ")
            rows = database.execute("SELECT count(*) FROM 'kernels.parquet'").fetchall()
            check(rows == [(40,)], f"kernels.parquet has {rows} rows")
            print("kernels.parquet: the same rows as kernels.csv")


if __name__ == "__main__":
    main()
