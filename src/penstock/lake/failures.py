"""What a failed S3 request means for the user: botocore's exceptions as Penstock's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.errors import LakeError, NotFound, PenstockError
from penstock.lake.base import Lake


@dataclass(frozen=True)
class _Refusal:
    """What some error codes, or where a store sends none, HTTP statuses mean. The texts are templates."""

    codes: frozenset[str]
    statuses: frozenset[int]
    problem: str
    fix: str
    embedded_fix: str | None = None


def _refusal(codes: str, statuses: tuple[int, ...], problem: str, fix: str, embedded: str | None = None) -> _Refusal:
    return _Refusal(frozenset(codes.split()), frozenset(statuses), problem, fix, embedded)


# The first that fits; codes are tried on all of them before statuses are.
_REFUSALS = (
    _refusal(
        "InvalidAccessKeyId SignatureDoesNotMatch InvalidToken ExpiredToken TokenRefreshRequired InvalidClientTokenId "
        "UnrecognizedClientException ExpiredTokenException",
        (),
        "The credentials of the lake “{lake}” are wrong",
        "give the right ones to penstock lake add {lake} …, which replaces what was there",
        "penstock lake down, then penstock lake up",
    ),
    _refusal(
        "RequestTimeTooSkewed",
        (),
        "This machine's clock and that of the lake “{lake}” differ too much",
        "set the clock (timedatectl set-ntp true)",
    ),
    _refusal(
        "AccessDenied AllAccessDisabled AccountProblem Unauthorized Forbidden",
        (401, 403),
        "The credentials of the lake “{lake}” do not allow this",
        "ask for reading, writing, listing and deleting in the bucket “{bucket}”, or use other credentials",
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
        "delete what is not needed, or enlarge the store",
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
    "make it (aws s3 mb s3://{bucket} --endpoint-url {endpoint}), or add the lake with its right bucket",
    "penstock lake down, then penstock lake up",
)
_OTHER = _refusal(
    "", (), "The store of the lake “{lake}” refused a request", "penstock lake check --lake {lake} shows what it can do"
)


_START = {"embedded": "penstock lake up", "ceph": "penstock lake ceph up"}


def translated(error: Exception, lake: Lake, endpoint: str, key: str | None = None) -> PenstockError:
    """`key` is the object the request was about, None where it was about the bucket."""
    import botocore.exceptions as aws  # noqa: PLC0415  here only after botocore has raised, so it costs nothing

    check = f"penstock lake check --lake {lake.name}"
    if isinstance(error, aws.ClientError):
        return _explained(error, lake, endpoint, key)
    if isinstance(error, (aws.ReadTimeoutError, aws.ConnectTimeoutError)):
        return LakeError(
            f"The lake “{lake.name}” is too slow to answer",
            why=_short(error),
            fix=f"look at the store's load and the network, then {check}",
        )
    if isinstance(error, aws.SSLError):
        return LakeError(
            f"The certificate of the lake “{lake.name}” is not trusted",
            why=_short(error),
            fix="give its authority's certificate when adding the lake: penstock lake add … --ca-file /path/to/ca.pem",
        )
    if is_damaged_transfer(error):
        return LakeError(
            f"Answers of the lake “{lake.name}” break off",
            why=_short(error),
            fix=f"look at the gateway's log and the network, then {check}",
        )
    if is_connection_failure(error):
        start = _START.get(lake.kind, "start the store or correct its address")
        return LakeError(f"The lake “{lake.name}” cannot be reached", why=_short(error), fix=f"{start}, then {check}")
    return LakeError(
        f"A request to the lake “{lake.name}” failed", why=f"{type(error).__name__}: {_short(error)}", fix=check
    )


def is_connection_failure(error: BaseException) -> bool:
    """Whether another gateway of the same store may well answer."""
    import botocore.exceptions as aws  # noqa: PLC0415

    return isinstance(error, (aws.HTTPClientError, aws.ConnectionError))


def is_damaged_transfer(error: BaseException | None) -> bool:
    """Whether the request was good and its body was not: an answer that broke off, an upload that arrived otherwise.

    botocore tries again until an answer begins, and no further.
    """
    import botocore.exceptions as aws  # noqa: PLC0415

    broken = (aws.ResponseStreamingError, aws.IncompleteReadError, aws.ReadTimeoutError)
    return isinstance(error, broken) or code_of(error) == "BadDigest"


def code_of(error: BaseException | None) -> str:
    """The store's own error code, the HTTP status where it gave none, or nothing where it did not answer."""
    response = _response(error)
    return str(response.get("Error", {}).get("Code") or status_of(error) or "")


def status_of(error: BaseException | None) -> int:
    """The HTTP status of a refusal; 0 where the store did not answer."""
    return int(_response(error).get("ResponseMetadata", {}).get("HTTPStatusCode") or 0)


def _explained(error: Exception, lake: Lake, endpoint: str, key: str | None) -> PenstockError:
    code, status = code_of(error), status_of(error)
    message = str(_response(error).get("Error", {}).get("Message") or "")
    why = f"{endpoint} answers {code}" + (f": {message}" if message and message != code else "")
    if code == "NoSuchKey" or (status == 404 and key is not None and code != "NoSuchBucket"):
        return NotFound(
            f"There is no object “{key}” in the lake “{lake.name}”",
            why=why,
            fix=f"penstock lake ls --lake {lake.name} shows what there is",
        )
    rules = (_NO_BUCKET, *_REFUSALS)
    rule = next((rule for rule in rules if code in rule.codes), None) or next(
        (rule for rule in rules if status in rule.statuses), _OTHER
    )
    if rule is _OTHER and status >= 500:
        # S3 has no code for a full disk: a small store just fails inside.
        why += "; a full disk is the usual cause"
    words = {"lake": lake.name, "bucket": lake.bucket, "endpoint": endpoint}
    fix = (rule.embedded_fix if lake.kind == "embedded" else None) or rule.fix
    return LakeError(rule.problem.format(**words), why=why, fix=fix.format(**words))


def _response(error: BaseException | None) -> dict[str, Any]:
    return getattr(error, "response", None) or {}


def _short(error: Exception) -> str:
    return str(error).splitlines()[0][:300] if str(error) else type(error).__name__
