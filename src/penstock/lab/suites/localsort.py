"""The limit of a sort: the same records, local files, one thread of one process. It is no Spark application."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

from penstock import units
from penstock.errors import ClusterError, InvalidInput
from penstock.lab.bench import machine, workloads_jar
from penstock.lab.session import Session
from penstock.runtime.jvm import find_java, spark_jars

_MAIN = "io.penstock.workloads.terasort.LocalSort"


def require_memory(size_bytes: int) -> None:
    """`InvalidInput` where this machine cannot hold so many records to be sorted."""
    have = int(machine()["memory_bytes"])
    if _heap(size_bytes) > have:
        raise InvalidInput(
            f"The local sort of {units.size(size_bytes)} needs {units.size(_heap(size_bytes))} of memory",
            why=f"this machine has {units.size(have)}",
            fix="choose a smaller --size, or leave --limit away",
        )


def measure(session: Session, prefix: str) -> None:
    """Copy the data set at `prefix` to the local disk, sort and check it there, and record its samples.

    They are marked as a `reference`: no part of what the run itself took.
    """
    with tempfile.TemporaryDirectory(prefix="sort-", dir=session.bench.home.root) as name:
        scratch = Path(name)
        (scratch / "input").mkdir()
        size = 0
        for found in session.store.list(f"{prefix}/"):
            session.store.download(found.key, scratch / "input" / Path(found.key).name)
            size += found.size
        _run(_command(scratch, size))
        for line in (scratch / "report.jsonl").read_text(encoding="utf-8").splitlines():
            session.record(**json.loads(line), reference=True, cores=1)


def _command(scratch: Path, size_bytes: int) -> list[str]:
    return [
        str(find_java().executable),
        f"-Xms{_heap(size_bytes)}",
        f"-Xmx{_heap(size_bytes)}",
        # Records are read once and kept: there is nothing for a collector to do, least of all in parallel.
        "-XX:+UseSerialGC",
        *("-cp", os.pathsep.join((str(workloads_jar()), str(spark_jars() / "*"))), _MAIN),
        *("--input", str(scratch / "input")),
        *("--output", str(scratch / "sorted")),
        *("--report", str(scratch / "report.jsonl")),
    ]


def _run(command: list[str]) -> None:
    """Exit code 9 is a wrong result, which the report tells."""
    # Without a locale of its own Java takes names of files outside ASCII for others.
    environment = {"LC_ALL": "C.UTF-8", "PATH": os.defpath}
    done = subprocess.run(
        command, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=environment, check=False
    )
    if done.returncode not in (0, 9):
        raise ClusterError("The local sort failed", why="\n".join(done.stderr.splitlines()[-10:]))


def _heap(size_bytes: int) -> int:
    """Records, the sort's 24 bytes for each, and the rest of what a JVM needs."""
    return size_bytes + size_bytes // 4 + (256 << 20)
