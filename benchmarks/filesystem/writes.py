"""The cost of 560 MB until they are durable: `python -m benchmarks.filesystem.writes HOME --rounds 5`.

An application writes a table of 560 MB as text and commits it, several times, each to a directory of its own: with
Penstock's commit, and with tuned S3A and its magic committer. The arms alternate. Rows are wide and made of one letter,
so that most of the work is the file system's. Every output is counted, byte for byte, by the store's listing.

HOME/writes.jsonl has a line for each application: seconds of each write but the first, which compiles, and the
core-seconds of driver and executor for all writes, their start included.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.filesystem.applications import raw_samples, run_application
from benchmarks.service.reporting import progress, report_result, spread
from penstock.engine.installation import Installation
from penstock.errors import ClusterError
from penstock.home import Home
from penstock.lab.environment import Environment
from penstock.model import ApplicationSpec, ClusterSize, ProcessSize
from penstock.units import MIB

FILES, ROWS, WIDTH = 8, 70_000, 8_000
PROFILES = {"Penstock": "default", "S3A tuned, magic": "default+s3a-tuned"}

APPLICATION = f"""
import json, sys, time
from pyspark.sql import SparkSession

root, output, writes = sys.argv[1], sys.argv[2], int(sys.argv[3])
spark = SparkSession.builder.getOrCreate()
rows = spark.range(0, {ROWS}, 1, {FILES}).selectExpr("repeat(chr(97 + CAST(id % 26 AS INT)), {WIDTH - 1}) AS value")
seconds = []
for number in range(writes):
    began = time.monotonic()
    rows.write.text(f"{{root}}/{{number}}")
    seconds.append(time.monotonic() - began)
with open(output, "w") as file:
    json.dump({{"seconds": seconds}}, file)
"""

_SIZE = ClusterSize(ProcessSize(1, 1024 * MIB), ProcessSize(2, 2048 * MIB), 1)


def write(bench: Environment, arm: str, directory: Path, writes: int) -> dict[str, Any]:
    """Run an application of the arm and remove what it wrote; raises `ClusterError` where a byte is missing."""
    script, output = directory / "application.py", directory / "output.json"
    script.write_text(APPLICATION, encoding="utf-8")
    prefix = f"writes/{directory.name}"
    spec = ApplicationSpec(
        application=str(script),
        size=_SIZE,
        name="writes",
        arguments=(bench.uri(prefix), str(output), str(writes)),
        lake=bench.lake.name,
        profile=PROFILES[arm],
    )
    try:
        ran = run_application(bench, arm, spec, output)
        written = sum(one.size for one in bench.store.list(f"{prefix}/") if "/part-" in one.key)
        if written != writes * ROWS * WIDTH:
            raise ClusterError(f"{arm} wrote {written} bytes, not {writes * ROWS * WIDTH}")
    finally:
        bench.store.delete(*[one.key for one in bench.store.list(f"{prefix}/")])
    return {**ran, "seconds": ran["seconds"][1:]}


def run(home: Home, rounds: int, writes: int) -> dict[str, Any]:
    Installation(home).lake_up()
    bench = Environment.open(home)
    arms = tuple(PROFILES)
    found: dict[str, list[dict[str, Any]]] = {arm: [] for arm in arms}
    with raw_samples(home.root / "writes.jsonl") as keep:
        for turn in range(rounds):
            for arm in arms if turn % 2 else reversed(arms):
                with tempfile.TemporaryDirectory(prefix="writes-", dir=home.root) as directory:
                    ran = write(bench, arm, Path(directory), writes)
                keep(arm=arm, turn=turn, **ran)
                ran = {**ran, "seconds": statistics.median(ran["seconds"])}
                progress(
                    f"{turn + 1} of {rounds}, {arm}: {ran['seconds']:.2f} s a write, "
                    f"{ran['core_seconds']:.1f} core-seconds for {writes}"
                )
                found[arm].append(ran)
    keys = ("seconds", "core_seconds")
    result: dict[str, Any] = {
        arm: {**{key: spread([one[key] for one in runs]) for key in keys}, "requests": runs[-1]["requests"]}
        for arm, runs in found.items()
    }
    for key in keys:
        ours, theirs = (statistics.median(one[key] for one in found[arm]) for arm in arms)
        result[f"{key}, of S3A's"] = round(ours / theirs, 3)
    return result


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("home", type=Path)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--writes", type=int, default=6)
    given = options.parse_args()
    place = Home(given.home.absolute())
    raise SystemExit(report_result(place, "writes", run(place, given.rounds, given.writes)))
