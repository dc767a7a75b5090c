"""Seeded plans of request faults. Pure: no I/O and no clock; `proxy.py` carries them out.

A draw depends only on the seed, on the request's subject and on how often the same request came before. So the same
seed injects the same faults into the same work, in whatever order concurrent requests arrive, and a retried request is
drawn anew. Generated names (ids of jobs and applications) do not count.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar
from urllib.parse import parse_qsl, unquote, urlsplit


@dataclass(frozen=True)
class Request:
    """One S3 request as a gateway sees it. `key` does not include the bucket."""

    operation: str
    method: str
    key: str

    @staticmethod
    def of(method: str, target: str, headers: Mapping[str, str]) -> Request:
        """`target` as on the request line, path-style; `headers` by lower-case name."""
        parts = urlsplit(target)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        key = unquote(parts.path).lstrip("/").partition("/")[2] or query.get("prefix", "")
        whole_bucket = not unquote(parts.path).strip("/").partition("/")[2]
        return Request(_operation(method, query, headers, whole_bucket=whole_bucket), method, key)

    @property
    def subject(self) -> str:
        """Identity of the request, the same for every run of the same work."""
        return f"{self.operation} {_MADE_UP.sub('*', self.key)}"


_MADE_UP = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\bapp-[0-9a-z-]+|\d{8,}")


def _operation(method: str, query: Mapping[str, str], headers: Mapping[str, str], *, whole_bucket: bool) -> str:
    upload = "uploadId" in query
    if whole_bucket:
        named = {"uploads": "ListUploads", "delete": "DeleteObjects", "list-type": "ListObjects"}
        return next((name for mark, name in named.items() if mark in query), f"{method} bucket")
    if method == "PUT":
        if "partNumber" in query:
            return "UploadPart"
        return "CopyObject" if "x-amz-copy-source" in headers else "PutObject"
    known = {
        "GET": "ListParts" if upload else "GetObject",
        "HEAD": "HeadObject",
        "POST": "CompleteUpload" if upload else "CreateUpload",
        "DELETE": "AbortUpload" if upload else "DeleteObject",
    }
    return known.get(method, method)


@dataclass(frozen=True)
class Fault:
    """A fault that is injected into one request."""

    kind: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, **asdict(self)}

    def at_share(self, share: float) -> Fault:
        """The fault at this share of the body, for kinds that have a place."""
        return self

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Fault:
        given = dict(value)
        return _KINDS[given.pop("kind")](**given)


@dataclass(frozen=True)
class Delay(Fault):
    """The request reaches the store `seconds` later."""

    kind = "latency"
    seconds: float


@dataclass(frozen=True)
class Throttle(Fault):
    """Both bodies pass at this rate."""

    kind = "bandwidth"
    bytes_per_second: int


@dataclass(frozen=True)
class Reset(Fault):
    """The connection is reset after `seconds` of silence, and the store never sees the request."""

    kind = "reset"
    seconds: float = 0.0


@dataclass(frozen=True)
class LoseAnswer(Fault):
    """The store executes the request, and the connection is reset instead of an answer."""

    kind = "answer lost"


@dataclass(frozen=True)
class CutAnswer(Fault):
    """The connection ends in the middle of the answer's body: with an RST, or with a FIN."""

    kind = "half an answer"
    reset: bool = False


@dataclass(frozen=True)
class CutUpload(Fault):
    """The connection is reset when half of the request's body has been passed on."""

    kind = "half an upload"


@dataclass(frozen=True)
class Answer(Fault):
    """The gateway answers itself, and the store never sees the request. `retry_after` is the header, in seconds."""

    kind = "status"
    status: int
    code: str
    retry_after: int | None = None


@dataclass(frozen=True)
class Flip(Fault):
    """One bit is flipped, at this share of the body: in another place each time, or two damaged copies would agree."""

    place: float = 0.5

    def at_share(self, share: float) -> Fault:
        return replace(self, place=share)


@dataclass(frozen=True)
class FlipAnswer(Flip):
    """A bit flip in the answer's body."""

    kind = "flipped answer"


@dataclass(frozen=True)
class FlipUpload(Flip):
    """A bit flip in the request's body."""

    kind = "flipped upload"


@dataclass(frozen=True)
class Skew(Fault):
    """The answer's `Date` is off by `seconds`: in the store's answer or, if `refused`, in a RequestTimeTooSkewed."""

    kind = "clock skew"
    seconds: int
    refused: bool = False


@dataclass(frozen=True)
class KillClient(Fault):
    """The process that sent the request is killed, before the store sees it or, if `done`, after it was executed."""

    kind = "client killed"
    done: bool = False


@dataclass(frozen=True)
class StopClient(Fault):
    """The process that sent the request is stopped for `seconds` and then continued."""

    kind = "client stopped"
    seconds: float
    done: bool = False


_FAULTS = (*Fault.__subclasses__(), *Flip.__subclasses__())
_KINDS: Mapping[str, type[Fault]] = {kind.kind: kind for kind in _FAULTS if kind is not Flip}


@dataclass(frozen=True)
class Rule:
    """A fault for a share of the matching requests.

    Requests match by operation (any, where `operations` is empty) and by the regular expression `key`. The rule applies
    `at_most` that many times.
    """

    fault: Fault
    rate: float
    operations: tuple[str, ...] = ()
    key: str = ""
    at_most: int | None = None

    def fits(self, request: Request) -> bool:
        return (not self.operations or request.operation in self.operations) and (
            not self.key or re.search(self.key, request.key) is not None
        )

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "fault": self.fault.to_json()}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Rule:
        return Rule(**{**value, "fault": Fault.from_json(value["fault"]), "operations": tuple(value["operations"])})


@dataclass(frozen=True)
class Plan:
    seed: str
    rules: Sequence[Rule] = ()

    def to_json(self) -> dict[str, Any]:
        return {"seed": self.seed, "rules": [rule.to_json() for rule in self.rules]}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Plan:
        return Plan(value["seed"], tuple(map(Rule.from_json, value["rules"])))


class FaultSelector:
    """Chooses faults by a plan, and counts the requests by subject and the uses of each rule."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._asked: Counter[str] = Counter()
        self._used: Counter[int] = Counter()

    def choose(self, request: Request) -> tuple[Fault | None, int]:
        """The fault for this request, if any, and the request's occurrence among those of its subject, from 1."""
        subject = request.subject
        self._asked[subject] += 1
        occurrence = self._asked[subject]
        left = draw(self._plan.seed, subject, occurrence)
        for index, rule in enumerate(self._plan.rules):
            if not rule.fits(request):
                continue
            if left < rule.rate:
                if rule.at_most is not None and self._used[index] >= rule.at_most:
                    return None, occurrence
                self._used[index] += 1
                return rule.fault.at_share(draw(self._plan.seed, subject, occurrence, "place")), occurrence
            left -= rule.rate
        return None, occurrence


def draw(*subject: object) -> float:
    """A number of [0, 1) that depends only on the subject."""
    digest = hashlib.blake2b("\n".join(map(str, subject)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / (1 << 64)
