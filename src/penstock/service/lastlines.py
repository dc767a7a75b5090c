"""The end of a log that can only be read forwards, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable

MOST_LINES = 10_000
_MOST_BYTES = 4 << 20


def last_lines(read: Callable[[int], bytes], lines: int, *, size: int = 0) -> tuple[bytes, int]:
    """The last `lines` lines, of at most 4 MiB, and the position they begin at; `read` gives what is behind one.

    `size` is how long the log was a moment ago: what cannot be among its last 4 MiB is not read.
    """
    kept, end = b"", max(0, size - _MOST_BYTES)
    while piece := read(end):
        end += len(piece)
        kept = (kept + piece)[-_MOST_BYTES:]
    wanted = b"".join(kept.splitlines(keepends=True)[-lines:]) if lines else b""
    return wanted, end - len(wanted)
