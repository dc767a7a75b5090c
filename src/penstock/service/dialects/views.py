"""An application as IBM's clients read it. Pure; what is unknown is left out, as there."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from penstock.model import Application, ApplicationSpec, State
from penstock.profiles.check import is_secret
from penstock.service.dialects import sizes, states

_NOT_SHOWN = "****"


def moment(at: datetime | None) -> str | None:
    """`2026-11-21T22:30:00.000Z`."""
    return None if at is None else at.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def accepted(application: Application) -> dict[str, Any]:
    """The answer to a submission: by idempotency key it may be one that ran long ago."""
    return {"id": application.id, "state": states.word(application.state)}


def state(application: Application) -> dict[str, Any]:
    return {"id": application.id, "state": states.word(application.state), **_times(application)}


def entry(application: Application, *, href: str, spark_version: str, spark_ui: str) -> dict[str, Any]:
    """One of a list."""
    return {
        "id": application.id,
        "href": href,
        "runtime": {"spark_version": spark_version},
        **_of_both(application, spark_ui),
    }


def whole(application: Application, *, spark_version: str, spark_ui: str) -> dict[str, Any]:
    return {
        "application_details": details(application.spec, spark_version),
        "id": application.id,
        **_of_both(application, spark_ui),
        "state_details": states.details(application.state, application.reason),
    }


def details(spec: ApplicationSpec, spark_version: str) -> dict[str, Any]:
    """What runs, as it was understood: addresses are the lake's, sizes those it has."""
    settings = dict(spec.settings)
    return {
        "application": spec.application,
        "runtime": {"spark_version": spark_version},
        "name": spec.name,
        "arguments": list(spec.arguments),
        **known(
            {
                "class": spec.main_class,
                "jars": ",".join(spec.jars) or None,
                "files": ",".join(spec.files) or None,
                "packages": settings.pop("spark.jars.packages", None),
                "repositories": settings.pop("spark.jars.repositories", None),
                "archives": settings.pop("spark.archives", None),
            }
        ),
        "conf": {
            **_concealed(settings),
            **sizes.as_settings(spec.size),
            **known({"spark.submit.pyFiles": ",".join(spec.python_files) or None}),
        },
        "env": dict(spec.environment),
    }


def _of_both(application: Application, spark_ui: str) -> dict[str, str]:
    return {
        **known(
            {
                "spark_application_id": application.spark_application_id,
                "spark_application_name": application.spec.name,
                "spark_ui": spark_ui if application.can_be_watched else None,
                "submission_time": moment(application.submitted_at),
            }
        ),
        "state": states.word(application.state),
        **_times(application),
    }


def _times(application: Application) -> dict[str, str]:
    ended = moment(application.ended_at)
    return known(
        {
            "start_time": moment(application.started_at),
            "end_time": ended,
            "finish_time": ended,  # out of use, and still what older clients read
            "auto_termination_time": moment(_limit(application)),
        }
    )


def _limit(application: Application) -> datetime | None:
    if application.state is State.AUTO_TERMINATED:
        return application.ended_at
    limit = application.spec.time_limit_seconds
    if application.state.final or application.admitted_at is None or limit is None:
        return None
    return application.admitted_at + timedelta(seconds=limit)


def known(values: Mapping[str, str | None]) -> dict[str, str]:
    """Without what is not."""
    return {key: value for key, value in values.items() if value is not None}


def _concealed(settings: Mapping[str, str]) -> dict[str, str]:
    """Secrets are refused as settings; one recorded before that rule knew it is not shown either."""
    return {key: _NOT_SHOWN if is_secret(key, value) else value for key, value in settings.items()}
