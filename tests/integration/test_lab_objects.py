"""The load generator against the embedded store, and against stores that fail in known ways."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from penstock.catalog.database import Database
from penstock.clusters import machine
from penstock.engine.policy import admission
from penstock.errors import PenstockError
from penstock.home import Home
from penstock.lab import runner
from penstock.lab.environment import Environment
from penstock.lab.experiment import Arm, MeasurementPlan
from penstock.lab.loadgen import null_store, processes, results
from penstock.lab.loadgen import workload as simple
from penstock.lab.loadgen.processes import StageResult
from penstock.lab.loadgen.statistics import UNFINISHED, WRONG_CONTENT, WRONG_LENGTH
from penstock.lab.loadgen.workload import Content, Limit, Numbers, Operation, OperationKind, Sizes, Stage, Targets, Work
from penstock.lab.records import Run
from penstock.lab.workloads.objects import Objects
from penstock.lake.embedded import EmbeddedLake
from penstock.lake.model import Credentials, Lake
from tests.unit.lab.lab_fakes import Silent

NOBODY = Credentials("nobody", "nothing")
SIZE = 20_000
TARGETS = Targets(Numbers(1, 1, in_turn=True), Numbers(1, 4, in_turn=True))


@pytest.fixture(scope="module")
def lake_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home with the embedded lake up. Its path has a space and a letter outside ASCII, as any user's may."""
    home = Home(tmp_path_factory.mktemp("Zuhause für Objekte"))
    EmbeddedLake(home).up()
    yield home
    EmbeddedLake(home).down()
    assert Database(home).status().state == "down"


def measured(home: Home, suite: Objects) -> Run:
    arms = [Arm("store", suite, admission.usual_size(machine.capacity()))]
    (run,) = runner.measure(lambda name: Environment.open(home, name), arms, MeasurementPlan(), Silent())
    return run


class TestEmbeddedStore:
    def test_every_operation_is_counted_and_its_contents_are_right(self, lake_home: Home) -> None:
        suite = Objects(
            mixes=("get=40,put=20,range=20,list=10,delete=10",),
            size="1k-100k", range_size="1k", objects=20, containers=2, workers=(4,), seconds=1.5,
        )  # fmt: skip
        run = measured(lake_home, suite)
        assert run.outcome == "ok"
        assert {sample["operation"] for sample in run.of_kind("measure")} == {kind.value for kind in OperationKind}
        assert all(sample["operations"] > 0 and not sample["errors"] for sample in run.of_kind("measure"))
        assert all(check["right"] for check in run.of_kind("check"))
        assert any("read back" in check["note"] for check in run.of_kind("check"))
        left = [
            found.key for found in Environment.open(lake_home).store.list("penstock/lab/") if "objects-1" in found.key
        ]
        assert not left

    def test_a_corrupted_object_is_found_and_the_run_is_wrong(self, lake_home: Home) -> None:
        bench = Environment.open(lake_home)

        class Corrupted(Objects):
            def repetition(self, session):  # type: ignore[no-untyped-def]
                prefix = session.key("objects")
                stop = threading.Event()

                def corrupt() -> None:
                    key = f"{prefix}/c1/o3"
                    while not stop.wait(0.05):
                        if any(True for _ in bench.store.list(key)):
                            content = bytearray(bench.store.get(key))
                            content[777] ^= 1
                            bench.store.put(key, bytes(content))
                            return

                thread = threading.Thread(target=corrupt)
                thread.start()
                try:
                    super().repetition(session)
                finally:
                    stop.set()
                    thread.join()

        run = measured(lake_home, Corrupted(size="8k", objects=4, workers=(2,), seconds=2))
        assert run.outcome == "wrong"
        (check,) = run.of_kind("check")
        assert "c1/o3 differs at byte" in check["note"]
        assert run.of_kind("errors")[0]["errors"][WRONG_CONTENT] > 0

    def test_a_cosbench_file_runs_and_its_credentials_are_in_no_record(self, lake_home: Home, tmp_path: Path) -> None:
        file = tmp_path / "load.xml"
        file.write_text(
            """<workload name="sample">
              <storage type="s3" config="accesskey=AKIAEXAMPLE;secretkey=verysecret;endpoint=http://192.0.2.1"/>
              <workflow>
                <workstage name="prepare"><work type="prepare" workers="2"
                  config="cprefix=b ü;containers=r(1,2);objects=r(1,5);sizes=u(1,9)KB"/></workstage>
                <workstage name="main"><work name="main" workers="3" totalOps="60">
                  <operation type="read" ratio="80" config="cprefix=b ü;containers=u(1,2);objects=u(1,5)"/>
                  <operation type="write" ratio="20"
                    config="cprefix=b ü;containers=u(1,2);objects=u(6,9);sizes=u(1,9)KB"/>
                </work></workstage>
                <workstage name="cleanup"><work type="cleanup" workers="2"
                  config="cprefix=b ü;containers=r(1,2);objects=r(1,9)"/></workstage>
              </workflow></workload>""",
            encoding="utf-8",
        )
        run = measured(lake_home, Objects(cosbench=str(file)))
        assert run.outcome == "ok"
        assert sum(sample["operations"] for sample in run.of_kind("measure")) == 60
        recorded = "".join(
            path.read_text(encoding="utf-8") for path in (lake_home.root / "lab" / run.description.id).iterdir()
        )
        assert "verysecret" not in recorded
        assert "AKIAEXAMPLE" not in recorded


