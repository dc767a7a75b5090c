"""References to S3 secrets, and the one file format (AWS ini) from which they are read and to which they are written.

A reference is stored and passed around freely; the secret it names is resolved as late as possible and never printed.
"""

from __future__ import annotations

import configparser
import io
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from penstock.errors import InvalidInput, NotFound, StateError
from penstock.home import Home, write_atomically
from penstock.lake.model import Credentials

ENVIRONMENT = "environment"
"""The reference to `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN` of the process that uses it."""


_RESTORED_BY = {"embedded": "penstock lake up", "ceph": "penstock lake ceph up"}
"""The commands that restore lost credentials, for lakes whose store can return or replace its user's."""


def from_environment(environment: Mapping[str, str]) -> Credentials | None:
    access, secret = environment.get("AWS_ACCESS_KEY_ID"), environment.get("AWS_SECRET_ACCESS_KEY")
    if not access or not secret:
        return None
    return validate_credentials(Credentials(access, secret, environment.get("AWS_SESSION_TOKEN") or None))


def parse_lines(text: str) -> Credentials:
    """Parse the input of `--credentials-from-stdin`: the access key, the secret key and optionally a session token."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) not in (2, 3):
        raise InvalidInput(
            "Standard input does not hold credentials",
            why=f"it has {len(lines)} lines that are not empty",
            fix="pass two lines, the access key and the secret key, and the session token, if any, as a third",
        )
    return validate_credentials(Credentials(*lines))


def validate_credentials(credentials: Credentials) -> Credentials:
    """Return the credentials; raise `InvalidInput` if a value would corrupt a credentials file or an HTTP header."""
    parts = {
        "access key": credentials.access_key,
        "secret key": credentials.secret_key,
        "session token": credentials.session_token or "-",
    }
    for name, value in parts.items():
        if not value or not value.isascii() or not value.isprintable() or " " in value:
            raise InvalidInput(
                f"The {name} is not valid",
                why="it is empty, or contains a space, a line break, or characters outside ASCII",
                fix="copy it again as the store's administrator gave it",
            )
    return credentials


def format_ini(profiles: Mapping[str, Credentials], *, also: Mapping[str, Mapping[str, str]] | None = None) -> str:
    """The content of an AWS credentials file. `also` adds keys to a profile that AWS's own clients ignore."""
    parser = _parser()
    for name, credentials in profiles.items():
        parser[name] = {
            "aws_access_key_id": credentials.access_key,
            "aws_secret_access_key": credentials.secret_key,
            **({"aws_session_token": credentials.session_token} if credentials.session_token else {}),
            **(also or {}).get(name, {}),
        }
    text = io.StringIO()
    parser.write(text)
    return text.getvalue()


def parse_ini(content: str) -> dict[str, tuple[Credentials, Mapping[str, str]]]:
    """Map each profile of an AWS credentials file to its credentials and all its keys; raise `ValueError` otherwise."""
    parser = _parser()
    try:
        parser.read_string(content)
        return {
            name: (
                Credentials(
                    parser[name]["aws_access_key_id"],
                    parser[name]["aws_secret_access_key"],
                    parser[name].get("aws_session_token"),
                ),
                dict(parser[name]),
            )
            for name in parser.sections()
        }
    except (configparser.Error, KeyError) as error:
        # The parser's own message quotes the offending line, which may contain a secret.
        raise ValueError(type(error).__name__) from None


class CredentialsFile:
    """The home's own credentials, one profile per lake, readable by the owner only.

    A change reads and replaces the whole file under a lock of its own, because callers hold different locks: that of
    the registry, of the embedded lake, or of Ceph.
    """

    def __init__(self, home: Home) -> None:
        self._home = home
        self.path: Path = home.lake / "credentials"

    def get(self, profile: str) -> Credentials | None:
        return self._read().get(profile)

    def put(self, profile: str, credentials: Credentials) -> None:
        credentials = validate_credentials(credentials)
        with self._changing():
            write_atomically(self.path, format_ini({**self._read(), profile: credentials}))

    def remove(self, profile: str) -> None:
        with self._changing():
            profiles = self._read()
            if profiles.pop(profile, None):
                write_atomically(self.path, format_ini(profiles))

    def _changing(self) -> AbstractContextManager[None]:
        return self._home.lock("credentials", busy="Another command is changing the credentials", wait_seconds=10)

    def _read(self) -> dict[str, Credentials]:
        try:
            profiles = parse_ini(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError:
            raise StateError(
                f"{self.path} is damaged",
                why="it is not an AWS credentials file",
                fix=f"move it away (mv '{self.path}' '{self.path}.damaged'), then add the external lakes again",
            ) from None
        return {name: credentials for name, (credentials, _) in profiles.items()}


def resolve(home: Home, reference: str) -> Credentials:
    """Resolve a lake's reference to the secret; raise `NotFound` or `InvalidInput` if there is none."""
    source, _, profile = reference.partition(":")
    if reference == ENVIRONMENT:
        if found := from_environment(os.environ):
            return found
        raise NotFound(
            "The environment contains no S3 credentials",
            why="AWS_ACCESS_KEY_ID or AWS_SECRET_ACCESS_KEY is not set",
            fix="export both, or add the lake again with --aws-profile NAME or --credentials-from-stdin",
        )
    if source == "file":
        if found := CredentialsFile(home).get(profile):
            return found
        raise NotFound(
            f"The credentials of the lake “{profile}” are gone",
            why=f"{CredentialsFile(home).path} has no section [{profile}]",
            fix=_RESTORED_BY.get(profile, f"penstock lake remove {profile}, then penstock lake add {profile} …"),
        )
    if source == "aws":
        return _from_aws_files(profile)
    raise StateError(
        f"“{reference}” is not a credentials reference",
        why="it must be file:PROFILE, aws:PROFILE or environment",
        fix="remove the lake and add it again: penstock lake remove NAME",
    )


def _from_aws_files(profile: str) -> Credentials:
    import botocore.exceptions  # noqa: PLC0415  the import takes half a second, and most commands do not need it
    import botocore.session  # noqa: PLC0415

    try:
        found = botocore.session.Session(profile=profile).get_credentials()
        frozen = found.get_frozen_credentials() if found else None
    except botocore.exceptions.ProfileNotFound as error:
        raise NotFound(
            f"There is no AWS profile “{profile}”",
            why="neither ~/.aws/credentials nor ~/.aws/config (or the files in AWS_SHARED_CREDENTIALS_FILE and "
            "AWS_CONFIG_FILE) contains it",
            fix=f"aws configure --profile '{profile}'",
        ) from error
    except botocore.exceptions.BotoCoreError as error:
        raise InvalidInput(
            f"The AWS profile “{profile}” gives no credentials",
            why=str(error),
            fix=f"try it: aws sts get-caller-identity --profile '{profile}'",
        ) from error
    if frozen is None or not frozen.access_key or not frozen.secret_key:
        raise InvalidInput(
            f"The AWS profile “{profile}” gives no credentials",
            why="it has no access key",
            fix=f"aws configure --profile '{profile}'",
        )
    return validate_credentials(Credentials(frozen.access_key, frozen.secret_key, frozen.token))


def _parser() -> configparser.ConfigParser:
    # Secrets may contain %, which the default interpolation would expand; a section [DEFAULT] is not special to AWS.
    return configparser.ConfigParser(interpolation=None, default_section="\0")
