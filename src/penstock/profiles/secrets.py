"""Secrets are refused as settings: settings end up in the event log, the records and the web interface."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from penstock.profiles.problems import Problem, error

# The last part of the key decides: `…credentials.provider` names a class, `…secret.file` a file.
_SECRET_NAME = re.compile(
    r"(?i)(password|passwd|passphrase|secret|token|secret[._-]?(access[._-]?)?key|access[._-]?key([._-]?id)?"
    r"|encryption[._-]key|private[._-]?key|api[._-]?key|client[._-]?secret|account[._-]key([._].*)?)$"
)

REDACTION = (
    r"(?i)secret|passw(or)?d|passphrase|token|access[._-]?key|account[._-]key|private[._-]?key|api[._-]?key"
    r"|encryption[._-]key|://[^/\s:@]+:[^/\s@]+@"
)
"""`spark.redaction.regex` of every cluster: Spark hides a value where this is found in its name or in the value.

Spark's own pattern, and the names and addresses that are refused as settings: a program can still set them itself.
"""

# Names of Kubernetes objects, and of keys inside them: `owned` refuses them, and says better why.
_NAMES_ONLY = re.compile(
    r"spark\.kubernetes\.(.*\.secrets?\.|.*secretKeyRef\.|kerberos\.|container\.image\.pullSecrets)"
)

_SECRET_VALUES = (
    (re.compile(r"\b(AKIA|ASIA)[0-9A-Z]{16}\b"), "it holds an AWS access key"),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"), "it holds a private key"),
    (re.compile(r"\b[a-z][a-z0-9+.-]*://[^/\s:@]+:[^/\s@]+@"), "it holds an address with a password in it"),
    (re.compile(r"(?i)[?&;](password|pwd)=[^&;\s]+"), "it holds an address with a password in it"),
    (
        re.compile(r"(?i)(^|\s)'?-D\S*(password|passwd|secret|secret\.?key|accessKeyId|token)=\S"),
        "it passes a secret to Java, which shows in the list of processes",
    ),
)

_LAKE_FIX = (
    "penstock lake add NAME --endpoint URL --bucket BUCKET: it asks for the keys and keeps them in a private file"
)
_OTHER_FIX = (
    "put it into a file that only you can read and let the application read that, "
    "or use the *.file setting beside this one where Spark has it"
)


def find(settings: Mapping[str, str]) -> Iterator[Problem]:
    for key, value in settings.items():
        if why := _holds_secret(key, value):
            about_s3 = ".fs.s3a." in key or "AWS_" in key
            yield error(
                key,
                problem=f"{key} is a secret, or holds one",
                why=f"{why}; settings are written to the event log and the records",
                fix=_LAKE_FIX if about_s3 else _OTHER_FIX,
            )


def is_secret(key: str, value: str) -> bool:
    """Whether the value must not be shown."""
    return _holds_secret(key, value) is not None


def _holds_secret(key: str, value: str) -> str | None:
    if not value.strip():
        return None
    # A switch is a switch whatever its name says, and a KMS key is named by an address that opens nothing.
    harmless = value.strip().lower() in {"true", "false"} or value.startswith("arn:")
    if not harmless and _SECRET_NAME.search(key) and not _NAMES_ONLY.match(key):
        return "its name says so"
    return next((why for pattern, why in _SECRET_VALUES if pattern.search(value)), None)
