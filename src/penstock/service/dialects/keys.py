"""Keys of a store that came with a request: compared with the lake's own, or kept where secrets are."""

from __future__ import annotations

import hmac

from penstock.errors import InvalidInput, LakeError
from penstock.home import Home
from penstock.lake import registry
from penstock.lake.check import require_reachable
from penstock.lake.model import Credentials, Lake
from penstock.lake.registry import Lakes


def lake_opened_by(home: Home, lake: Lake, keys: Credentials | None, *, queue: str) -> Lake:
    """The lake itself where the keys are its own or none came; else one at the same place that refers to these keys,
    and is that queue's alone.

    They are tried before they are kept, in the private credentials file, so only keys that open the bucket stay there.
    Raises `InvalidInput` where they do not, also for other keys of the embedded lake, which has one pair; `LakeError`
    where the store does not answer.
    """
    if keys is None:
        return lake
    lakes = Lakes(home)
    if lake.kind == "embedded":
        # Before its first start it has none, which nobody's can be.
        if lake in lakes.all() and _same(keys, lakes.credentials_of(lake)):
            return lake
        raise InvalidInput(
            f"The keys are not those of the lake “{lake.name}”",
            why="it has one pair of its own, which applications are given without asking",
            fix="leave the keys out",
        )
    own = lakes.credentials_of(lake)
    if _same(keys, own):
        return lake
    try:
        require_reachable(lake, keys)
    except LakeError as refusal:
        require_reachable(lake, own)  # where these fail too, it is not the keys
        raise InvalidInput(
            f"The keys do not open the lake “{lake.name}”",
            why=refusal.why,
            fix="give keys that may read and write its bucket, or none: it has its own",
        ) from None
    return lakes.add(registry.scoped(lake, keys, queue), keys)


def _same(one: Credentials, other: Credentials) -> bool:
    return all(
        hmac.compare_digest((mine or "").encode(), (theirs or "").encode())
        for mine, theirs in (
            (one.access_key, other.access_key),
            (one.secret_key, other.secret_key),
            (one.session_token, other.session_token),
        )
    )
