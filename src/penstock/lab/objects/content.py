"""What is in an object: bytes that follow from (seed, object name, object size, offset), and from nothing else.

One pseudo-random block of a prime length is repeated, and each object begins at a place in it that its name and size
decide. That costs no time per byte: a PUT sends slices of the block, and a GET is verified by comparing memory with it.
It still tells apart what a faulty store could mix up: another object's bytes, a shortened object (the size is part of
the place), bytes moved by any multiple of a sector, page, part or erasure-code chunk (no power of two below 2^40 is a
multiple of the prime), and of course flipped ones.

Stores that compress find nothing: the block is random and longer than their window. Deduplication on fixed boundaries
finds next to nothing; one that finds boundaries by content would store one block only, and needs another generator.
"""

from __future__ import annotations

import hashlib
import random

PERIOD = (1 << 20) - 3
"""Length of the repeated block in bytes: the largest prime below 1 MiB, so that it stays in a core's own cache."""

LONGEST_PIECE = PERIOD
"""The longest piece, in bytes, that can be made or compared at once."""


class Content:
    """The contents of all objects of one seed."""

    def __init__(self, seed: int) -> None:
        block = random.Random(seed).randbytes(PERIOD)  # noqa: S311 - a test pattern
        self.block = block + block
        """Twice, so that a piece that begins anywhere in the first lies in one stretch of memory."""

    @staticmethod
    def place(name: str, size: int) -> int:
        """Where in the block an object begins: below `PERIOD`."""
        digest = hashlib.blake2b(f"{size}/{name}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") % PERIOD

    def piece(self, place: int, offset: int, length: int) -> bytes:
        """The bytes [offset, offset + length) of the object that begins at `place`; at most `LONGEST_PIECE`."""
        start = (place + offset) % PERIOD
        return self.block[start : start + length]

    def is_piece(self, place: int, offset: int, data: bytes) -> bool:
        """Whether `data`, at most `LONGEST_PIECE` long, is what stands at `offset`; compares without copying."""
        return self.block.startswith(data, (place + offset) % PERIOD)
