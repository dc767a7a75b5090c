"""Java's file of trusted certificates, without the time of its creation."""

from __future__ import annotations

import hashlib
import struct

from penstock.image.contents import normalize_keystore


def store(*made_at_ms: int, tag: int = 2) -> bytes:
    found = struct.pack(">III", 0xFEEDFEED, 2, len(made_at_ms))
    for number, at in enumerate(made_at_ms):
        alias, certificate = f"ca-{number}".encode(), bytes([number]) * (40 + number)
        found += struct.pack(">IH", tag, len(alias)) + alias + struct.pack(">Q", at)
        found += struct.pack(">H", 5) + b"X.509" + struct.pack(">I", len(certificate)) + certificate
    return found + hashlib.sha1("changeit".encode("utf-16-be") + b"Mighty Aphrodite" + found).digest()  # noqa: S324


def test_two_of_other_times_become_the_same_and_java_takes_it() -> None:
    assert (
        normalize_keystore(store(1, 2), 1767225600)
        == normalize_keystore(store(3, 4), 1767225600)
        == store(*[1767225600000] * 2)
    )


def test_what_is_no_such_file_stays_as_it_is() -> None:
    for other in (b"", b"short", b"\x30\x82" + bytes(100), store(1, tag=1)):
        assert normalize_keystore(other, 5) == other
