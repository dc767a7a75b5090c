"""Credentials for clients of Iceberg's catalog: temporary ones of the lake's store, for the files of one table alone.

Where the lake's store issues none that stay within their limits, clients get none, and need keys of their own.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from penstock.errors import NotFound
from penstock.lake.model import Credentials, Lake, Sts
from penstock.lake.registry import Lakes
from penstock.lake.sts import Lease, Reach, gives_more, issue

_SEGMENT = re.compile(r"[A-Za-z0-9_=-][A-Za-z0-9_=.-]*")
"""A part of a key that means nothing else in a policy, in a URI or as a path."""
_MOST_LEASES = 1000
_log = logging.getLogger(__name__)


def reach_of(lake: Lake, location: str, *, writing: bool) -> Reach | None:
    """Return the reach of credentials for the files below `location`; None where no policy would say it.

    At least two parts below the bucket: whatever a table's metadata say, its credentials are not for the warehouse.
    """
    root, key = location[: len(lake.root) + 1], location[len(lake.root) + 1 :].removesuffix("/")
    parts = key.split("/")
    if root != f"{lake.root}/" or len(parts) < 2 or not all(map(_SEGMENT.fullmatch, parts)):
        return None
    return Reach(f"{key}/", writing)


def client_configuration(lake: Lake, lease: Lease) -> dict[str, str]:
    """The settings of Iceberg's clients for the store, by the names of the protocol's specification."""
    keys = lease.credentials
    return {
        "s3.endpoint": lake.endpoints[0],
        "s3.region": lake.region,
        "client.region": lake.region,
        "s3.path-style-access": str(lake.path_style).lower(),
        "s3.access-key-id": keys.access_key,
        "s3.secret-access-key": keys.secret_key,
        "s3.session-token": keys.session_token or "",
        "s3.session-token-expires-at-ms": str(int(lease.expires_at * 1000)),
    }


@dataclass
class CredentialVendor:
    """Issues credentials for tables, and gives them again while half of their time is left. Thread-safe."""

    lakes: Lakes
    issue: Callable[..., Lease] = issue
    gives_more: Callable[[Lake, Sts, Lease], bool] = gives_more
    clock: Callable[[], float] = time.time
    _leases: dict[tuple[object, ...], Lease] = field(default_factory=dict)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def configuration(self, location: str, *, writing: bool, user: str) -> Mapping[str, str] | None:
        """Return a client's settings for the files below `location`; None where none can be limited to them.

        `user` names the caller in the store's log. Raises `LakeError` where the store issues none.
        """
        try:
            lake = self.lakes.get()
        except NotFound:
            return None
        own = self.lakes.client_credentials(lake)
        # Without a role, the store issues a session of the lake's own user, which no policy limits.
        if own is None or lake.sts is None or lake.sts.role_arn is None:
            return None
        reach = reach_of(lake, location, writing=writing)
        lease = None if reach is None else self._lease(lake, lake.sts, own, reach, user)
        return None if lease is None else client_configuration(lake, lease)

    def _lease(self, lake: Lake, sts: Sts, own: Credentials, reach: Reach, user: str) -> Lease | None:
        """The credentials; None where the store would give others for them, which have not their limits."""
        key = (lake.root, sts, own, reach, user)
        with self._turn:
            held = self._leases.get(key)
        if held is not None and self.clock() < held.issued_at + held.seconds / 2:
            return held
        given = self.issue(lake, sts, own, user, reach=reach)
        if self.gives_more(lake, sts, given):
            _log.warning(
                "clients of Iceberg's catalog get no credentials for tables of lake %s: its store gives others for "
                "them, without their limits; let the trust policy of %s deny the role itself",
                lake.name,
                sts.role_arn,
            )
            return None
        with self._turn:
            now = self.clock()
            self._leases = {one: lease for one, lease in self._leases.items() if lease.expires_at > now}
            if len(self._leases) >= _MOST_LEASES:
                self._leases.clear()
            self._leases[key] = given
        return given
