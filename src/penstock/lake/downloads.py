"""A file that a download makes: whole, or not there."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from penstock.errors import MissingRequirement


@contextlib.contextmanager
def whole(target: Path) -> Iterator[Path]:
    """A place beside `target` to write to, which replaces it in the end; where anything fails, it is as it was.

    `MissingRequirement` where this machine cannot write there.
    """
    partial = target.with_name(f".{target.name}.{threading.get_native_id()}.part")
    try:
        yield partial
        partial.replace(target)
    except OSError as error:
        raise MissingRequirement(
            f"{target} cannot be written",
            why=error.strerror or str(error),
            fix="choose another place, or free space",
        ) from error
    finally:
        partial.unlink(missing_ok=True)
