"""What an HDFS of this machine is remembered by: its shape, and the ports its daemons listen on."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from penstock.home import read_json, write_json
from penstock.lake.hdfs.plan import NAMENODE, Ports, Shape
from penstock.processes import are_free_again, free_ports

FILE = "cluster.json"

_NAMENODE_PORTS = ("rpc", "http")
_DATANODE_PORTS = ("rpc", "http", "data")


class State:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file = directory / FILE

    def shape(self) -> Shape | None:
        """None where nothing was ever kept."""
        kept = self._kept().get("shape")
        return Shape(**kept) if kept else None

    def ports(self) -> dict[str, Ports]:
        return {name: Ports.of(numbers) for name, numbers in self._kept().get("ports", {}).items()}

    def keep(self, shape: Shape, running: Collection[str]) -> dict[str, Ports]:
        """Write down the shape and every daemon's ports, which it keeps while it runs or where they are still free."""
        known = self.ports()
        ports = {}
        for daemon in shape.daemons():
            before = known.get(daemon)
            if before and (daemon in running or are_free_again(before.all())):
                ports[daemon] = before
            else:
                names = _NAMENODE_PORTS if daemon == NAMENODE else _DATANODE_PORTS
                ports[daemon] = Ports(**dict(zip(names, free_ports(len(names)), strict=True)))
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        numbers = {daemon: vars(chosen) for daemon, chosen in ports.items()}
        write_json(self._file, {"shape": shape.as_json(), "ports": numbers})
        return ports

    def _kept(self) -> dict[str, Any]:
        return dict(read_json(self._file) or {})
