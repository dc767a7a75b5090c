"""WebHDFS as an object store: keys and their order, and a misbehaving server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from penstock.errors import InvalidInput, LakeError, MissingRequirement, NotFound
from penstock.lake.hdfs import webhdfs
from penstock.lake.hdfs.webhdfs import HdfsObjectStore
from penstock.lake.model import NO_CREDENTIALS, HdfsClient, Lake
from penstock.processes import free_ports


class NameNode(BaseHTTPRequestHandler):
    """A server that answers an operation with the status and body in `answers`."""

    answers: dict[str, tuple[int, Any]]
    asked: list[str]
    dead: list[int]
    """Ports without a listener, announced as the DataNodes' before the real one."""
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        operation = parse_qs(parts.query)["op"][0]
        self.asked.append(f"{operation} {parts.path}")
        found = self.answers[operation]
        status, body = found(parts.path) if callable(found) else found
        if operation in ("OPEN", "CREATE") and "noredirect" in parts.query:
            port = self.dead.pop() if self.dead else self.server.server_address[1]
            status, body = 200, {"Location": f"http://datanode-1.invalid:{port}{parts.path}?op={operation}"}
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_PUT = do_DELETE = _answer  # noqa: N815

    def log_message(self, *_: object) -> None: ...


@contextmanager
def answering(*, dead: int = 0, **answers: Any) -> Iterator[tuple[HdfsObjectStore, list[str]]]:
    asked: list[str] = []
    handler = type("Handler", (NameNode,), {"answers": answers, "asked": asked, "dead": free_ports(dead)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield HdfsObjectStore(lake(server.server_address[1])), asked
    finally:
        server.shutdown()
        server.server_close()


def lake(port: int) -> Lake:
    client = HdfsClient("127.0.0.1:1", 1, short_circuit=False)
    return Lake("hdfs", (f"http://127.0.0.1:{port}",), "hdfs", NO_CREDENTIALS, "hdfs", hdfs=client)


def entry(name: str, kind: str = "FILE") -> dict[str, Any]:
    return {"pathSuffix": name, "type": kind, "length": 1, "modificationTime": 1000, "fileId": 7}


def listing(*entries: dict[str, Any]) -> tuple[int, Any]:
    return 200, {"FileStatuses": {"FileStatus": list(entries)}}


def test_keys_come_in_the_order_of_a_store_without_directories() -> None:
    tree = {
        "/webhdfs/v1/": listing(entry("a", "DIRECTORY"), entry("a-b"), entry("a0"), entry("Z")),
        "/webhdfs/v1/a": listing(entry("1"), entry("ü")),
    }
    with answering(LISTSTATUS=tree.__getitem__) as (store, _):
        assert [found.key for found in store.list("")] == ["Z", "a-b", "a/1", "a/ü", "a0"]


def test_a_listing_asks_only_of_directories_that_can_hold_the_prefix() -> None:
    tree = {
        "/webhdfs/v1/a": listing(entry("bc", "DIRECTORY"), entry("x", "DIRECTORY")),
        "/webhdfs/v1/a/bc": listing(entry("1")),
    }
    with answering(LISTSTATUS=tree.__getitem__) as (store, asked):
        assert [found.key for found in store.list("a/b")] == ["a/bc/1"]
        assert len(asked) == 2


def test_what_is_not_whole_yet_is_not_listed() -> None:
    with answering(LISTSTATUS=listing(entry("._penstock_0123"), entry("whole"))) as (store, _):
        assert [found.key for found in store.list("")] == ["whole"]


def test_a_directory_that_is_not_there_is_an_empty_listing() -> None:
    with answering(LISTSTATUS=(404, {})) as (store, _):
        assert list(store.list("none/")) == []


@pytest.mark.parametrize("key", ["", "/a", "a//b", "a/../b", "a:b", "x" * 256, "a/"])
def test_what_an_hdfs_cannot_keep_is_the_users_mistake(key: str) -> None:
    with pytest.raises(InvalidInput):
        HdfsObjectStore(lake(1)).put(key, b"")


def test_a_directory_is_no_object() -> None:
    status = (200, {"FileStatus": entry("", "DIRECTORY")})
    with answering(GETFILESTATUS=status) as (store, _), pytest.raises(NotFound, match="There is no object “a”"):
        store.get("a")


def test_bytes_come_from_the_datanode_the_namenode_names_whatever_that_calls_itself() -> None:
    status = (200, {"FileStatus": {**entry(""), "length": 7}})
    with answering(GETFILESTATUS=status, OPEN=(200, b"content")) as (store, asked):
        assert store.get("ü/a") == b"content"
    assert asked[-1] == "OPEN /webhdfs/v1/%C3%BC/a"


def test_a_datanode_that_was_just_killed_is_asked_for_until_another_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhdfs, "_PAUSES", (0.0, 0.0))
    status = (200, {"FileStatus": {**entry(""), "length": 7}})
    with answering(dead=2, GETFILESTATUS=status, OPEN=(200, b"content")) as (store, asked):
        assert store.get("a") == b"content"
        assert len(asked) == 5
    refusing = answering(dead=3, GETFILESTATUS=status, OPEN=(200, b"content"))
    with refusing as (store, _), pytest.raises(LakeError, match="cannot be reached") as caught:
        store.get("a")
    assert "the DataNode at port" in caught.value.why


def test_a_place_that_cannot_be_written_is_no_fault_of_the_lake(tmp_path: Path) -> None:
    status = (200, {"FileStatus": entry("")})
    with answering(GETFILESTATUS=status, OPEN=(200, b"1")) as (store, _), pytest.raises(MissingRequirement):
        store.download("a", tmp_path / "missing" / "a")


def test_a_partial_write_is_removed_and_reported() -> None:
    refusal = {"RemoteException": {"exception": "IOException", "message": "no DataNode"}}
    refusing = answering(CREATE=(403, refusal), DELETE=(200, {"boolean": True}))
    with refusing as (store, asked), pytest.raises(LakeError, match="refused a request"):
        store.put("a", b"1")
    assert asked[-1].startswith("DELETE /webhdfs/v1/._penstock_")


def test_directories_go_with_the_last_of_their_files_and_no_farther_than_that() -> None:
    def delete(path: str) -> tuple[int, Any]:
        return (
            (403, {"RemoteException": {"exception": "PathIsNotEmpty", "message": "no"}})
            if path.endswith("/a")
            else (
                200,
                {"boolean": True},
            )
        )

    with answering(DELETE=delete) as (store, asked):
        store.delete("a/b/c/1", "a/b/c/2")
    assert [one.partition("v1")[2] for one in asked] == ["/a/b/c/1", "/a/b/c/2", "/a/b/c", "/a/b", "/a"]


def test_a_refusal_quotes_the_namenode_without_its_stack_trace() -> None:
    refusal = {"RemoteException": {"exception": "SafeModeException", "message": "in safe mode\n\tat java.lang"}}
    with answering(DELETE=(403, refusal)) as (store, _), pytest.raises(LakeError) as caught:
        store.delete("a")
    assert caught.value.why == "SafeModeException: in safe mode"
    assert "penstock lake hdfs status" in caught.value.fix


def test_an_unreachable_namenode_is_reported_with_the_command_that_starts_it() -> None:
    with pytest.raises(LakeError, match="cannot be reached") as caught:
        list(HdfsObjectStore(lake(1)).list(""))
    assert caught.value.fix == "penstock lake hdfs up --name hdfs"
