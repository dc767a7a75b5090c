"""The usual rates of request faults: high enough to meet every kind, low enough that retries succeed. Pure."""

from __future__ import annotations

from random import Random

from benchmarks.chaos.faults import (
    Answer,
    CutAnswer,
    CutUpload,
    Delay,
    FlipAnswer,
    FlipUpload,
    KillClient,
    LoseAnswer,
    Plan,
    Reset,
    Rule,
    Skew,
    StopClient,
    Throttle,
)

_READS = ("GetObject",)
_UPLOADS = ("PutObject", "UploadPart")
_ANSWERED = ("GetObject", "ListObjects", "ListUploads", "CompleteUpload", "CreateUpload", "DeleteObjects")
# Keys of tables only: an application that cannot store its logs keeps them in the home, which is not tested here.
_TABLES = r"^chaos/"
_DECISION = r"/_penstock_commit/\d+$"

_PASSING = (
    Rule(Delay(0.2), 0.03),
    Rule(Delay(2.0), 0.006),
    Rule(Throttle(200_000), 0.01, (*_UPLOADS, *_READS)),
    Rule(Reset(), 0.015),
    Rule(Reset(3.0), 0.004),
    Rule(LoseAnswer(), 0.015),
    Rule(CutAnswer(), 0.01, _ANSWERED),
    Rule(CutAnswer(reset=True), 0.01, _ANSWERED),
    Rule(CutUpload(), 0.01, _UPLOADS),
    Rule(Answer(500, "InternalError"), 0.02),
    Rule(Answer(503, "SlowDown"), 0.015),
    Rule(Answer(503, "ServiceUnavailable", retry_after=1), 0.01),
    Rule(Skew(3_600), 0.01),
    Rule(Skew(-3_600, refused=True), 0.002),
)
_FLIPS = (
    Rule(FlipAnswer(), 0.04, _READS, _TABLES),
    Rule(FlipUpload(), 0.01, _UPLOADS, _TABLES),
)
# A commit is most vulnerable before and after its decision, and while it carries the decision out.
_KILLS = (
    Rule(KillClient(), 0.06, ("PutObject",), _DECISION, at_most=1),
    Rule(KillClient(done=True), 0.06, ("PutObject",), _DECISION, at_most=1),
    Rule(KillClient(), 0.02, ("CompleteUpload",), _TABLES, at_most=1),
    Rule(KillClient(done=True), 0.02, ("CompleteUpload",), _TABLES, at_most=1),
    Rule(KillClient(), 0.012, ("UploadPart",), _TABLES, at_most=1),
)
_STOPS = (
    Rule(StopClient(12.0), 0.03, ("PutObject",), _DECISION, at_most=1),
    Rule(StopClient(12.0, done=True), 0.03, ("PutObject",), _DECISION, at_most=1),
    Rule(StopClient(4.0), 0.01, ("CompleteUpload", "DeleteObjects"), _TABLES, at_most=1),
    Rule(StopClient(4.0), 0.01, ("UploadPart",), _TABLES, at_most=2),
)


def usual(seed: str, *, kills: bool = True) -> Plan:
    """The plan of a usual round.

    With `kills`, one request at most kills its sender, at a moment that the seed chooses: if both writers' drivers died
    in their first job, nothing would be left to prove.
    """
    return Plan(seed, (*((Random(seed).choice(_KILLS), *_STOPS) if kills else ()), *_FLIPS, *_PASSING))
