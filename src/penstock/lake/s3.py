"""An S3 client for small manual jobs and artifacts, and the translation of botocore's exceptions to Penstock's.

Spark's own reads and writes do not use this module.
"""

from __future__ import annotations

import base64
import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.errors import InvalidInput, LakeError, NotFound, PenstockError
from penstock.home import Home
from penstock.lake.hdfs.webhdfs import HdfsObjectStore
from penstock.lake.model import Credentials, Lake, ObjectInfo, ObjectStore, atomic_download
from penstock.lake.registry import Lakes


@dataclass(frozen=True)
class _Refusal:
    """The meaning of some error codes or, if the store sends none, HTTP statuses. The texts are templates."""

    codes: frozenset[str]
    statuses: frozenset[int]
    problem: str
    fix: str
    embedded_fix: str | None = None


def _refusal(codes: str, statuses: tuple[int, ...], problem: str, fix: str, embedded: str | None = None) -> _Refusal:
    return _Refusal(frozenset(codes.split()), frozenset(statuses), problem, fix, embedded)


# The first match counts; codes are tried on all rows before statuses are.
_REFUSALS = (
    _refusal(
        "InvalidAccessKeyId SignatureDoesNotMatch InvalidToken ExpiredToken TokenRefreshRequired InvalidClientTokenId "
        "UnrecognizedClientException ExpiredTokenException",
        (),
        "The credentials of the lake “{lake}” are wrong",
        "pass the right ones to penstock lake add {lake} …, which replaces the lake's record",
        "penstock lake down, then penstock lake up",
    ),
    _refusal(
        "RequestTimeTooSkewed",
        (),
        "The clocks of this machine and the lake “{lake}” differ too much",
        "set the clock (timedatectl set-ntp true)",
    ),
    _refusal(
        "AccessDenied AllAccessDisabled AccountProblem Unauthorized Forbidden",
        (401, 403),
        "The credentials of the lake “{lake}” do not allow this",
        "have read, write, list and delete allowed in the bucket “{bucket}”, or use other credentials",
    ),
    _refusal(
        "PermanentRedirect TemporaryRedirect Redirect AuthorizationHeaderMalformed",
        (301, 302, 307, 308),
        "The bucket “{bucket}” of the lake “{lake}” is served elsewhere",
        "add the lake again with the endpoint of the bucket's region and --region",
    ),
    _refusal(
        "QuotaExceeded InsufficientStorage XMinioStorageFull",
        (507,),
        "The store of the lake “{lake}” is full",
        "delete data that is not needed, or enlarge the store",
    ),
    _refusal(
        "SlowDown ServiceUnavailable RequestLimitExceeded ThrottlingException TooManyRequests",
        (429, 503),
        "The store of the lake “{lake}” is overloaded",
        "wait and try again",
    ),
)
_NO_BUCKET = _refusal(
    "NoSuchBucket",
    (404,),
    "The bucket “{bucket}” of the lake “{lake}” does not exist",
    "create it (aws s3 mb s3://{bucket} --endpoint-url {endpoint}), or add the lake with the right bucket",
    "penstock lake down, then penstock lake up",
)
_OTHER = _refusal(
    "", (), "The store of the lake “{lake}” refused a request", "penstock lake check --lake {lake} tests the store"
)


_START = {"embedded": "penstock lake up", "ceph": "penstock lake ceph up"}


def translate(error: Exception, lake: Lake, endpoint: str, key: str | None = None) -> PenstockError:
    """Translate an exception of botocore. `key` is the request's object; None for a request about the bucket."""
    import botocore.exceptions as aws  # noqa: PLC0415  botocore has raised the error, so it is loaded already

    check = f"penstock lake check --lake {lake.name}"
    if isinstance(error, aws.ClientError):
        return _explained(error, lake, endpoint, key)
    if isinstance(error, (aws.ReadTimeoutError, aws.ConnectTimeoutError)):
        return LakeError(
            f"The lake “{lake.name}” is too slow to answer",
            why=_short(error),
            fix=f"check the store's load and the network, then {check}",
        )
    if isinstance(error, aws.SSLError):
        return LakeError(
            f"The certificate of the lake “{lake.name}” is not trusted",
            why=_short(error),
            fix="add the lake with its authority's certificate: penstock lake add … --ca-file /path/to/ca.pem",
        )
    if is_damaged_transfer(error):
        return LakeError(
            f"Answers of the lake “{lake.name}” break off",
            why=_short(error),
            fix=f"check the gateway's log and the network, then {check}",
        )
    if is_connection_failure(error):
        start = _START.get(lake.kind, "start the store or correct its address")
        return LakeError(f"The lake “{lake.name}” cannot be reached", why=_short(error), fix=f"{start}, then {check}")
    return LakeError(
        f"A request to the lake “{lake.name}” failed", why=f"{type(error).__name__}: {_short(error)}", fix=check
    )


def is_connection_failure(error: BaseException) -> bool:
    """Report whether another gateway of the same store may answer."""
    import botocore.exceptions as aws  # noqa: PLC0415

    return isinstance(error, (aws.HTTPClientError, aws.ConnectionError))


