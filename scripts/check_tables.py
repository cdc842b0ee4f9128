#!/usr/bin/env python3
"""Checks the queries of docs/tables.md and docs/swarm.md with DuckDB, and scripts/trace_folder.py and scripts/swarm_shards.py
on a local Ray cluster.

Usage: python scripts/check_tables.py --tidegate PATH [--parquet]. Needs the packages duckdb, pyarrow and ray. The traces are made
here, so every sum is known without the program under test.
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


def queries_of(page):
    queries = re.findall(r"```sql\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    check(queries, f"{page} has no queries")
    return queries


# A program that prints the results of a shard as JSON: shard 1 has a failure, and shard 2 of 3 does not run.
STAND_IN = """#!/usr/bin/env python3
import json, sys
shard, count = map(int, sys.argv[sys.argv.index("--shard") + 1].split("/"))
if (shard, count) == (2, 3):
    sys.exit("no space left")
failure = {"seed": 2**64 - 1, "oracle": "leak", "failure": "leak: one", "operations": 50}
failure |= {"shrunk_operations": 2, "line": "swarm/virtual | adapter standard"}
ground = {"ground": "virtual time", "programs": 7 + shard, "operations": 350, "failed": 3 * shard, "seconds": 1.5}
ground |= {"programs_per_minute": 280.0, "failures": [failure] * shard}
print(json.dumps({"grounds": [ground], "never_overlapped": ["kill with kill", f"vsync with {shard}"]}))
sys.exit(shard)
"""


def check_swarm(place, tidegate, database):
    """Checks scripts/swarm_shards.py with results that are known, and the queries of docs/swarm.md with those of the program."""

    def shards(program, *words):
        command = [sys.executable, str(ROOT / "scripts/swarm_shards.py"), *words, "--tidegate", str(program)]
        return subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)

    program = place / "stand-in"
    program.write_text(STAND_IN, encoding="utf-8")
    program.chmod(0o755)
    done = shards(program, "known.parquet", "--shards", "2")
    check(done.returncode == 1, f"swarm_shards.py with a failure: {done.returncode} {done.stdout}{done.stderr}")
    check("15 programs, 3 failed" in done.stdout, done.stdout + done.stderr)
    check("1 pairs of operations overlapped in no shard" in done.stdout, done.stdout + done.stderr)
    found = database.execute("SELECT row, shard, programs, failed, seed, line FROM 'known.parquet'").fetchall()
    line = "swarm/virtual | adapter standard"
    right = [("ground", 0, 7, 0, None, None), ("ground", 1, 8, 3, None, None), ("failure", 1, None, None, 2**64 - 1, line)]
    check(found == right, f"known.parquet has {found}")
    done = shards(program, "known.parquet", "--shards", "3")
    check(done.returncode == 2 and "shard 2/3: no space left" in done.stderr, f"{done.returncode} {done.stderr}")

    done = shards(tidegate, "swarm.parquet", "--shards", "2", "--on", "virtual", "--programs", "10")
    check(done.returncode == 0, f"swarm_shards.py: {done.stdout}{done.stderr}")
    queries = queries_of("docs/swarm.md")
    for query in queries:
        database.execute(query).fetchall()
    check(database.execute(queries[0]).fetchall()[0][:2] == ("virtual time", 20), "the first query has other sums")
    print(f"swarm_shards.py: rows as made; docs/swarm.md: {len(queries)} queries")


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
        queries = queries_of("docs/tables.md")
        for query in queries:
            rows = database.execute(query).fetchall()
            check(rows, f"no rows from:\n{query}")
        text = "SELECT name, sum(recorded_busy_ns) FROM 'kernels.csv' GROUP BY name"
        made = collections.Counter()
        for name, _, length in kernels(1):
            made[name] += length * 1000
        check(dict(database.execute(text).fetchall()) == dict(made), "kernels.csv has other sums than the trace")
        print(f"docs/tables.md: {len(queries)} queries")
        check_swarm(place, tidegate, database)
        if arguments.parquet:
            run("run", "traces/step-1.json", "--quiet", "--kernels", "kernels.parquet")
            same = "SELECT * FROM 'kernels.csv' EXCEPT SELECT * FROM 'kernels.parquet'"
            check(not database.execute(same).fetchall(), "Parquet and CSV differ")
            rows = database.execute("SELECT count(*) FROM 'kernels.parquet'").fetchall()
            check(rows == [(40,)], f"kernels.parquet has {rows} rows")
            print("kernels.parquet: the same rows as kernels.csv")


if __name__ == "__main__":
    main()
