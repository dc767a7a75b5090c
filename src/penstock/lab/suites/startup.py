"""From submission to the first task: Penstock against plain Spark, in one process and with separate executors.

Every arm runs the same application (one SQL statement of two tasks) with the settings of the same profile. The clock
starts just before the command a user would type is started, so each arm pays for its own command line too.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from penstock.errors import ClusterError, MissingRequirement
from penstock.lab import matrix
from penstock.lab.bench import Bench
from penstock.lab.plain import Ended, PlainSpark, one_process, separate_executors
from penstock.lab.progress import Listener
from penstock.lab.records import Recorder, Run, new_run_id
from penstock.model import ClusterSize
from penstock.profiles.layers import resolve
from penstock.profiles.workloads import layers_of
from penstock.runtime.jvm import penstock_jars
from penstock.units import MIB

WORKLOAD = "startup"
PENSTOCK = "Penstock"
ONE_PROCESS = "plain Spark, one process"
SEPARATE = "plain Spark, separate executors"
ARMS = (PENSTOCK, ONE_PROCESS, SEPARATE)

_MAIN = "io.penstock.sql.SqlRunner"
_STATEMENT = "SELECT sum(id) FROM range(0, 1000, 1, 2)"


def measure(bench: Bench, *, size: ClusterSize, repetitions: int, profile: str, listener: Listener) -> list[Run]:
    """One run per arm, all of one experiment. The first start of each arm is warm-up: it fills the file cache.

    A start that fails is recorded as failed and counted in no time.
    """
    experiment = new_run_id(WORKLOAD, "experiment")
    settings = resolve(layers_of(profile), size).values()
    recorders = {
        arm: Recorder.begin(
            bench.home,
            bench.describe(
                WORKLOAD,
                arm,
                size=size,
                profile=profile,
                settings=settings,
                experiment=experiment,
                options={"repetitions": repetitions, "statement": _STATEMENT},
            ),
        )
        for arm in ARMS
    }
    jar = _jar_of(_MAIN)
    listener.step(f"Start {repetitions} times in each of {len(ARMS)} ways, in turns")
    with PlainSpark.prepared(bench.home, bench.lake) as plain, tempfile.TemporaryDirectory() as scratch:
        statements = Path(scratch) / "statement.sql"
        statements.write_text(_STATEMENT, encoding="utf-8")

        def submit_plain(master: str, output: Path) -> tuple[int, int]:
            ended = plain.submit(
                master=master,
                size=size,
                jar=jar,
                main_class=_MAIN,
                arguments=_arguments(statements, output),
                settings=settings,
                seen=lambda _: None,
            )
            return ended.submitted_ms, _first_task_ms(ended)

        ways: dict[str, Callable[[Path], tuple[int, int]]] = {
            PENSTOCK: lambda output: _through_penstock(bench, size, profile, jar, _arguments(statements, output)),
            ONE_PROCESS: lambda output: submit_plain(one_process(size), output),
            SEPARATE: lambda output: submit_plain(separate_executors(size), output),
        }
        total = (repetitions + 1) * len(ARMS)
        for number, (repetition, arm) in enumerate(matrix.turns(ARMS, repetitions + 1)):
            listener.now(f"{arm}, {number + 1} of {total}")
            _record(recorders[arm], repetition - 1, partial(ways[arm], Path(scratch) / f"out-{number}"))
    for recorder in recorders.values():
        recorder.add("end", outcome="failed" if recorder.run().of_kind("failure") else "ok")
        recorder.publish(bench.store)
    return [recorder.run() for recorder in recorders.values()]


def _record(recorder: Recorder, repetition: int, start: Callable[[], tuple[int, int]]) -> None:
    try:
        submitted, first_task = start()
    except ClusterError as error:
        recorder.add("failure", repetition=repetition, error=str(error))
        return
    kind = "start" if repetition > 0 else "warmup"
    recorder.add(kind, repetition=repetition, submitted_ms=submitted, first_task_ms=first_task)


def _through_penstock(
    bench: Bench, size: ClusterSize, profile: str, jar: Path, arguments: tuple[str, ...]
) -> tuple[int, int]:
    """As a user does it: the command line, in a process of its own."""
    name = f"start-up {time.time_ns()}"
    command = [
        *(sys.executable, "-m", "penstock.cli.main", "run"),
        *("--class", _MAIN, "--name", name, "--profile", profile, "--lake", bench.lake.name),
        *("--driver-cores", str(size.driver.cores), "--driver-memory", f"{size.driver.memory_bytes // MIB}m"),
        *("--executors", str(size.executors), "--executor-cores", str(size.executor.cores)),
        *("--executor-memory", f"{size.executor.memory_bytes // MIB}m", str(jar), *arguments),
    ]
    submitted = int(time.time() * 1000)
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise ClusterError("penstock run failed", why="\n".join(done.stderr.splitlines()[-10:]))
    application = next(found for found in bench.engine.list() if found.spec.name == name)
    return submitted, int((application.summary or {})["first_task_launched_ms"])


def _arguments(statements: Path, output: Path) -> tuple[str, ...]:
    return ("--statements-file", str(statements), "--output", output.as_uri())


def _first_task_ms(ended: Ended) -> int:
    if ended.exit_code != 0 or ended.first_task_ms is None:
        raise ClusterError(f"spark-submit ended with exit code {ended.exit_code}", why=ended.output)
    return ended.first_task_ms


def _jar_of(main_class: str) -> Path:
    entry = main_class.replace(".", "/") + ".class"
    for jar in sorted(penstock_jars().glob("penstock-*.jar")):
        with zipfile.ZipFile(jar) as archive:
            if entry in archive.namelist():
                return jar
    raise MissingRequirement(f"No jar of Penstock holds {main_class}", fix="make setup")
