"""Commands through a service: chosen by option or environment, refused where they would do something else here."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.cli import applications, main, sessions
from penstock.cli.options import SERVER_VARIABLE
from penstock.client import remote
from penstock.client.client import Uploads
from penstock.client.connection import Connection
from penstock.client.remote import RemoteEngine
from penstock.engine.policy.scheduling import Instance
from penstock.engine.tokens import Scope
from penstock.errors import InvalidInput
from penstock.model import Application, ApplicationSpec, Reason, State
from tests.unit.service.fakes import Stage

SERVICE = (
    "fastapi",
    "httpx",
    "pydantic",
    "starlette",
    "uvicorn",
)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[RemoteEngine, Stage]:
    stage = Stage(tmp_path)
    monkeypatch.setattr(remote, "_LOOK_SECONDS", 0.01)
    token = tmp_path / "token"
    token.write_text("penstock_1_x\n")
    monkeypatch.setenv("PENSTOCK_TOKEN_FILE", str(token))
    found = RemoteEngine("http://127.0.0.1:1")
    found._client._connection = Connection(stage.client(), "http://testserver")
    found._client._uploads = Uploads(found._client._connection)
    return found, stage


def submitted(engine: RemoteEngine, on_warning: Callable[[str], None] = lambda _: None) -> Application:
    spec = ApplicationSpec("s3a://lake/pi.py", engine.usual_size(), name="pi", settings={"spark.odd": "1"})
    application = engine.submit(spec, on_warning)
    assert application.spec.size == spec.size
    return application


def test_no_command_loads_what_only_a_service_or_its_client_needs() -> None:
    modules = sorted({f"penstock.cli.{command.module}" for command in main._COMMANDS.values()})
    program = (
        f"import importlib, sys\nfor name in {modules!r}: importlib.import_module(name)\n"
        f"print([name for name in {SERVICE!r} if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_a_command_about_this_machine_refuses_where_a_service_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SERVER_VARIABLE, "http://127.0.0.1:1")
    with pytest.raises(InvalidInput, match="penstock down works on this machine only"):
        main.command().main(["down"], standalone_mode=False)


@pytest.mark.parametrize(
    ("arguments", "works"),
    [
        (["lake", "list"], True),
        (["lake", "up"], False),
        (["lake", "add", "list"], False),
        (["cache", "status", "--json"], True),
        (["cache", "drop"], False),
        (["lake", "up", "--help"], True),
        (["run", "x.py"], True),
        (["wipe", "--yes"], False),
    ],
)
def test_of_some_commands_a_part_works_through_a_service(arguments: list[str], works: bool) -> None:
    assert main._COMMANDS[arguments[0]].works_through_a_service(arguments[1:]) is works


def test_what_the_service_warns_of_is_warned_of_here(engine: tuple[RemoteEngine, Stage]) -> None:
    warnings: list[str] = []
    submitted(engine[0], warnings.append)
    assert warnings == ["spark.odd is unusual"]


def test_an_application_is_followed_to_its_end_with_its_progress(engine: tuple[RemoteEngine, Stage]) -> None:
    target, stage = engine
    application = submitted(target)
    seen: list[tuple[State, Any]] = []

    def on_change(now: Application, observation: Any) -> None:
        seen.append((now.state, observation.progress if observation else None))
        stage.engine.end(application.id, State.FAILED)

    assert target.supervisor(application.id).run(application.id, on_change).state is State.FAILED
    assert [state for state, _ in seen] == [State.ACCEPTED, State.FAILED]


@pytest.mark.parametrize("command", [["run", "--detach", "s3a://lake/pi.py"], ["session", "start", "--detach"]])
def test_who_names_no_instance_submits_to_the_only_one_of_the_token(
    engine: tuple[RemoteEngine, Stage],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
) -> None:
    found, stage = engine
    stage.service.engine.queues.put(Instance("team-a"))
    found._client._connection = Connection(stage.client(Scope.SUBMIT, "team-a"), "http://testserver")
    monkeypatch.setenv(SERVER_VARIABLE, "http://127.0.0.1:1")
    for module in (applications, sessions):
        monkeypatch.setattr(module, "target", lambda: found)
    main.command().main(command, standalone_mode=False)
    assert stage.engine.get(capsys.readouterr().out.strip()).spec.instance == "team-a"


def test_interrupted_it_is_stopped_and_followed_on(engine: tuple[RemoteEngine, Stage]) -> None:
    target, _ = engine
    application = submitted(target)
    follower = target.supervisor(application.id)
    follower.stop(Reason("interrupted", "by Ctrl-C"))
    assert follower.run(application.id, lambda *_: None).state is State.STOPPED


def test_insisting_leaves_it_to_the_service(engine: tuple[RemoteEngine, Stage]) -> None:
    target, _ = engine
    application = submitted(target)
    follower = target.supervisor(application.id)
    follower.force_stop()
    with pytest.raises(KeyboardInterrupt):
        follower.run(application.id, lambda *_: None)


def test_two_interrupts_in_a_row_still_stop_the_application_on_the_service(engine: tuple[RemoteEngine, Stage]) -> None:
    target, stage = engine
    application = submitted(target)
    follower = target.supervisor(application.id)
    follower.stop(Reason("interrupted", "by Ctrl-C"))
    follower.force_stop()
    with pytest.raises(KeyboardInterrupt):
        follower.run(application.id, lambda *_: None)
    assert stage.engine.get(application.id).state is State.STOPPED


def test_what_a_driver_wrote_is_read_from_where_one_was_and_nothing_is_no_error(
    engine: tuple[RemoteEngine, Stage],
) -> None:
    target, stage = engine
    application = submitted(target)
    assert target.artifacts.read(application, "driver.out", 0) == b""
    stage.engine.logs[application.id, "driver.out"] = b"0123"
    assert target.artifacts.read(application, "driver.out", 2) == b"23"
    stage.engine.end(application.id)
    assert target.artifacts.read(application, "driver.err", 0) == b""
