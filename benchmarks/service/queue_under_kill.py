"""Submissions through a one-slot instance while the engine is killed again and again: none lost or doubled, in order.

    python -m benchmarks.service.queue_under_kill HOME --submissions 1000 --kills 10

Everything is real but Spark (`tests/support/fake_engine.py`): the kills hit `penstock serve` with its dispatcher, and
submissions come over HTTP, each sent until it is answered and then once more, with the same idempotency key. So there
are twice as many requests as submissions, and the result has both rates. The exit code is 1 where a claim is broken,
and 2 where only a target was missed: 50 submissions a second, 99 of 100 answered within 200 ms.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.service.reporting import missed, progress, report_result, spread
from benchmarks.service.served import Killer, Service, token_of_its_own
from benchmarks.service.submitting import Submitters
from penstock.engine.engine import Engine
from penstock.engine.policy.scheduling import Instance, Quota
from penstock.home import Home
from penstock.model import Application, State
from tests.support.fake_engine import FakeEngine, launches

_AT_ONCE = 4
_STEP = 100
_PATIENCE_SECONDS = 60.0
_LEAST_PER_SECOND, _MOST_P99_MS = 50.0, 200.0
_TENTH = 10
_AT_THE_SAME_TIME = timedelta(milliseconds=250)
"""Submissions that are nearer to each other have no order, since recording one takes time."""


def wait_for_all(engine: Engine, instance: str, count: int) -> None:
    """Wait until `count` applications have ended; exit when none has ended for a minute."""
    ended, since = 0, time.monotonic()
    while ended < count:
        time.sleep(0.2)
        states = engine.applications.counts().get(instance, {})
        now_ended = sum(number for state, number in states.items() if state.final)
        if now_ended > ended:
            if now_ended // _STEP > ended // _STEP:
                progress(f"{now_ended} of {count} have ended")
            ended, since = now_ended, time.monotonic()
        elif time.monotonic() - since > _PATIENCE_SECONDS:
            raise SystemExit(f"nothing has ended for {_PATIENCE_SECONDS:g} s: {dict(states)}")


def broken(applications: Sequence[Application], launched: Sequence[str], count: int) -> list[str]:
    """Sentences on each claim that does not hold."""
    found = []
    if len(applications) != count:
        found.append(f"{count} were submitted, {len(applications)} are recorded")
    if unfinished := [one.id for one in applications if one.state is not State.FINISHED]:
        found.append(f"not finished: {unfinished[:5]}")
    if len(launched) != len(set(launched)):
        found.append("launched twice: " + str(sorted(one for one in set(launched) if launched.count(one) > 1)[:5]))
    if missing := {one.id for one in applications} - set(launched):
        found.append(f"{len(missing)} were never launched")
    if late := overtaken(applications, launched):
        found.append(f"{late} were launched after one that was submitted later")
    return found


def overtaken(applications: Sequence[Application], launched: Sequence[str]) -> int:
    submitted = {one.id: one.submitted_at for one in applications}
    late, newest = 0, min(submitted.values())
    for when in (submitted[one] for one in launched if one in submitted):
        late += newest - when > _AT_THE_SAME_TIME
        newest = max(newest, when)
    return late


def quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def rates(ended: Sequence[float], began: float) -> list[float]:
    """Rates per second for each tenth of the submissions, in the order of their ends."""
    marks = [began, *sorted(ended)]
    steps = [round(len(ended) * part / _TENTH) for part in range(_TENTH + 1)]
    return [(last - first) / (marks[last] - marks[first]) for first, last in pairwise(steps) if last > first]


def run(home: Home, *, submissions: int, kills: int, seconds: tuple[float, float]) -> Mapping[str, Any]:
    home.create()
    engine = FakeEngine(home)
    instance = engine.queues.put(Instance("one-slot", quota=Quota(running=1))).name
    bodies = [{"application": "s3a://lake/a.py", "name": f"load-{n}", "instance": instance} for n in range(submissions)]
    with Service(home, instead="benchmarks.service.engine_process") as service:
        submitters = Submitters(service.port, token_of_its_own(home), at_once=_AT_ONCE)
        began = time.perf_counter()
        with Killer({"service": service.kill}, times=kills, seconds=seconds, chance=random.Random(kills)) as killer:
            answers = submitters.submit(bodies)
            submitted = time.perf_counter() - began
            progress(f"{submissions} are submitted, {submissions / submitted:.1f} a second")
            wait_for_all(engine, instance, submissions)
            drained = time.perf_counter() - began
    found = [one for one in engine.list() if one.spec.instance == instance]
    answered = [one.answered for pair in answers for one in pair]
    found_broken = broken(found, launches(home), submissions)
    if doubled := sum(first.id != second.id for first, second in answers):
        found_broken.append(f"{doubled} keys had two applications")
    milliseconds = [seconds * 1000 for seconds in answered]
    result = {
        "submissions": submissions,
        "kills": len(killer.killed),
        "submissions_per_second": round(submissions / submitted, 1),
        "submissions_per_second_by_tenths": spread(rates([second.at for _, second in answers], began), 1),
        "requests_per_second": round(len(answered) / submitted, 1),
        "answered_ms": spread(milliseconds, 1),
        "answered_p99_ms": round(quantile(milliseconds, 0.99), 1),
        "longest_with_kills_ms": round(max(one.took for pair in answers for one in pair) * 1000),
        "drained_seconds": round(drained, 1),
        "broken": found_broken,
    }
    least, most = {"submissions_per_second": _LEAST_PER_SECOND}, {"answered_p99_ms": _MOST_P99_MS}
    return {**result, "missed": missed(result, least=least, most=most)}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("home", type=Path)
    options.add_argument("--submissions", type=int, default=1000)
    options.add_argument("--kills", type=int, default=10)
    options.add_argument("--seconds-between-kills", type=float, nargs=2, default=(1.0, 6.0), metavar=("LEAST", "MOST"))
    given = options.parse_args()
    home = Home(given.home.absolute())
    seconds = tuple(given.seconds_between_kills)
    return report_result(
        home, "queue_under_kill", run(home, submissions=given.submissions, kills=given.kills, seconds=seconds)
    )


if __name__ == "__main__":
    raise SystemExit(main())
