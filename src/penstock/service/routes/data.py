"""`/v1/tables`, `/v1/lakes`, `/v1/profiles`, `/v1/cache`: what applications work on, and with."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from penstock.catalog.database import Database
from penstock.catalog.metastore import Metastore
from penstock.engine import installation
from penstock.lake import stores
from penstock.lake.registry import EMBEDDED, Lakes
from penstock.profiles import workloads
from penstock.service import preview, shownplaces
from penstock.service.access import Reader
from penstock.service.context import Service, ServiceOf

router = APIRouter(prefix="/v1", tags=["data"])

TableName = Annotated[str, Path(max_length=300, description="DATABASE.TABLE")]


@router.get("/tables", summary="The catalog's tables", responses={200: {"model": shownplaces.Tables}})
def tables(
    service: ServiceOf,
    _: Reader,
    pattern: Annotated[str | None, Query(max_length=300, description="A shell pattern of DATABASE.TABLE.")] = None,
) -> dict[str, Any]:
    return {"items": [table.as_json() for table in _metastore(service).tables(pattern)]}


@router.get(
    "/tables/{name}", summary="One table: its columns and statistics", responses={200: {"model": shownplaces.Table}}
)
def table(name: TableName, service: ServiceOf, _: Reader) -> dict[str, Any]:
    return _metastore(service).table(name).as_json()


@router.get("/tables/{name}/preview", summary="Some rows of a table", responses={200: {"model": shownplaces.Preview}})
def preview_of(
    name: TableName,
    service: ServiceOf,
    _: Reader,
    rows: Annotated[int, Query(ge=1, le=preview.MOST_ROWS)] = 50,
) -> dict[str, Any]:
    """Of one of its objects, read here without a cluster: any rows, in no order."""
    found = _metastore(service).table(name)
    return preview.of(found, preview.opener(service.engine, service.home), rows=rows)


@router.get("/lakes", summary="The object stores", responses={200: {"model": shownplaces.Lakes}})
def lakes(service: ServiceOf, caller: Reader) -> dict[str, Any]:
    """Lakes made from keys in a request body are listed to readers of the queue that they belong to."""
    registered = Lakes(service.home)
    default, ours = registered.default(), stores.stores(service.home)
    listed = [lake for lake in registered.all() if lake.scope is None or caller.sees(lake.scope.queue or "")]
    running = {kind: ours[kind].ready() for kind in {lake.kind for lake in listed} & ours.keys()}
    return {
        "items": [
            {
                "name": lake.name,
                "default": lake.name == default,
                "endpoints": list(lake.endpoints),
                "bucket": lake.bucket,
                "kind": lake.kind,
                "embedded": lake.kind == EMBEDDED,
                "running": running.get(lake.kind),
            }
            for lake in listed
        ]
    }


@router.get("/profiles", summary="The workload profiles", responses={200: {"model": shownplaces.Profiles}})
def profiles(_: Reader) -> dict[str, Any]:
    return {"items": [{"name": name, "summary": workloads.summary_of(name)} for name in workloads.names()]}


@router.get(
    "/cache",
    summary="The page cache of this machine, and what it gave the last applications",
    responses={200: {"model": shownplaces.Cache}},
)
def cache(service: ServiceOf, _: Reader) -> dict[str, Any]:
    return installation.status(service.home)


def _metastore(service: Service) -> Metastore:
    return Metastore(Database(service.home))
