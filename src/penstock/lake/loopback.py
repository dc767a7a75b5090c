"""Whether a server of this machine does its work, as opposed to merely listening."""

from __future__ import annotations

import http.client

_SECONDS = 2.0


def answers(port: int, path: str) -> bool:
    """Whether `GET path` there is answered with 200 within two seconds."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
