"""Temporary credentials: for how long they are good, when they are renewed, when there is no more hope. Pure.

All times are seconds since the epoch by this machine's clock, whatever the store's says.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.lake.base import Credentials

_FIRST_PAUSE = 1 / 120
_LONGEST_PAUSE = 1 / 12
"""Of a lease's time: half a minute and five minutes of an hour."""
_GRACE_SECONDS = 30.0
"""How long an application's requests wait for newer credentials once theirs have ended (Freshness.scala's WaitFor)."""
_GRACE_PAUSE_SECONDS = 1.0


@dataclass(frozen=True)
class Lease:
    """Credentials for a time."""

    credentials: Credentials
    issued_at: float
    expires_at: float

    @property
    def seconds(self) -> float:
        return self.expires_at - self.issued_at


def lease(credentials: Credentials, *, asked_at: float, store_time: float | None, expires_at: float) -> Lease:
    """What the store issued. `store_time` and `expires_at` are by its own clock; `asked_at`, before the request, is by
    ours.

    Of what the store says only the difference counts: a machine whose clock is minutes off renews in time all the same.
    """
    return Lease(credentials, asked_at, expires_at + (0 if store_time is None else asked_at - store_time))


def renewal_at(lease: Lease, failures: int = 0, *, failed_at: float = 0.0) -> float:
    """When to ask for the next credentials: at half time, so that the other half is left for a store or an engine that
    is away; after failures with growing pauses, just as the lease ends, and then every second while requests wait."""
    if failures == 0:
        return lease.issued_at + lease.seconds / 2
    first = lease.seconds * _FIRST_PAUSE
    due = failed_at + min(first * (1 << min(failures - 1, 16)), lease.seconds * _LONGEST_PAUSE)
    return due if due <= lease.expires_at else max(lease.expires_at, failed_at + min(first, _GRACE_PAUSE_SECONDS))


def is_lost(lease: Lease, *, at: float) -> bool:
    """Whether the application can read and write no more: what it holds is refused, and nobody waits for newer ones."""
    return at >= lease.expires_at + min(lease.seconds, _GRACE_SECONDS)


def session_policy(bucket: str) -> dict[str, object]:
    """What an application may do with its credentials, whatever more the role may: use the lake's bucket."""
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Action": ["s3:ListBucket", "s3:ListBucketMultipartUploads", "s3:GetBucketLocation"],
                "Resource": [f"arn:aws:s3:::{bucket}"],
            },
            {
                "Effect": "Allow",
                "Action": [
                    "s3:GetObject",
                    "s3:PutObject",
                    "s3:DeleteObject",
                    "s3:AbortMultipartUpload",
                    "s3:ListMultipartUploadParts",
                ],
                "Resource": [f"arn:aws:s3:::{bucket}/*"],
            },
        ],
    }
