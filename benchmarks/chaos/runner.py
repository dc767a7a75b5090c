"""Jobs under faults, and proofs of every row: `python -m benchmarks.chaos.runner --seed 7 --jobs 200 --minutes 10`.

Each round runs three applications on real clusters, two that write and one that queries, over a lake behind gateways
that inject faults by a seeded plan, while processes are killed and stopped. A round with violations is repeated by its
own seed: `--seed 7/3 --rounds 1`. The rounds leave their records (journals, faults, supervisors' logs) in the directory
that the program prints at the end. The exit code is 1 where a proof does not hold.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from benchmarks.chaos import environment, report
from benchmarks.chaos.environment import Environment
from benchmarks.chaos.iterations import Result, make_base, run_with_faults, run_without_faults

JOBS_A_ROUND = 48
PROCESS_FAULTS_A_ROUND = 5
SUMMARY = "summary.json"


def iterations(
    here: Environment, directory: Path, *, seed: str, jobs: int, minutes: float, only: int | None = None
) -> Iterator[Result]:
    """Play rounds until `jobs` jobs have begun or the minutes are over, then a round without faults.

    A round that has begun is completed. `only` limits the number of rounds with faults.
    """
    (directory / "base").mkdir()
    make_base(here, directory / "base")
    deadline = time.monotonic() + minutes * 60
    done = played = 0
    while done < jobs and time.monotonic() < deadline and played != only:
        name = seed if only == 1 else f"{seed}/{played}"
        scratch = directory / f"round-{played}-{int(time.time())}"
        scratch.mkdir(parents=True)
        result = run_with_faults(
            here, name, scratch, jobs=min(JOBS_A_ROUND, jobs), process_faults=PROCESS_FAULTS_A_ROUND
        )
        done, played = done + result.jobs, played + 1
        yield result
    (directory / "peace").mkdir()
    yield run_without_faults(here, seed, directory / "peace")


def run(options: argparse.Namespace) -> list[Result]:
    if options.directory:
        options.directory.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="penstock-chaos-", dir=options.directory))
    results = []
    home = environment.existing_home(options.home) if options.home else environment.own_home(directory / "home")
    with home as found, environment.on(found, directory, lake=options.lake, disk_megabytes=options.small_disk) as here:
        for result in iterations(
            here, directory, seed=options.seed, jobs=options.jobs, minutes=options.minutes, only=options.rounds
        ):
            results.append(result)
            if options.json:
                print(json.dumps(asdict(result), default=str), flush=True)
            broken = sum(map(len, result.broken.values()))
            said = f"{result.jobs} jobs, {len(result.faults)} faults, {result.seconds:.0f} s"
            print(f"seed {result.seed}: {said}, {broken or 'no'} violations", file=sys.stderr, flush=True)
            # Written after each round, so that an interrupted run leaves it, too.
            (directory / SUMMARY).write_text(json.dumps(report.summary(results), indent=2) + "\n", encoding="utf-8")
    if options.json:
        print(json.dumps({"summary": report.summary(results)}))
    else:
        print(report.text(results))
    print(f"\nrecords: {directory} ({SUMMARY} has the tables)", file=sys.stderr)
    return results


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--seed",
        default=str(int(time.time())),
        help="seed of the work and of the faults; equal seeds play equal rounds",
    )
    parser.add_argument("--jobs", type=int, default=200, help="total number of writes and queries")
    parser.add_argument("--minutes", type=float, default=10.0, help="time after which no round begins")
    parser.add_argument("--rounds", type=int, help="largest number of rounds; with 1 the seed is the round's own")
    parser.add_argument("--lake", help="a lake of --home, such as ceph; the default is an embedded one")
    parser.add_argument("--home", type=Path, help="an existing state directory; the default is a new one")
    parser.add_argument(
        "--small-disk", type=int, default=0, metavar="MB", help="size of a disk that is filled at times (root)"
    )
    parser.add_argument(
        "--directory", type=Path, help="directory of the records; the default is the system's temporary one"
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print each round with its raw records as a line of JSON, and a last line with the summary",
    )
    results = run(parser.parse_args(arguments))
    return 1 if report.violations(results) else 0


if __name__ == "__main__":
    sys.exit(main())
