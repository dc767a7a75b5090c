"""The check of a store, row by row: its capabilities, and Penstock's behavior with each. Verdicts are pure."""

from __future__ import annotations

import contextlib
import enum
import functools
import secrets
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from penstock.errors import LakeError, PenstockError
from penstock.lake.checks.probes import (
    Answer,
    Conditional,
    Multipart,
    Probes,
    Race,
    RoundTrip,
    Staleness,
    TemporaryCredentials,
)
from penstock.lake.hdfs.webhdfs import HdfsObjectStore
from penstock.lake.model import Credentials, Lake
from penstock.lake.s3 import S3ObjectStore, http_status, translate

# S3 refuses a signature that is 15 minutes off; committers and caches compare times much more precisely.
_SKEW_REFUSED_SECONDS = 900
_SKEW_NOTICED_SECONDS = 5
_NEAR_SECONDS = 0.005


class Outcome(str, enum.Enum):
    OK = "ok"
    LIMITED = "limited"
    """Penstock works without the capability, but slower or with a weaker guarantee."""
    FAILED = "failed"
    """The capability is essential: Penstock cannot use the lake."""
    SKIPPED = "skipped"
    """The capability was not measured, because an earlier probe failed."""


@dataclass(frozen=True)
class Verdict:
    outcome: Outcome
    measured: str
    consequence: str
    """Penstock's behavior with this capability; after a failure, the user's remedy."""


def judge_answer(answer: Answer) -> Verdict:
    return Verdict(Outcome.OK, f"answers in {_ms(answer.seconds)}", "sends requests there")


def judge_clock(answer: Answer) -> Verdict:
    skew = answer.clock_skew_seconds
    if skew is None:
        return Verdict(Outcome.LIMITED, "the store sends no date", "trusts that the clocks agree")
    seen = f"the store is {abs(skew):.0f} s {'ahead' if skew > 0 else 'behind'}" if abs(skew) >= 1 else "within 1 s"
    if abs(skew) >= _SKEW_REFUSED_SECONDS:
        return Verdict(Outcome.FAILED, seen, "cannot sign requests: set the clock (timedatectl set-ntp true)")
    if abs(skew) >= _SKEW_NOTICED_SECONDS:
        return Verdict(Outcome.LIMITED, seen, "works, but times in listings differ from this machine's: set the clock")
    return Verdict(Outcome.OK, seen, "signs requests with this machine's time")


def judge_gateways(gateways: int, apart: Sequence[tuple[str, str]]) -> Verdict:
    """Judge gateways by the pairs in `apart`: (written through, not found through)."""
    if apart:
        writer, reader = apart[0]
        return Verdict(
            Outcome.FAILED,
            f"an object written through {writer} is not found through {reader}",
            "cannot use them together: they are not gateways of one store, or some of them lack the bucket",
        )
    return Verdict(
        Outcome.OK, f"each of {gateways} shows the others' writes", "spreads requests over them, and tolerates failures"
    )


def judge_round_trip(trip: RoundTrip) -> Verdict:
    seen = f"median {_ms(trip.median_seconds)}, p99 {_ms(trip.p99_seconds)} of {trip.requests} requests"
    if trip.median_seconds <= _NEAR_SECONDS:
        return Verdict(Outcome.OK, seen, "reads as from a near store: fewer, larger requests gain little")
    return Verdict(Outcome.OK, seen, "pays this for each request: fewer and larger objects are faster")


def judge_temporary(seen: TemporaryCredentials) -> Verdict:
    own = "gives every application the lake's own credentials"
    if not seen.issued:
        return Verdict(Outcome.LIMITED, f"the store issues none ({seen.refusal})", own)
    if not seen.configured:
        return Verdict(
            Outcome.LIMITED,
            "the store issues them, but the lake is not configured to use them",
            f"{own}: add it again with --role-arn, or with --sts-endpoint alone for sessions of its user",
        )
    deletes = "" if seen.deletes_many else ", one object at a time"
    measured = f"issued for {seen.seconds:.0f} s, and they list and delete in the bucket{deletes}"
    if seen.escapable:
        return Verdict(
            Outcome.LIMITED,
            f"{measured}; whoever has them gets others, for all that the role may",
            "gives each application its own, which a program can widen: let the role's trust policy deny the role "
            "itself (docs/guide/lake.md)",
        )
    rights = "limited to this bucket" if seen.confined else "with the rights of the lake's user"
    return Verdict(Outcome.OK, measured, f"gives each application its own, {rights}, and renews them")


