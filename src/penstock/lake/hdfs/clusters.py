"""Every HDFS of a home together, as one of the stores of this machine."""

from __future__ import annotations

from penstock.home import Home
from penstock.lake.base import Lake
from penstock.lake.hdfs.cluster import KIND, HdfsCluster
from penstock.lake.hdfs.state import FILE


class HdfsClusters:
    """A `LocalStore` of `lake/local.py`."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def all(self) -> list[HdfsCluster]:
        """Running or not."""
        found = sorted((self._home.lake / KIND).glob(f"*/{FILE}"))
        return [HdfsCluster(self._home, path.parent.name) for path in found]

    def ensure(self, name: str) -> Lake:
        return HdfsCluster(self._home, name).ensure()

    def ready(self) -> bool:
        """Whether each of them is."""
        return all(cluster.status().ready for cluster in self.all())

    def summary(self) -> str | None:
        told = [f"{one.name} {'up' if one.daemons() else 'down'}" for one in self.all()]
        return ", ".join(told) or None

    def down(self) -> bool:
        stopped = [cluster.down() for cluster in self.all()]
        return any(stopped)

    def wipe(self) -> None:
        for cluster in self.all():
            cluster.wipe()
