"""What a workload is to the lab: its options, the data it needs, and one repetition of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.engine.policy import admission
from penstock.lake.model import Lake
from penstock.model import Capacity, ClusterSize

if TYPE_CHECKING:
    from penstock.lab.session import Session


@dataclass(frozen=True)
class Suite(ABC):
    """A workload with its options: the fields of the subclass, each of which JSON can hold.

    A suite decides what to run and how its result is validated; how an application is launched, what is recorded
    beside it and in which order things are measured is the session's and the runner's business.
    """

    workload: ClassVar[str]
    """What it is called on the command line, in a lab file and in the names of runs."""
    title: ClassVar[str]
    profile: ClassVar[str]
    """The workload profile it runs with where no other is asked for."""
    meaning: ClassVar[Mapping[str, str]] = {}
    """Spark settings that define what is computed, not how fast: the same in every arm."""

    @property
    def description_scale(self) -> float | None:
        """The benchmark's own scale factor, where it has one."""
        return None

    def options(self) -> dict[str, Any]:
        """As recorded; `type(self)(**options)` is the suite again.

        Without `reload`: making the data anew was asked of one command, not of whoever goes on with it.
        """
        return {name: value for name, value in asdict(self).items() if name != "reload"}

    def check_options(self) -> None:
        """Raise `InvalidInput` for what could never run. Nothing was started yet."""
        return

    def default_size(self, capacity: Capacity) -> ClusterSize:
        """The cluster of each of its applications where the user asked for none."""
        return admission.usual_size(capacity)

    def check_size(self, size: ClusterSize, capacity: Capacity) -> None:  # noqa: ARG002 - one cluster the engine checks
        """Raise `InvalidInput` where clusters of that size cannot do it on what there is. Nothing was started yet."""
        return

    def check_lake(self, lake: Lake) -> None:  # noqa: ARG002 - most run on any
        """Raise `InvalidInput` where it could not run on that lake. Nothing was started yet."""
        return

    def needs_bytes(self) -> int:
        """Free space that data, output and shuffle together will take at the most; 0 where that is negligible."""
        return 0

    def prepare(self, session: Session) -> None:  # noqa: ARG002 - some suites need nothing
        """Make the input that the lake lacks. Not part of any repetition; what it finds in the lake it uses."""
        return

    @abstractmethod
    def repetition(self, session: Session) -> None:
        """Do the work once, record its samples, and validate it.

        Raises `PenstockError` where the work could not be done at all: the repetition is then recorded as failed. A
        wrong result is not raised but recorded, by `session.check`.
        """