Answer = Callable[[BaseHTTPRequestHandler, bytes], None]


@contextmanager
def store(answer: Answer) -> Iterator[str]:
    """A gateway on the loopback whose GETs are answered by `answer`, which receives the right content."""
    content = Content(seed=1)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            name = self.path.removeprefix("/bucket/p/")
            answer(self, content.piece(Content.place(name, SIZE), 0, SIZE))

        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            send(self, b"")

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def send(handler: BaseHTTPRequestHandler, body: bytes, *, status: int = 200, length: int | None = None) -> None:
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(body) if length is None else length))
    handler.end_headers()
    handler.wfile.write(body)


def flipped(body: bytes) -> bytes:
    return body[:-5] + bytes([body[-5] ^ 1]) + body[-4:]


def reading(
    *endpoints: str,
    limit: Limit | None = None,
    workers: int = 2,
    sizes: Sizes | None = None,
    grace: float = 10,
    credentials: Credentials = NOBODY,
) -> StageResult:
    get = Operation(OperationKind.GET, 1, TARGETS, sizes)
    stage = Stage("main", (Work("main", workers, (get,), limit or Limit(operations=8)),))
    lake = Lake("test", endpoints, "bucket", "environment")
    with processes.open_generator(lake, credentials, prefix="p", seed=1, processes=1, grace_seconds=grace) as generator:
        return generator.run(stage, lambda *_: None)


def denied(handler: BaseHTTPRequestHandler, _: bytes) -> None:
    send(handler, b"<Error><Code>SlowDown</Code><Message>later</Message></Error>", status=503)


def broken_off(handler: BaseHTTPRequestHandler, body: bytes) -> None:
    send(handler, body[:1000], length=SIZE)
    handler.close_connection = True


@pytest.mark.parametrize("sizes", [None, Sizes.constant(SIZE)], ids=["size unknown", "size known"])
@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (send, None),
        (lambda handler, body: send(handler, flipped(body)), WRONG_CONTENT),
        (lambda handler, body: send(handler, b""), WRONG_LENGTH),
        (lambda handler, body: send(handler, b"<Error><Code>NoSuchKey</Code></Error>", status=404), "missing object"),
        (denied, "overloaded"),
        (broken_off, "connection broken"),
    ],
    ids=["right", "flipped", "empty", "missing", "overloaded", "broken off"],
)
def test_each_failure_is_counted_as_what_it_is(answer: Answer, kind: str | None, sizes: Sizes | None) -> None:
    with store(answer) as endpoint:
        (((tally,),),) = (reading(endpoint, sizes=sizes).tallies,)
    assert dict(tally.errors) == ({kind: 8} if kind else {})
    assert tally.operations == (0 if kind else 8)


def test_a_shortened_object_is_found_and_where_its_size_is_known_that_is_said() -> None:
    with store(lambda handler, body: send(handler, body[:-1])) as endpoint:
        (((unknown,),),) = (reading(endpoint).tallies,)
        (((tally,),),) = (reading(endpoint, sizes=Sizes.constant(SIZE)).tallies,)
    assert dict(unknown.errors) == {WRONG_CONTENT: 8}
    assert dict(tally.errors) == {WRONG_LENGTH: 8}
    assert "19999 bytes instead of 20000" in tally.first_error[WRONG_LENGTH]


def test_a_store_that_does_not_answer_is_cut_off_and_the_run_ends_in_time() -> None:
    hanging = threading.Event()
    with store(lambda handler, body: send(handler, body) if hanging.wait(600) else None) as endpoint:
        (((tally,),),) = (reading(endpoint, limit=Limit(seconds=0.5), grace=1).tallies,)
        hanging.set()
    assert dict(tally.errors) == {UNFINISHED: 2}


def test_a_store_that_is_gone_is_not_hammered() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        result = reading(f"http://127.0.0.1:{unused.getsockname()[1]}", limit=Limit(seconds=1.0))
    assert result.errors().keys() == {"cannot connect"}
    assert result.errors()["cannot connect"] < 40


