"""Temporary credentials: requests to AWS's Security Token Service (also Ceph's RGW), and the policy of renewal.

All times are seconds since the epoch on this machine's clock, whatever the store's clock shows.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from penstock.errors import LakeError, PenstockError
from penstock.lake.credentials import validate_credentials
from penstock.lake.model import Credentials, Lake, Sts
from penstock.lake.s3 import client, error_code, http_status, is_connection_failure, translate

_FIRST_PAUSE = 1 / 120
_LONGEST_PAUSE = 1 / 12
"""Shares of a lease's duration: half a minute and five minutes of an hour."""
_GRACE_SECONDS = 30.0
"""An application's requests wait this long for new credentials once theirs expired (Freshness.scala's WaitFor)."""
_GRACE_PAUSE_SECONDS = 1.0


@dataclass(frozen=True)
class Lease:
    """Temporary credentials with the times of their issue and expiry."""

    credentials: Credentials
    issued_at: float
    expires_at: float

    @property
    def seconds(self) -> float:
        return self.expires_at - self.issued_at


def make_lease(credentials: Credentials, *, requested_at: float, store_time: float | None, expires_at: float) -> Lease:
    """Convert issued credentials to this machine's clock.

    `store_time` and `expires_at` are on the store's clock; `requested_at`, before the request, is on ours. Only the
    difference of the store's times counts, so that a machine whose clock is minutes off still renews in time.
    """
    return Lease(credentials, requested_at, expires_at + (0 if store_time is None else requested_at - store_time))


def renewal_at(lease: Lease, failures: int = 0, *, failed_at: float = 0.0) -> float:
    """The time of the next request for credentials.

    The first is at half of the lease, which leaves the other half for outages of the store or the engine. After
    failures, requests follow with growing pauses, again at the lease's end, and then every second while requests wait.
    """
    if failures == 0:
        return lease.issued_at + lease.seconds / 2
    first = lease.seconds * _FIRST_PAUSE
    due = failed_at + min(first * (1 << min(failures - 1, 16)), lease.seconds * _LONGEST_PAUSE)
    return due if due <= lease.expires_at else max(lease.expires_at, failed_at + min(first, _GRACE_PAUSE_SECONDS))


def is_lost(lease: Lease, *, at: float) -> bool:
    """Report whether the application has lost access: its credentials have expired, and its requests' wait is over."""
    return at >= lease.expires_at + min(lease.seconds, _GRACE_SECONDS)


@dataclass(frozen=True)
class Reach:
    """The objects of a lake's bucket that temporary credentials open: those below `prefix`, which ends with a slash.

    The characters of a prefix that mean something in a policy (`*`, `?`, `$`) are the caller's to refuse.
    """

    prefix: str = ""
    writing: bool = True


WHOLE_LAKE = Reach()

_READING = ["s3:GetObject"]
_WRITING = ["s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"]


def session_policy(bucket: str, reach: Reach = WHOLE_LAKE) -> dict[str, object]:
    """The session policy that limits credentials to the reach in the bucket, whatever else the role allows."""
    listing: dict[str, object] = {"Effect": "Allow", "Resource": [f"arn:aws:s3:::{bucket}"]}
    if reach.prefix:
        listing["Action"] = ["s3:ListBucket"]
        listing["Condition"] = {"StringLike": {"s3:prefix": [f"{reach.prefix}*"]}}
    else:
        listing["Action"] = ["s3:ListBucket", "s3:ListBucketMultipartUploads", "s3:GetBucketLocation"]
    objects = {
        "Effect": "Allow",
        "Action": _READING + (_WRITING if reach.writing else []),
        "Resource": [f"arn:aws:s3:::{bucket}/{reach.prefix}*"],
    }
    return {"Version": "2012-10-17", "Statement": [listing, objects]}


_REFUSALS = frozenset(
    {"AccessDenied", "NoSuchEntity", "NoSuchRole", "ValidationError", "InvalidArgument", "InvalidRequest"}
    | {"InvalidAction", "NotImplemented", "MethodNotAllowed", "MalformedPolicyDocument", "PackedPolicyTooLarge"}
    | {"400", "403", "404", "405", "501"}
)
"""Codes of a request that was refused or not understood; other codes have the same meaning as for S3."""


def default_endpoint(endpoint: str, region: str) -> str:
    """The default STS endpoint: the store's own gateway, except for AWS, whose STS has an address of its own."""
    host = urlsplit(endpoint).hostname or ""
    return f"https://sts.{region}.amazonaws.com" if host.endswith(".amazonaws.com") else endpoint


