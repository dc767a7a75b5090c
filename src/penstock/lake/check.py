"""Checks a store row by row: what it supports, and what Penstock does because of it."""

from __future__ import annotations

import contextlib
import functools
import secrets
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from penstock.errors import LakeError, PenstockError
from penstock.lake.base import Credentials, Lake
from penstock.lake.failures import status_of, translated
from penstock.lake.hdfs.store import HdfsObjectStore
from penstock.lake.judgements import (
    Judgement,
    Outcome,
    judge_answer,
    judge_bytes,
    judge_clock,
    judge_conditional,
    judge_directories,
    judge_gateways,
    judge_listing,
    judge_multipart,
    judge_overwrites,
    judge_race,
    judge_ranges,
    judge_round_trip,
    judge_temporary,
)
from penstock.lake.objects import S3ObjectStore
from penstock.lake.observations import Temporary
from penstock.lake.probes import Probes

_STARTING_ATTEMPTS = 3
_CHECKS = "penstock/check-"
_NO_KEY = "penstock/.no-such-key"
"""A listing of nothing: it needs the bucket and the right to look into it."""


@dataclass(frozen=True)
class Row:
    feature: str
    judgement: Judgement

    def as_json(self) -> dict[str, str]:
        return {
            "feature": self.feature,
            "outcome": self.judgement.outcome.value,
            "measured": self.judgement.measured,
            "consequence": self.judgement.consequence,
        }


def usable(rows: Sequence[Row]) -> bool:
    return not any(row.judgement.outcome is Outcome.FAILED for row in rows)


_Seen = TypeVar("_Seen")
Progress = Callable[[str], None]


class LakeCheck:
    """One check of one lake; `run` returns its rows in the order of what depends on what."""

    def __init__(self, lake: Lake, credentials: Credentials, *, progress: Progress = lambda _: None) -> None:
        self._lake = lake
        self._progress = progress
        self._probes = Probes(lake, credentials, f"{_CHECKS}{secrets.token_hex(6)}/")
        self._rows: list[Row] = []
        self._blocked = ""

    def run(self) -> list[Row]:
        """Leaves nothing in the store, also when interrupted. A store that fails is a row, not an exception."""
        probes = self._probes
        reached = [endpoint for endpoint in self._lake.endpoints if self._reach(endpoint)]
        if reached:
            probes.use(reached)
        else:
            self._blocked = "no endpoint answers"
        self._access()
        try:
            if len(reached) > 1:
                judge = functools.partial(judge_gateways, len(reached))
                self._measure("one store", probes.strangers, judge, blocks="the gateways differ")
            self._measure("write, read, delete", probes.write_and_read, judge_bytes, blocks="writing fails")
            self._measure("range GET", probes.ranges, judge_ranges)
            self._measure("multipart upload", probes.multipart, judge_multipart)
            self._measure("list after write", probes.list_after_write, judge_listing)
            judge_seen = functools.partial(judge_directories, known=self._lake.directories_linger)
            self._measure("directories", probes.directories_linger, judge_seen)
            self._measure("overwrite visible", probes.overwrites, judge_overwrites)
            self._measure(
                "conditional PUT", probes.conditional_put, lambda seen: judge_conditional(seen, "a file"), optional=True
            )
            self._measure("conditional PUT race", probes.race, judge_race, optional=True)
            self._measure(
                "conditional complete",
                probes.conditional_complete,
                lambda seen: judge_conditional(seen, "a large file"),
                optional=True,
            )
            self._measure("temporary credentials", probes.temporary_credentials, judge_temporary)
            for endpoint in reached:
                trip = functools.partial(probes.round_trip, endpoint)
                self._measure(self._named("round trip", endpoint), trip, judge_round_trip)
        finally:
            if self._blocked in ("", "writing fails", "the gateways differ"):
                self._progress("cleaning up")
                with contextlib.suppress(Exception):  # what cannot be removed now was reported by a row above
                    probes.clean()
        return self._rows

    def _reach(self, endpoint: str) -> bool:
        reached = self._measure(
            self._named("reachable", endpoint), functools.partial(self._probes.answer, endpoint), judge_answer
        )
        if reached is not None:
            self._add(self._named("clock", endpoint), judge_clock(reached))
        return reached is not None

    def _named(self, feature: str, endpoint: str) -> str:
        return f"{feature} {endpoint}" if len(self._lake.endpoints) > 1 else feature

    def _access(self) -> None:
        """Credentials and bucket, from one request: a store says which of them is wrong."""
        if self._blocked:
            for feature in ("credentials", "bucket"):
                self._add(feature, Judgement(Outcome.SKIPPED, self._blocked, ""))
            return
        self._progress("credentials")
        try:
            self._probes.list_one()
        except Exception as error:
            refusal = translated(error, self._lake, self._lake.endpoints[0])
            missing = status_of(error) == 404
            if missing:
                self._add("credentials", Judgement(Outcome.OK, "accepted", "signs requests with them"))
            self._blocked = "no bucket" if missing else "no access"
            self._add("bucket" if missing else "credentials", Judgement(Outcome.FAILED, refusal.why, refusal.fix))
            if not missing:
                self._add("bucket", Judgement(Outcome.SKIPPED, self._blocked, ""))
            return
        self._add("credentials", Judgement(Outcome.OK, "accepted", "signs requests with them"))
        self._add("bucket", Judgement(Outcome.OK, self._lake.bucket, "keeps everything in it"))

    def _measure(
        self,
        feature: str,
        probe: Callable[[], _Seen],
        judge: Callable[[_Seen], Judgement],
        *,
        optional: bool = False,
        blocks: str = "",
    ) -> _Seen | None:
        if self._blocked:
            self._add(feature, Judgement(Outcome.SKIPPED, self._blocked, ""))
            return None
        self._progress(feature)
        try:
            seen = probe()
        except OSError as error:
            self._add(feature, Judgement(Outcome.FAILED, str(error), f"cannot use it: {_unanswered(error)}"))
            return None
        except PenstockError as error:
            self._add(feature, Judgement(Outcome.FAILED, error.why or error.problem, error.fix))
            return None
        except Exception as error:
            refusal = translated(error, self._lake, self._lake.endpoints[0], key=feature)
            outcome = Outcome.LIMITED if optional and status_of(error) else Outcome.FAILED
            self._add(feature, Judgement(outcome, refusal.why, refusal.fix))
            self._blocked = blocks
            return None
        self._add(feature, judge(seen))
        return seen

    def _add(self, feature: str, judgement: Judgement) -> None:
        self._rows.append(Row(feature, judgement))