def test_workers_are_spread_over_all_gateways() -> None:
    seen: list[str] = []
    lock = threading.Lock()

    def counting(name: str) -> Answer:
        def answer(handler: BaseHTTPRequestHandler, body: bytes) -> None:
            with lock:
                seen.append(name)
            send(handler, body)

        return answer

    with store(counting("a")) as first, store(counting("b")) as second:
        result = reading(first, second, limit=Limit(operations=40), workers=4)
    assert not result.errors()
    assert seen.count("a") == seen.count("b") == 20


def test_a_process_that_dies_fails_the_run_and_leaves_none_behind() -> None:
    stage = Stage("main", (Work("main", 2, (Operation(OperationKind.GET, 1, TARGETS),), Limit(seconds=30)),))
    with store(send) as endpoint:
        lake = Lake("test", (endpoint,), "bucket", "environment")
        children: list[int] = []
        with (
            pytest.raises(PenstockError, match="process of the load generator died"),
            processes.open_generator(lake, NOBODY, prefix="p", seed=1, processes=2) as generator,
        ):
            children += [child.process.pid or 0 for child in generator._children]
            threading.Timer(1.0, os.kill, (children[0], signal.SIGKILL)).start()
            generator.run(stage, lambda *_: None)
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]


def test_ctrl_c_is_left_to_the_command_from_a_process_s_first_moment_on() -> None:
    stage = Stage("main", (Work("main", 2, (Operation(OperationKind.GET, 1, TARGETS),), Limit(operations=8)),))
    with store(send) as endpoint:
        lake = Lake("test", (endpoint,), "bucket", "environment")
        with processes.open_generator(lake, NOBODY, prefix="p", seed=1, processes=2) as generator:
            for child in generator._children:
                os.kill(child.process.pid or 0, signal.SIGINT)
            result = generator.run(stage, lambda *_: None)
    assert result.operations == 8
    assert not result.errors()


def test_a_session_token_is_sent_and_signed() -> None:
    seen: list[tuple[str | None, str]] = []

    def noting(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        seen.append((handler.headers["x-amz-security-token"], handler.headers["Authorization"]))
        send(handler, body)

    with store(noting) as endpoint:
        reading(endpoint, limit=Limit(operations=1), credentials=Credentials("someone", "secret", "a-token"))
    (token, authorization), *_ = seen
    assert token == "a-token"
    signed = authorization.split("SignedHeaders=")[1].split(",")[0].split(";")
    assert {"host", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token"} <= set(signed)


def test_an_object_that_was_acknowledged_and_is_not_there_makes_the_check_wrong() -> None:
    def forgetful(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        if handler.path.endswith("o3"):
            send(handler, b"<Error><Code>NoSuchKey</Code></Error>", status=404)
        else:
            send(handler, body)

    put = Operation(OperationKind.PUT, 1, TARGETS, Sizes.constant(SIZE))
    stage = Stage("main", (Work("main", 2, (put,), Limit(operations=8)),))
    with store(forgetful) as endpoint:
        lake = Lake("test", (endpoint,), "bucket", "environment")
        with processes.open_generator(lake, NOBODY, prefix="p", seed=1, processes=2) as generator:
            written = generator.run(stage, lambda *_: None)
            after = results.read_back_stage(written)
            assert after is not None
            found = results.read_back_check(written, generator.run(after, lambda *_: None))
    assert len(written.written) == 4
    assert not found["right"]
    assert "of 4 acknowledged objects 1 are missing" in found["note"]
    assert "c1/o3" in found["note"]


def test_the_ceiling_is_found_with_contents_that_are_right() -> None:
    options = simple.SimpleOptions(
        mixes=(
            {
                OperationKind.GET: 3.0,
                OperationKind.PUT: 3.0,
                OperationKind.RANGE: 2.0,
                OperationKind.LIST: 1.0,
                OperationKind.DELETE: 1.0,
            },
        ),
        sizes=simple.parse_object_sizes("1k-3m"), objects=10, containers=2, workers=(4,), seconds=1, range_bytes=5000,
    )  # fmt: skip
    workload = simple.simple_workload(options)
    lake = Lake("test", ("http://127.0.0.1:1",), "bucket", "environment")
    canned = null_store.NullStoreConfig.of(workload, seed=1, bucket="bucket", prefix="p")
    with null_store.null_store_gateways(lake, canned, processes=2) as null:
        assert len(null.endpoints) == 2
        with processes.open_generator(replace(null), NOBODY, prefix="p", seed=1, processes=2) as generator:
            result = generator.run(workload.stages[-1], lambda *_: None)
    assert not result.errors()
    assert all(tally.operations for work in result.tallies for tally in work)
