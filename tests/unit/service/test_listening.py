"""The service refuses to listen for other machines without encryption, or without a token."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from penstock.errors import InvalidInput, MissingRequirement
from penstock.service.listening import Listening, bind, refuse_unsafe, spark_pages_listening


@pytest.fixture
def pem(tmp_path: Path) -> tuple[Path, Path]:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    for path in (certificate, key):
        path.write_text("-")
        path.chmod(0o600)
    return certificate, key


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_this_machine_alone_needs_neither_tls_nor_tokens(host: str) -> None:
    refuse_unsafe(Listening(host), has_tokens=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "localhost.example.org", "penstock", ""])  # noqa: S104
def test_anything_else_needs_both(host: str, pem: tuple[Path, Path]) -> None:
    with pytest.raises(InvalidInput, match="would not be encrypted"):
        refuse_unsafe(Listening(host), has_tokens=True)
    with pytest.raises(InvalidInput, match="no token"):
        refuse_unsafe(Listening(host, 1, *pem), has_tokens=False)
    refuse_unsafe(Listening(host, 1, *pem), has_tokens=True)


def test_a_key_that_others_can_read_is_none(pem: tuple[Path, Path]) -> None:
    pem[1].chmod(0o644)
    with pytest.raises(InvalidInput, match="can access the TLS key"):
        refuse_unsafe(Listening("127.0.0.1", 1, *pem), has_tokens=True)


def test_half_of_the_files_or_files_that_are_not_there_are_refused(pem: tuple[Path, Path]) -> None:
    with pytest.raises(InvalidInput, match="two files"):
        refuse_unsafe(Listening("127.0.0.1", 1, pem[0], None), has_tokens=True)
    pem[0].unlink()
    with pytest.raises(MissingRequirement, match="no file"):
        refuse_unsafe(Listening("127.0.0.1", 1, *pem), has_tokens=True)


def test_the_address_is_as_a_client_writes_it() -> None:
    assert Listening("::1", 8440).url == "http://[::1]:8440"


def test_a_port_that_is_taken_is_said_so() -> None:
    with bind(Listening(port=0)) as listener, pytest.raises(MissingRequirement, match="is taken"):
        bind(Listening(port=listener.getsockname()[1]))


def test_an_answer_in_pieces_does_not_wait_for_the_client_to_acknowledge_the_first() -> None:
    with bind(Listening(port=0)) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize("host", ["203.0.113.7", "no-such-host.invalid"])
def test_an_address_of_somebody_else_cannot_be_listened_on(host: str) -> None:
    with pytest.raises(MissingRequirement, match="cannot be listened on"):
        bind(Listening(host))


def test_sparks_pages_are_on_the_next_port_with_the_same_host_and_certificate(pem: tuple[Path, Path]) -> None:
    service = Listening("10.0.0.1", 9000, *pem)
    assert spark_pages_listening(service, None) == Listening("10.0.0.1", 9001, *pem)
    assert spark_pages_listening(service, 80) == Listening("10.0.0.1", 80, *pem)


@pytest.mark.parametrize(("port", "asked"), [(9000, 9000), (65535, None)])
def test_sparks_pages_never_share_the_services_port(port: int, asked: int | None) -> None:
    with pytest.raises(InvalidInput, match="cannot be served on port"):
        spark_pages_listening(Listening(port=port), asked)