def sts_from_options(
    role_arn: str | None, endpoint: str | None, *, first_endpoint: str, region: str, seconds: int
) -> Sts | None:
    """The configuration from a user's options; None if they request no temporary credentials."""
    if role_arn is None and endpoint is None:
        return None
    return Sts(endpoint or default_endpoint(first_endpoint, region), role_arn, seconds)


def issue(
    lake: Lake, sts: Sts, credentials: Credentials, session: str, *, attempts: int = 4, reach: Reach = WHOLE_LAKE
) -> Lease:
    """Request temporary credentials, which appear as `session` in the store's own log.

    Only those of a role can be limited to a `reach`.

    If the endpoint is a gateway of the lake, the next gateway is tried when one does not answer. Each request is tried
    `attempts` times with growing pauses. Raises `LakeError` if the store cannot be reached, does not support this, or
    refuses.
    """
    others = [endpoint for endpoint in lake.endpoints if endpoint != sts.endpoint]
    places = [sts.endpoint, *(others if sts.endpoint in lake.endpoints else [])]
    while True:
        endpoint, asked_at = places.pop(0), time.time()
        try:
            service = client("sts", lake, credentials, endpoint, attempts=attempts, read_seconds=10.0)
            answer = _ask(service, lake, sts, session, reach)
            found = answer["Credentials"]
            given = validate_credentials(
                Credentials(found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"])
            )
            expires_at = _moment(found["Expiration"])
        except PenstockError:
            raise
        except Exception as error:
            if places and is_connection_failure(error):
                continue
            raise _refused(error, lake, sts, endpoint) from error
        date = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
        return make_lease(given, requested_at=asked_at, store_time=_date(date), expires_at=expires_at)


def gives_more(lake: Lake, sts: Sts, lease: Lease) -> bool:
    """Report whether the store gives whoever holds these credentials others, without their limits.

    Ceph 16 does, where the role's trust policy does not deny the role. Raises `LakeError` if the store does not answer.
    """
    service = client("sts", lake, lease.credentials, sts.endpoint, attempts=4, read_seconds=10.0)

    def given(request: Callable[[], Any]) -> bool:
        try:
            request()
        except Exception as error:
            if not 400 <= http_status(error) < 500:
                raise translate(error, lake, sts.endpoint) from error
            return False
        return True

    return given(lambda: _ask(service, lake, sts, "penstock-limits", WHOLE_LAKE)) or given(service.get_session_token)


def _ask(service: Any, lake: Lake, sts: Sts, session: str, reach: Reach) -> Any:
    if sts.role_arn is None:
        return service.get_session_token(DurationSeconds=sts.seconds)
    return service.assume_role(
        RoleArn=sts.role_arn,
        RoleSessionName=session,
        DurationSeconds=sts.seconds,
        # No spaces: RGW does not decode the form's “+”, and would find the policy malformed.
        Policy=json.dumps(session_policy(lake.bucket, reach), separators=(",", ":")),
    )


def _refused(error: Exception, lake: Lake, sts: Sts, endpoint: str) -> PenstockError:
    code = error_code(error)
    if code in _REFUSALS:
        message = str(getattr(error, "response", {}).get("Error", {}).get("Message") or "")
        why = f"{endpoint} answers {code}" + (f": {message}" if message and message != code else "")
    elif isinstance(error, (LookupError, AttributeError, TypeError, ValueError)):
        why = f"{endpoint} answers without credentials: it is not a Security Token Service"
    else:
        return translate(error, lake, endpoint)
    purpose = f"for the role {sts.role_arn}" if sts.role_arn else "for a session"
    allow = (
        "let the role trust the lake's user (its assume-role policy), and allow that duration; "
        if sts.role_arn
        else "let the lake's user request session tokens; "
    )
    return LakeError(
        f"The store of the lake “{lake.name}” issues no credentials {purpose}",
        why=why,
        fix=f"{allow}or add the lake again without --role-arn and --sts-endpoint: applications then get its own "
        f"credentials. Try it: penstock lake check --lake {lake.name}",
    )


def _moment(value: Any) -> float:
    parsed: datetime = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return parsed.timestamp()


def _date(header: str | None) -> float | None:
    try:
        return parsedate_to_datetime(header or "").timestamp()
    except (TypeError, ValueError):
        return None
