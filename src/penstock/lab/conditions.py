"""Conditions that an arm is measured under: round trip, throttled gateways, scratch devices, concurrent clusters.

A store on the same machine responds in microseconds; most savings of a cache show only with distance. The round trip is
a wait in the client's SDK before each request, so it is the same for every client of every arm, and it uses no CPU.
Each throttled gateway is a process; one may be killed.

Memory is divided among concurrent clusters, never promised twice. Cores are shared through the kernel: concurrent
clusters are measured to see the effect of that on each of them, so cores are oversubscribed as much as necessary. No
other application may do that.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from penstock import processes, units
from penstock.engine.policy import admission
from penstock.errors import ClusterError, InvalidInput, MissingRequirement
from penstock.lab.environment import Environment
from penstock.lab.session import Session, StoppedByFailure
from penstock.lake.ceph import rbd
from penstock.lake.ceph.cluster import KIND, Ceph
from penstock.lake.model import Lake, require_s3
from penstock.model import CORES_PER_CORE, Capacity, ClusterSize, ProcessSize, promised
from penstock.profiles.base import SCRATCH_DISK
from penstock.profiles.s3a import S3A
from penstock.runtime.jvm import find_java, penstock_jar, spark_jars
from penstock.units import GIB, gibibytes

_LONGEST_SECONDS = 10
_INTERCEPTOR = "io.penstock.workloads.RoundTrip"
_WAIT = "-Dpenstock.lab.round.trip="


def round_trip_settings(time: str) -> Mapping[str, str]:
    """Return the settings that make an application wait `time` (`5ms`) before each request. Raises `InvalidInput`."""
    seconds = units.parse_seconds(time) if time[-1:].isalpha() else None
    if seconds is None or not 0 < seconds <= _LONGEST_SECONDS:
        raise InvalidInput(
            f"“{time}” is not a round trip",
            why=f"a round trip is a time of at most {_LONGEST_SECONDS} s",
            fix="--round-trip 5ms",
        )
    waits = f"{_WAIT}{round(seconds * 1e6)}"
    return {
        S3A + "audit.execution.interceptors": _INTERCEPTOR,
        "spark.driver.extraJavaOptions": waits,
        "spark.executor.extraJavaOptions": waits,
    }


def with_round_trip(to: Mapping[str, str], time: str | None) -> dict[str, str]:
    """Add the wait to an arm's own settings; a list that both set has the values of both."""
    if time is None:
        return dict(to)
    found = dict(to)
    for key, value in round_trip_settings(time).items():
        found[key] = _separator(key).join(filter(None, (to.get(key, ""), value)))
    return found


def without_round_trip(of: Mapping[str, str]) -> dict[str, str]:
    """Undo `added`: preparation is not measured and need not wait."""
    found = {}
    for key, value in of.items():
        parts = value.split(_separator(key))
        own = [part for part in parts if part != _INTERCEPTOR and not part.startswith(_WAIT)]
        if len(own) == len(parts):
            found[key] = value
        elif own:
            found[key] = _separator(key).join(own)
    return found


def _separator(key: str) -> str:
    return "," if key.endswith("interceptors") else " "


_MAIN = "io.penstock.faults.FaultyGateway"
_LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class ThrottledGateways:
    """Running gateways. Clients connect to `endpoints`."""

    endpoints: Sequence[str]
    processes: Sequence[subprocess.Popen[bytes]]

    @contextlib.contextmanager
    def killing_one(self, after_bytes: int) -> Iterator[threading.Event]:
        """Kill the last gateway (SIGKILL) once it has forwarded `after_bytes`; the event is set then."""
        killed, over = threading.Event(), threading.Event()
        victim = self.processes[-1]

        def watch() -> None:
            while not over.wait(_LOOK_SECONDS):
                if _forwarded_bytes(victim.pid) >= after_bytes:
                    victim.kill()
                    killed.set()
                    return

        watcher = threading.Thread(target=watch, name="gateway-killer", daemon=True)
        watcher.start()
        try:
            yield killed
        finally:
            over.set()
            watcher.join()


