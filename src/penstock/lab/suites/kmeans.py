"""K-means: points around known centres, in the object store; the centres found are compared with those."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock import units
from penstock.errors import InvalidInput
from penstock.lab.session import Session
from penstock.lab.suites.base import Suite
from penstock.lab.suites.generated import Generated
from penstock.units import MIB

_MAIN = "io.penstock.workloads.kmeans"
_NUMBER_BYTES = 4


@dataclass(frozen=True)
class KMeans(Suite):
    """A repetition reads the points into the executors' memory, trains on them, and checks the centres found."""

    workload: ClassVar[str] = "kmeans"
    title: ClassVar[str] = "K-means"
    profile: ClassVar[str] = "ml"

    points: int = 1_000_000
    dimensions: int = 20
    clusters: int = 10
    iterations: int = 20
    passes: int = 5
    """Over the points, of k-means||, to find where to start."""
    object_size_bytes: int = 64 * MIB
    seed: int = 1
    reload: bool = False

    @property
    def bytes(self) -> int:
        return self.points * self.dimensions * _NUMBER_BYTES

    def check_options(self) -> None:
        if self.clusters < 1 or self.points < 2 * self.clusters:
            raise InvalidInput(
                f"{self.points} points do not make {self.clusters} clusters",
                why="each cluster needs two points at least",
                fix=f"--points {2 * max(self.clusters, 1)} or more",
            )
        if self.dimensions < 2:
            raise InvalidInput(
                f"{self.dimensions} dimensions are too few",
                why="in one, clusters far apart need too much room",
                fix="--dimensions 2 or more",
            )
        if self.iterations < 1 or self.passes < 1:
            raise InvalidInput("Training takes at least one pass and one iteration", fix="--iterations 20 --passes 5")

    def needs_bytes(self) -> int:
        # The points, and once more where the executors' memory does not hold them, with what k-means|| knows of each.
        return 2 * self.bytes + 12 * self.points

    def prepare(self, session: Session) -> None:
        self.data.ensure(session, reload=self.reload)

    @property
    def data(self) -> Generated:
        return Generated(
            title=f"Points, {units.size(self.bytes)}",
            prefix=f"kmeans/{self.points}x{self.dimensions}-k{self.clusters}-{self.object_size_bytes // MIB}m-"
            f"seed{self.seed}",
            main_class=f"{_MAIN}.Generate",
            arguments=(
                *("--points", str(self.points)),
                *("--dimensions", str(self.dimensions)),
                *("--clusters", str(self.clusters)),
                *("--seed", str(self.seed)),
                *("--object-size", f"{self.object_size_bytes}b"),
            ),
            identity={
                "points": self.points,
                "dimensions": self.dimensions,
                "clusters": self.clusters,
                "seed": self.seed,
                "object_size": self.object_size_bytes,
            },
        )

    def repetition(self, session: Session) -> None:
        report = session.key("train") + ".jsonl"
        session.application(
            "train",
            f"{_MAIN}.Train",
            (
                *("--input", session.uri(self.data.prefix)),
                *("--iterations", str(self.iterations)),
                *("--passes", str(self.passes)),
                *("--report", session.uri(report)),
            ),
            name=f"K-means of {units.size(self.bytes)}",
        )
        session.replay(report)
