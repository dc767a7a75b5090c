"""The profiles by name: which layers make each."""

from __future__ import annotations

from penstock.errors import NotFound
from penstock.profiles import base, clients, etl, ml, scratch, skipping, sql, store, terasort, tpcds
from penstock.profiles.setting import Layer

DEFAULT = Layer("default", "any application: what all have, and nothing more", ())

_EVERY = (base.LAYER, store.LAYER, skipping.LAYER)

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


_VARIANTS: dict[str, tuple[Layer, ...]] = {**clients.LAYERS, skipping.OFF.name: (skipping.OFF,)}


def names() -> tuple[str, ...]:
    return tuple(_WORKLOADS)


def client_names() -> tuple[str, ...]:
    """The variants that are another way to the lake."""
    return tuple(clients.LAYERS)


def variant_names() -> tuple[str, ...]:
    """What may follow a profile's name, each after a plus, for comparisons: another way to the lake, or no skipping."""
    return tuple(_VARIANTS)


def layers_of(name: str) -> tuple[Layer, ...]:
    """The layers of a workload profile, weakest first: those of every application, the workload's own, and those of the
    variants that are named (`tpcds+s3a-default+no-skipping`). Raises `NotFound`.
    """
    workload, variants = parted(name)
    return (*workload, *variants)


def parted(name: str) -> tuple[tuple[Layer, ...], tuple[Layer, ...]]:
    """Those of the workload, and those of the variants, which hold also against what a lake says of Penstock's own."""
    workload, *variants = name.split("+")
    if workload not in _WORKLOADS:
        raise NotFound(
            f"There is no profile {workload!r}",
            why=f"the profiles are {', '.join(_WORKLOADS)}",
            fix="penstock profile list",
        )
    for variant in variants:
        if variant not in _VARIANTS:
            raise NotFound(
                f"There is no variant {variant!r} of a profile",
                why=f"those are {', '.join(_VARIANTS)}; without one, all of Penstock is at work",
                fix=f"{workload}+{next(iter(_VARIANTS))}, or {workload} alone",
            )
    return (*_EVERY, *_WORKLOADS[workload]), tuple(layer for variant in variants for layer in _VARIANTS[variant])


def summary_of(name: str) -> str:
    """What the profile is for: of its own layer, and of how its scratch differs where it does."""
    own = layers_of(name)[len(_EVERY) :]
    return "; ".join(layer.summary for layer in reversed(own)) if scratch.LAYER in own else own[-1].summary
