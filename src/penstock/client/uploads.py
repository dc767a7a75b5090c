"""Bringing this machine's files to the lake for an application that a service runs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.client.connection import Connection
from penstock.clusters.launch import BUILT_IN
from penstock.errors import InvalidInput, NotFound

_LISTS = ("jars", "files", "python_files")
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*://")


class Uploads:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def uploaded(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The same with addresses in the lake for files of this machine. Raises `NotFound` where there is none."""
        lake = body.get("lake")
        sent = {**body, "application": self.address_of(str(body["application"]), lake)}
        if not sent.get("name"):
            sent["name"] = Path(str(body["application"])).name
        for name in _LISTS:
            if name in sent:
                sent[name] = [self.address_of(str(path), lake) for path in sent[name]]
        return sent

    def address_of(self, path: str, lake: str | None) -> str:
        if path == BUILT_IN or _ELSEWHERE.match(path):
            return path
        file = Path(path).expanduser()
        if not file.is_file():
            raise NotFound(f"There is no file {file}", fix=f"ls -l '{file.absolute().parent}' shows what is there")
        where = f"/v1/files/{_digest(file)}/{file_name(file.name)}"
        wanted = {} if lake is None else {"lake": lake}
        try:
            found = self._connection.json("GET", where, params=wanted)
        except NotFound:
            found = self._connection.put_file(where, file, params=wanted)
        return str(found["address"])


def file_name(name: str) -> str:
    """A name the service takes: what an address cannot have in it becomes `_`."""
    cleaned = re.sub(r"[^A-Za-z0-9._-]", "_", name)[-200:]
    return cleaned if re.match(r"[A-Za-z0-9_]", cleaned) else f"_{cleaned[1:]}"


def _digest(file: Path) -> str:
    found = hashlib.sha256()
    try:
        with file.open("rb") as content:
            while piece := content.read(1 << 20):
                found.update(piece)
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read", why=error.strerror or "", fix=f"ls -l '{file}'") from error
    return found.hexdigest()
