"""The profiles by name: which layers make each."""

from __future__ import annotations

from penstock.errors import NotFound
from penstock.profiles import base, clients, etl, ml, scratch, sql, store, terasort, tpcds
from penstock.profiles.setting import Layer

DEFAULT = Layer("default", "any application: base and store alone", ())

_WORKLOADS: dict[str, tuple[Layer, ...]] = {
    "default": (DEFAULT,),
    "sql": (sql.LAYER,),
    "tpcds": (sql.LAYER, tpcds.LAYER),
    "etl": (etl.LAYER,),
    "etl-memory": (scratch.LAYER, etl.LAYER),
    "terasort": (terasort.LAYER,),
    "terasort-memory": (scratch.LAYER, terasort.LAYER),
    "ml": (ml.LAYER,),
}


def names() -> tuple[str, ...]:
    return tuple(_WORKLOADS)


def client_names() -> tuple[str, ...]:
    """What may follow a profile's name after a plus: another way to the lake, for comparisons."""
    return tuple(clients.LAYERS)


def layers_of(name: str) -> tuple[Layer, ...]:
    """The layers of a workload profile, weakest first: base, store, and the workload's own; then those of the client
    where one is named (`tpcds+s3a-default`). Raises `NotFound`.
    """
    workload, client = parted(name)
    return (*workload, *client)


def parted(name: str) -> tuple[tuple[Layer, ...], tuple[Layer, ...]]:
    """Those of the workload, and those of the client, which hold also against what a lake says of Penstock's own."""
    workload, plus, client = name.partition("+")
    if workload not in _WORKLOADS:
        raise NotFound(
            f"There is no profile {workload!r}",
            why=f"the profiles are {', '.join(_WORKLOADS)}",
            fix="penstock profile list",
        )
    if plus and client not in clients.LAYERS:
        raise NotFound(
            f"There is no client {client!r} of the store",
            why=f"those are {', '.join(clients.LAYERS)}; without one, it is Penstock's",
            fix=f"{workload}+{next(iter(clients.LAYERS))}, or {workload} alone",
        )
    return (base.LAYER, store.LAYER, *_WORKLOADS[workload]), clients.LAYERS[client] if plus else ()


def summary_of(name: str) -> str:
    """What the profile is for: of its own layer, and of how its scratch differs where it does."""
    own = layers_of(name)[2:]
    return "; ".join(layer.summary for layer in reversed(own)) if scratch.LAYER in own else own[-1].summary
