"""The command: quick to start, clear about errors, and quiet about its own insides."""

from __future__ import annotations

import importlib
import os
import stat
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
import typer
from typer.testing import CliRunner

from penstock.cli import main, options
from penstock.errors import CatalogError, InvalidInput, NotFound
from penstock.model import ClusterSize, ProcessSize


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main.main(list(arguments))
    return ended.value.code  # type: ignore[return-value]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PENSTOCK_DEBUG", raising=False)
    return tmp_path / "home"


def test_the_overview_loads_none_of_the_commands() -> None:
    """Neither does it load what they need: each costs every call of the command."""
    code = "import sys, penstock.cli.main as m; m.command(); print([x for x in sys.modules if x.startswith('penst')])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "penstock.cli.applications" not in loaded
    assert "penstock.engine" not in loaded


HEAVY = set(
    """alembic boto3 botocore cryptography duckdb fastapi httpx jinja2 numpy pandas plotly psycopg pyarrow pydantic
    pyspark sqlalchemy uvicorn yaml""".split()  # noqa: SIM905
)


@pytest.mark.parametrize("call", ["import penstock", "import penstock.cli.main as m; m.main(['--help'])"])
def test_the_overview_loads_no_heavy_module(call: str) -> None:
    code = f"import atexit, sys\natexit.register(lambda: print('loaded', *sys.modules, file=sys.stderr))\n{call}"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    (loaded,) = [line.split() for line in ran.stderr.splitlines() if line.startswith("loaded ")]
    assert HEAVY & set(loaded) == set()
    assert ("Usage: penstock" in ran.stdout) == ("main" in call)


def test_launching_does_not_wait_for_what_only_the_end_needs() -> None:
    code = (
        "import sys, penstock.cli.applications\n"
        "print([x for x in ('boto3', 'botocore', 'alembic', 'rich') if x in sys.modules])"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "[]"


def test_a_users_mistake_is_explained_without_a_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("run", "/nowhere/a.py") == NotFound.exit_code
    said = capsys.readouterr().err
    assert "There is no file /nowhere/a.py" in said
    assert "why" in said
    assert "fix" in said
    assert "Traceback" not in said


def test_a_closed_pipe_ends_a_command_as_shells_expect() -> None:
    program = "import time; from penstock.cli import main; time.sleep(0.5); main.main(['cluster', 'example'])"
    with subprocess.Popen([sys.executable, "-u", "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as ran:
        assert ran.stdout is not None and ran.stderr is not None
        ran.stdout.close()
        said = ran.stderr.read()
    assert (ran.returncode, said) == (128 + 13, b"")


def test_a_defect_is_written_down_and_said_in_short(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise RuntimeError("the turbine is on fire")

    monkeypatch.setattr(main, "command", broken)
    assert run("run") == main.DEFECT_EXIT_CODE
    said = capsys.readouterr().err
    assert "the turbine is on fire" in said
    assert "Traceback" not in said
    (report,) = (home / "defects").iterdir()
    assert "Traceback" in report.read_text(encoding="utf-8")


def test_the_first_defect_does_not_open_the_state_directory_to_other_accounts(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main, "command", lambda: 1 / 0)
    before = os.umask(0o022)
    try:
        run("run")
    finally:
        os.umask(before)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (home, home / "defects")] == [0o700, 0o700]


def test_a_defect_is_said_where_the_state_directory_cannot_be_created(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home.write_text("a file")
    monkeypatch.setattr(main, "command", lambda: 1 / 0)
    assert run("run") == main.DEFECT_EXIT_CODE
    assert "PENSTOCK_DEBUG=1" in capsys.readouterr().err


def test_a_database_that_goes_away_in_the_middle_is_no_defect(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    importlib.import_module("penstock.engine.repository.applications")

    def cut_off() -> None:
        raise psycopg.OperationalError("connection to server at 127.0.0.1 failed\nIs the server running?")

    monkeypatch.setattr(main, "command", cut_off)
    assert run("apps") == CatalogError.exit_code
    said = capsys.readouterr().err
    assert "connection to server at 127.0.0.1 failed" in said
    assert "penstock up" in said
    assert "defect" not in said
    assert not (home / "defects").exists()


def test_nothing_of_a_refused_run_stays(home: Path) -> None:
    run("run", "/nowhere/a.py")
    assert not home.exists()


@pytest.mark.parametrize(("text", "found"), [("512m", 512 << 20), ("2g", 2 << 30), ("600", 600 << 20)])
def test_memory_is_read_as_spark_reads_it(text: str, found: int) -> None:
    assert options.memory(text, "--driver-memory") == found


@pytest.mark.parametrize("text", ["much", "-1g", "1.5g", ""])
def test_what_is_no_memory_size_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        options.memory(text, "--driver-memory")


def test_options_of_the_size_replace_the_usual_size_where_given() -> None:
    usual = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(2, 2 << 30), executors=3)
    found: list[ClusterSize] = []

    @options.sized(options.EVERY_SIZE)
    def command(name: str, *, sized: options.Sized) -> None:
        found.append(sized(usual))

    app = typer.Typer()
    app.command()(command)
    for arguments in ([], ["--executors", "5", "--driver-cores", "4", "--executor-memory", "512m"]):
        assert CliRunner().invoke(app, ["name", *arguments]).exit_code == 0
    assert found == [usual, ClusterSize(ProcessSize(4, 1 << 30), ProcessSize(2, 512 << 20), executors=5)]
    refused = CliRunner().invoke(app, ["name", "--driver-memory", "much"]).exception
    assert isinstance(refused, InvalidInput)
    assert "--driver-memory much is not a size" in refused.problem


def test_a_setting_may_hold_equal_signs() -> None:
    assert options.pairs(["spark.x=-Da=b -Dc=d"], "--conf") == {"spark.x": "-Da=b -Dc=d"}
    with pytest.raises(InvalidInput):
        options.pairs(["spark.x"], "--conf")
    with pytest.raises(InvalidInput):
        options.pairs(["a=1", "a=2"], "--conf")


def test_a_comma_in_a_files_own_name_is_no_separator(tmp_path: Path) -> None:
    odd = tmp_path / "a,b.jar"
    odd.touch()
    assert options.paths([str(odd), "c.jar,d.jar"]) == (str(odd), "c.jar", "d.jar")


def test_a_list_longer_than_any_file_name_is_a_list() -> None:
    names = [f"s3a://lake/jars/library-{number}.jar" for number in range(300)]
    assert options.paths([",".join(names)]) == tuple(names)


@pytest.mark.parametrize("text", ["http://localhost:84O0", "http://[::1", "localhost:8440"])
def test_a_mistyped_service_is_the_users_and_no_defect(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not a URL") as refused:
        options.service_url(text)
    assert options.SERVICE in refused.value.fix


def test_a_cluster_file_that_is_gone_is_the_users_and_no_defect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PENSTOCK_CLUSTER", str(tmp_path / "none.yaml"))
    assert run("cluster", "show") == InvalidInput.exit_code
    said = capsys.readouterr().err
    assert "none.yaml cannot be read" in said
    assert "No such file" in said
    assert "PENSTOCK_CLUSTER" in said
    (tmp_path / "none.yaml").write_bytes(b"\xff")
    assert run("cluster", "show") == InvalidInput.exit_code
