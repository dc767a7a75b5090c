"""A restarted server keeps its port unless another process listens there."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from penstock.processes import await_free_ports, free_ports, is_free


def test_ports_are_chosen_where_no_connection_of_a_client_gets_its_own() -> None:
    first_of_clients = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
    ports = free_ports(8)
    assert len(set(ports)) == 8
    assert all(map(is_free, ports))
    assert max(ports) < first_of_clients


def test_ports_are_found_where_clients_may_have_all_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = tmp_path / "range"
    everything.write_text("1024\t65535\n", encoding="ascii")
    monkeypatch.setattr("penstock.processes._CLIENT_PORTS", everything)
    assert len(set(free_ports(3))) == 3


def test_a_port_is_waited_for_while_the_last_thread_of_a_killed_server_still_has_it() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    assert not is_free(port)
    ending = threading.Timer(0.2, listener.close)
    ending.start()
    assert await_free_ports([port])
    ending.join()


def test_a_port_that_somebody_else_listens_at_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.processes._PORTS_LINGER_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert not await_free_ports([listener.getsockname()[1]])