def judge_bytes(same: bool) -> Verdict:
    if same:
        return Verdict(Outcome.OK, "bytes come back as written, under any key", "stores artifacts and tables there")
    return Verdict(Outcome.FAILED, "bytes come back changed", "cannot use this store")


def judge_ranges(exact: bool) -> Verdict:
    if exact:
        return Verdict(Outcome.OK, "first, middle, last and suffix exact", "reads only the columns a query needs")
    return Verdict(Outcome.FAILED, "a range returned the wrong bytes", "cannot read Parquet from this store")


def judge_multipart(seen: Multipart) -> Verdict:
    if not seen.intact:
        return Verdict(Outcome.FAILED, "the parts do not add up to the object", "cannot commit output to this store")
    if not seen.abort_leaves_nothing:
        return Verdict(
            Outcome.LIMITED,
            "an aborted upload is still listed",
            "uses the magic committer; add a lifecycle rule to the bucket that removes unfinished uploads",
        )
    return Verdict(
        Outcome.OK,
        f"two parts intact, abort leaves nothing ({_ms(seen.seconds)})",
        "commits output with the magic committer: no renames, visible all at once",
    )


def judge_listing(seen: Staleness) -> Verdict:
    if seen.stale:
        return Verdict(
            Outcome.FAILED,
            f"{seen.stale} of {seen.tries} listings were stale",
            "cannot trust listings: files of a table would be missed",
        )
    return Verdict(Outcome.OK, f"{seen.tries} of {seen.tries} listings up to date", "lists tables without waiting")


def judge_directories(linger: bool, *, known: bool) -> Verdict:
    """Judge lingering directories; `known` is true if the lake's record mentions them."""
    if not linger:
        return Verdict(Outcome.OK, "gone with their last object", "deletes objects, and nothing else")
    seen = "an empty directory is listed for a while"
    if known:
        consequence = "removes the directories of deleted objects: a dropped table can be recreated at once"
    else:
        consequence = "cannot recreate a dropped table at once, as the lake's record lacks this: add the lake again"
    return Verdict(Outcome.LIMITED, seen, consequence)


def judge_overwrites(seen: Staleness) -> Verdict:
    if seen.stale:
        return Verdict(
            Outcome.LIMITED,
            f"{seen.stale} of {seen.tries} reads returned old content",
            "is safe for new files; do not overwrite a table that is being read",
        )
    return Verdict(Outcome.OK, f"{seen.tries} of {seen.tries} reads returned the new content", "reads its own writes")


def judge_conditional(seen: Conditional, file: str) -> Verdict:
    if seen.status in (409, 412) and seen.kept:
        consequence = f"{file} can be created only if it is new"
        return Verdict(Outcome.OK, f"refused with {seen.status}, the object kept", consequence)
    measured = "ignored" if seen.status < 300 else f"answered {seen.status}"
    return Verdict(
        Outcome.LIMITED,
        measured + ("" if seen.kept else ", the object replaced"),
        "relies on no such guarantee: of two writers of one path the later wins",
    )


def judge_race(seen: Race) -> Verdict:
    won = f"{seen.winners} of {seen.rivals} writers won"
    if seen.winners == 1 and seen.winner_kept:
        return Verdict(Outcome.OK, won + ", its bytes kept", "a path belongs to the first writer that claims it")
    return Verdict(Outcome.LIMITED, won, "relies on no such guarantee: of two writers of one path the later wins")


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


_STARTING_ATTEMPTS = 3
_CHECKS = "penstock/check-"
_NO_KEY = "penstock/.no-such-key"
"""The prefix of an empty listing, which needs only the bucket and the right to list it."""


@dataclass(frozen=True)
class Row:
    feature: str
    verdict: Verdict

    def to_json(self) -> dict[str, str]:
        return {
            "feature": self.feature,
            "outcome": self.verdict.outcome.value,
            "measured": self.verdict.measured,
            "consequence": self.verdict.consequence,
        }


def usable(rows: Sequence[Row]) -> bool:
    return not any(row.verdict.outcome is Outcome.FAILED for row in rows)


_Seen = TypeVar("_Seen")
Progress = Callable[[str], None]