def is_damaged_transfer(error: BaseException | None) -> bool:
    """Report whether only the body failed: an answer that broke off, or an upload that arrived damaged.

    botocore does not retry once an answer has begun.
    """
    import botocore.exceptions as aws  # noqa: PLC0415

    broken = (aws.ResponseStreamingError, aws.IncompleteReadError, aws.ReadTimeoutError)
    return isinstance(error, broken) or error_code(error) == "BadDigest"


def error_code(error: BaseException | None) -> str:
    """The store's own error code, or the HTTP status if it gave none; empty if it did not answer."""
    response = _response(error)
    return str(response.get("Error", {}).get("Code") or http_status(error) or "")


def http_status(error: BaseException | None) -> int:
    """The HTTP status of a refusal; 0 if the store did not answer."""
    return int(_response(error).get("ResponseMetadata", {}).get("HTTPStatusCode") or 0)


def _explained(error: Exception, lake: Lake, endpoint: str, key: str | None) -> PenstockError:
    code, status = error_code(error), http_status(error)
    message = str(_response(error).get("Error", {}).get("Message") or "")
    why = f"{endpoint} answers {code}" + (f": {message}" if message and message != code else "")
    if code == "NoSuchKey" or (status == 404 and key is not None and code != "NoSuchBucket"):
        return NotFound(
            f"There is no object “{key}” in the lake “{lake.name}”",
            why=why,
            fix=f"penstock lake ls --lake {lake.name} lists the lake's objects",
        )
    rules = (_NO_BUCKET, *_REFUSALS)
    rule = next((rule for rule in rules if code in rule.codes), None) or next(
        (rule for rule in rules if status in rule.statuses), _OTHER
    )
    if rule is _OTHER and status >= 500:
        # S3 has no code for a full disk; small stores report an internal error.
        why += "; a full disk is the usual cause"
    words = {"lake": lake.name, "bucket": lake.bucket, "endpoint": endpoint}
    fix = (rule.embedded_fix if lake.kind == "embedded" else None) or rule.fix
    return LakeError(rule.problem.format(**words), why=why, fix=fix.format(**words))


def _response(error: BaseException | None) -> dict[str, Any]:
    return getattr(error, "response", None) or {}


def _short(error: Exception) -> str:
    return str(error).splitlines()[0][:300] if str(error) else type(error).__name__


_PAUSE_SECONDS = 0.2
_DELETE_BATCH = 1000  # the limit of one DeleteObjects request


def s3_client(
    lake: Lake,
    credentials: Credentials,
    endpoint: str,
    *,
    attempts: int = 4,
    read_seconds: float = 60.0,
) -> Any:
    """A boto3 client of one gateway. Errors occur only at the first request."""
    return client("s3", lake, credentials, endpoint, attempts=attempts, read_seconds=read_seconds, connections=16)


def client(
    service: str,
    lake: Lake,
    credentials: Credentials,
    endpoint: str,
    *,
    attempts: int,
    read_seconds: float,
    connections: int = 1,
) -> Any:
    """A boto3 client of a service of the lake, configured by the lake's record and no AWS file or variable."""
    import boto3  # noqa: PLC0415  the import takes half a second, and most commands do not need it
    from botocore.config import Config  # noqa: PLC0415

    # The default session would read the user's AWS files, whose settings are for another store.
    session = boto3.session.Session(
        aws_access_key_id=credentials.access_key,
        aws_secret_access_key=credentials.secret_key,
        aws_session_token=credentials.session_token,
        region_name=lake.region,
    )
    config = Config(
        s3={"addressing_style": "path" if lake.path_style else "virtual"},
        connect_timeout=5.0,
        read_timeout=read_seconds,
        retries={"mode": "standard", "total_max_attempts": attempts},
        max_pool_connections=connections,
        # Trailing checksums are the client's default since 2025, and many stores reject them.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        ignore_configured_endpoint_urls=True,
        # The store decides the minimum duration of a lease: AWS's minimum of 900 s is not Ceph's.
        parameter_validation=service != "sts",
    )
    return session.client(service, endpoint_url=endpoint, config=config, verify=lake.ca_file)


def open_store(home: Home, lake: Lake) -> ObjectStore:
    return S3ObjectStore(lake, Lakes(home).credentials_of(lake)) if lake.is_s3 else HdfsObjectStore(lake)