def require_reachable(lake: Lake, credentials: Credentials | None) -> None:
    """Raise the `LakeError` of the first request, with a short patience: for a lake that is about to be used."""
    if credentials is None:
        HdfsObjectStore(lake).require_reachable()
        return
    probes = Probes(lake, credentials, "penstock/", attempts=1)
    try:
        for endpoint in lake.endpoints:
            probes.answer(endpoint)
    except ssl.SSLCertVerificationError as error:
        raise LakeError(
            f"The certificate of {endpoint} is not trusted", why=error.verify_message, fix=_unanswered(error)
        ) from error
    except OSError as error:
        raise LakeError(
            f"The endpoint {endpoint} cannot be reached",
            why=str(error),
            fix=f"{_unanswered(error)}, or add the lake without trying it: --no-check",
        ) from error
    try:
        probes.list_one()
    except Exception as error:
        raise translated(error, lake, lake.endpoints[0]) from error


def require_usable(lake: Lake, credentials: Credentials | None) -> None:
    """Raise the `LakeError` that an application would meet at its first request.

    As its own client it is content with one gateway that answers, and asks again where a request fails.
    """
    if credentials is None:
        HdfsObjectStore(lake).require_reachable()
    else:
        next(S3ObjectStore(lake, credentials, attempts=_STARTING_ATTEMPTS).list(_NO_KEY), None)


def directories_linger(lake: Lake, credentials: Credentials) -> bool:
    """See `Lake.directories_linger`. False where they may not write, and so delete nothing."""
    probes = Probes(lake, credentials, f"{_CHECKS}{secrets.token_hex(6)}/", attempts=1)
    try:
        return probes.directories_linger()
    except Exception as error:
        if not status_of(error):
            raise translated(error, lake, lake.endpoints[0]) from error
        return False


def require_temporary_credentials(lake: Lake, credentials: Credentials) -> Temporary:
    """Raise the `LakeError` an application would meet that is to be given credentials of its own."""
    try:
        return Probes(lake, credentials, "penstock/.", attempts=1).temporary_credentials()
    except PenstockError:
        raise
    except Exception as error:
        refusal = translated(error, lake, lake.endpoints[0])
        raise LakeError(
            f"The credentials the lake “{lake.name}” issues are of no use",
            why=refusal.why,
            fix=f"let the role list, read, write and delete in the bucket “{lake.bucket}”",
        ) from error


def _unanswered(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return "give the certificate of the endpoints' authority: penstock lake add … --ca-file PEM"
    return "correct the address or start it"
