"""How far a power run is, from what its application says it is at, and how long the rest will take."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock import units
from penstock.lab import progress
from penstock.lab.bench import last_samples
from penstock.lab.session import Session


def query_progress(session: Session, order: Sequence[str]) -> Callable[[str], None]:
    """What to do with the application's job descriptions (`q3 (5 of 104)`); estimates by the newest run before."""
    described = session.recorder.description
    past = {
        sample["query"]: sample["elapsed_ms"] / 1000
        for sample in last_samples(session.bench.home, described.workload, described.scale, "query")
        if sample["status"] == "ok"
    }

    def doing(description: str) -> None:
        at = progress.position(description)
        if at is None:
            return
        name, index, total = at
        rounds = tuple(order) * max(1, total // len(order))
        left = progress.seconds_left(rounds, index - 1, session.listener.elapsed(), past)
        estimate = f", about {units.seconds(left)} left" if left is not None else ""
        session.listener.now(f"{name}, {index} of {total}{estimate}")

    return doing
