"""Telling webhooks what changed: signed, retried with back-off, and never led into the network the engine is in.

A delivery follows the Standard Webhooks specification: headers `webhook-id`, `webhook-timestamp` and
`webhook-signature` (`v1,` and the base64 of HMAC-SHA256 over `id.timestamp.body`). It is delivered when the receiver
answers 2xx within ten seconds. It may come twice, with the same id; the order of `timestamp` is that of the changes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import logging
import secrets
import threading
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import datetime, timedelta
from pathlib import Path

from penstock.catalog.secretstore import secret_store
from penstock.engine.outbox import Delivery, Outbox
from penstock.engine.records import CONNECTION_LOST
from penstock.engine.rows import now
from penstock.engine.webaddress import Reach
from penstock.engine.webcall import post
from penstock.errors import InvalidInput, PenstockError, StateError
from penstock.home import Home, write_once
from penstock.recovery import keep_going

KEY_FILE = "webhooks.key"
"""In the state directory: `whsec_` and base64. The instances' secrets are derived from it."""

MOST_TRIES = 12

_FIRST = timedelta(seconds=5)
_LONGEST = timedelta(hours=1)
_AT_ONCE = 16
_AT_ONCE_FOR_AN_INSTANCE = 4
_LOOK_SECONDS = 1.0
_PREFIX = "whsec_"
_SHARED_KEY = "webhooks"
"""The name of its like among the shared secrets."""

_log = logging.getLogger(__name__)


def sign(secret: bytes, delivery_id: str, at: datetime, body: bytes) -> dict[str, str]:
    """The headers by which a receiver knows who sent `body`, and when. Pure."""
    timestamp = str(int(at.timestamp()))
    signed = b".".join((delivery_id.encode(), timestamp.encode(), body))
    signature = base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
    return {"webhook-id": delivery_id, "webhook-timestamp": timestamp, "webhook-signature": f"v1,{signature}"}


def next_try(tries: int, at: datetime) -> datetime | None:
    """When to try again after that many failures: 5 s later, doubled each time to an hour; None: not any more."""
    if tries >= MOST_TRIES:
        return None
    return at + min(_FIRST * (1 << (tries - 1)), _LONGEST)


def signing_secret(home: Home, instance: str) -> bytes:
    """The instance's own: a receiver that knows it can forge nothing for another instance.

    Derived from one secret, which is made when first needed: that of the services that share secrets, where they do,
    else that of the state directory. Raises `StateError` where that is damaged, `CatalogError` where the database that
    has it does not answer.
    """
    return hmac.new(_master_secret(home), b"webhooks of " + instance.encode(), hashlib.sha256).digest()


def shown_secret(home: Home, instance: str) -> str:
    """The same in the form that libraries for receivers take: `whsec_` and base64."""
    return _PREFIX + _encoded(signing_secret(home, instance))


def _master_secret(home: Home) -> bytes:
    file = home.root / KEY_FILE
    store = secret_store(home)
    if store is None:
        if not file.exists():
            write_once(file, _PREFIX + _encoded(secrets.token_bytes(32)) + "\n")
        return _in_file(file)
    shared = store.get(_SHARED_KEY)
    content = shared.content if shared else None
    if not content:
        # From before secrets were shared receivers know the file's.
        key = _in_file(file) if file.exists() else secrets.token_bytes(32)
        content = store.put_first(_SHARED_KEY, {"key": _encoded(key)})
    return base64.b64decode(content["key"])


def _encoded(secret: bytes) -> str:
    return base64.b64encode(secret).decode()


def _in_file(file: Path) -> bytes:
    try:
        return base64.b64decode(file.read_text(encoding="ascii").strip().removeprefix(_PREFIX), validate=True)
    except (ValueError, binascii.Error) as error:
        raise StateError(
            f"{file} is damaged", why="it holds no secret", fix=f"move it away (mv '{file}' '{file}.damaged')"
        ) from error


class Webhooks:
    """Delivers what the outbox holds. Any number of processes may do so at once: each takes its own.

    No delivery waits for another to be answered, and an instance whose receivers are slow has a few under way at most,
    so that the others' go on.
    """

    def __init__(self, outbox: Outbox, home: Home, reach: Reach) -> None:
        self._outbox = outbox
        self._home = home
        self._reach = reach

    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set, and what is under way has been answered."""
        under_way: dict[Future[None], str] = {}
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="webhook") as pool:
            keep_going(
                "the delivery of webhooks",
                lambda: self._run(pool, under_way, stop),
                stop,
                log=_log,
                transient=CONNECTION_LOST,
            )

    def _run(self, pool: ThreadPoolExecutor, under_way: dict[Future[None], str], stop: threading.Event) -> None:
        while not stop.is_set():
            for done in [future for future in under_way if future.done()]:
                del under_way[done]
            begun = self._begin_due(pool, under_way)
            if not begun and under_way:
                # What was answered makes room; what has come since is looked for in any case.
                wait(under_way, timeout=_LOOK_SECONDS, return_when=FIRST_COMPLETED)
            elif not begun:
                stop.wait(_LOOK_SECONDS)

    def _begin_due(self, pool: ThreadPoolExecutor, under_way: dict[Future[None], str]) -> bool:
        """Whether there was anything to do."""
        begun = Counter(under_way.values())
        full = [instance for instance, number in begun.items() if number >= _AT_ONCE_FOR_AN_INSTANCE]
        if (room := _AT_ONCE - len(under_way)) <= 0:
            return False
        due = self._outbox.take(now(), limit=min(room, _AT_ONCE_FOR_AN_INSTANCE), without=full)
        for delivery in due:
            under_way[pool.submit(self._deliver, delivery)] = delivery.instance
        return bool(due)

    def _deliver(self, delivery: Delivery) -> None:
        try:
            self.deliver(delivery)
        except (*CONNECTION_LOST, PenstockError) as error:
            _log.warning("a webhook is delivered again later: %s", error)
        except Exception:
            _log.exception("a webhook is delivered again later")

    def deliver(self, delivery: Delivery) -> None:
        """Try once, and record how it went."""
        body = json.dumps(delivery.body, separators=(",", ":")).encode()
        at = now()
        headers = sign(signing_secret(self._home, delivery.instance), f"penstock-{delivery.id}", at, body)
        try:
            status = post(delivery.url, body, headers, self._reach)
            problem = "" if 200 <= status < 300 else f"it answered {status}"
        except (OSError, InvalidInput) as error:
            problem = str(error) or type(error).__name__
        if not problem:
            self._outbox.delivered(delivery, at)
        else:
            self._outbox.failed(delivery, problem[:300], again_at=next_try(delivery.tries, at))
