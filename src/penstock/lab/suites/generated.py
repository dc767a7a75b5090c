"""Data that an application of the lab generates once and every run with the same options uses again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock import units
from penstock.errors import NotFound
from penstock.lab.session import Session


@dataclass(frozen=True)
class Generated:
    """Where the data is, which application makes it, and what its manifest must say for it to be that very data.

    The application takes `arguments`, `--location` and `--report`, and writes `_manifest.json` last, so that data whose
    generation was cut short is made again.
    """

    title: str
    prefix: str
    main_class: str
    arguments: Sequence[str]
    identity: Mapping[str, Any]

    def ensure(self, session: Session, *, reload: bool) -> dict[str, Any]:
        """The manifest, after generating the data where the lake lacks it or `reload` asks for it."""
        session.listener.step(self.title)
        found = None if reload else self.manifest(session)
        if found is not None:
            session.listener.note("The lake has it already.")
        else:
            found = self._generate(session)
            session.listener.note(f"{units.size(found['bytes'])} generated.")
        session.record("dataset", manifest=found)
        return found

    def manifest(self, session: Session) -> dict[str, Any] | None:
        """None where there is no data, or not this."""
        try:
            found: dict[str, Any] = json.loads(session.store.get(f"{self.prefix}/_manifest.json"))
        except NotFound:
            return None
        return found if {key: found.get(key) for key in self.identity} == self.identity else None

    def _generate(self, session: Session) -> dict[str, Any]:
        report = session.key("generate") + ".jsonl"
        where = ("--location", session.uri(self.prefix), "--report", session.uri(report))
        session.application("generate", self.main_class, (*self.arguments, *where), name=self.title)
        session.replay(report)
        made = self.manifest(session)
        if made is None:
            raise NotFound(
                f"{self.title}: generated, but {self.prefix}/_manifest.json is not in the lake",
                fix="generate it again, with --reload",
            )
        return made
