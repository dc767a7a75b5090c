"""The profiles by name: which layers make each."""

from __future__ import annotations

from penstock.errors import NotFound
from penstock.profiles import base, etl, ml, sql, store, terasort, tpcds
from penstock.profiles.setting import Layer

DEFAULT = Layer("default", "any application: base and store alone", ())

_WORKLOADS: dict[str, tuple[Layer, ...]] = {
    "default": (DEFAULT,),
    "sql": (sql.LAYER,),
    "tpcds": (sql.LAYER, tpcds.LAYER),
    "etl": (etl.LAYER,),
    "terasort": (terasort.LAYER,),
    "ml": (ml.LAYER,),
}


def names() -> tuple[str, ...]:
    return tuple(_WORKLOADS)


def layers_of(name: str) -> tuple[Layer, ...]:
    """The layers of a workload profile, weakest first: base, store, and the workload's own. Raises `NotFound`."""
    if name not in _WORKLOADS:
        raise NotFound(
            f"There is no profile {name!r}",
            why=f"the profiles are {', '.join(_WORKLOADS)}",
            fix="penstock profile list",
        )
    return (base.LAYER, store.LAYER, *_WORKLOADS[name])


def summary_of(name: str) -> str:
    return layers_of(name)[-1].summary
