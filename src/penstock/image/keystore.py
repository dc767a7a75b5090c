"""Java's file of trusted certificates without the times at which they were put there. Pure.

Each making of it writes the clock's, which alone would make two images of the same packages differ.
"""

from __future__ import annotations

import hashlib
import struct

PATH = "etc/ssl/certs/java/cacerts"
"""Where Debian keeps it."""

_MAGIC = 0xFEEDFEED
_CERTIFICATE = 2
_PASSWORD = "changeit"  # noqa: S105 - Java's own for what is no secret; its digest needs it
_DIGEST_BYTES = 20


def timeless(store: bytes, at: int) -> bytes:
    """The keystore (JKS) with every entry made `at` seconds since 1970; anything else comes back as it was."""
    magic, version, count = struct.unpack_from(">III", store) if len(store) > 12 + _DIGEST_BYTES else (0, 0, 0)
    if magic != _MAGIC or version != 2:
        return store
    found, position = bytearray(store[:-_DIGEST_BYTES]), 12
    for _ in range(count):
        if struct.unpack_from(">I", found, position)[0] != _CERTIFICATE:
            return store  # A private key: somebody's own, not Debian's.
        position = _behind_text(found, position + 4)
        struct.pack_into(">Q", found, position, at * 1000)
        position = _behind_text(found, position + 8)
        position += 4 + struct.unpack_from(">I", found, position)[0]
    # The format's own check: of the password, a phrase, and all before it.
    digest = hashlib.sha1(_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + found)  # noqa: S324
    return bytes(found) + digest.digest()


def _behind_text(store: bytearray, position: int) -> int:
    length: int = struct.unpack_from(">H", store, position)[0]
    return position + 2 + length
