"""The working directory of a pod's processes: the scratch volume, or a private directory below a node's directory.

All pods of a node share a directory of the node, and it outlives them. Spark copies jars and Python files into the
working directory of an executor, and fails where another file of that name is there, so each pod needs its own. The
pod's program removes it at its end; where the program was killed, a later pod of the node does.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from penstock.clusters.kubernetes import layout

_PREFIX = "penstock-"
_BEAT_SECONDS = 60.0
_DEAD_SECONDS = 900.0
"""The age of a directory's last beat from which its pod counts as dead, if nobody holds the directory's lock."""


@contextlib.contextmanager
def working_directory(environment: Mapping[str, str], volume: Path = layout.SCRATCH) -> Iterator[Path]:
    """Provide the working directory of the pod's processes: a private one, removed at the end, on a shared volume.

    Meanwhile a thread removes the directories of pods that were killed. Raises `OSError` where none can be created.
    """
    if layout.SHARED_SCRATCH not in environment:
        yield volume
        return
    directory = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{environment['PENSTOCK_APPLICATION']}-", dir=volume))
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    ended = threading.Event()
    try:
        # Some network file systems have no locks of directories: there the beat alone protects this one.
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        threading.Thread(target=_beat, args=(directory, volume, ended), daemon=True).start()
        yield directory
    finally:
        ended.set()
        shutil.rmtree(directory, ignore_errors=True)
        os.close(lock)


def process_environment(environment: Mapping[str, str], directory: Path) -> dict[str, str]:
    """Return the environment with the variables by which programs find the working directory."""
    if directory == layout.SCRATCH:
        return dict(environment)
    # Spark's executors take this variable for their local directories, whatever `spark.local.dir` says.
    found = {**environment, "SPARK_LOCAL_DIRS": str(directory)}
    if environment.get("TMPDIR") == str(layout.SCRATCH):
        found["TMPDIR"] = str(directory)
    return found


def sweep(volume: Path, *, now: float) -> None:
    """Remove the directories of dead pods, by their last beat and their lock. `now` is the time of the node's clock.

    The lock alone does not tell, since some runtimes give each pod locks of its own. A directory of another user stays.
    """
    for path in volume.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if now - os.fstat(lock).st_mtime > _DEAD_SECONDS:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)


def _beat(directory: Path, volume: Path, ended: threading.Event) -> None:
    while not ended.is_set():
        with contextlib.suppress(OSError):
            os.utime(directory)
            sweep(volume, now=time.time())
        ended.wait(_BEAT_SECONDS)
