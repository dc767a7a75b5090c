"""The service's own log: one JSON object per line on standard error, so that no content can forge a line."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

_logger = logging.getLogger("penstock.service")
_FIELDS = "penstock"


@dataclass(frozen=True)
class AnsweredRequest:
    """One answered request, for the log and the metrics. `route` is the template, not the address."""

    request_id: str
    method: str
    path: str
    route: str
    status: int
    seconds: float
    client: str
    caller: str | None
    token_id: str | None
    """Distinguishes tokens of the same name."""
    application_id: str | None


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, _FIELDS, {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["trace"] = self.formatException(record.exc_info)
        # In ASCII, since terminals also interpret control characters beyond it.
        return json.dumps(line)


def configure_logging(level: str = "info") -> None:
    """Configure logging of the whole process, libraries included, to standard error in this format."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name in ("penstock", "uvicorn.error"):
        logging.getLogger(name).setLevel(level.upper())


def log_request(seen: AnsweredRequest) -> None:
    fields = {
        "request": seen.request_id,
        "method": seen.method,
        "path": seen.path,
        "status": seen.status,
        "ms": round(seen.seconds * 1000, 1),
        "client": seen.client,
    }
    if seen.caller is not None:
        fields["token"] = seen.caller
    if seen.application_id is not None:
        fields["application"] = seen.application_id
    level = logging.ERROR if seen.status >= 500 else logging.INFO
    _logger.log(level, "request", extra={_FIELDS: fields})


def log_event(name: str, **fields: Any) -> None:
    _logger.info(name, extra={_FIELDS: fields})


def log_defect(error: Exception, request_id: str) -> None:
    """Log an unexpected error with its trace, which no response contains."""
    _logger.error("defect", exc_info=error, extra={_FIELDS: {"request": request_id}})
