"""Measurements of one object store: each probe, and the observation it returns. `verdicts` judges them.

Every probe writes below a prefix of its own and raises botocore's exceptions, which the caller turns into a finding.
Probes for stale answers write through one gateway and read through the next, as a cluster would.
"""

from __future__ import annotations

import http.client
import itertools
import os
import ssl
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from penstock.errors import LakeError
from penstock.lake.model import Credentials, Lake, Sts
from penstock.lake.s3 import http_status, s3_client
from penstock.lake.sts import default_endpoint, gives_more, issue


@dataclass(frozen=True)
class Answer:
    """One endpoint's answer to a request without credentials."""

    seconds: float
    clock_skew_seconds: float | None
    """The store's clock minus this machine's, exact to about a second; None if the answer has no date."""


@dataclass(frozen=True)
class RoundTrip:
    median_seconds: float
    p99_seconds: float
    requests: int


@dataclass(frozen=True)
class Multipart:
    intact: bool
    abort_leaves_nothing: bool
    seconds: float


@dataclass(frozen=True)
class Conditional:
    """The result of a request that must not replace an existing object."""

    status: int
    """The store's HTTP status; 200 if it ignored the condition."""
    kept: bool
    """True if the object still has its first content."""


@dataclass(frozen=True)
class Race:
    rivals: int
    winners: int
    winner_kept: bool


@dataclass(frozen=True)
class Staleness:
    tries: int
    stale: int


@dataclass(frozen=True)
class TemporaryCredentials:
    """Temporary credentials: `configured` for the lake, and `issued` by the store."""

    configured: bool
    issued: bool
    seconds: float = 0.0
    confined: bool = False
    """True if they were requested with a policy that allows only the lake's bucket."""
    escapable: bool = False
    """True if the store gives whoever holds them others, without that policy."""
    deletes_many: bool = False
    """True if they allow DeleteObjects, which deletes many objects at once."""
    refusal: str = ""


_PART_BYTES = 5 << 20  # S3's minimum for any part but the last
_ROUND_TRIPS = 100
_WRITES = 20
_RIVALS = 8
_SESSION = "penstock-check"


