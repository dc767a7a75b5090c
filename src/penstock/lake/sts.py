"""Asks a store for temporary credentials: the protocol of AWS's Security Token Service, which Ceph's RGW speaks too."""

from __future__ import annotations

import json
import time
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from penstock.errors import LakeError, PenstockError
from penstock.lake.base import Credentials, Lake, Sts
from penstock.lake.credentials import checked
from penstock.lake.failures import code_of, is_connection_failure, translated
from penstock.lake.leases import Lease, lease, session_policy
from penstock.lake.objects import client

_REFUSALS = frozenset(
    {"AccessDenied", "NoSuchEntity", "NoSuchRole", "ValidationError", "InvalidArgument", "InvalidRequest"}
    | {"InvalidAction", "NotImplemented", "MethodNotAllowed", "MalformedPolicyDocument", "PackedPolicyTooLarge"}
    | {"400", "403", "404", "405", "501"}
)
"""The request is understood and not granted, or not understood; other codes mean what they mean for S3."""


def default_endpoint(endpoint: str, region: str) -> str:
    """Where to ask where nobody says: the store's own gateway, but at AWS, whose service is elsewhere."""
    host = urlsplit(endpoint).hostname or ""
    return f"https://sts.{region}.amazonaws.com" if host.endswith(".amazonaws.com") else endpoint


def sts_of(role_arn: str | None, endpoint: str | None, *, first_endpoint: str, region: str, seconds: int) -> Sts | None:
    """What a user means who gives these; None: no temporary credentials."""
    if role_arn is None and endpoint is None:
        return None
    return Sts(endpoint or default_endpoint(first_endpoint, region), role_arn, seconds)


def issue(lake: Lake, sts: Sts, credentials: Credentials, session: str, *, attempts: int = 4) -> Lease:
    """Credentials that end by themselves, under the name `session` in the store's own log.

    Where a gateway of the lake issues them all do, and the next is asked where one does not answer. Each request is
    tried `attempts` times with growing pauses. Raises `LakeError`: the store is out of reach, does not know this, or
    refuses.
    """
    others = [endpoint for endpoint in lake.endpoints if endpoint != sts.endpoint]
    places = [sts.endpoint, *(others if sts.endpoint in lake.endpoints else [])]
    while True:
        endpoint, asked_at = places.pop(0), time.time()
        try:
            service = client("sts", lake, credentials, endpoint, attempts=attempts, read_seconds=10.0)
            answer = _ask(service, lake, sts, session)
            found = answer["Credentials"]
            given = checked(Credentials(found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"]))
            expires_at = _moment(found["Expiration"])
        except PenstockError:
            raise
        except Exception as error:
            if places and is_connection_failure(error):
                continue
            raise _refused(error, lake, sts, endpoint) from error
        date = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
        return lease(given, asked_at=asked_at, store_time=_date(date), expires_at=expires_at)


def _ask(service: Any, lake: Lake, sts: Sts, session: str) -> Any:
    if sts.role_arn is None:
        return service.get_session_token(DurationSeconds=sts.seconds)
    return service.assume_role(
        RoleArn=sts.role_arn,
        RoleSessionName=session,
        DurationSeconds=sts.seconds,
        # Without a space: RGW leaves the form's “+” as it is, and finds the policy malformed.
        Policy=json.dumps(session_policy(lake.bucket), separators=(",", ":")),
    )


def _refused(error: Exception, lake: Lake, sts: Sts, endpoint: str) -> PenstockError:
    code = code_of(error)
    if code in _REFUSALS:
        message = str(getattr(error, "response", {}).get("Error", {}).get("Message") or "")
        why = f"{endpoint} answers {code}" + (f": {message}" if message and message != code else "")
    elif isinstance(error, (LookupError, AttributeError, TypeError, ValueError)):
        why = f"{endpoint} answers without them: it is no Security Token Service"
    else:
        return translated(error, lake, endpoint)
    wanted = f"for the role {sts.role_arn}" if sts.role_arn else "for a session"
    allow = (
        "let the role trust the lake's user (its assume-role policy), and allow as many seconds; "
        if sts.role_arn
        else "let the lake's user ask for session tokens; "
    )
    return LakeError(
        f"The store of the lake “{lake.name}” issues no credentials {wanted}",
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
