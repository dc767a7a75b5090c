"""A daemon's status through its admin socket: paths of any length, and daemons that do not answer."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.lake.ceph import daemons

ANSWER = b'{"state": "active"}'


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory whose path is longer than a Unix socket's address can be."""
    deep = tmp_path / ("ü" * 60) / "run"
    deep.mkdir(parents=True)
    assert len(os.fsencode(deep)) > 107
    return deep.parent


@contextlib.contextmanager
def answering(directory: Path, pieces: list[bytes]) -> Iterator[list[bytes]]:
    """A daemon osd.0 that answers every request with these bytes, and records the requests in the list."""
    asked: list[bytes] = []
    held = os.open(directory / "run", os.O_PATH)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{held}/osd.0.asok")
        os.close(held)
        listener.listen()

        def serve() -> None:
            with contextlib.suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    asked.append(connection.recv(1000))
                    for piece in pieces:
                        connection.sendall(piece)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield asked
        finally:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_the_answer_is_read_whole_in_whatever_pieces_it_comes(directory: Path) -> None:
    framed = struct.pack(">I", len(ANSWER)) + ANSWER
    with answering(directory, [framed[:2], framed[2:9], framed[9:]]) as asked:
        assert daemons.ask(directory, "osd.0", "status") == {"state": "active"}
    assert asked == [b'{"prefix": "status"}\0']


@pytest.mark.parametrize("pieces", [[], [b"\0\0"], [struct.pack(">I", 100) + ANSWER], [struct.pack(">I", 3) + b"no!"]])
def test_an_answer_that_breaks_off_or_is_none_is_silence(directory: Path, pieces: list[bytes]) -> None:
    with answering(directory, pieces):
        assert daemons.ask(directory, "osd.0", "status") is None


def test_a_daemon_that_accepts_nothing_is_not_waited_for_longer_than_that(directory: Path) -> None:
    held = os.open(directory / "run", os.O_PATH)
    with socket.socket(socket.AF_UNIX) as stopped:
        stopped.bind(f"/proc/self/fd/{held}/osd.0.asok")
        stopped.listen()
        assert daemons.ask(directory, "osd.0", "status", timeout_seconds=0.1) is None
    os.close(held)


def test_where_there_is_no_socket_or_no_directory_there_is_silence(directory: Path, tmp_path: Path) -> None:
    assert daemons.ask(directory, "osd.1", "status") is None
    assert daemons.ask(tmp_path / "none", "osd.1", "status") is None
