"""A machine that vanishes without a packet: both ends of its database connections notice within seconds."""

from __future__ import annotations

import ctypes
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import psycopg
import pytest
import sqlalchemy as sa

from penstock.catalog.connection import LIVENESS, Liveness, create_pooled_engine
from penstock.catalog.database import Database
from penstock.engine.repository.applications import CONNECTION_LOST, ApplicationRepository, now
from penstock.engine.repository.listing import ApplicationReader
from penstock.home import Home
from penstock.model import Application, ApplicationSpec, ClusterSize, ProcessSize, State, new_id
from tests.support.waiting import within

SOON = Liveness(connect_seconds=2, idle_seconds=1, interval_seconds=1, probes=2)
SIZE = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(1, 1 << 30), 1)

_SO_ATTACH_FILTER = 26
_DROP = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))  # BPF_RET | BPF_K, 0 bytes: nothing passes


class Relay:
    """A relay of connections to a port, until `lose`: from then on it answers no packet.

    It would not be enough to stop forwarding: the relay's kernel would go on answering keepalives. A socket filter that
    lets nothing pass drops all packets, including acknowledgements, as a machine without power does.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def lose(self) -> None:
        program = struct.pack("HL", 1, ctypes.addressof(_DROP))
        for one in (self._listener, *self._sockets):
            one.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)

    def close(self) -> None:
        for one in (self._listener, *self._sockets):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
                self._sockets += [near, far]
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._forward, args=(source, sink), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(1 << 16):
                sink.sendall(piece)


@pytest.fixture
def relay(records_home: Home) -> Iterator[Relay]:
    relay = Relay(Database(records_home).url("penstock").port)
    yield relay
    relay.close()


@pytest.fixture
def far(records_home: Home, relay: Relay, records: ApplicationRepository) -> Iterator[ApplicationRepository]:
    """The same records, seen by an engine on another machine."""
    url = replace(Database(records_home).url("penstock"), port=relay.port)
    engine = create_pooled_engine(url.sqlalchemy, liveness=SOON)
    yield ApplicationRepository(engine, records.owner)
    engine.dispose()


def submitted(records: ApplicationRepository) -> str:
    spec = ApplicationSpec(application="/a.py", size=SIZE, name="a")
    return records.add(Application(new_id(now()), spec, State.ACCEPTED, submitted_at=now())).id


def test_the_claims_of_a_machine_that_is_lost_are_free_in_seconds(
    records: ApplicationRepository, reader: ApplicationReader, far: ApplicationRepository, relay: Relay
) -> None:
    name = submitted(records)
    with suppress(*CONNECTION_LOST), far.claim(name):
        assert reader.unsupervised() == []
        relay.lose()
        within(lambda: reader.unsupervised() == [name])
        with records.claim(name):
            pass


def test_a_supervisor_whose_database_is_lost_hears_of_it_while_it_waits(
    records: ApplicationRepository, far: ApplicationRepository, relay: Relay
) -> None:
    name = submitted(records)
    with pytest.raises(psycopg.OperationalError), far.claim(name) as claim:
        relay.lose()
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            claim.wait(0.1)


def test_a_question_to_a_database_that_is_lost_has_an_end(
    records: ApplicationRepository, far: ApplicationRepository, relay: Relay
) -> None:
    name = submitted(records)
    assert far.get(name).id == name
    relay.lose()
    asked = time.monotonic()
    with pytest.raises(CONNECTION_LOST):
        far.get(name)
    with pytest.raises(CONNECTION_LOST):
        far.get(name)  # on a new connection, which is not accepted
    assert time.monotonic() - asked < 60


def test_the_embedded_server_and_each_session_notice_within_half_a_minute(
    database: sa.Engine, records_home: Home
) -> None:
    with database.connect() as connection:
        session = {name: connection.execute(sa.text(f"SHOW {name}")).scalar() for name in LIVENESS.server()}
        defaults = sa.text("SELECT name, reset_val FROM pg_settings WHERE name LIKE 'tcp%'")
        server = {str(row.name): str(row.reset_val) for row in connection.execute(defaults)}
    assert session["tcp_keepalives_idle"] == str(LIVENESS.idle_seconds)
    assert server == LIVENESS.server()
    assert LIVENESS.lost_after_milliseconds <= 30_000
