"""The client against the API itself, in one process: submissions, followed logs, retries and errors."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from penstock import Client
from penstock.client import connection
from penstock.client.client import Uploads
from penstock.client.connection import Connection, connect
from penstock.engine.tokens import Scope
from penstock.errors import Forbidden, InvalidInput, NotFound, ServiceError, Unauthenticated
from penstock.model import State
from tests.unit.service.fakes import Stage


def client_of(stage: Stage, scope: Scope = Scope.SUBMIT, *instances: str) -> Client:
    client = Client("http://127.0.0.1:1", token="none")
    client._connection = Connection(stage.client(scope, *instances), "http://testserver")
    client._uploads = Uploads(client._connection)
    return client


def test_what_is_submitted_comes_back_as_the_engines_own_application(stage: Stage) -> None:
    client = client_of(stage)
    accepted = client.submit("s3a://lake/pi.py", arguments=["1"], executors=2, executor_memory="2g", tags=["a"])
    assert accepted.spec == stage.engine.get(accepted.id).spec
    assert (accepted.spec.size.executors, accepted.spec.size.executor.memory_bytes) == (2, 2 << 30)
    assert client.application(accepted.id).state is State.ACCEPTED


def test_lists_go_on_over_pages(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    client = client_of(stage)
    for _ in range(3):
        client.submit("s3a://lake/pi.py")
    original = client._connection.json
    asked: list[Any] = []

    def json(method: str, path: str, **options: Any) -> Any:
        asked.append(options["params"].get("page"))
        return {**original(method, path, **options), "next": "more" if len(asked) == 1 else None}

    monkeypatch.setattr(client._connection, "json", json)
    assert len(list(client.applications())) == 6
    assert asked == [None, "more"]


def test_errors_are_the_engines_own_classes(stage: Stage) -> None:
    with pytest.raises(NotFound, match="no application “x”"):
        client_of(stage).application("x")
    with pytest.raises(Forbidden) as refused:
        client_of(stage, Scope.READ).submit("s3a://lake/pi.py")
    assert refused.value.fix


def test_a_log_is_followed_from_one_attempt_to_the_next(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    client = client_of(stage)
    accepted = client.submit("s3a://lake/a.py")
    stage.engine.submitted[accepted.id] = replace(accepted, attempt=2)
    asked = []

    def follow(_: str, *, start: int = 0, tail: int | None = None, attempt: int | None = None) -> Any:
        asked.append((start, tail, attempt))
        yield b"of %d\n" % (attempt or 1)
        return attempt or 1

    monkeypatch.setattr(client._connection, "follow", follow)
    assert b"".join(client.follow(accepted.id, start=3)) == b"of 1\nof 2\n"
    assert asked == [(3, None, None), (0, None, 2)]


def test_a_log_is_followed_to_the_end(stage: Stage) -> None:
    client = client_of(stage)
    accepted = client.submit("s3a://lake/pi.py")
    stage.engine.logs[accepted.id, "driver.log"] = b"one\ntwo\n"
    stage.engine.end(accepted.id)
    assert b"".join(client.follow(accepted.id, tail=1)) == b"two\n"
    assert client.log(accepted.id, start=4) == b"two\n"
    assert client.wait(accepted.id).state is State.FINISHED


def test_a_stream_that_breaks_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_PAUSE_SECONDS", 0.0)
    log, asked = b"0123456789", []

    class Breaking(httpx.SyncByteStream):
        def __init__(self, content: bytes, *, whole: bool) -> None:
            self._content, self._whole = content, whole

        def __iter__(self) -> Any:
            yield self._content
            if not self._whole:
                raise httpx.ReadError("gone")

    def answer(request: httpx.Request) -> httpx.Response:
        start = int(request.url.params.get("start", 2))  # `tail` begins at the position in the header
        asked.append(dict(request.url.params))
        content = log[start : start + 3]
        whole = start + 3 >= len(log)
        headers = {"Penstock-Log-Start": str(start), "Penstock-Log-Attempt": "2"}
        return httpx.Response(200, headers=headers, stream=Breaking(content, whole=whole))

    followed = Connection(httpx.Client(base_url="http://x", transport=httpx.MockTransport(answer)), "http://x")
    assert b"".join(followed.follow("/log", start=0, tail=8)) == log[2:]
    assert [(found.get("start"), found.get("attempt")) for found in asked] == [(None, None), ("5", "2"), ("8", "2")]


def test_a_submission_without_an_answer_is_repeated_with_the_same_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_PAUSE_SECONDS", 0.0)
    keys = []

    def answer(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["idempotency-key"])
        raise httpx.ReadError("gone")

    client = Client("http://127.0.0.1:1", token="t")
    client._connection = Connection(
        httpx.Client(base_url="http://x", transport=httpx.MockTransport(answer)), "http://x"
    )
    client._uploads = Uploads(client._connection)
    with pytest.raises(ServiceError, match="does not answer"):
        client.submit("s3a://lake/pi.py")
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_a_call_that_may_not_be_repeated_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        raise httpx.ReadError("gone")

    once = Connection(httpx.Client(base_url="http://x", transport=httpx.MockTransport(answer)), "http://x")
    with pytest.raises(ServiceError):
        once.json("POST", "/v1/tokens", json={})
    assert len(asked) == 1


def test_what_is_no_service_of_ours_is_said_so() -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(404, text="<html>")

    stranger = Connection(httpx.Client(base_url="http://x", transport=httpx.MockTransport(answer)), "http://x")
    with pytest.raises(ServiceError, match="not a Penstock service"):
        stranger.json("GET", "/v1/self")


def test_a_file_of_this_machine_is_uploaded_once_by_its_content(tmp_path: Path) -> None:
    file = tmp_path / "my job.py"
    file.write_text("print(1)")
    digest = hashlib.sha256(b"print(1)").hexdigest()
    stored: dict[str, bytes] = {}

    def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if request.method == "PUT":
            stored[path] = request.read()
        if path not in stored:
            return httpx.Response(404, json={"problem": "no", "code": "not_found"})
        return httpx.Response(200, json={"address": f"s3a://lake{path}"})

    uploads = Uploads(Connection(httpx.Client(base_url="http://x", transport=httpx.MockTransport(answer)), "http://x"))
    for _ in range(2):
        sent = uploads.uploaded({"application": str(file), "jars": ["s3a://lake/a.jar"]})
        assert sent["application"] == f"s3a://lake/v1/files/{digest}/my_job.py"
        assert (sent["name"], sent["jars"]) == ("my job.py", ["s3a://lake/a.jar"])
    assert stored == {f"/v1/files/{digest}/my_job.py": b"print(1)"}
    with pytest.raises(NotFound, match="no file"):
        uploads.uploaded({"application": str(tmp_path / "other.py")})


@pytest.mark.parametrize("url", ["http://example.org", "ftp://127.0.0.1", "127.0.0.1:8440", "", "http://u:p@127.0.0.1"])
def test_no_token_goes_where_it_could_be_read(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_SERVER", raising=False)
    with pytest.raises(InvalidInput):
        connect(url, token="t")


def test_the_token_comes_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))
    with pytest.raises(Unauthenticated, match="no token in"):
        connect("http://127.0.0.1:1")
    (tmp_path / "service").mkdir()
    (tmp_path / "service" / "admin.token").write_text("penstock_1_x\n")
    connect("http://127.0.0.1:1").close()
    monkeypatch.delenv("PENSTOCK_TOKEN_FILE", raising=False)
    with pytest.raises(Unauthenticated):
        connect("https://example.org")  # this machine's token is not sent to another one's service


def test_a_service_that_starts_again_is_waited_for_longer_than_one_that_never_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "_PAUSE_SECONDS", 0.0)
    answers = iter([200, *[503] * 6, 200])

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(next(answers), json={"problem": "busy", "code": "service_error"})

    known = Connection(httpx.Client(base_url="http://x", transport=httpx.MockTransport(answer)), "http://x")
    for _ in range(2):
        assert known.json("GET", "/v1/self")["problem"] == "busy"
    assert next(answers, None) is None


def test_a_proxy_that_is_overloaded_is_not_taken_for_a_strangers_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_PAUSE_SECONDS", 0.0)
    busy = httpx.MockTransport(lambda _: httpx.Response(503, text="Service Unavailable"))
    with pytest.raises(ServiceError, match="is overloaded"):
        Connection(httpx.Client(base_url="http://x", transport=busy), "http://x").json("GET", "/v1/self")


@pytest.mark.parametrize("status", [302, 307, 304])
def test_a_redirect_is_not_taken_for_success(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    monkeypatch.setattr(connection, "_PAUSE_SECONDS", 0.0)
    elsewhere = httpx.MockTransport(lambda _: httpx.Response(status, headers={"Location": "https://login.example/"}))
    redirected = Connection(httpx.Client(base_url="http://x", transport=elsewhere), "http://x")
    with pytest.raises(ServiceError, match="not a Penstock service") as refused:
        redirected.json("DELETE", "/v1/tokens/1")
    assert refused.value.why.startswith(f"it answered {status}")
    with pytest.raises(ServiceError):
        list(redirected.follow("/log"))


def test_a_login_page_in_place_of_json_is_no_defect(tmp_path: Path) -> None:
    page = httpx.MockTransport(lambda _: httpx.Response(200, text="<html>"))
    stranger = Connection(httpx.Client(base_url="http://x", transport=page), "http://x")
    (tmp_path / "a.jar").touch()
    with pytest.raises(ServiceError, match="not a Penstock service"):
        stranger.json("GET", "/v1/self")
    with pytest.raises(ServiceError, match="not a Penstock service"):
        stranger.put_file("/v1/files/1/a.jar", tmp_path / "a.jar", params={})


@pytest.mark.parametrize("token", ["s3cret\nmore", "s3 cret", "s3crét", " \n"])
def test_no_error_quotes_a_token_that_cannot_be_sent(token: str) -> None:
    with pytest.raises(Unauthenticated) as refused:
        connect("http://127.0.0.1:1", token=token)
    assert "s3" not in str(refused.value)


def test_a_token_that_was_read_with_its_end_of_line_is_sent_without_it() -> None:
    connected = connect("http://127.0.0.1:1", token=" penstock_1_x\n")
    assert connected._client.headers["Authorization"] == "Bearer penstock_1_x"


@pytest.mark.parametrize("url", ["http://localhost:84O0", "http://[::1", "http://localhost:99999", "https://1.2.3.999"])
def test_a_mistyped_address_is_the_users_and_no_defect(url: str) -> None:
    with pytest.raises(InvalidInput, match="is not the address of a service") as refused:
        connect(url, token="t")
    assert refused.value.why and "--server" in refused.value.fix