@contextlib.contextmanager
def throttled_gateways(lake: Lake, count: int, bytes_per_second: int) -> Iterator[ThrottledGateways]:
    """Start gateways in front of the lake's first endpoint; they end with this context, or with this process."""
    command = _command(lake, bytes_per_second)
    with contextlib.ExitStack() as stack:
        processes = []
        for _ in range(count):
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
            processes.append(process)
            stack.callback(_end, process)
        ports = [_port(process) for process in processes]
        yield ThrottledGateways([f"http://127.0.0.1:{port}" for port in ports], processes)


def require_http(lake: Lake) -> None:
    """Raise `InvalidInput` where the lake cannot be reached through these gateways."""
    require_s3(lake, "The comparison of gateways")
    if not lake.endpoints[0].startswith("http://"):
        raise InvalidInput(
            f"The lake “{lake.name}” uses https",
            why="the lab's gateways forward HTTP unchanged, so that signatures stay valid",
            fix="name a lake with an http endpoint: --lake embedded",
        )


def _command(lake: Lake, bytes_per_second: int) -> list[str]:
    require_http(lake)
    upstream = urlsplit(lake.endpoints[0])
    jars = (penstock_jar("faults", "The lab's gateways are not built"), spark_jars() / "*")
    return [
        str(find_java().executable),
        "-XX:+UseSerialGC",
        *("-cp", os.pathsep.join(map(str, jars)), _MAIN),
        *("--upstream", f"{upstream.hostname}:{upstream.port or 80}"),
        *("--bytes-per-second", str(bytes_per_second)),
    ]


def _port(process: subprocess.Popen[bytes]) -> int:
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    line = process.stdout.readline()
    if not line.strip().isdigit():
        raise ClusterError("A gateway of the lab did not start", why=f"it ended with exit code {process.wait()}")
    return int(line)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a gateway, which serves until its standard input ends."""
    assert process.stdin is not None  # noqa: S101 - it is a pipe
    process.stdin.close()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    assert process.stdout is not None  # noqa: S101
    process.stdout.close()


def _forwarded_bytes(pid: int) -> int:
    """Return the bytes that the process has read from files and connections (proc(5)); 0 where it has ended."""
    return (processes.io(pid) or {}).get("rchar", 0)


KRBD = "krbd"
"""In place of a directory: a block device of the lake's Ceph, mapped by the kernel, with a file system of its own."""
_LEAST_BYTES = 4 * GIB


def require_scratch(bench: Environment, settings: Mapping[str, str]) -> None:
    """Raise `MissingRequirement`, with the reason, where the scratch device of the settings is not available."""
    chosen = settings.get(SCRATCH_DISK)
    if chosen == KRBD:
        if bench.lake.kind != KIND:
            raise MissingRequirement(
                f"The lake “{bench.lake.name}” has no block devices to shuffle on",
                why="its store is not a Ceph cluster of this home",
                fix="run penstock lake ceph up, and choose lake: ceph",
            )
        rbd.require_kernel()
    elif chosen and not Path(chosen).is_dir():
        raise MissingRequirement(
            f"There is no directory {chosen} to shuffle in", why=SCRATCH_DISK, fix="mount the device there first"
        )


@contextlib.contextmanager
def scratch_placed(bench: Environment, settings: Mapping[str, str], needed_bytes: int) -> Iterator[Mapping[str, str]]:
    """Yield the settings with the directory to shuffle in; a device created for it is removed at the end."""
    if settings.get(SCRATCH_DISK) != KRBD:
        yield settings
        return
    size = max(_LEAST_BYTES, 2 * needed_bytes)
    with (
        rbd.image(Ceph(bench.home), bench.lake.name, size) as image,
        rbd.mapped(image) as device,
        mounted_filesystem(device, bench.home.root) as directory,
    ):
        yield {**settings, SCRATCH_DISK: str(directory)}


@contextlib.contextmanager
def mounted_filesystem(device: Path, below: Path) -> Iterator[Path]:
    """Mount a new file system on the device, in a directory of its own. Needs root; erases the device."""
    with tempfile.TemporaryDirectory(prefix="device-", dir=below) as name:
        _run("mkfs.ext4", "-q", "-F", "-m", "0", str(device))
        _run("mount", "-o", "noatime,nosuid,nodev", str(device), name)
        try:
            yield Path(name)
        finally:
            _run("umount", name)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"{command[0]} failed on {command[-2]}", why=done.stderr.strip(), fix="see dmesg")


