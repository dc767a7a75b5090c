"""A session is an application like any other; only its owner finds its token."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.engine.interactive import session_server
from penstock.engine.interactive.sessions import (
    LocalExchange,
    SessionProtocol,
    SessionRequest,
    Sessions,
    arguments,
)
from penstock.errors import ClusterError, InvalidInput, NotFound, StateError
from penstock.model import Application, ApplicationSpec, ClusterSize, ProcessSize, Reason, State

SIZE = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(2, 1 << 30), 1)
AT = datetime(2026, 11, 21, tzinfo=timezone.utc)
TOKEN = "kept-from-everybody"


class Applications:
    """A stand-in for the engine: the submissions, and the files in the clusters' private directories."""

    def __init__(self) -> None:
        self.known: dict[str, Application] = {}
        self.private: dict[str, str] = {}

    def submit(self, spec: ApplicationSpec) -> Application:
        application = Application(f"app-{len(self.known)}", spec, State.ACCEPTED, submitted_at=AT)
        self.known[application.id] = application
        return application

    def get(self, application_id: str) -> Application:
        return self.known[application_id]

    def list(self, *, states=(), tags=(), instances=None, limit=None) -> list[Application]:
        return [
            application
            for application in self.known.values()
            if set(tags) <= set(application.spec.tags) and (not states or application.state in states)
        ]

    def forwarded_port(self, application: Application, port: int) -> int | None:
        return port

    def private_file(self, application: Application, name: str) -> str | None:
        return self.private.get(application.id) if name == "session.json" else None

    def become(self, application_id: str, state: State, reason: Reason | None = None) -> None:
        self.known[application_id] = replace(self.known[application_id], state=state, reason=reason)

    def listen(self, application_id: str) -> None:
        self.become(application_id, State.RUNNING)
        self.private[application_id] = json.dumps({"port": 4711, "token": TOKEN})


def submitted(applications: Applications, wanted: SessionRequest) -> Application:
    return applications.submit(wanted.specification())


@pytest.fixture
def applications() -> Applications:
    return Applications()


@pytest.fixture
def sessions(applications: Applications) -> Sessions:
    return Sessions(applications, applications)


def test_a_session_that_listens_has_an_address_with_its_token(sessions: Sessions, applications: Applications) -> None:
    session = submitted(applications, SessionRequest(SIZE))
    applications.listen(session.id)
    assert sessions.wait(session.id).port == 4711
    assert sessions.address(session.id) == f"sc://localhost:4711/;token={TOKEN}"


def test_a_session_for_bi_tools_has_a_jdbc_url(sessions: Sessions, applications: Applications) -> None:
    session = submitted(applications, SessionRequest(SIZE, protocol=SessionProtocol.JDBC))
    applications.listen(session.id)
    assert sessions.get(session.id).protocol is SessionProtocol.JDBC
    assert sessions.address(session.id) == f"jdbc:hive2://localhost:4711/;user=session;password={TOKEN}"


def test_a_session_of_an_earlier_version_speaks_spark_connect(sessions: Sessions, applications: Applications) -> None:
    spec = SessionRequest(SIZE).specification()
    session = applications.submit(replace(spec, arguments=spec.arguments[2:]))
    assert sessions.get(session.id).protocol is SessionProtocol.CONNECT


@pytest.mark.parametrize(
    ("protocol", "address"),
    [(SessionProtocol.CONNECT, "sc://localhost:4711"), (SessionProtocol.JDBC, "jdbc:hive2://localhost:4711/")],
)
def test_neither_record_nor_list_ever_holds_the_token(
    sessions: Sessions, applications: Applications, protocol: SessionProtocol, address: str
) -> None:
    session = submitted(applications, SessionRequest(SIZE, protocol=protocol))
    applications.listen(session.id)
    shown = [listed.to_json() for listed in sessions.list()]
    assert (shown[0]["protocol"], shown[0]["address"]) == (protocol.value, address)
    assert TOKEN not in json.dumps([shown, applications.get(session.id).to_json()])
    assert TOKEN not in repr(sessions.get(session.id))


def test_a_session_that_ended_before_it_listened_says_why(sessions: Sessions, applications: Applications) -> None:
    session = submitted(applications, SessionRequest(SIZE))
    applications.become(session.id, State.FAILED, Reason("too_large", "it needs 9 GiB"))
    with pytest.raises(ClusterError, match="it needs 9 GiB"):
        sessions.wait(session.id)


def test_a_session_that_waits_for_room_has_no_address_yet(sessions: Sessions, applications: Applications) -> None:
    session = submitted(applications, SessionRequest(SIZE))
    applications.become(session.id, State.WAITING, Reason("memory", "2 GiB are free"))
    with pytest.raises(StateError, match="2 GiB are free"):
        sessions.address(session.id)
    with pytest.raises(StateError):
        sessions.wait(session.id, timeout_seconds=0)


def test_a_token_left_by_a_killed_cluster_is_no_address(sessions: Sessions, applications: Applications) -> None:
    session = submitted(applications, SessionRequest(SIZE))
    applications.listen(session.id)
    applications.become(session.id, State.STOPPING)
    assert sessions.get(session.id).address is None


def test_only_sessions_are_listed_even_if_others_use_their_tag(sessions: Sessions, applications: Applications) -> None:
    session = submitted(applications, SessionRequest(SIZE))
    other = applications.submit(ApplicationSpec("/app.py", SIZE, "other", tags=("session",)))
    assert [listed.id for listed in sessions.list()] == [session.id]
    with pytest.raises(NotFound):
        sessions.get(other.id)


