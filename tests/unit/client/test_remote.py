"""`penstock --server URL session …` against the API itself, in one process."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from penstock.cli import applications
from penstock.cli.sessions import tunnel
from penstock.client.remote import RemoteEngine, RemoteSessions
from penstock.engine.interactive.sessions import SessionProtocol, SessionRequest
from penstock.engine.policy.scheduling import Instance
from penstock.engine.tokens import Scope
from penstock.errors import ClusterError, Forbidden, NotFound, StateError
from penstock.model import ClusterSize, ProcessSize, State
from tests.unit.client.test_client import client_of
from tests.unit.service.fakes import Stage

WANTED = SessionRequest(
    ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(2, 2 << 30), 3),
    name="notebook",
    idle_seconds=90,
    settings={"spark.sql.shuffle.partitions": "7"},
    tags=("mine",),
    time_limit_seconds=3600,
)


def listening(stage: Stage, session_id: str) -> None:
    stage.engine.submitted[session_id] = replace(stage.engine.get(session_id), state=State.RUNNING)
    stage.engine.private[session_id] = json.dumps({"port": 4711, "token": "t0ken"})


def test_what_is_asked_for_is_what_the_engine_gets(stage: Stage) -> None:
    started = RemoteSessions(client_of(stage)).start(WANTED)
    assert stage.engine.get(started.id).spec == WANTED.specification()
    assert (started.idle_seconds, started.port) == (90, None)


@pytest.mark.parametrize("protocol", SessionProtocol)
def test_a_session_is_waited_for_and_found_as_on_its_own_machine(stage: Stage, protocol: SessionProtocol) -> None:
    sessions = RemoteSessions(client_of(stage))
    session_id = sessions.start(replace(WANTED, protocol=protocol)).id
    with pytest.raises(StateError):
        sessions.wait(session_id, timeout_seconds=0)
    listening(stage, session_id)
    assert sessions.wait(session_id).address == protocol.address(4711)
    assert sessions.address(session_id) == protocol.address_with(4711, "t0ken")
    assert [found.id for found in sessions.list(limit=5)] == [session_id]


def test_a_session_that_ends_before_it_listens_is_an_error_here_too(stage: Stage) -> None:
    sessions = RemoteSessions(client_of(stage))
    session_id = sessions.start(WANTED).id
    stage.engine.end(session_id, State.FAILED)
    with pytest.raises(ClusterError, match="has ended"):
        sessions.wait(session_id)


def test_a_reader_lists_sessions_without_their_tokens(stage: Stage) -> None:
    session_id = RemoteSessions(client_of(stage)).start(WANTED).id
    listening(stage, session_id)
    reader = RemoteSessions(client_of(stage, Scope.READ))
    assert [found.port for found in reader.list()] == [4711]
    with pytest.raises(Forbidden):
        reader.address(session_id)


@pytest.mark.parametrize("url", [None, "http://127.0.0.1:8998", "http://localhost:8998", "http://[::1]:8998"])
def test_on_the_session_s_own_machine_no_tunnel_is_needed(url: str | None) -> None:
    assert tunnel("sc://localhost:4711/;token=t", url) is None
    assert tunnel("jdbc:hive2://localhost:4711/;user=session;password=t", url) is None


def test_another_machine_gets_the_ssh_command_of_a_tunnel() -> None:
    assert (
        tunnel("sc://localhost:4711/;token=t", "https://spark.example:8998")
        == "ssh -L 4711:localhost:4711 spark.example"
    )


def test_statements_go_to_the_instance_of_the_token_and_have_its_engine(stage: Stage) -> None:
    stage.service.engine.queues.put(Instance("team-a"))
    stage.service.engine.queues.change("team-a", lambda found: found.with_engine("sail"))
    everywhere, ours = (RemoteEngine.__new__(RemoteEngine) for _ in range(2))
    everywhere._client, ours._client = client_of(stage), client_of(stage, Scope.SUBMIT, "team-a")
    assert everywhere.instance(None) == Instance("default")
    assert everywhere.instance("team-a") == ours.instance(None) == Instance("team-a").with_engine("sail")
    with pytest.raises(NotFound, match="no instance “team-b”") as refused:
        ours.instance("team-b")
    assert refused.value.why == "it is for team-a"


def test_a_program_is_run_again_by_the_service_which_has_its_files(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    remote = RemoteEngine.__new__(RemoteEngine)
    remote._client = client_of(stage)
    monkeypatch.setattr(applications, "target", lambda: remote)
    first = remote._client.submit("s3a://lake/pi.py", arguments=["1"])
    monkeypatch.setattr(remote._client, "submit_body", None)  # it would upload files of this machine
    applications.rerun(first.id, detach=True)
    assert capsys.readouterr().out.split() == ["app-2"]
    again = stage.engine.get("app-2").spec
    assert (again.application, again.arguments) == ("s3a://lake/pi.py", ("1",))
