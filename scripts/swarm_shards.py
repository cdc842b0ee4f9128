#!/usr/bin/env python3
"""Runs the shards of a swarm of random programs on a Ray cluster and writes their results to one Parquet file.

Usage:
  pip install ray pyarrow
  python scripts/swarm_shards.py OUT.parquet --shards N [--tidegate PATH] [--address ADDRESS]
                                 [--on GROUND] [--seed N] [--seconds S | --programs N]

Each shard is a task of its own: `tidegate swarm --shard I/N --json -`. Without --address a cluster is started on this machine; on a
cluster of several machines the program must be on a file system that all of them share. The file has a row for each shard and
ground (`row` is 'ground') and a row for each failure (`row` is 'failure'). The exit status is 1 when a program failed, and 2 when a
shard did not end with results.
"""

import json
import pathlib
import subprocess
import sys

import ray_tasks

TEXTS = ["row", "ground", "oracle", "failure", "line"]
NUMBERS = ["shard", "programs", "operations", "failed", "seed", "shrunk_operations"]
COLUMNS = ["row", "shard", "ground", "programs", "operations", "failed", "seconds", "seed", "oracle", "failure"]
COLUMNS += ["shrunk_operations", "line"]


def run_shard(command, shard):
    """Runs one shard; returns (shard, its results or None, what went wrong or None)."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        return shard, None, done.stderr.strip() or f"status {done.returncode}"
    try:
        return shard, json.loads(done.stdout), None
    except json.JSONDecodeError as error:
        return shard, None, done.stderr.strip() or f"its results are no JSON: {error}"


def rows_of(shard, results):
    """The rows of a shard."""
    rows = []
    for ground in results["grounds"]:
        sums = {name: ground[name] for name in ("ground", "programs", "operations", "failed", "seconds")}
        rows.append({"row": "ground", "shard": shard} | sums)
        for failure in ground["failures"]:
            names = ("seed", "oracle", "failure", "operations", "shrunk_operations", "line")
            facts = {name: failure[name] for name in names}
            rows.append({"row": "failure", "shard": shard, "ground": ground["ground"]} | facts)
    return rows


def main():
    parser = ray_tasks.parser_of(__doc__)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--shards", type=int, required=True)
    parser.add_argument("--on", default="all", choices=["virtual", "explored", "threads", "processes", "all"])
    parser.add_argument("--seed", type=int, default=1, help="the first seed (default: 1)")
    bound = parser.add_mutually_exclusive_group()
    bound.add_argument("--seconds", type=int, help="time limit of each shard on each ground (default: 60)")
    bound.add_argument("--programs", type=int, help="programs of each shard on each ground")
    arguments = parser.parse_args()
    if arguments.shards < 1:
        parser.error(f"--shards {arguments.shards}: at least 1 is needed")
    limit = ["--seconds", str(arguments.seconds or 60)]
    if arguments.programs is not None:
        limit = ["--programs", str(arguments.programs)]

    import pyarrow
    import pyarrow.parquet

    command = [arguments.tidegate, "swarm", "--on", arguments.on, "--seed", str(arguments.seed), *limit]
    count = arguments.shards
    calls = [([*command, "--shard", f"{i}/{count}", "--json", "-"], i) for i in range(count)]

    rows, broken, never = [], 0, None
    for shard, results, problem in ray_tasks.results(arguments.address, run_shard, calls):
        if problem:
            broken += 1
            print(f"shard {shard}/{count}: {problem}", file=sys.stderr)
            continue
        own = rows_of(shard, results)
        rows += own
        pairs = set(results["never_overlapped"])
        never = pairs if never is None else never & pairs
        for row in own:
            if row["row"] == "ground":
                print(f"shard {shard}/{count}, {row['ground']}: {row['programs']} programs, {row['failed']} failed", flush=True)
            else:
                print(f"  seed {row['seed']}, {row['failure']}\n  tidegate replay '{row['line']}'", flush=True)

    fields = [(name, pyarrow.string() if name in TEXTS else pyarrow.int64()) for name in TEXTS + NUMBERS]
    fields = dict(fields + [("seconds", pyarrow.float64())])
    schema = pyarrow.schema([(name, fields[name]) for name in COLUMNS])
    # Seeds are 64 bits without a sign.
    schema = schema.set(schema.get_field_index("seed"), pyarrow.field("seed", pyarrow.uint64()))
    rows.sort(key=lambda row: (row["shard"], row["ground"], row["row"] == "failure", row.get("seed", 0)))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), arguments.out)

    sums = {name: sum(row[name] for row in rows if row["row"] == "ground") for name in ("programs", "failed")}
    print(f"{sums['programs']} programs, {sums['failed']} failed: {arguments.out}")
    if arguments.on != "threads":
        print(f"{len(never or [])} pairs of operations overlapped in no shard")
    sys.exit(2 if broken else 1 if sums["failed"] else 0)


if __name__ == "__main__":
    main()