class LakeCheck:
    """One check of one lake; `run` returns each row after those that it depends on."""

    def __init__(self, lake: Lake, credentials: Credentials, *, progress: Progress = lambda _: None) -> None:
        self._lake = lake
        self._progress = progress
        self._probes = Probes(lake, credentials, f"{_CHECKS}{secrets.token_hex(6)}/")
        self._rows: list[Row] = []
        self._blocked = ""

    def run(self) -> list[Row]:
        """Run all probes. A failure of the store becomes a row, not an exception.

        The check leaves nothing in the store, even when it is interrupted.
        """
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
                self._measure("one store", probes.gateway_mismatches, judge, blocks="the gateways differ")
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
                with contextlib.suppress(Exception):  # a row above already reports why the removal fails
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
        """Check credentials and bucket with one request, because a store says which of them is wrong."""
        if self._blocked:
            for feature in ("credentials", "bucket"):
                self._add(feature, Verdict(Outcome.SKIPPED, self._blocked, ""))
            return
        self._progress("credentials")
        try:
            self._probes.list_one()
        except Exception as error:
            refusal = translate(error, self._lake, self._lake.endpoints[0])
            missing = http_status(error) == 404
            if missing:
                self._add("credentials", Verdict(Outcome.OK, "accepted", "signs requests with them"))
            self._blocked = "no bucket" if missing else "no access"
            self._add("bucket" if missing else "credentials", Verdict(Outcome.FAILED, refusal.why, refusal.fix))
            if not missing:
                self._add("bucket", Verdict(Outcome.SKIPPED, self._blocked, ""))
            return
        self._add("credentials", Verdict(Outcome.OK, "accepted", "signs requests with them"))
        self._add("bucket", Verdict(Outcome.OK, self._lake.bucket, "keeps everything in it"))

    def _measure(
        self,
        feature: str,
        probe: Callable[[], _Seen],
        judge: Callable[[_Seen], Verdict],
        *,
        optional: bool = False,
        blocks: str = "",
    ) -> _Seen | None:
        if self._blocked:
            self._add(feature, Verdict(Outcome.SKIPPED, self._blocked, ""))
            return None
        self._progress(feature)
        try:
            seen = probe()
        except OSError as error:
            self._add(feature, Verdict(Outcome.FAILED, str(error), f"cannot use it: {_unanswered(error)}"))
            return None
        except PenstockError as error:
            self._add(feature, Verdict(Outcome.FAILED, error.why or error.problem, error.fix))
            return None
        except Exception as error:
            refusal = translate(error, self._lake, self._lake.endpoints[0], key=feature)
            outcome = Outcome.LIMITED if optional and http_status(error) else Outcome.FAILED
            self._add(feature, Verdict(outcome, refusal.why, refusal.fix))
            self._blocked = blocks
            return None
        self._add(feature, judge(seen))
        return seen

    def _add(self, feature: str, verdict: Verdict) -> None:
        self._rows.append(Row(feature, verdict))


def require_reachable(lake: Lake, credentials: Credentials | None) -> None:
    """Raise the `LakeError` of the first request to any endpoint, without retries, for a lake that is being added."""
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
            fix=f"{_unanswered(error)}, or add the lake without a check: --no-check",
        ) from error
    try:
        probes.list_one()
    except Exception as error:
        raise translate(error, lake, lake.endpoints[0]) from error


def require_usable(lake: Lake, credentials: Credentials | None) -> None:
    """Raise the `LakeError` that an application's first request would cause.

    Like the application's own client, one gateway that answers is enough, and failed requests are retried.
    """
    if credentials is None:
        HdfsObjectStore(lake).require_reachable()
    else:
        next(S3ObjectStore(lake, credentials, attempts=_STARTING_ATTEMPTS).list(_NO_KEY), None)


def directories_linger(lake: Lake, credentials: Credentials) -> bool:
    """Measure `Lake.directories_linger`; False if the credentials do not allow writes, and so no deletions."""
    probes = Probes(lake, credentials, f"{_CHECKS}{secrets.token_hex(6)}/", attempts=1)
    try:
        return probes.directories_linger()
    except Exception as error:
        if not http_status(error):
            raise translate(error, lake, lake.endpoints[0]) from error
        return False


def require_temporary_credentials(lake: Lake, credentials: Credentials) -> TemporaryCredentials:
    """Raise the `LakeError` that an application with temporary credentials would get."""
    try:
        return Probes(lake, credentials, "penstock/.", attempts=1).temporary_credentials()
    except PenstockError:
        raise
    except Exception as error:
        refusal = translate(error, lake, lake.endpoints[0])
        raise LakeError(
            f"The temporary credentials of the lake “{lake.name}” do not work",
            why=refusal.why,
            fix=f"let the role list, read, write and delete in the bucket “{lake.bucket}”",
        ) from error


def _unanswered(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return "give the certificate of the endpoints' authority: penstock lake add … --ca-file PEM"
    return "correct the address or start it"
