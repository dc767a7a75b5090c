"""Credential-scoped lakes: another lake's place, opened by keys that came with a submission, for its queue alone."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace

from penstock.errors import NotFound
from penstock.lake.base import Credentials, CredentialScope, Lake
from penstock.lake.registry import Lakes

_DIGITS = 16
_NAME = re.compile(rf"(.+)\.([0-9a-f]{{{_DIGITS}}})")


def scoped(lake: Lake, keys: Credentials, queue: str) -> Lake:
    """The lake's place for that queue and these keys, not stored yet: one for each pair, and each queue has its own.

    The role of the lake's own user is not taken: whoever brings keys means them.
    """
    original = lake.scope.original if lake.scope else lake.name
    name = _name(original, _digest(queue, keys.access_key, keys.secret_key, keys.session_token or ""))
    return replace(lake, name=name, kind="external", sts=None, scope=CredentialScope(original, queue))


def adopt(lakes: Lakes, homes: Mapping[str, set[str]]) -> list[str]:
    """Mark the lakes that earlier releases made from keys, which had a name for a mark; returns their names.

    Their digest proves it: a lake of that look with other keys is somebody's own. `homes` maps the lakes that queues
    have as their home to those queues. One queue's becomes that queue's; nobody may name one that is no queue's home,
    and applications that run with it go on. One that is the home of several stays as it is.
    """
    adopted = []
    for lake in lakes.shared():
        found = _NAME.fullmatch(lake.name)
        queues = homes.get(lake.name, set())
        if found is None or lake.credentials != f"file:{lake.name}" or len(queues) > 1:
            continue
        try:
            keys = lakes.credentials_of(lake)
        except NotFound:
            continue
        if found.group(2) == _digest(keys.access_key, keys.secret_key, keys.session_token or ""):
            lakes.add(replace(lake, scope=CredentialScope(found.group(1), next(iter(queues), None))))
            adopted.append(lake.name)
    return adopted


def _name(original: str, digest: str) -> str:
    return f"{original[: 62 - _DIGITS]}.{digest}"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:_DIGITS]
