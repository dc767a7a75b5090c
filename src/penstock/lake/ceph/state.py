"""What one home remembers of its Ceph. The file holds a secret, so it is private like the daemons' keys beside it."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from penstock.errors import Conflict, StateError
from penstock.home import read_json, write_json
from penstock.lake.ceph import daemons
from penstock.lake.ceph.configuration import Ports, configuration
from penstock.lake.ceph.layout import Layout
from penstock.processes import free_ports

LAKE = "ceph"
_FILE = "state.json"


@dataclass(frozen=True)
class State:
    fsid: str
    layout: Layout
    ports: Ports
    quotas: Mapping[str, int]
    """Placement's kind → what its bucket may hold, in bytes."""
    sts_key: str = field(repr=False)
    made: bool = False
    """Whether it was ever complete. One that was not holds nothing, and is made anew."""

    @staticmethod
    def new(layout: Layout, quota_bytes: int | None) -> State:
        monitor, *gateways = free_ports(1 + layout.gateways)
        quotas = {kind: quota_bytes or layout.quota_bytes(placement) for kind, placement in layout.placements().items()}
        # AES-128 of sixteen printable characters: what the gateways read from a line of text.
        return State(str(uuid.uuid4()), layout, Ports(monitor, tuple(gateways)), quotas, secrets.token_hex(8))

    @staticmethod
    def load(directory: Path) -> State | None:
        value = read_json(directory / _FILE)
        if value is None:
            return None
        try:
            return State(
                **{**value, "layout": Layout.from_json(value["layout"]), "ports": Ports.from_json(value["ports"])}
            )
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(
                f"{directory / _FILE} is damaged",
                why=f"it does not describe a Ceph ({type(error).__name__}: {error})",
                fix=f"bring it back from a copy; without it the data below {directory} cannot be found",
            ) from error

    def store(self, directory: Path) -> None:
        layout, ports = self.layout.as_json(), self.ports.as_json()
        write_json(directory / _FILE, {**self.__dict__, "layout": layout, "ports": ports})

    def daemons(self) -> list[str]:
        return daemons.names(osds=self.layout.osds, gateways=self.layout.gateways)

    def configuration(self) -> str:
        return configuration(fsid=self.fsid, ports=self.ports, sts_key=self.sts_key)

    def lakes(self) -> dict[str, str]:
        """The lake's name → its placement's kind: the default one is simply “ceph”. Their buckets have their names."""
        first, second = self.layout.placements()
        return {LAKE: first, f"{LAKE}-{second}": second}

    def device_directories(self, directory: Path) -> dict[str, Path]:
        """Where each of an OSD's files is; outside of the home below a name that no other Ceph has."""
        own = f"penstock-ceph-{self.fsid}"
        data, metadata = self.layout.data_directory, self.layout.metadata_directory
        at_data = data / own if data else directory / "devices"
        at_metadata = metadata / own if metadata else at_data
        return {device.name: at_data if device.name == "block" else at_metadata for device in self.layout.devices()}

    def resumed(self, asked: Mapping[str, Any]) -> State:
        """The state with what was asked for and can be changed; `Conflict` where it is something that cannot."""
        have = self.layout.arguments()
        differing = sorted(name for name, value in asked.items() if value != have[name] and name != "gateways")
        if differing:
            told = ", ".join(f"{name.replace('_', ' ')}: {have[name]}, not {asked[name]}" for name in differing)
            raise Conflict(
                "There is a Ceph here already, and it is another",
                why=told,
                fix="penstock lake ceph up without these options resumes it; penstock lake ceph wipe removes it with "
                "its data. Both placements are there in any case: penstock lake list",
            )
        layout = Layout.checked(**{**have, "gateways": asked.get("gateways", have["gateways"])})
        lacking = layout.gateways - len(self.ports.gateways)
        gateways = (*self.ports.gateways, *free_ports(max(lacking, 0)))[: layout.gateways]
        return replace(self, layout=layout, ports=replace(self.ports, gateways=gateways))
