"""What is to be measured: arms, and how often each is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.lab import caches, launcher, matrix
from penstock.lab.suites.base import Suite
from penstock.model import ClusterSize


@dataclass(frozen=True)
class Arm:
    """One side of a comparison: a suite on one lake, cluster size, profile and launcher. It becomes one run."""

    name: str
    suite: Suite
    size: ClusterSize
    lake: str | None = None
    profile: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    launcher: str = launcher.PENSTOCK
    gateways: int | None = None
    """How many of its lake's gateways it uses; None for all."""


@dataclass(frozen=True)
class Plan:
    """How often each arm is measured, and what a repetition finds in the caches (`caches.POLICIES`).

    Warm-up repetitions are recorded and counted in nothing.
    """

    repetitions: int = 1
    warmup: int = 0
    caches: str = caches.KEEP


@dataclass(frozen=True)
class Experiment:
    """Arms that are measured in turns, to be set against each other."""

    arms: Sequence[Arm]
    plan: Plan

    def order(self) -> list[tuple[int, Arm]]:
        """(repetition, arm) as they will be measured; 0 and below are warm-up."""
        turns = matrix.turns(self.arms, self.plan.warmup + self.plan.repetitions)
        return [(repetition - self.plan.warmup, arm) for repetition, arm in turns]
