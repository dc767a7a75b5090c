"""Applications of many clients at once, each with a stream of its own to the lake."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.lab.launcher import Ran
from penstock.lab.session import Session
from penstock.model import ClusterSize
from penstock.profiles.s3a import S3A

_BLOCKS = 4
"""Of one stream, on their way at once: Hadoop's default, and that of Penstock's profiles."""

_PROVIDED_THREADS, _PROVIDED_CONNECTIONS = 32, 128
"""By the profiles, at the least."""


def settings(clients: int, size: ClusterSize) -> dict[str, str]:
    """What makes `clients` clients really be at work at once, under any profile.

    S3A's threads and connections are for all streams of a process. Where its share of clients could use more than the
    profiles provide, they are raised; otherwise the time measured would be that of waiting for each other.
    """
    made = {
        # A client that began before the others' executors were there would have the lake for itself.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        # A second copy of a slow client is one client more.
        "spark.speculation": "false",
    }
    needed = -(-clients // size.executors) * _BLOCKS
    if needed > _PROVIDED_THREADS:
        made[f"{S3A}threads.max"] = str(needed)
    if 2 * needed > _PROVIDED_CONNECTIONS:
        made[f"{S3A}connection.maximum"] = str(2 * needed)
    return made


def run_clients(
    session: Session,
    role: str,
    main_class: str,
    arguments: Sequence[str],
    *,
    name: str,
    most: int,
    keep: bool = False,
    doing: Callable[[str], None] | None = None,
    **more: Any,
) -> Ran:
    """Run the application on a place of its own in the lake, with `most` clients at once, and record its samples.

    The application takes its place away itself; what one that was killed left there is removed here.
    """
    place = session.key(role)
    report = f"{place}.jsonl"
    chosen: Mapping[str, str] = {**settings(most, session.size), **session.settings}
    try:
        ran = session.application(
            role,
            main_class,
            ("--location", session.uri(place), "--report", session.uri(report), *arguments),
            name=name,
            settings=chosen,
            doing=doing,
            must_succeed=False,
            **more,
        )
        session.judged(ran, report)
    finally:
        if not keep:
            session.remove(place)
    return ran
