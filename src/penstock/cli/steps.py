"""The steps of something long on the terminal: what is being done, then how it came out and how long it took."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator

from penstock.cli.console import duration


@contextlib.contextmanager
def step(title: str) -> Iterator[list[str]]:
    """Says what is being done, and how long it took once it is; what the block appends is the result."""
    told: list[str] = []
    began = time.monotonic()
    live = sys.stdout.isatty()
    if live:
        print(f"{title} …", end="", flush=True)
    try:
        yield told
    except BaseException:
        if live:
            print()
        raise
    result = f"{title}: {' '.join(told)}" if told else title
    print(f"{chr(13) if live else ''}{result} ({duration(time.monotonic() - began)})", flush=True)
