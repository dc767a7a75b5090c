"""All of these APIs as one router."""

from __future__ import annotations

from fastapi import APIRouter

from penstock.service.dialects.applications import applications
from penstock.service.dialects.historyserver import history_server
from penstock.service.dialects.instancehome import instance_home
from penstock.service.dialects.instances import instances
from penstock.service.dialects.jobs import jobs

_V3, _V4 = "/v3/analytics_engines", "/v4/analytics_engines"
_OLDER = ("/ae/spark/v2/{instance_id}/v2/jobs", "/ae/spark/v2/{instance_id}/jobs")


def _all() -> APIRouter:
    found = APIRouter()
    for prefix in (_V3, _V4):
        found.include_router(applications(prefix))
        found.include_router(instances(prefix))
        found.include_router(instance_home(prefix))
        found.include_router(history_server(prefix))
    for prefix in _OLDER:
        found.include_router(jobs(prefix))
    return found


router = _all()