def test_ended_sessions_are_listed_only_on_request(sessions: Sessions, applications: Applications) -> None:
    session = submitted(applications, SessionRequest(SIZE))
    applications.become(session.id, State.FINISHED)
    assert sessions.list() == []
    assert [listed.id for listed in sessions.list(ended=True)] == [session.id]


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), 8 * 86400])
def test_an_idle_time_nobody_can_mean_is_refused(applications: Applications, seconds: float) -> None:
    with pytest.raises(InvalidInput):
        submitted(applications, SessionRequest(SIZE, idle_seconds=seconds))


@pytest.mark.parametrize(
    "setting",
    [
        {"spark.connect.grpc.binding.address": "0.0.0.0"},  # noqa: S104
        {"spark.connect.authenticate.token": "mine"},
        {"spark.hadoop.hive.server2.authentication": "NONE"},
        {"spark.hive.server2.thrift.bind.host": "0.0.0.0"},  # noqa: S104
    ],
)
def test_what_guards_a_session_cannot_be_set(applications: Applications, setting: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        submitted(applications, SessionRequest(SIZE, settings=setting))


def test_a_user_may_do_without_the_web_interface(applications: Applications) -> None:
    session = submitted(applications, SessionRequest(SIZE, settings={"spark.ui.enabled": "false"}))
    assert session.spec.settings["spark.ui.enabled"] == "false"


def test_only_the_owner_can_read_what_the_server_publishes(tmp_path: Path) -> None:
    file = tmp_path / "session.json"
    session_server.publish(file, port=4711, token=TOKEN)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text()) == {"port": 4711, "token": TOKEN}
    assert list(tmp_path.iterdir()) == [file]


def test_nobody_is_idle_while_work_is_under_way() -> None:
    idleness = session_server.Idleness(last_used=100.0)
    assert idleness.seconds(160.0, busy=False, last_request=None) == 60
    assert idleness.seconds(170.0, busy=True, last_request=None) == 0
    assert idleness.seconds(175.0, busy=False, last_request=120.0) == 5
    assert idleness.seconds(180.0, busy=False, last_request=178.0) == 2
    assert idleness.seconds(190.0, busy=False, last_request=None) == 12


class Objects(dict[str, bytes]):
    """A store of objects in memory."""

    def put(self, key: str, content: bytes) -> None:
        self[key] = content

    def get(self, key: str, default: Any = None, *, length: int | None = None) -> bytes:
        if key not in self:
            raise NotFound(f"There is no object {key}")
        return self[key][:length]

    def delete(self, key: str) -> None:
        del self[key]


def exchange(store: Objects) -> LocalExchange:
    lake = SimpleNamespace(name="near", root="s3a://bucket")
    return LocalExchange(SimpleNamespace(store=lambda _: store), lake)  # type: ignore[arg-type]


def test_line_separators_in_a_value_do_not_break_the_results(applications: Applications) -> None:
    results = [{"rows": [["a\u2028b\u2029c\u0085d\u000be\n"]]}, {"rows": [[2]]}]
    content = "".join(json.dumps(result, ensure_ascii=False) + "\n" for result in results)
    store = Objects({"results": content.encode()})
    ended = submitted(applications, SessionRequest(SIZE))
    assert exchange(store).take_results(ended, "results", "SELECT 1") == results
    assert "results" not in store


def test_results_that_cannot_be_parsed_stay_in_the_store(applications: Applications) -> None:
    store = Objects({"results": b'{"rows": '})
    with pytest.raises(ValueError, match="Expecting value"):
        exchange(store).take_results(submitted(applications, SessionRequest(SIZE)), "results", "SELECT 1")
    assert "results" in store


def statements_run(applications: Applications, source: str) -> Application:
    spec = ApplicationSpec("spark-internal", SIZE, "sql", arguments=arguments(output="o", limit=1, source=source))
    return applications.submit(spec)


def test_statements_are_found_whether_they_were_submitted_here_or_through_a_service(applications: Applications) -> None:
    here = statements_run(applications, "/home/penstock/cache/statements-1.sql")
    through_a_service = statements_run(applications, "s3a://bucket/penstock/uploads/ours/1/statements.sql")
    store = Objects({"results": b"", "penstock/uploads/ours/1/statements.sql": b"SELECT 2"})
    exchange(store).take_results(here, "results", "SELECT 1")
    assert exchange(store).stored_statements(here) == "SELECT 1"
    assert exchange(store).stored_statements(through_a_service) == "SELECT 2"


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("/home/penstock/cache/statements-1.sql", "its command ended before it had stored them"),
        ("s3a://bucket/penstock/uploads/ours/1/a.sql", "penstock/uploads/ours/1/a.sql no longer exists"),
        ("s3a://bucket/secrets/key", "its command ended"),
        ("s3a://bucket/penstock/uploads/../../secrets/key", "its command ended"),
    ],
)
def test_statements_that_are_gone_are_an_error_with_its_reason(
    applications: Applications, source: str, why: str
) -> None:
    store = Objects({"secrets/key": b"secret"})
    with pytest.raises(NotFound) as raised:
        exchange(store).stored_statements(statements_run(applications, source))
    assert why in raised.value.why
