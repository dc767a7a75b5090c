"""A launch that a namespace's quota has no room for yet: it waits for it as for a place in the queue, without end. In
memory: an engine that comes anew launches anew."""

from __future__ import annotations

import time
from collections.abc import Callable

from penstock.clusters.base import Launch, Observation, Phase
from penstock.clusters.kubernetes.api import OverQuota
from penstock.engine.application import Reason

_EVERY_SECONDS = 5.0


class Postponed:
    def __init__(self, launch: Launch, refused: OverQuota, clock: Callable[[], float] = time.monotonic) -> None:
        self.launch = launch
        self._refused = refused
        self._clock = clock
        self._tried_at = clock()

    def due(self) -> bool:
        return self._clock() - self._tried_at >= _EVERY_SECONDS

    def refused_again(self, refused: OverQuota) -> None:
        self._refused, self._tried_at = refused, self._clock()

    def observation(self) -> Observation:
        return Observation(
            Phase.STARTING,
            reason=Reason("quota_exceeded", f"{self._refused.problem}: {self._refused.why}", self._refused.fix),
        )