class S3ObjectStore(ObjectStore):
    """An S3 bucket as an object store. Safe to use from several threads.

    Requests go to the last gateway that answered, and to the next one if the connection fails. Each request is tried
    `attempts` times with growing pauses.
    """

    def __init__(self, lake: Lake, credentials: Credentials, *, attempts: int = 4) -> None:
        self._lake = lake
        self._credentials = credentials
        self._attempts = attempts
        self._clients: dict[str, Any] = {}
        self._preferred = 0
        self._lock = threading.Lock()

    def put(self, key: str, content: bytes | Path) -> None:
        """Store the bytes or the file's content atomically; large files are uploaded in parts."""
        if isinstance(content, Path):
            if not content.is_file():
                raise InvalidInput(f"{content} is not a file that can be read", fix="give the path of a file")
            self._request(lambda s3: s3.upload_file(str(content), self._lake.bucket, _checked(key)), key)
        else:
            # Not every store verifies the body against its signature; all verify this digest.
            digest = base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()
            self._request(
                lambda s3: s3.put_object(Bucket=self._lake.bucket, Key=_checked(key), Body=content, ContentMD5=digest),
                key,
            )

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """The bytes [start, start + length) of the object, or fewer if it ends earlier."""
        if length == 0:
            return b""
        part = {} if start == 0 and length is None else {"Range": _range(start, length)}

        def read(s3: Any) -> Any:
            answer = s3.get_object(Bucket=self._lake.bucket, Key=_checked(key), **part)
            return answer["Body"].read()

        try:
            content: bytes = self._request(read, key)
        except LakeError as error:
            if error_code(error.__cause__) in ("InvalidRange", "416"):
                return b""
            raise
        return content

    def download(self, key: str, target: Path) -> None:
        """Write the object to `target`, which is replaced atomically or left unchanged."""
        with atomic_download(target) as partial:
            self._request(lambda s3: s3.download_file(self._lake.bucket, _checked(key), str(partial)), key)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Every object whose key begins with `prefix`, in the order of the keys' bytes; reads one page at a time."""
        token: dict[str, str] = {}
        while True:
            page = self._request(
                lambda s3, t=token: s3.list_objects_v2(  # type: ignore[misc]
                    Bucket=self._lake.bucket, Prefix=prefix, **t
                )
            )
            for entry in page.get("Contents", ()):
                yield ObjectInfo(entry["Key"], entry["Size"], entry["LastModified"], entry["ETag"].strip('"'))
            if not page.get("IsTruncated"):
                return
            token = {"ContinuationToken": page["NextContinuationToken"]}

    def delete(self, *keys: str) -> None:
        """Delete the objects; missing objects are not an error."""
        for first in range(0, len(keys), _DELETE_BATCH):
            batch = [{"Key": _checked(key)} for key in keys[first : first + _DELETE_BATCH]]
            answer = self._request(
                lambda s3, b=batch: s3.delete_objects(  # type: ignore[misc]
                    Bucket=self._lake.bucket, Delete={"Objects": b, "Quiet": True}
                )
            )
            if errors := answer.get("Errors"):
                raise LakeError(
                    f"{len(errors)} of {len(batch)} objects could not be deleted",
                    why=f"“{errors[0].get('Key')}”: {errors[0].get('Code')} {errors[0].get('Message', '')}",
                    fix=f"penstock lake check --lake {self._lake.name}",
                )

    def create_bucket(self) -> None:
        """Create the lake's bucket unless it exists."""
        try:
            self._request(lambda s3: s3.create_bucket(Bucket=self._lake.bucket))
        except LakeError as error:
            if error_code(error.__cause__) not in ("BucketAlreadyOwnedByYou", "BucketAlreadyExists"):
                raise

    def _request(self, call: Callable[[Any], Any], key: str | None = None) -> Any:
        for done in range(1, self._attempts):
            try:
                return self._through_a_gateway(call, key)
            except LakeError as error:
                if not is_damaged_transfer(error.__cause__):
                    raise
            time.sleep(_PAUSE_SECONDS * done)
        return self._through_a_gateway(call, key)

    def _through_a_gateway(self, call: Callable[[Any], Any], key: str | None) -> Any:
        endpoints = self._lake.endpoints
        for attempt in range(len(endpoints)):
            chosen = (self._preferred + attempt) % len(endpoints)
            try:
                answer = call(self._client(endpoints[chosen]))
            except (PenstockError, OSError):
                raise
            except Exception as error:
                cause = _aws_cause(error)
                if is_connection_failure(cause) and attempt + 1 < len(endpoints):
                    continue
                raise translate(cause, self._lake, endpoints[chosen], key) from cause
            self._preferred = chosen
            return answer
        raise AssertionError("a lake has at least one endpoint")

    def _client(self, endpoint: str) -> Any:
        with self._lock:  # boto3's clients are thread-safe, but their creation is not
            if endpoint not in self._clients:
                self._clients[endpoint] = s3_client(self._lake, self._credentials, endpoint, attempts=self._attempts)
            return self._clients[endpoint]


def _aws_cause(error: Exception) -> Exception:
    """The botocore error behind an exception; the transfer manager wraps those of parts, sometimes only as text."""
    import botocore.exceptions as aws  # noqa: PLC0415

    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, Exception) and issubclass(type(inner), (aws.ClientError, aws.BotoCoreError)):
            return inner
        inner = inner.__cause__ or inner.__context__
    return error


def _checked(key: str) -> str:
    if not key or key.startswith("/") or len(key.encode()) > 1024:
        raise InvalidInput(
            f"“{key[:80]}” cannot be an object's key",
            why="a key is not empty, does not begin with a slash, and has at most 1024 bytes in UTF-8",
            fix="use a key such as folder/name.csv",
        )
    return key


def _range(start: int, length: int | None) -> str:
    return f"bytes={start}-" + ("" if length is None else str(start + length - 1))
