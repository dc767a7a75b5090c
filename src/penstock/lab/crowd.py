"""Several clusters at once: what each may be given, and how all of them start together.

Memory is shared out, never promised twice. Cores are shared out by the kernel: a crowd is measured to see what that
does to each of its members, so its cores are promised as often as it takes. No other application is given that right.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import replace

from penstock.engine.policy import admission
from penstock.errors import InvalidInput
from penstock.lab.session import Session, Stopped
from penstock.model import CORES_PER_CORE, Capacity, ClusterSize, ProcessSize, promised
from penstock.units import gibibytes

Work = Callable[[Session], None]

_LEAST_HEAP = 512 << 20
_MOST_DRIVER_HEAP, _MOST_EXECUTOR_HEAP = 4 << 30, 8 << 30


def share(capacity: Capacity, count: int) -> ClusterSize:
    """The size of each of `count` equal clusters: one executor, and of its part of the memory a third as its heap, a
    sixth as the driver's; what is left is for overheads, the lake and the system's cache of files.

    Each heap has at least 512 MiB, so a crowd too large for what there is gets clusters that do not fit.
    """
    part, one = capacity.memory_bytes // count, admission.of_one_machine(capacity)
    small = ProcessSize(1, _LEAST_HEAP)
    executor_cores = max(1, min(capacity.cores // count, one.cores))
    memory = min(part, one.memory_bytes)
    size = ClusterSize(
        driver=ProcessSize(1, admission.usual_heap(memory // 6, at_most=_MOST_DRIVER_HEAP)),
        executor=ProcessSize(executor_cores, admission.usual_heap(memory // 3, at_most=_MOST_EXECUTOR_HEAP)),
        executors=1,
    )
    fits = promised(size).memory_bytes <= part
    return size if fits else ClusterSize(small, replace(small, cores=executor_cores), 1)


def require_room(
    size: ClusterSize, users: int, capacity: Capacity, *, beside: int = 0, option: str = "--users"
) -> None:
    """Raise `InvalidInput` where a cluster of `size` for each of the users, and those `beside` them, do not fit at
    once. `option` is what chose their number."""
    count = users + beside
    each = promised(size).memory_bytes
    if count * each <= capacity.memory_bytes:
        return
    fit = capacity.memory_bytes // each
    smallest = replace(
        size,
        driver=replace(size.driver, memory_bytes=_LEAST_HEAP),
        executor=replace(size.executor, memory_bytes=_LEAST_HEAP),
    )
    fixes = [f"{option} {fit - beside}"] if fit > beside else []
    if count * promised(smallest).memory_bytes <= capacity.memory_bytes:
        fixes.append("--driver-memory 512m --executor-memory 512m")
    raise InvalidInput(
        f"{count} clusters do not fit at once",
        why=f"each needs {gibibytes(each)} with overheads, and {gibibytes(capacity.memory_bytes)} "
        f"can be promised: {fit} fit",
        fix=", or ".join(fixes) or "more machines, or larger ones",
    )


def crowded(session: Session, count: int) -> Session:
    """The session for `count` clusters of its size that are to run at once, however few the cores."""
    needed = count * promised(session.size).cores / session.bench.engine.capacity().cores
    return replace(session, cores_per_core=max(CORES_PER_CORE, needed))


def at_once(session: Session, work: Sequence[Work]) -> None:
    """Do all of it side by side, begun together; the first that fails, or an interruption, ends the others too.

    Returns, or raises that first failure, when the applications of all of them have ended.
    """
    # What a killed command left keeps its promise of memory and cores until somebody looks after it. Asked here, since
    # an application of the crowd that nobody claims yet would be taken for such a one, too.
    session.bench.engine.reconcile()
    session = replace(session, stopping=threading.Event())
    begin = threading.Barrier(len(work))
    failures: list[BaseException] = []

    def do(task: Work) -> None:
        begin.wait()
        try:
            task(session)
        except BaseException as error:
            if not isinstance(error, Stopped):
                failures.append(error)
            session.stopping.set()
            raise

    with ThreadPoolExecutor(len(work)) as pool:
        try:
            wait([pool.submit(do, task) for task in work], return_when=FIRST_EXCEPTION)
        except BaseException:  # Ctrl-C reaches the main thread only
            session.stopping.set()
            begin.abort()  # where some of them were never begun, the others wait for them
            raise
    if failures:
        raise failures[0]
