"""What a measurement of a store means: pure functions from what `probes.py` saw to what Penstock does because of it."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.lake.observations import Answer, Conditional, Multipart, Race, RoundTrip, Staleness, Temporary

# S3 refuses a signature that is 15 minutes off; committers and caches compare times much finer than that.
_SKEW_REFUSED_SECONDS = 900
_SKEW_NOTICED_SECONDS = 5
_NEAR_SECONDS = 0.005


class Outcome(str, enum.Enum):
    OK = "ok"
    LIMITED = "limited"
    """Works without it, with less speed or a weaker guarantee."""
    FAILED = "failed"
    """Essential: Penstock cannot use the lake."""
    SKIPPED = "skipped"
    """Not measured, because something it needs failed."""


@dataclass(frozen=True)
class Judgement:
    outcome: Outcome
    measured: str
    consequence: str
    """What Penstock will do because of it; after a failure, what the user can do."""


def judge_answer(answer: Answer) -> Judgement:
    return Judgement(Outcome.OK, f"answers in {_ms(answer.seconds)}", "sends requests there")


def judge_clock(answer: Answer) -> Judgement:
    skew = answer.clock_skew_seconds
    if skew is None:
        return Judgement(Outcome.LIMITED, "the store sends no date", "trusts that the clocks agree")
    seen = f"the store is {abs(skew):.0f} s {'ahead' if skew > 0 else 'behind'}" if abs(skew) >= 1 else "within 1 s"
    if abs(skew) >= _SKEW_REFUSED_SECONDS:
        return Judgement(Outcome.FAILED, seen, "cannot sign requests: set the clock (timedatectl set-ntp true)")
    if abs(skew) >= _SKEW_NOTICED_SECONDS:
        return Judgement(
            Outcome.LIMITED, seen, "works, but times in listings differ from this machine's: set the clock"
        )
    return Judgement(Outcome.OK, seen, "signs requests with this machine's time")


def judge_gateways(gateways: int, apart: Sequence[tuple[str, str]]) -> Judgement:
    """`apart`: each (written through, not found through)."""
    if apart:
        writer, reader = apart[0]
        return Judgement(
            Outcome.FAILED,
            f"what is written through {writer} is not there through {reader}",
            "cannot use them as one: they are not gateways of one store, or not all of them have the bucket",
        )
    return Judgement(
        Outcome.OK, f"each of {gateways} shows what any other wrote", "spreads requests over them, and does without one"
    )


def judge_round_trip(trip: RoundTrip) -> Judgement:
    seen = f"median {_ms(trip.median_seconds)}, p99 {_ms(trip.p99_seconds)} of {trip.requests} requests"
    if trip.median_seconds <= _NEAR_SECONDS:
        return Judgement(Outcome.OK, seen, "reads as from a near store: few large requests gain little")
    return Judgement(Outcome.OK, seen, "each request costs this much: larger objects and fewer of them pay")


def judge_temporary(seen: Temporary) -> Judgement:
    own = "gives every application the lake's own credentials"
    if not seen.issued:
        return Judgement(Outcome.LIMITED, f"the store issues none ({seen.refusal})", own)
    if not seen.asked_for:
        return Judgement(
            Outcome.LIMITED,
            "the store issues some, and the lake does not say to use them",
            f"{own}: add it again with --role-arn, or --sts-endpoint alone for sessions of its user",
        )
    deletes = "" if seen.deletes_many else ", one object at a time"
    told = f"issued for {seen.seconds:.0f} s, and they list and delete in the bucket{deletes}"
    may = "for this bucket alone" if seen.confined else "which may do what the lake's user may"
    return Judgement(Outcome.OK, told, f"gives each application its own, {may}, and renews them")


def judge_bytes(same: bool) -> Judgement:
    if same:
        return Judgement(Outcome.OK, "bytes come back as written, under any key", "keeps artefacts and tables there")
    return Judgement(Outcome.FAILED, "bytes come back changed", "cannot use this store")


def judge_ranges(exact: bool) -> Judgement:
    if exact:
        return Judgement(Outcome.OK, "first, middle, last and suffix exact", "reads only the columns a query needs")
    return Judgement(Outcome.FAILED, "a range gave other bytes than asked for", "cannot read Parquet from this store")


def judge_multipart(seen: Multipart) -> Judgement:
    if not seen.intact:
        return Judgement(Outcome.FAILED, "the parts do not add up to the object", "cannot commit output to this store")
    if not seen.abort_leaves_nothing:
        return Judgement(
            Outcome.LIMITED,
            "an aborted upload is still listed",
            "uses the magic committer; give the bucket a rule that removes unfinished uploads",
        )
    return Judgement(
        Outcome.OK,
        f"two parts intact, abort leaves nothing ({_ms(seen.seconds)})",
        "commits output with the magic committer: no renames, visible all at once",
    )


def judge_listing(seen: Staleness) -> Judgement:
    if seen.stale:
        return Judgement(
            Outcome.FAILED,
            f"{seen.stale} of {seen.tries} listings were stale",
            "cannot trust a listing: files of a table would be missed",
        )
    return Judgement(Outcome.OK, f"{seen.tries} of {seen.tries} listings up to date", "lists tables without waiting")


def judge_directories(linger: bool, *, known: bool) -> Judgement:
    """`known`: whether the lake's record says that they do."""
    if not linger:
        return Judgement(Outcome.OK, "gone with their last object", "deletes objects, and nothing else")
    seen = "an empty directory is listed for a while"
    if known:
        told = "removes the directories of what it deletes: a dropped table can be made again at once"
    else:
        told = "cannot make a dropped table again at once, for the lake does not say so: add it again"
    return Judgement(Outcome.LIMITED, seen, told)


def judge_overwrites(seen: Staleness) -> Judgement:
    if seen.stale:
        return Judgement(
            Outcome.LIMITED,
            f"{seen.stale} of {seen.tries} reads gave old content",
            "is safe for new files; do not overwrite a table that is being read",
        )
    return Judgement(Outcome.OK, f"{seen.tries} of {seen.tries} reads gave the new content", "reads what was written")


def judge_conditional(seen: Conditional, what: str) -> Judgement:
    if seen.status in (409, 412) and seen.kept:
        return Judgement(Outcome.OK, f"refused with {seen.status}, the object kept", f"{what} can be made only-if-new")
    told = "ignored" if seen.status < 300 else f"answered {seen.status}"
    return Judgement(
        Outcome.LIMITED,
        told + ("" if seen.kept else ", the object replaced"),
        "relies on no such guarantee: of two writers of one path the later wins",
    )


def judge_race(seen: Race) -> Judgement:
    won = f"{seen.winners} of {seen.rivals} writers won"
    if seen.winners == 1 and seen.winner_kept:
        return Judgement(Outcome.OK, won + ", its bytes kept", "a path claimed by one writer is that writer's")
    return Judgement(Outcome.LIMITED, won, "relies on no such guarantee: of two writers of one path the later wins")


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"
