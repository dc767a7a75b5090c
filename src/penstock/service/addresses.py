"""Which files a submission from elsewhere may name. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.clusters.launch import BUILT_IN
from penstock.engine.interactive import connect_server
from penstock.errors import InvalidInput
from penstock.model import ApplicationSpec

_OUR_OWN = frozenset({BUILT_IN, connect_server.__file__})
"""What is run from here whoever asks for it: it is on every machine of the service alike."""

_LAKE = "s3a://"
_FILE_SETTINGS = frozenset(
    {
        "spark.jars",
        "spark.files",
        "spark.archives",
        "spark.submit.pyFiles",
        "spark.yarn.dist.files",
        "spark.yarn.dist.jars",
        "spark.yarn.dist.archives",
    }
)
_REPOSITORY_SETTINGS = frozenset({"spark.jars.packages", "spark.jars.repositories", "spark.jars.ivySettings"})


def require_allowed(spec: ApplicationSpec) -> None:
    """Raise `InvalidInput` for a file that is not in a lake.

    A path would be one of the service's machine, and say of each whether it is there. An http address would be asked
    for by the service, from a place in the network where the caller is not.
    """
    for what, address in _addresses(spec):
        if address not in _OUR_OWN and not _in_lake(address):
            raise InvalidInput(
                f"{what} “{address[:200]}” is not in a lake",
                why="a service takes no file of its own machine, and fetches none from other addresses",
                fix="give s3a://BUCKET/…, or upload it: PUT /v1/files/SHA256/NAME (the CLI and the client do)",
            )
    if found := sorted(_REPOSITORY_SETTINGS & spec.settings.keys()):
        raise InvalidInput(
            f"{found[0]} is not possible through a service",
            why="it would fetch from addresses the service was told",
            fix="bring the jars along: upload them, and name them in jars",
        )


def _addresses(spec: ApplicationSpec) -> Iterator[tuple[str, str]]:
    yield "The application", spec.application
    for what, paths in (("The jar", spec.jars), ("The file", spec.files), ("The Python file", spec.python_files)):
        yield from ((what, path) for path in paths)
    for key in sorted(_FILE_SETTINGS & spec.settings.keys()):
        yield from ((f"{key}:", part.strip()) for part in spec.settings[key].split(",") if part.strip())


def _in_lake(address: str) -> bool:
    bucket, _, key = address.removeprefix(_LAKE).partition("/")
    return address.startswith(_LAKE) and bool(bucket) and bool(key) and ".." not in key.split("/")
