"""`…/spark_history_server`: Spark's own history server over the instance's lake."""

from __future__ import annotations

from fastapi import APIRouter

from penstock.engine.interactive.history import SIZE, History, Status
from penstock.engine.policy.fairness import Instance
from penstock.engine.tokens import Scope
from penstock.service.access import Reader, Submitter
from penstock.service.context import ServiceOf
from penstock.service.dialects import kept, shown, sizes
from penstock.service.dialects.operations import instance_of
from penstock.service.dialects.route import DialectRoute
from penstock.service.dialects.views import known, moment


def history_server(prefix: str) -> APIRouter:
    router = APIRouter(
        prefix=prefix + "/{instance_id}/spark_history_server", route_class=DialectRoute, tags=["IBM Analytics Engine"]
    )

    @router.post(
        "",
        status_code=202,
        summary="Start the history server; one that runs goes on",
        responses={202: {"model": shown.SparkHistoryServer}},
    )
    def start(instance_id: str, service: ServiceOf, caller: Submitter) -> dict[str, str]:
        lake = _lake(instance_of(service, caller, instance_id, Scope.SUBMIT))
        return view(History(service.engine).start(lake))

    @router.get("", summary="Whether the history server runs", responses={200: {"model": shown.SparkHistoryServer}})
    def show(instance_id: str, service: ServiceOf, caller: Reader) -> dict[str, str]:
        return view(History(service.engine).status(_lake(instance_of(service, caller, instance_id))))

    @router.delete("", status_code=204, summary="Stop the history server; its pages start it again")
    def stop(instance_id: str, service: ServiceOf, caller: Submitter) -> None:
        History(service.engine).stop(_lake(instance_of(service, caller, instance_id, Scope.SUBMIT)))

    return router


def _lake(instance: Instance) -> str | None:
    """Its home's; None is the default lake."""
    home = kept.read(instance).home
    return home.lake if home else None


def view(status: Status) -> dict[str, str]:
    return {
        "state": "started" if status.running else "stopped",
        "cores": str(SIZE.cores),
        "memory": sizes.shown(SIZE.memory_bytes),
        **known(
            {
                "start_time": moment(status.started_at),
                "stop_time": moment(status.ended_at),
                "auto_termination_time": moment(status.idle_ends_at),
            }
        ),
    }
