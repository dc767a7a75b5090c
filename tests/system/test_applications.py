"""Applications through the command, on real clusters over a real lake and catalog."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from penstock.cli import sql
from penstock.engine.engine import Engine
from penstock.model import State
from tests.support.command import SMALL, WAITS, Command, named, nothing_is_left

# Both ways: a result as a data frame in the driver, and a pandas function in the executors.
PANDAS = """
import pandas as pd
from pyspark.sql.functions import pandas_udf
frame = spark.range(0, 3, 1, 1).toPandas()
print(type(frame).__name__, sorted(frame["id"]), frame["id"].dtype)

@pandas_udf("long")
def square(numbers: pd.Series) -> pd.Series:
    return numbers * numbers

print(sorted(row[0] for row in spark.range(0, 3, 1, 1).select(square("id")).collect()))
spark.stop()
"""


def test_output_arguments_environment_and_pandas_are_there_and_everything_is_kept(
    penstock: Command, engine: Engine, script: Callable[[str], str], go: Path
) -> None:
    go.touch()
    whole = script(WAITS.replace("spark.stop()", PANDAS))
    code, out, err = penstock.run("run", *SMALL, "--name", "whole", whole, str(go), "--executors", 'ä "b" c')
    assert code == 0, err
    counted = "counted 10 ['--executors', 'ä \"b\" c']\ncounted again 10\n"
    assert out == f"{counted}DataFrame [0, 1, 2] int64\n[0, 1, 4]\n"
    assert "a word to err" in err
    assert "finished in" in err
    ended = named(engine, "whole")[0]
    kept = list(engine.artifacts.sizes(ended.id))
    assert {"driver.log", "driver.out", "driver.err", "executor-1.log", "summary.json"} <= set(kept)
    assert any(name.startswith("events/") for name in kept)
    assert ended.summary is not None
    assert ended.summary["tasks"] == 6
    assert ended.summary["peak_rss_bytes"] > 0
    assert penstock.run("logs", ended.id, "--stream", "out")[1] == out
    assert json.loads(penstock.run("show", ended.id, "--json")[1])["id"] == ended.id
    nothing_is_left(penstock.home, ended)


def test_a_failing_application_returns_its_own_exit_code_and_the_reason(
    penstock: Command, script: Callable[[str], str]
) -> None:
    code, _, err = penstock.run("run", *SMALL, script("import importlib\nimportlib.import_module('no_such_part')\n"))
    assert code == 1
    assert "the Python module “no_such_part” is missing" in err
    assert "--py-files" in err


def test_the_time_limit_ends_a_detached_application(
    penstock: Command, engine: Engine, script: Callable[[str], str], go: Path
) -> None:
    code, out, _ = penstock.run("run", *SMALL, "--detach", "--time-limit", "2s", script(WAITS), str(go))
    assert code == 0
    ended = engine.wait(out.strip(), timeout_seconds=120)
    assert ended.state is State.AUTO_TERMINATED
    assert ended.reason is not None
    assert ended.reason.code == "time_limit"
    nothing_is_left(penstock.home, ended)


def test_sql_answers_on_its_own_cluster_leaves_no_result_behind_and_keeps_its_statements_for_another_run(
    penstock: Command, engine: Engine
) -> None:
    def results() -> set[str]:
        return {found.key for found in engine.store(None).list("penstock/results/")}

    text = "SELECT 1 AS eins, 'zwei; ß' AS b; SELECT nope"
    # A client of the service may have left uploads in the same lake, to be fetched later.
    before = results()
    code, out, err = penstock.run("sql", *SMALL, "--format", "csv", text)
    assert code == 1
    assert out == "eins,b\n1,zwei; ß\n"
    assert "nope" in err
    assert "Traceback" not in err
    assert results() <= before
    assert not list((penstock.home.root / "cache").glob("statements-*"))
    # The newest application identifies it: `penstock sql` gives its application no name.
    assert sql.stored_statements(Engine(penstock.home), engine.list(limit=1)[0]) == text


def test_a_cluster_larger_than_the_machine_is_refused_with_one_that_fits(
    penstock: Command, script: Callable[[str], str]
) -> None:
    code, _, err = penstock.run("run", "--executors", "1000", "--executor-memory", "1g", script("print(1)"))
    assert code == 8
    assert "does not fit" in err
    assert "--executors" in err