@dataclass
class Probes:
    """The probes of one lake. They write below `prefix`; `clean` removes all of it, including unfinished uploads."""

    lake: Lake
    credentials: Credentials
    prefix: str
    attempts: int = 2
    _clients: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.use(self.lake.endpoints)

    def use(self, endpoints: Sequence[str]) -> None:
        """Alternate between these gateways only."""
        self._clients = {
            endpoint: s3_client(self.lake, self.credentials, endpoint, attempts=self.attempts, read_seconds=20.0)
            for endpoint in endpoints
        }
        self._turn = itertools.cycle(self._clients.values())

    def answer(self, endpoint: str) -> Answer:
        """Send a request without credentials; raises `OSError` if the endpoint does not answer HTTP."""
        parts = urlsplit(endpoint)
        host, port = parts.hostname or "", parts.port
        connection = (
            http.client.HTTPSConnection(host, port, timeout=5, context=self._tls())
            if parts.scheme == "https"
            else http.client.HTTPConnection(host, port, timeout=5)
        )
        try:
            started, wall = time.perf_counter(), time.time()
            connection.request("HEAD", "/")
            date = connection.getresponse().getheader("Date")
            seconds = time.perf_counter() - started
        except http.client.HTTPException as error:
            raise OSError(f"it does not speak HTTP ({type(error).__name__})") from error
        finally:
            connection.close()
        return Answer(seconds, _skew(date, wall + seconds / 2))

    def temporary_credentials(self) -> TemporaryCredentials:
        """Request temporary credentials as for an application, list with them, and delete an object that is missing.

        That deletion needs the same right as a real one. Raises botocore's exceptions if a request is refused.
        """
        if self.lake.sts is None:
            sts = Sts(default_endpoint(next(iter(self._clients)), self.lake.region))
            try:
                issue(self.lake, sts, self.credentials, _SESSION, attempts=1)
            except LakeError as error:
                return TemporaryCredentials(configured=False, issued=False, refusal=error.why)
            return TemporaryCredentials(configured=False, issued=True)
        lease = issue(self.lake, self.lake.sts, self.credentials, _SESSION, attempts=self.attempts)
        deletes_many = True
        for endpoint in self._clients:
            s3 = s3_client(self.lake, lease.credentials, endpoint, attempts=self.attempts, read_seconds=20.0)
            s3.list_objects_v2(Bucket=self.lake.bucket, MaxKeys=1)
            s3.delete_object(**self._target("nothing"))
            deletes_many = deletes_many and self._deletes_many(s3)
        return TemporaryCredentials(
            configured=True,
            issued=True,
            seconds=lease.seconds,
            confined=self.lake.sts.role_arn is not None,
            escapable=self.lake.sts.role_arn is not None and gives_more(self.lake, self.lake.sts, lease),
            deletes_many=deletes_many,
        )

    def list_one(self) -> None:
        self._first().list_objects_v2(Bucket=self.lake.bucket, MaxKeys=1)

    def round_trip(self, endpoint: str) -> RoundTrip:
        """Measure HEAD requests for one small object over a persistent connection."""
        client = self._clients[endpoint]
        target = self._target("round-trip")
        client.put_object(**target, Body=b"x")
        client.head_object(**target)
        samples: list[float] = []
        deadline = time.perf_counter() + 10.0  # a distant store needs fewer samples, not minutes
        while len(samples) < _ROUND_TRIPS and (len(samples) < 10 or time.perf_counter() < deadline):
            started = time.perf_counter()
            client.head_object(**target)
            samples.append(time.perf_counter() - started)
        return RoundTrip(statistics.median(samples), statistics.quantiles(samples, n=100)[98], len(samples))

    def gateway_mismatches(self) -> list[tuple[str, str]]:
        """The pairs (written through, not found through) of gateways that do not show the same bucket."""
        apart = []
        for number, (writer, client) in enumerate(self._clients.items()):
            content = os.urandom(100)
            target = self._target(f"gateway-{number}")
            client.put_object(**target, Body=content)
            apart += [(writer, reader) for reader, s3 in self._clients.items() if _content(s3, target) != content]
            # Deleted through its own gateway, because `clean` uses only the first.
            client.delete_object(**target)
        return apart

    def write_and_read(self) -> bool:
        """Test that bytes come back as written, under a key with a space, quotes and letters outside ASCII."""
        content = os.urandom(100_000)
        target = self._target("a b/it's “ü” + %20=&.bin")
        next(self._turn).put_object(**target, Body=content)
        same: bool = next(self._turn).get_object(**target)["Body"].read() == content
        next(self._turn).delete_object(**target)
        return same

    def ranges(self) -> bool:
        """Test that first, middle, last and suffix ranges return exactly their bytes."""
        content = os.urandom(1_000_000)
        target = self._target("ranges")
        next(self._turn).put_object(**target, Body=content)
        wanted = {
            "bytes=0-99": content[:100],
            "bytes=4095-8192": content[4095:8193],
            "bytes=999990-": content[-10:],
            "bytes=-7": content[-7:],
        }
        return all(
            next(self._turn).get_object(**target, Range=part)["Body"].read() == expected
            for part, expected in wanted.items()
        )

    def multipart(self) -> Multipart:
        started = time.perf_counter()
        target = self._target("multipart")
        client = next(self._turn)
        parts = [os.urandom(_PART_BYTES), os.urandom(1000)]
        upload = client.create_multipart_upload(**target)["UploadId"]
        tags = [
            {"PartNumber": number, "ETag": self._part(target, upload, number, part)}
            for number, part in enumerate(parts, start=1)
        ]
        next(self._turn).complete_multipart_upload(**target, UploadId=upload, MultipartUpload={"Parts": tags})
        intact = next(self._turn).get_object(**target)["Body"].read() == b"".join(parts)
        abandoned = client.create_multipart_upload(**target)["UploadId"]
        self._part(target, abandoned, 1, b"x")
        next(self._turn).abort_multipart_upload(**target, UploadId=abandoned)
        return Multipart(intact, not list(self._pending()), time.perf_counter() - started)

    def list_after_write(self) -> Staleness:
        """Count listings right after each PUT and each DELETE that do not show the change."""
        stale = 0
        keys = [f"list/{number:02d}" for number in range(_WRITES)]
        for count, key in enumerate(keys, start=1):
            next(self._turn).put_object(**self._target(key), Body=b"")
            stale += self._count("list/") != count
        for left, key in reversed(list(enumerate(keys))):
            next(self._turn).delete_object(**self._target(key))
            stale += self._count("list/") != left
        return Staleness(2 * _WRITES, stale)

    def directories_linger(self) -> bool:
        """Test whether a directory is still listed after its only object was deleted; both are removed."""
        client = self._first()
        target = self._target("directory/inner/object")
        client.put_object(**target, Body=b"")
        client.delete_object(**target)
        page = client.list_objects_v2(Bucket=self.lake.bucket, Prefix=f"{self.prefix}directory/", Delimiter="/")
        linger = bool(page.get("CommonPrefixes"))
        if linger:
            for directory in ("directory/inner/", "directory/"):
                client.delete_object(**self._target(directory))
        return linger

    def overwrites(self) -> Staleness:
        """Count reads right after an overwrite that do not return the new content."""
        target = self._target("overwrite")
        stale = 0
        for number in range(_WRITES):
            content = f"version {number} ".encode() * (number + 1)
            next(self._turn).put_object(**target, Body=content)
            stale += next(self._turn).get_object(**target)["Body"].read() != content
        return Staleness(_WRITES, stale)

    def conditional_put(self) -> Conditional:
        target = self._target("conditional")
        next(self._turn).put_object(**target, Body=b"first")
        return self._refused(target, lambda s3: s3.put_object(**target, Body=b"second", IfNoneMatch="*"))

    def conditional_complete(self) -> Conditional:
        target = self._target("conditional-complete")
        client = next(self._turn)
        client.put_object(**target, Body=b"first")
        upload = client.create_multipart_upload(**target)["UploadId"]
        tags = [{"PartNumber": 1, "ETag": self._part(target, upload, 1, b"second")}]
        return self._refused(
            target,
            lambda s3: s3.complete_multipart_upload(
                **target, UploadId=upload, MultipartUpload={"Parts": tags}, IfNoneMatch="*"
            ),
        )

    def race(self) -> Race:
        """Let `_RIVALS` writers compete with conditional PUTs, each of which requires that the object is new."""
        target = self._target("race")
        clients = list(self._clients.values())
        start = threading.Barrier(_RIVALS)

        def rival(number: int) -> int | None:
            start.wait()
            client = clients[number % len(clients)]
            try:
                client.put_object(**target, Body=str(number).encode() * 1000, IfNoneMatch="*")
            except Exception as error:
                if http_status(error) in (409, 412):
                    return None
                raise
            return number

        with ThreadPoolExecutor(_RIVALS) as pool:
            winners = [number for number in pool.map(rival, range(_RIVALS)) if number is not None]
        content = next(self._turn).get_object(**target)["Body"].read()
        return Race(_RIVALS, len(winners), content in [str(number).encode() * 1000 for number in winners])

    def clean(self) -> None:
        client = self._first()
        page = client.list_objects_v2(Bucket=self.lake.bucket, Prefix=self.prefix)
        for entry in page.get("Contents", ()):
            client.delete_object(Bucket=self.lake.bucket, Key=entry["Key"])
        for key, upload in self._pending():
            client.abort_multipart_upload(Bucket=self.lake.bucket, Key=key, UploadId=upload)

    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.lake.ca_file)

    def _first(self) -> Any:
        return next(iter(self._clients.values()))

    def _target(self, name: str) -> dict[str, str]:
        return {"Bucket": self.lake.bucket, "Key": self.prefix + name}

    def _deletes_many(self, client: Any) -> bool:
        nothing = [{"Key": f"{self.prefix}nothing-{number}"} for number in range(2)]
        try:
            answer = client.delete_objects(Bucket=self.lake.bucket, Delete={"Objects": nothing})
        except Exception as error:
            if not http_status(error):
                raise
            return False
        return not answer.get("Errors")

    def _part(self, target: dict[str, str], upload: str, number: int, content: bytes) -> str:
        answer = next(self._turn).upload_part(**target, UploadId=upload, PartNumber=number, Body=content)
        return str(answer["ETag"])

    def _pending(self) -> Iterator[tuple[str, str]]:
        page = self._first().list_multipart_uploads(Bucket=self.lake.bucket, Prefix=self.prefix)
        for upload in page.get("Uploads", ()):
            yield upload["Key"], upload["UploadId"]

    def _count(self, folder: str) -> int:
        page = next(self._turn).list_objects_v2(Bucket=self.lake.bucket, Prefix=self.prefix + folder)
        return len(page.get("Contents", ()))

    def _refused(self, target: dict[str, str], request: Callable[[Any], Any]) -> Conditional:
        status = 200
        try:
            request(next(self._turn))
        except Exception as error:
            status = http_status(error)
            if not status:
                raise
        return Conditional(status, next(self._turn).get_object(**target)["Body"].read() == b"first")


def _content(client: Any, target: dict[str, str]) -> bytes | None:
    """The object's content; None if the object or its bucket does not exist."""
    try:
        content: bytes = client.get_object(**target)["Body"].read()
    except Exception as error:
        if http_status(error) != 404:
            raise
        return None
    return content


def _skew(date: str | None, here: float) -> float | None:
    try:
        there = parsedate_to_datetime(date or "")
    except (TypeError, ValueError):
        return None
    if there.tzinfo is None:
        there = there.replace(tzinfo=timezone.utc)
    # The header is truncated to whole seconds, so half a second is added as the expected remainder.
    return (there - datetime.fromtimestamp(here, timezone.utc)).total_seconds() + 0.5
