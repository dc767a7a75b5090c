"""Bodies of IBM's documentation and of the seed documents, and the context to translate them in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from penstock.lake.model import Lake
from penstock.model import ClusterSize, ProcessSize
from penstock.service.ibm.bodies import ApplicationRequest, JobRequest
from penstock.service.ibm.translation import Translation, TranslationContext, translate

GIB = 1 << 30
USUAL = ClusterSize(ProcessSize(1, GIB), ProcessSize(2, 2 * GIB), 1)
HOME = Lake("home", ("http://127.0.0.1:8333",), "lake", "file:home", kind="embedded")
SALES = Lake("sales", ("https://s3.direct.example.com",), "sales", "file:sales")
CEPH = Lake("ceph", ("http://rgw.example.com:8080", "http://rgw2.example.com:8080"), "benchmarks", "file:ceph")


def recorded(name: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads((Path(__file__).parent / "recorded" / f"{name}.json").read_text("utf-8"))
    return body


def around(**changes: Any) -> TranslationContext:
    return TranslationContext(
        **{"instance": "team", "usual": USUAL, "home": HOME, "lakes": [HOME, SALES, CEPH], **changes}
    )


def application(body: dict[str, Any], **changes: Any) -> Translation:
    return translate(ApplicationRequest.model_validate(body).submission(), around(**changes))


def details(**fields: Any) -> dict[str, Any]:
    return {"application_details": {"application": "s3a://lake/a.py", **fields}}


def job(body: dict[str, Any], **changes: Any) -> Translation:
    return translate(JobRequest.model_validate(body).submission(), around(**changes))