Task = Callable[[Session], None]

_LEAST_HEAP = 512 << 20
_MOST_DRIVER_HEAP, _MOST_EXECUTOR_HEAP = 4 << 30, 8 << 30


def equal_share(capacity: Capacity, count: int) -> ClusterSize:
    """Return the size of each of `count` equal clusters, with one executor each.

    A third of a cluster's memory is the executor's heap and a sixth the driver's; the rest is for overheads, the lake
    and the system's page cache. Each heap has at least 512 MiB, so too many clusters do not fit.
    """
    # A cluster with an autoscaler may grow to its declared maximum, whatever it has at the moment.
    whole = capacity.limit or capacity
    one = admission.of_one_machine(replace(whole, node=whole.node or capacity.node, elastic=capacity.elastic))
    part = whole.memory_bytes // count
    small = ProcessSize(1, _LEAST_HEAP)
    executor_cores = max(1, min(whole.cores // count, one.cores))
    memory = min(part, one.memory_bytes)
    size = ClusterSize(
        driver=ProcessSize(1, admission.usual_heap(memory // 6, at_most=_MOST_DRIVER_HEAP)),
        executor=ProcessSize(executor_cores, admission.usual_heap(memory // 3, at_most=_MOST_EXECUTOR_HEAP)),
        executors=1,
    )
    fits = promised(size).memory_bytes <= part
    return size if fits else ClusterSize(small, replace(small, cores=executor_cores), 1)


def require_clusters_fit(
    size: ClusterSize, users: int, capacity: Capacity, *, beside: int = 0, option: str = "--users"
) -> None:
    """Raise `InvalidInput` where the users' clusters of `size`, and `beside` others, never fit at once.

    `option` is the option that set the number of users.
    """
    count, limit = users + beside, capacity.limit
    each = promised(size).memory_bytes
    if limit is None or count * each <= limit.memory_bytes:
        return
    fit = limit.memory_bytes // each
    smallest = replace(
        size,
        driver=replace(size.driver, memory_bytes=_LEAST_HEAP),
        executor=replace(size.executor, memory_bytes=_LEAST_HEAP),
    )
    fixes = [f"{option} {fit - beside}"] if fit > beside else []
    if count * promised(smallest).memory_bytes <= limit.memory_bytes:
        fixes.append("--driver-memory 512m --executor-memory 512m")
    raise InvalidInput(
        f"{count} clusters do not fit at once",
        why=f"each needs {gibibytes(each)} with overheads, and {gibibytes(limit.memory_bytes)} "
        f"can be promised: {fit} fit",
        fix=", or ".join(fixes) or "more machines, or larger ones",
    )


def oversubscribed(session: Session, count: int) -> Session:
    """Return a session whose `count` clusters of its size may run at once, however few the cores."""
    # An autoscaler may have removed every node.
    needed = count * promised(session.size).cores / max(1, session.bench.engine.backend.capacity().cores)
    return replace(session, cores_per_core=max(CORES_PER_CORE, needed))


def run_concurrently(session: Session, work: Sequence[Task]) -> None:
    """Start all work together and wait for it; the first failure, or an interruption, ends the rest too.

    Returns, or raises the first failure, when all their applications have ended.
    """
    # Applications that a killed command left hold memory and cores until they are reconciled. That is done before the
    # start: an application of this crowd that has no supervisor yet would be taken for an abandoned one, too.
    session.bench.engine.reconcile()
    session = replace(session, stopping=threading.Event())
    begin = threading.Barrier(len(work))
    failures: list[BaseException] = []

    def do(task: Task) -> None:
        begin.wait()
        try:
            task(session)
        except BaseException as error:
            if not isinstance(error, StoppedByFailure):
                failures.append(error)
            session.stopping.set()
            raise

    with ThreadPoolExecutor(len(work)) as pool:
        try:
            wait([pool.submit(do, task) for task in work], return_when=FIRST_EXCEPTION)
        except BaseException:  # Ctrl-C reaches the main thread only
            session.stopping.set()
            begin.abort()  # where some were never started, the others wait for them
            raise
    if failures:
        raise failures[0]
