"""Kinds of failed requests, as they are counted: from the HTTP status, the store's error code, and libcurl's."""

from __future__ import annotations

import re

_CODE = re.compile(rb"<Code>\s*([A-Za-z0-9._-]{1,64})\s*</Code>")

_BY_STATUS = {
    401: "refused",
    403: "refused",
    404: "missing object",
    408: "time-out",
    429: "overloaded",
    503: "overloaded",
    504: "time-out",
    507: "store full",
}

# libcurl's error numbers (curl/curl.h), by what they say about the store; they are part of its stable interface.
_BY_CURL = {
    6: "name not resolved",
    7: "cannot connect",
    18: "connection broken",
    28: "time-out",
    35: "no secure connection",
    52: "connection broken",
    55: "connection broken",
    56: "connection broken",
    60: "certificate not trusted",
    77: "certificate not trusted",
}


def error_code(body: bytes) -> str:
    """The `Code` of an S3 error document; empty where there is none."""
    found = _CODE.search(body)
    return found[1].decode("ascii") if found else ""


def kind_of_answer(status: int, code: str) -> str:
    """The kind of a request the store answered with a status of 300 or more."""
    if code == "NoSuchBucket":
        return "missing bucket"
    return _BY_STATUS.get(status) or f"HTTP {status}"


def kind_of_break(number: int) -> str:
    """The kind of a request that libcurl could not finish."""
    return _BY_CURL.get(number) or f"libcurl error {number}"
