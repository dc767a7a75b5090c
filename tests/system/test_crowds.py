"""Several applications at once from the threads of one process, as in the lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.clusters import machine
from penstock.engine.engine import Engine
from penstock.errors import ClusterError
from penstock.home import Home
from penstock.lab import conditions
from penstock.lab.environment import Environment
from penstock.lab.launchers import EngineLauncher
from penstock.lab.progress import TerminalProgress
from penstock.lab.records import Description, Recorder
from penstock.lab.session import Session, StoppedByFailure
from penstock.model import Application, ApplicationSpec, ClusterSize, ProcessSize, State
from tests.support.waiting import processes_of

# Announces itself, and ends once the other one has announced itself.
MEETS = """
import os, sys, time
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.sparkContext.parallelize(range(10), 2).count()
open(sys.argv[1], "w").close()
while not os.path.exists(sys.argv[2]):
    time.sleep(0.1)
spark.stop()
"""


def test_two_run_at_once_on_cores_promised_oftener_and_the_failure_of_one_leaves_nothing_of_the_other(
    shared_home: Home, tmp_path: Path
) -> None:
    from rich.console import Console

    size = ClusterSize(ProcessSize(machine.capacity().cores, 512 << 20), ProcessSize(1, 512 << 20), 1)
    script = tmp_path / "meets.py"
    script.write_text(MEETS, encoding="utf-8")
    engine = Engine(shared_home)
    lake = engine.lake()
    bench = Environment(shared_home, lake, engine.store(lake.name), engine)
    recorder = Recorder.begin(shared_home, Description("crowd", "crowd", "Penstock", "", ""))
    session = Session(bench, recorder, EngineLauncher(bench), TerminalProgress(Console()), size, "default", {})
    session = conditions.oversubscribed(session, 2)
    ids: dict[str, str] = {}
    ended: dict[str, Application] = {}

    def run(within: Session, name: str, waits_for: str) -> None:
        def on_change(application: Application, _: object) -> None:
            ids[name] = application.id
            if within.stopping.is_set():
                raise StoppedByFailure

        arguments = (str(tmp_path / name), str(tmp_path / waits_for))
        spec = ApplicationSpec(str(script), size, name, arguments=arguments)
        ended[name] = bench.run(spec, on_change, cores_per_core=within.cores_per_core)

    def fails_after_meeting(within: Session) -> None:
        run(within, "first", waits_for="second")
        raise ClusterError("it broke")

    with pytest.raises(ClusterError, match="it broke"):
        conditions.run_concurrently(
            session, [fails_after_meeting, lambda within: run(within, "second", waits_for="nothing")]
        )

    assert ended["first"].state is State.FINISHED, "it met the second, so both were running"
    assert engine.get(ids["second"]).state is State.STOPPED
    assert not processes_of(ids["second"])
